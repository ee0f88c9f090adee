"""Can a lot be trusted before the first bad part? What planted defects decide and foretell, against the truth.

    python -m speed.studies.evidence [--photographs DIR] [--hosts patchcore padim] [--k 8 4 16] [--seeds 1] [--json FILE]

Stations and lots of `speed.studies.lots`. Each lot is calibrated by default (`auto`, 5 % false rejects) from k good parts
drawn at random, and judges good and bad parts that nothing has seen. Beside it every candidate is fitted by name, so that
the choice can be compared with the best there was. A second table hides one bad part among the normals.

With --json, finished lots are appended to the file, and a second call goes on where the first ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from speed.studies.lots import Case, Drawn, cases, draw

JUDGED = 48  # good and bad parts of a lot, each
HIDDEN = 4  # lots with one bad part among the normals, and as many without, for each case


def study(station: Any, case: Case, drawn: Drawn, k: int) -> dict[str, Any]:
    """One lot: what was taken, what it finds, and what every candidate would have been worth."""
    from sparcal.calibration.calibrate import calibrate
    from sparcal.calibration.defaults import AUTO, FALSE_REJECT
    from sparcal.calibration.selection import candidates
    from sparcal.station.calibrating import encode_parts, inputs_of

    inputs = inputs_of(station)
    parts = encode_parts(station, drawn.normals, inputs.reference)
    lot = calibrate(inputs, parts, correction=AUTO, false_reject=FALSE_REJECT, seed=0, progress=lambda *_: None)
    judged = Judged(station, drawn)
    taken = judged.worth(lot.taken.calibrated)
    title = (lot.choice.correction, dict(lot.choice.settings))
    worth = {}
    for candidate in candidates(k):
        same = (candidate.name, dict(candidate.settings)) == title
        worth[candidate.title] = taken if same else judged.worth(_fitted(inputs, parts, candidate))
    scores = judged.scores(lot.taken.calibrated)
    limit, test = lot.thresholds[0], lot.self_test
    assert test is not None
    return {
        "case": case.name,
        "k": k,
        "taken": lot.choice.correction
        if not lot.choice.settings
        else f"{lot.choice.correction} with rank {lot.choice.settings['rank']}",
        "worth": worth,
        "found": float((scores[1] > limit.value).mean()),
        "planted_found": test.found / test.planted,
        "planted_before": (test.before or 0) / test.planted,
        "rejected": float((scores[0] > limit.value).mean()),
        "basis": limit.basis,
        "ceiling": limit.ceiling,
        "alone": next(check.verdict for check in lot.checks if check.name == "alone"),
    }


class Judged:
    """The parts of a lot that are judged, encoded once."""

    def __init__(self, station: Any, drawn: Drawn) -> None:
        from sparcal.imaging.encode import encode

        self.good, self.bad = (encode(station.encoder, parts[:JUDGED]) for parts in (drawn.good, drawn.bad))
        self.masks = drawn.masks[:JUDGED]

    def scores(self, calibrated: Any) -> tuple[Any, Any]:
        """Image scores of good and bad parts."""
        return tuple(calibrated.score(side.features).image.double().numpy() for side in (self.good, self.bad))

    def worth(self, calibrated: Any) -> tuple[float, float]:
        """Image AUROC and AU-PRO 0.3, in percent."""
        from sparcal.bench.metrics import aupro, auroc
        from sparcal.imaging.maps import native_map, outside_value

        good, bad = (calibrated.score(side.features) for side in (self.good, self.bad))
        labels = [0] * len(good) + [1] * len(bad)
        area = auroc(labels, np.concatenate([good.image.double().numpy(), bad.image.double().numpy()]))
        rule = calibrated.detector.map_rule
        sides, low = ((good, self.good), (bad, self.bad)), outside_value(good.cell)
        maps = (
            native_map(c, rule, g, outside=low)
            for s, side in sides
            for c, g in zip(s.cell, side.geometries, strict=True)
        )
        blank = [np.zeros(g.native, bool) for g in self.good.geometries]
        return 100 * area, 100 * aupro([*blank, *self.masks], maps, (0.3,))[0]


def _fitted(inputs: Any, parts: Any, candidate: Any) -> Any:
    from sparcal.calibration.kept_rows import calibrate_on_rows
    from sparcal.corrections import CORRECTIONS

    correction = CORRECTIONS[candidate.name](**candidate.settings)
    return calibrate_on_rows(inputs.detector, correction, inputs.reference, parts.features)


def hide(station: Any, case: Case, seed: int) -> list[dict[str, Any]]:
    """Lots of 8 with one bad part among the normals, and lots without: is the bad one named, is a good one accused?"""
    from sparcal.calibration.calibrate import screen
    from sparcal.station.calibrating import encode_parts, inputs_of

    inputs, rows = inputs_of(station), []
    for number in range(HIDDEN):
        drawn = draw(case, 8, 100 + seed * HIDDEN + number)
        for bad in (True, False):
            normals = [*drawn.normals[:7], drawn.bad[0]] if bad else drawn.normals
            shown = encode_parts(station, normals, inputs.reference, n=1)  # planted defects do not matter here
            checks = {check.name: check for check in screen(inputs, shown).checks}
            odd, alone = checks["odd one out"], checks["alone"]
            named = set(odd.images) if odd.verdict == "stop" else set()
            pointed = named | set(odd.images) | set(alone.images)
            guilty = {"image-7"} if bad else set()
            rows.append(
                {
                    "case": case.name,
                    "bad": bad,
                    "named": bool(guilty & named),
                    "pointed": bool(guilty & pointed),
                    "accused": len(named - guilty),
                }
            )
    return rows


def run(photographs: Path | None, hosts: list[str], sizes: list[int], seeds: int, kept: Path | None) -> None:
    """All lots, printed as they finish."""
    done = _read(kept)
    known = {(row["host"], row["case"], row.get("k"), row["seed"]) for row in done}
    for seed in range(seeds):
        everything = cases(photographs, seed=seed)
        for host in hosts:
            for product, group in _by_product(everything):
                with tempfile.TemporaryDirectory() as folder:
                    for case, k, rows in _lots(host, product, group, sizes, seed, known, Path(folder)):
                        marked = [{"host": host, "seed": seed, "product": case.product, **row} for row in rows]
                        done += marked
                        print(
                            f"{host} {case.name} {'hidden' if k is None else f'k = {k}'}", file=sys.stderr, flush=True
                        )
                        if kept is not None:
                            with kept.open("a", encoding="utf-8") as stream:
                                stream.writelines(json.dumps(row) + "\n" for row in marked)
    print(tables(done))


def _lots(
    host: str, product: str, group: list[Case], sizes: list[int], seed: int, known: set[Any], folder: Path
) -> Iterator[tuple[Case, int | None, list[dict[str, Any]]]]:
    from sparcal.station.station import Station

    wanted = [(case, k) for case in group for k in (*sizes, None) if (host, case.name, k, seed) not in known]
    if not wanted:
        return
    station = Station.fit(group[0].train, host, path=folder / product, encoder="bundled")
    for case, k in wanted:
        if k is None:
            yield case, None, hide(station, case, seed)
            case.forget()
        else:
            yield case, k, [study(station, case, draw(case, k, seed), k)]


def tables(rows: list[dict[str, Any]]) -> str:
    """What was taken and what it is worth; thresholds and forecasts; hidden bad parts; the goals."""
    lots = [row for row in rows if "taken" in row]
    return "\n\n".join([_choices(lots), _goals(lots), _hidden([row for row in rows if "bad" in row])])


def _choices(lots: list[dict[str, Any]]) -> str:
    lines = [
        "| host | lot | k | taken | AUROC (best, own) | AU-PRO (best, own) | found | planted found (before) | good rejected |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in lots:
        (area, pro), worth = row["worth"][row["taken"]], row["worth"].values()
        own = row["worth"]["identity"]
        lines.append(
            f"| {row['host']} | {row['case']} | {row['k']} | {row['taken']} | {area:.1f} ({max(a for a, _ in worth):.1f}, "
            f"{own[0]:.1f}) | {pro:.1f} ({max(p for _, p in worth):.1f}, {own[1]:.1f}) | {row['found']:.0%} | "
            f"{row['planted_found']:.0%} ({row['planted_before']:.0%}) | {row['rejected']:.0%} |"
        )
    return "\n".join(lines)


def _goals(lots: list[dict[str, Any]]) -> str:
    lines = [
        "| lots | n | regret mean, worst | below own, worst | planted - truly found: mean absolute, mean | good rejected: mean, "
        "worst | above their bound |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lots:
        for name in ("all", f"k = {row['k']}", row["host"], row["product"], row["case"].split(", ", 1)[-1]):
            groups[name].append(row)
    for name, group in groups.items():
        area = np.array([row["worth"][row["taken"]][0] for row in group])
        best = np.array([max(a for a, _ in row["worth"].values()) for row in group])
        own = np.array([row["worth"]["identity"][0] for row in group])
        gap = np.array([row["planted_found"] - row["found"] for row in group])
        rejected = np.array([row["rejected"] for row in group])
        above = sum(row["rejected"] > row["ceiling"] for row in group)
        lines.append(
            f"| {name} | {len(group)} | {(best - area).mean():.1f}, {(best - area).max():.1f} | {(own - area).max():.1f} | "
            f"{np.abs(gap).mean():.1%}, {gap.mean():+.1%} | {rejected.mean():.1%}, {rejected.max():.0%} | {above} |"
        )
    return "\n".join(lines)


def _hidden(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| host | lots | with a bad part | named | named or pointed out | good parts accused in lots |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["host"], row["case"]].append(row)
    for (host, name), group in groups.items():
        bad = [row for row in group if row["bad"]]
        lines.append(
            f"| {host} | {name} | {len(bad)} | {sum(row['named'] for row in bad)} | {sum(row['pointed'] for row in bad)} | "
            f"{sum(row['accused'] for row in group)} in {len(group)} |"
        )
    return "\n".join(lines)


def _by_product(everything: list[Case]) -> list[tuple[str, list[Case]]]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in everything:
        groups[case.product].append(case)
    return list(groups.items())


def _read(kept: Path | None) -> list[dict[str, Any]]:
    if kept is None or not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="a folder with bottle and dobot_cubes")
    parser.add_argument("--hosts", nargs="+", default=["patchcore", "padim", "subspacead"])
    parser.add_argument("--k", nargs="+", type=int, default=[8, 4, 16])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="keep finished lots here")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    run(asked.photographs, asked.hosts, asked.k, asked.seeds, asked.json)


if __name__ == "__main__":
    main()
