"""`sparcal score --watch`: judge what arrives, tell each verdict as it falls, and follow the lot that judges.

With `--json` every line of standard output is one object; its `event` says what it is:

    lot       which lot judges from now on, and by which threshold: first of all, and whenever somebody changes it
    verdict   one image: path, score, threshold, verdict, map, reason, lot
    folder    the watched folder cannot be read, or can be read again
    end       how many were judged, failed, and could not be judged
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.cli.console import print_json, say

if TYPE_CHECKING:
    from types import FrameType

    from sparcal.station.in_service import LotInService
    from sparcal.station.judged_folder import Results
    from sparcal.station.lot import Lot

Tell = Callable[[str, Mapping[str, Any]], None]

AT_ONCE = 8  # images between two looks at which lot judges
PAGE_EVERY_S = 10.0  # while images keep coming; a pause writes it at once
VERDICT_FIELDS = ("path", "score", "threshold", "verdict", "map", "reason", "lot")


def watch_folder(service: LotInService, folder: Path, results: Results, *, idle: float | None, as_json: bool) -> bool:
    """Judge what arrives, once each, until interrupted or idle; a restart goes on where the results end.

    Returns whether the folder was there at the end.
    """
    from sparcal.station.watch import looks

    tell: Tell = _print_event if as_json else _say_event
    say(f"Watching {folder}; Ctrl-C ends it.")
    tell("lot", lot_facts(service.lot))
    there, due = True, 0.0
    with _ended_by_signal():
        try:
            for look in looks(folder, results.known, leave_out=results.holds, idle_s=idle):
                _follow(service, results, tell)  # also while nothing arrives, so that people see their change at once
                if (look.away is None) != there:
                    there = look.away is None
                    tell("folder", {"path": str(folder), "there": there, "sentence": look.away})
                for judged in _judge(service, look.new, results, tell):
                    tell("verdict", {name: judged.get(name) for name in VERDICT_FIELDS})
                    due = due or time.monotonic() + PAGE_EVERY_S
                if due and (not look.new or time.monotonic() > due):
                    results.finish()
                    due = 0.0
        except KeyboardInterrupt:
            say("Stopped.")
        results.finish()
    verdicts = [row["verdict"] for row in results.rows.values()]
    tell("end", {"judged": len(verdicts), "fail": verdicts.count("fail"), "error": verdicts.count("error")})
    return there


def lot_facts(lot: Lot) -> dict[str, Any]:
    """By which lot parts are judged, and what its threshold does to good parts and planted defects."""
    limit = lot.threshold.value
    sentence = f"{lot.title}: the threshold {limit:.4g} {lot.effect_of(limit).sentence}."
    return {"lot": lot.name, "threshold": limit, "sentence": sentence}


def _judge(service: LotInService, new: Sequence[Path], results: Results, tell: Tell) -> Iterator[dict[str, Any]]:
    """Rows of the images as they are judged, by the lot that is in service at that moment."""
    for start in range(0, len(new), AT_ONCE):
        _follow(service, results, tell)
        for judgement in service.lot.stream(new[start : start + AT_ONCE]):
            yield results.add(judgement)


def _follow(service: LotInService, results: Results, tell: Tell) -> None:
    if service.changed():
        results.lot = service.lot
        tell("lot", lot_facts(service.lot))


def _print_event(event: str, facts: Mapping[str, Any]) -> None:
    print_json({"event": event, **facts})


def _say_event(event: str, facts: Mapping[str, Any]) -> None:
    if event == "verdict":
        value = "" if facts["score"] is None else f"{facts['score']:.4g}"
        say(f"{facts['verdict']:>5}  {value:>8}  {facts['path'] if facts['reason'] is None else facts['reason']}")
    elif event == "lot":
        say(f"From now on: {facts['sentence']}")
    elif event == "folder":
        say(f"The folder {facts['path']} is back." if facts["there"] else f"{facts['sentence']} Waiting for it.")


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """What a service manager sends ends the watch as Ctrl-C does: with its table and page written."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
