"""Do thresholds hold? Requested against measured false-reject rates on rendered lots, and planted defects found.

    python -m benchmarks.thresholds [--lots 5] [--good 200] [--train 120] [--host patchcore] [--json FILE]

One station of rendered parts under one light, on the bundled encoder. Then lots of four kinds, `--lots` of each: five
other lights in turn, a moved camera, no shift at all, a new light for each part. Each is calibrated from 8 good parts
with the correction that the evidence chooses, and judges `--good` good parts that nothing has seen. The calibration does
not depend on the rate, so one calibration serves all rates. A second table plants 1 to 3 defective parts among 8.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("lights", "moved", "none", "random")
RATES = (0.01, 0.05, 0.10)


def images(parts: list[Any]) -> list[Any]:
    return [part.image for part in parts]


def judge_lot(station: Any, kind: str, seed: int, good: int) -> list[dict[str, Any]]:
    """Calibrate one lot, and one row for each rate: how many good and bad parts are rejected."""
    from sparcal.demo import make_demo
    from sparcal.thresholds import find_threshold

    demo = make_demo(seed, train=0, good=8 + good, bad=24, shift=kind)
    lot = station.calibrate(images(demo.lot_good[:8]), f"{kind} {seed}")
    record = lot.record
    sound, spoilt = (
        np.array([one.score for one in lot.score(images(parts))]) for parts in (demo.lot_good[8:], demo.lot_bad)
    )
    found = []
    for rate in RATES:
        threshold = find_threshold(record.image.own, record.image.lot, rate)
        found.append(
            {
                "kind": kind,
                "seed": seed,
                "correction": record.correction,
                "rate": rate,
                "basis": threshold.basis,
                "rejected": float((sound > threshold.value).mean()),
                "detected": float((spoilt > threshold.value).mean()),
            }
        )
    return found


def plant(station: Any, kind: str, seed: int) -> dict[str, Any]:
    """Hide 1 to 3 defective parts among 8, and see which the checks name."""
    from sparcal.demo import make_demo

    rng = np.random.default_rng([seed, len(kind)])
    bad = int(rng.integers(1, 4))
    demo = make_demo(1000 + seed, train=0, good=8 - bad, bad=12, shift=kind)
    planted = [demo.lot_bad[i] for i in rng.permutation(12)[:bad]]
    checks = station.check(images([*demo.lot_good, *planted]))
    named = {name for check in checks if check.name == "odd one out" for name in check.images}
    guilty = {f"image-{8 - bad + i}" for i in range(bad)}
    return {"kind": kind, "seed": seed, "planted": bad, "found": len(named & guilty), "accused": len(named - guilty)}


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each kind of lot and rate, in Markdown."""
    groups = defaultdict(list)
    for row in rows:
        groups["all", row["rate"]].append(row)
        groups[row["kind"], row["rate"]].append(row)
    lines = [
        "| lots | asked | measured, mean | standard error | worst lot | thresholds from | defects found |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in (*KINDS, "all"):
        for rate in RATES:
            group = groups[kind, rate]
            if not group:
                continue
            rejected = np.array([row["rejected"] for row in group])
            bases = defaultdict(int)
            for row in group:
                bases[row["basis"]] += 1
            basis = ", ".join(f"{count} {name}" for name, count in sorted(bases.items()))
            lines.append(
                f"| {len(group)} {kind} | {rate:.0%} | {rejected.mean():.1%} | "
                f"{rejected.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0:.1%} | {rejected.max():.1%} | "
                f"{basis} | {np.mean([row['detected'] for row in group]):.0%} |"
            )
    return "\n".join(lines)


def planted_table(rows: list[dict[str, Any]]) -> str:
    """One line for each kind of lot, in Markdown."""
    lines = ["| lots | runs | planted | named | good parts accused |", "|---|---|---|---|---|"]
    for kind in KINDS:
        group = [row for row in rows if row["kind"] == kind]
        if group:
            planted, found, accused = (sum(row[key] for row in group) for key in ("planted", "found", "accused"))
            lines.append(f"| {kind} | {len(group)} | {planted} | {found} ({found / planted:.0%}) | {accused} |")
    return "\n".join(lines)


def main() -> None:
    import torch

    from sparcal.demo import make_demo
    from sparcal.station import Station

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lots", type=int, default=5, help="of each kind")
    parser.add_argument("--runs", type=int, default=10, help="with planted defects, of each kind")
    parser.add_argument("--good", type=int, default=200)
    parser.add_argument("--train", type=int, default=120)
    parser.add_argument("--host", default="patchcore")
    parser.add_argument("--json", type=Path, help="append each row to this file")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rates: list[dict[str, Any]] = []
    planted: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        train = make_demo(7, train=chosen.train, good=0, bad=0).train
        station = Station.fit(
            images(train), chosen.host, path=Path(folder) / "station", encoder="bundled", workers=os.cpu_count() or 1
        )
        jobs = [(kind, seed) for seed in range(max(chosen.lots, chosen.runs)) for kind in KINDS]
        for kind, seed in jobs:
            new: list[dict[str, Any]] = []
            if seed < chosen.lots:
                new = judge_lot(station, kind, seed, chosen.good)
                rates += new
            if seed < chosen.runs:
                planted.append(plant(station, kind, seed))
                new = [*new, planted[-1]]
            if chosen.json:
                with chosen.json.open("a", encoding="utf-8") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rates), planted_table(planted), sep="\n\n")


if __name__ == "__main__":
    main()
