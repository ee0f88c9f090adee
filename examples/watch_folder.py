"""Judge images as they arrive in a folder, and tell when the line has left what its lot was calibrated for.

    python watch_folder.py STATION FOLDER [SECONDS]

One sees a line for each part, judged once and when its file is whole, and one sentence when the parts as a whole no
longer look like the lot. Ends after SECONDS (10 unless given) without a new part. `sparcal score --watch` does the same
and more: it keeps results and pages, follows the active lot, survives restarts.
"""

import sys
from pathlib import Path

from sparcal import Station
from sparcal.station.watch import looks


def main(station: str, folder: str, seconds: float = 10) -> None:
    """Judge by the active lot until nothing comes any more."""
    lot = Station.open(station).lot()
    monitor, judged = lot.monitor(), set()
    print(lot.sentence)
    for look in looks(Path(folder), lambda: judged, idle_s=seconds):
        for one in lot.stream(look.new):
            judged.add(one.sha256)
            print(one.path.name, one.verdict, one.reason or f"{one.score:.1f}", flush=True)
            alarm = monitor.watch(one)
            if alarm is not None:
                print(alarm.sentence)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
