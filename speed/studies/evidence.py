"""Can a lot be trusted before the first bad part? What planted defects decide and foretell, against the truth.

    python -m speed.studies.evidence [--photographs DIR] [--hosts patchcore padim] [--k 8 4 16] [--seeds 0 1]
                                     [--products bottle cubes] [--conditions "one lamp"] [--hidden 4] [--json FILE]

Stations and lots of `speed.studies.lots`; a seed decides parts, lamps, moves and which parts are shown. Each lot is
calibrated by default (`auto`, 5 % false rejects) from k good parts drawn at random, and judges good and bad parts that
nothing has seen. Beside it every candidate is fitted by name, so that the choice can be compared with the best there was.
A second table hides one bad part among 8 normals, `--hidden` times in each case. No image is encoded twice, so further
numbers of normals cost little more than their calibration.

With --json, finished lots are appended to the file, and a second call goes on where the first ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from speed.studies.evidence_tables import tables
from speed.studies.lots import Case, Drawn, cases, draw
from speed.studies.remember import RememberingEncoder

HALVINGS = 10  # of the judged parts, for a regret without hindsight
HIDDEN = 4  # lots with one bad part among the normals, and as many without, for each case
AMONG = 8  # normals of such a lot


def study(station: Any, case: Case, drawn: Drawn, k: int) -> dict[str, Any]:
    """One lot: what was taken, what it finds, and what every candidate would have been worth."""
    from sparcal.calibration.calibrate import calibrate
    from sparcal.calibration.defaults import AUTO, FALSE_REJECT
    from sparcal.calibration.planted_parts import extent
    from sparcal.calibration.selection import CandidateCorrection, candidates
    from sparcal.corrections import STATION_REFERENCE
    from sparcal.station.calibrating import encode_parts, inputs_of

    inputs = inputs_of(station)
    parts = encode_parts(station, drawn.normals, inputs.reference)
    lot = calibrate(inputs, parts, correction=AUTO, false_reject=FALSE_REJECT, seed=0, progress=lambda *_: None)
    judged = Judged(station, drawn)
    taken = CandidateCorrection(lot.choice.correction, lot.choice.settings).title
    worth, scores, shown = {}, {}, np.array(drawn.shown)
    for candidate in candidates(k):
        title = candidate.title
        calibrated = lot.taken.calibrated if title == taken else _fitted(inputs, parts, candidate)
        outlined = title in (taken, STATION_REFERENCE)  # AU-PRO of all candidates would cost as much as all the rest
        worth[title], scores[title] = judged.worth(calibrated, outlined=outlined)
    limit, test = lot.thresholds[0], lot.self_test
    assert test is not None
    good, bad = scores[taken]
    real = list(zip(judged.masks, drawn.contrasts, strict=False))
    rejected = good > limit.value
    return {
        "case": case.name,
        "k": k,
        "taken": taken,
        "worth": worth,
        "worth_shown": {title: _area(side[shown], spoilt) for title, (side, spoilt) in scores.items()},
        "regret_halves": regret_by_halves(scores, taken),
        "found": float((bad > limit.value).mean()),
        "planted_found": test.found / test.planted,
        "foretold_size": float(np.mean([test.chance_at(extent(mask)) for mask, _ in real])),
        "foretold": float(np.mean([test.chance_at(extent(mask), contrast) for mask, contrast in real])),
        "planted_before": (test.before or 0) / test.planted,
        "rejected": float(rejected.mean()),
        "rejected_shown": float(rejected[shown].mean()) if shown.any() else None,
        "lamps_shown": float(shown.mean()),
        "basis": limit.basis,
        "ceiling": limit.ceiling,
        "alone": next(check.verdict for check in lot.checks if check.name == "alone"),
    }


def regret_by_halves(scores: dict[str, tuple[Any, Any]], taken: str) -> float:
    """Points of AUROC that half of the judged parts, with their labels, would have gained on the other half.

    The best of several candidates on the same parts is partly the luckiest; on parts that did not choose it, it is not.
    """

    def area(title: str, good: Any, bad: Any) -> float:
        return _area(scores[title][0][good], scores[title][1][bad])

    rng, gains = np.random.default_rng(0), []
    for _ in range(HALVINGS):
        good, bad = (np.array_split(rng.permutation(len(side)), 2) for side in scores[taken])
        for first, second in ((0, 1), (1, 0)):
            best = max(scores, key=lambda title, i=first: area(title, good[i], bad[i]))  # type: ignore[misc]
            gains.append(area(best, good[second], bad[second]) - area(taken, good[second], bad[second]))
    return float(np.mean(gains))


def _area(good: Any, bad: Any) -> float:
    """Image AUROC in percent."""
    from sparcal.bench.metrics import auroc

    return 100 * auroc([0] * len(good) + [1] * len(bad), np.concatenate([good, bad]))


class Judged:
    """The parts of a lot that are judged, encoded once."""

    def __init__(self, station: Any, drawn: Drawn) -> None:
        from sparcal.imaging.encode import encode

        self.good, self.bad = (encode(station.encoder, parts) for parts in (drawn.good, drawn.bad))
        self.masks = drawn.masks

    def worth(self, calibrated: Any, *, outlined: bool) -> tuple[tuple[float, float | None], tuple[Any, Any]]:
        """Image AUROC and, if `outlined`, AU-PRO 0.3 in percent; image scores of good and bad parts."""
        from sparcal.bench.metrics import aupro
        from sparcal.imaging.maps import native_map, outside_value

        good, bad = (calibrated.score(side.features) for side in (self.good, self.bad))
        scores = good.image.double().numpy(), bad.image.double().numpy()
        area = _area(*scores)
        if not outlined:
            return (area, None), scores
        rule = calibrated.detector.map_rule
        sides, low = ((good, self.good), (bad, self.bad)), outside_value(good.cell)
        maps = (
            native_map(c, rule, g, outside=low)
            for s, side in sides
            for c, g in zip(s.cell, side.geometries, strict=True)
        )
        blank = [np.zeros(g.native, bool) for g in self.good.geometries]
        return (area, 100 * aupro([*blank, *self.masks], maps, (0.3,))[0]), scores


def _fitted(inputs: Any, parts: Any, candidate: Any) -> Any:
    from sparcal.calibration.kept_rows import calibrate_on_rows
    from sparcal.corrections import CORRECTIONS

    correction = CORRECTIONS[candidate.name](**candidate.settings)
    return calibrate_on_rows(inputs.detector, correction, inputs.reference, parts.features)


def hide(station: Any, case: Case, seed: int, lots: int = HIDDEN) -> list[dict[str, Any]]:
    """Lots of 8 with one bad part among the normals, and lots without: is the bad one named, is a good one accused?"""
    from sparcal.calibration.screening import screen
    from sparcal.station.calibrating import encode_parts, inputs_of

    inputs, rows = inputs_of(station).few(), []  # the few that a screening looks at, chosen once
    # Every case and every lot has its own draw: one conspicuous good part must not count in all of them.
    stream = zlib.crc32(f"{case.name} {seed}".encode())
    bad_parts = np.random.default_rng(stream).permutation(len(case.bad))  # as many lots as bad parts hide each once
    for number in range(lots):
        for bad in (True, False):
            drawn = draw(case, AMONG, stream + 2 * number + bad)
            hidden = case.bad[bad_parts[number % len(bad_parts)]]
            normals = [*drawn.normals[1:], hidden] if bad else drawn.normals
            shown = encode_parts(station, normals, inputs.reference, n=1)  # planted defects do not matter here
            checks = {check.name: check for check in screen(inputs, shown).checks}
            odd, alone = checks["odd one out"], checks["alone"]
            named = set(odd.images) if odd.verdict == "stop" else set()
            pointed = named | set(odd.images) | set(alone.images)
            guilty = {f"image-{AMONG - 1}"} if bad else set()
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


def run(asked: argparse.Namespace) -> None:
    """All lots, printed as they finish."""
    kept: Path | None = asked.json
    done = _read(kept)
    known = {(row["host"], row["case"], row.get("k"), row["seed"]) for row in done}
    for seed in asked.seeds:
        everything = [
            one
            for one in cases(asked.photographs, seed=seed)
            if one.product in (asked.products or [one.product])
            and one.condition in (asked.conditions or [one.condition])
        ]
        for host in asked.hosts:
            for group in _by_product(everything):
                with tempfile.TemporaryDirectory() as folder:
                    for case, k, rows in _lots(host, group, asked, seed, known, Path(folder)):
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
    host: str, group: list[Case], asked: argparse.Namespace, seed: int, known: set[Any], folder: Path
) -> Iterator[tuple[Case, int | None, list[dict[str, Any]]]]:
    from sparcal.hosts import load_host
    from sparcal.station.station import Station

    tried = (*asked.k, None) if asked.hidden else (*asked.k,)  # None stands for lots with a hidden bad part
    wanted = {case: [k for k in tried if (host, case.name, k, seed) not in known] for case in group}
    if not any(wanted.values()):
        return
    encoder = RememberingEncoder(load_host(host, encoder="bundled")[0])
    station = Station.fit(group[0].train, host, path=folder / group[0].product, encoder=encoder)
    for case, open_ones in wanted.items():
        for k in open_ones:
            if k is None:
                yield case, None, hide(station, case, seed, asked.hidden)
            elif k < len(case.good):
                yield case, k, [study(station, case, draw(case, k, seed), k)]
        case.forget()
        encoder.forget()


def _by_product(everything: list[Case]) -> list[list[Case]]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in everything:
        groups[case.product].append(case)
    return list(groups.values())


def _read(kept: Path | None) -> list[dict[str, Any]]:
    if kept is None or not kept.exists():
        return []
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="a folder with bottle and dobot_cubes")
    parser.add_argument("--hosts", nargs="+", default=["patchcore", "padim", "subspacead"])
    parser.add_argument(
        "--k", nargs="*", type=int, default=[8, 4, 16], help="numbers of normals; none for hidden parts only"
    )
    parser.add_argument(
        "--hidden", type=int, default=HIDDEN, help="lots with one bad part among 8, and as many without"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--products", nargs="+", help="only these; all unless given")
    parser.add_argument("--conditions", nargs="+", help='only these, for instance "one lamp"; all unless given')
    parser.add_argument("--json", type=Path, help="keep finished lots here")
    torch.set_num_threads(1)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
