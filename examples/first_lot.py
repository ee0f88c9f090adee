"""A station, a lot, verdicts: the whole way in one script, on rendered parts.

    python first_lot.py [FOLDER]

One sees which correction planted defects chose and what the threshold promises; then the parts of the lot that fail,
with the pixel where each is hottest. FOLDER holds train/good, normals and lot, as `sparcal parts` writes them; without
it they are rendered into `line`. The station is written beside it, into `press-3`.
"""

import sys
from pathlib import Path

from sparcal import Station
from sparcal.rendering.line import write_line


def main(line: Path) -> None:
    """Fit once, calibrate to the lot, judge it."""
    if not line.exists():
        write_line(line)
    station = Station.fit(line / "train/good", host="patchcore", encoder="bundled", path=line.parent / "press-3")
    lot = station.calibrate(line / "normals", name="L42", operator="Ada")
    print(lot.record.choice.sentence)
    print(lot.threshold.sentence)
    for one in lot.score(line / "lot").worst_first():
        if one.verdict == "fail":
            heat = one.heat()
            row, column = divmod(int(heat.argmax()), heat.shape[1])
            print(
                f"{one.path.name} fails with {one.score:.1f} (threshold {one.threshold:.1f}), hottest at {row}, {column}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "line"))
