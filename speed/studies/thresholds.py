"""Do thresholds hold? Requested against measured false-reject rates on rendered lots, and planted defects found.

    python -m speed.studies.thresholds [--stations 5] [--good 200] [--train 120] [--host patchcore] [--json FILE]

Stations of rendered parts under one light, on the bundled encoder, each from parts of its own. On each, a lot of every
kind: five other lights in turn; the same lights drawn at random, so that the normals may miss one; a moved camera; no
shift at all; a new light for each part. A lot is calibrated from 8 good parts with the correction that the evidence
chooses, and judges `--good` good parts that nothing has seen. The calibration does not depend on the rate, so one
calibration serves all rates. A second table plants 1 to 3 defective parts among 8, `--runs` times in each kind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("none", "moved", "lights", "lights drawn", "random")
RATES = (0.01, 0.05, 0.10)


def images(parts: list[Any]) -> list[Any]:
    return [part.image for part in parts]


def parts_of(kind: str, seed: int, good: int, bad: int) -> tuple[list[Any], list[Any]]:
    """Good and bad parts of a lot; the first 8 good ones are its normals."""
    from sparcal.rendering.parts import make_demo

    demo = make_demo(seed, train=0, good=good, bad=bad, shift="lights" if kind == "lights drawn" else kind)
    order = np.random.default_rng(seed).permutation(good) if kind == "lights drawn" else np.arange(good)
    return [demo.lot_good[i].image for i in order], images(demo.lot_bad)


def judge_lot(station: Any, kind: str, seed: int, good: int) -> list[dict[str, Any]]:
    """Calibrate one lot, and one row for each rate: how many good and bad parts are rejected, and what was promised."""
    from sparcal.calibration.thresholds import find_threshold
    from sparcal.corrections import STATION_REFERENCE

    sound, spoilt = parts_of(kind, seed, 8 + good, 24)
    lot = station.calibrate(sound[:8], f"{kind} {seed}")
    record = lot.record
    named = next(check.images for check in record.checks if check.name == "alone")
    corrected = record.correction != STATION_REFERENCE
    alone = [corrected and name in named for name, _ in record.images]
    good_scores, bad_scores = (np.array([one.score for one in lot.score(parts)]) for parts in (sound[8:], spoilt))
    found = []
    for rate in RATES:
        threshold = find_threshold(record.image.own, record.image.lot, rate, alone=alone)
        assert threshold.supported is not None
        found.append(
            {
                "kind": kind,
                "seed": seed,
                "correction": record.correction,
                "rate": rate,
                "basis": threshold.basis,
                "promised": rate if threshold.free else max(rate, threshold.supported),
                "ceiling": threshold.ceiling,
                "rejected": float((good_scores > threshold.value).mean()),
                "detected": float((bad_scores > threshold.value).mean()),
            }
        )
    return found


def plant(station: Any, kind: str, seed: int) -> dict[str, Any]:
    """Hide 1 to 3 defective parts among 8, and see which the checks name, and which they only point out."""
    rng = np.random.default_rng([seed, len(kind)])
    bad = int(rng.integers(1, 4))
    sound, spoilt = parts_of(kind, 1000 + seed, 8 - bad, 12)
    planted = [spoilt[i] for i in rng.permutation(12)[:bad]]
    check = next(one for one in station.check([*sound, *planted]) if one.name == "odd one out")
    guilty, seen = {f"image-{8 - bad + i}" for i in range(bad)}, set(check.images)
    named, pointed = (seen, set()) if check.verdict == "stop" else (set(), seen)
    return {
        "kind": kind,
        "seed": seed,
        "planted": bad,
        "found": len(named & guilty),
        "accused": len(named - guilty),
        "pointed": len(pointed & guilty),
        "pointed_good": len(pointed - guilty),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each kind of lot and rate, in Markdown."""
    groups = defaultdict(list)
    for row in rows:
        groups["all", row["rate"]].append(row)
        groups[row["kind"], row["rate"]].append(row)
    lines = [
        "| lots | asked | promised on average | measured mean (standard error) | promised for 19 of 20 | worst lot | "
        "lots above | thresholds from | defects found |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all"):
        for rate in RATES:
            group = groups[kind, rate]
            if not group:
                continue
            rejected, most = (np.array([row[key] for row in group]) for key in ("rejected", "ceiling"))
            error = rejected.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0
            bases = Counter(row["basis"] for row in group)
            basis = ", ".join(f"{count} {name}" for name, count in sorted(bases.items()))
            lines.append(
                f"| {len(group)} {kind} | {rate:.0%} | {np.mean([row['promised'] for row in group]):.1%} | "
                f"{rejected.mean():.1%} ({error:.1%}) | {_span(most)} | {rejected.max():.1%} | "
                f"{int((rejected > most).sum())} | {basis} | {np.mean([row['detected'] for row in group]):.0%} |"
            )
    return "\n".join(lines)


def planted_table(rows: list[dict[str, Any]]) -> str:
    """One line for each kind of lot, in Markdown."""
    lines = [
        "| lots | runs | planted | named defective | good parts named | only pointed out | good parts pointed out |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        group = [row for row in rows if row["kind"] == kind]
        if group:
            keys = ("planted", "found", "accused", "pointed", "pointed_good")
            planted, found, accused, pointed, good = (sum(row[key] for row in group) for key in keys)
            lines.append(
                f"| {kind} | {len(group)} | {planted} | {found} ({found / planted:.0%}) | {accused} | {pointed} | {good} |"
            )
    return "\n".join(lines)


def _span(values: Any) -> str:
    low, high = f"{values.min():.1%}", f"{values.max():.1%}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    import torch

    from sparcal.rendering.parts import make_demo
    from sparcal.station.station import Station

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stations", type=int, default=5, help="each with a lot of every kind")
    parser.add_argument("--runs", type=int, default=10, help="with planted defects, of each kind")
    parser.add_argument("--good", type=int, default=200)
    parser.add_argument("--train", type=int, default=120)
    parser.add_argument("--host", default="patchcore")
    parser.add_argument("--json", type=Path, help="append each row to this file")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rates: list[dict[str, Any]] = []
    planted: list[dict[str, Any]] = []
    for number in range(chosen.stations):
        with tempfile.TemporaryDirectory() as folder:
            train = images(make_demo(7 + number, train=chosen.train, good=0, bad=0).train)
            station = Station.fit(
                train, chosen.host, path=Path(folder) / "station", encoder="bundled", workers=os.cpu_count() or 1
            )
            for kind in KINDS:
                seed = 100 + number
                lots = judge_lot(station, kind, seed, chosen.good)
                tried = [plant(station, kind, run) for run in range(number, chosen.runs, chosen.stations)]
                rates += lots
                planted += tried
                print(f"station {number + 1} of {chosen.stations}: {kind} done", file=sys.stderr, flush=True)
                if chosen.json:
                    with chosen.json.open("a", encoding="utf-8") as stream:
                        stream.writelines(json.dumps(row) + "\n" for row in (*lots, *tried))
    print(table(rates), planted_table(planted), sep="\n\n")


if __name__ == "__main__":
    main()
