"""One lot to look at: what planted defects foretell, its page, and what is then found of parts that are truly bad.

    python -m speed.studies.challenge OUT [--case "plate, one lamp"] [--k 8]

Fits a station on rendered parts in the folder OUT, calibrates a lot of it, judges good and bad parts that nothing has
seen, and names the page. The picture of docs/explanation/planted-defects.md comes from this page.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from speed.studies.lots import cases, draw

CASE = "plate, one lamp"
JUDGED = 48  # good and bad parts, each


def challenge(out: Path, name: str, k: int) -> str:
    """Make the station and the lot; returns what there is to say."""
    import torch

    from sparcal.station.station import Station

    torch.set_num_threads(1)
    case = next(one for one in cases(None) if one.name == name)
    drawn = draw(case, k, 0)
    station = Station.fit(case.train, "patchcore", path=out, encoder="bundled")
    lot = station.calibrate(drawn.normals, name="L42", reason="a study")
    bad, good = (lot.score(parts[:JUDGED]) for parts in (drawn.bad, drawn.good))
    found, rejected = (sum(one.verdict == "fail" for one in side) for side in (bad, good))
    return (
        f"{lot.record.choice.sentence}\n{lot.threshold.sentence}\n"
        f"Of {len(bad)} bad parts {found} are found, of {len(good)} good ones {rejected} are rejected.\n"
        f"The page is {lot.self_test_page()}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a new folder for the station")
    parser.add_argument("--case", default=CASE, choices=[case.name for case in cases(None)])
    parser.add_argument("--k", type=int, default=8)
    asked = parser.parse_args()
    print(challenge(asked.out, asked.case, asked.k))


if __name__ == "__main__":
    main()
