"""`sparcal score --watch`: judge what arrives, tell each verdict as it falls, and follow the lot that judges.

With `--json` every line of standard output is one object; its `event` says what it is:

    lot       which lot judges from now on, by which threshold, and whether shifts are watched for: first of all, and
              whenever somebody changes it
    verdict   one image: path, score, threshold, verdict, map, reason, lot
    shift     parts look different all over since an image: lot, since, first, parts, words, sentence
    promise   far more parts are rejected than the threshold promised: lot, judged, rejected, promised, sentence
    folder    the watched folder cannot be read, or can be read again
    end       how many were judged, failed, and could not be judged
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from sparcal.calibration.defaults import ONE_IN
from sparcal.cli.console import print_json, print_sentence, say
from sparcal.errors import SparcalError

if TYPE_CHECKING:
    from sparcal.station.judge_facts import Judge
    from sparcal.station.judged_folder import Results
    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot


class InService(Protocol):
    """The lot that judges now; somebody may have set another."""

    @property
    def lot(self) -> Judge:
        """As of the last look."""
        ...

    def changed(self) -> bool:
        """Look again: True where another lot, or another threshold, judges from now on."""
        ...


Tell = Callable[[str, Mapping[str, Any]], None]

AT_ONCE = 8  # images between two looks at which lot judges
PAGE_EVERY_S = 10.0  # while images keep coming; a pause writes it at once
VERDICT_FIELDS = ("path", "score", "threshold", "verdict", "map", "reason", "lot")


def watch_folder(service: InService, folder: Path, results: Results, *, idle: float | None, as_json: bool) -> bool:
    """Judge what arrives, once each, until interrupted or idle; a restart goes on where the results end.

    Returns whether the folder was there at the end.
    """
    from sparcal.station.watch import looks

    tell: Tell = _print_event if as_json else _say_event
    say(f"Watching {folder}; Ctrl-C ends it.")
    stream = WatchedStream(service.lot, results, tell)
    there, due = True, 0.0
    try:
        for look in looks(folder, results.known, leave_out=results.holds, idle_s=idle):
            stream = _follow(service, results, tell, stream)  # also while nothing arrives: people see it at once
            if (look.away is None) != there:
                there = look.away is None
                tell("folder", {"path": str(folder), "there": there, "sentence": look.away})
            for start in range(0, len(look.new), AT_ONCE):
                stream = _follow(service, results, tell, stream)
                for judgement in service.lot.stream(look.new[start : start + AT_ONCE]):
                    judged = results.add(judgement)
                    tell("verdict", {name: judged.get(name) for name in VERDICT_FIELDS})
                    stream.look(judgement)
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


def lot_facts(lot: Judge) -> dict[str, Any]:
    """By which lot parts are judged, and by which threshold."""
    return {"lot": lot.name, "threshold": lot.on_page().threshold, "sentence": lot.sentence}


class WatchedStream:
    """What the parts of one lot say together: has the line left what the lot was calibrated for, is its promise kept?"""

    def __init__(self, lot: Judge, results: Results, tell: Tell) -> None:
        from sparcal.station.kept_monitor import MONITOR_FILE, KeptMonitor

        self._lot, self._results, self._tell = lot, results, tell
        self._promise_told = False
        self._kept: KeptMonitor | None = None
        try:
            self._kept = KeptMonitor(
                cast("Lot", lot), results.folder / MONITOR_FILE
            )  # an exported lot has no monitor, and says so
            monitored = f"Shifts are watched for, with on average at most one false alarm in {ONE_IN:,} parts."
        except SparcalError as error:
            monitored = f"Shifts are not watched for: {error}"
        tell("lot", {**lot_facts(lot), "monitored": monitored})
        if self._kept is not None and (facts := self._kept.facts()):  # noticed by the watch that this one goes on for
            tell("shift", facts)

    def look(self, judgement: Judgement) -> None:
        """One more judged part; tells what it gives away."""
        if self._kept is not None and self._kept.watch(judgement) and (facts := self._kept.facts()):
            self._tell("shift", facts)
        if judgement.verdict == "fail" and not self._promise_told:
            self._look_at_promise()

    def _look_at_promise(self) -> None:
        from sparcal.calibration.promise import check_promise

        limit = self._lot.on_page().limit
        if limit is None:  # an exported lot does not know what its threshold promised
            return
        rows = [row for row in self._results.rows.values() if row.get("lot") == self._lot.name]
        verdicts = [row["verdict"] for row in rows if row["threshold"] == limit.value and row["verdict"] != "error"]
        check = check_promise(limit, len(verdicts), verdicts.count("fail"))
        if check.contradicted:
            self._promise_told = True
            facts = {"judged": check.judged, "rejected": check.rejected, "promised": check.promised}
            self._tell("promise", {"lot": self._lot.name, **facts, "sentence": check.sentence})


def _follow(service: InService, results: Results, tell: Tell, stream: WatchedStream) -> WatchedStream:
    if not service.changed():
        return stream
    results.lot = service.lot
    return WatchedStream(service.lot, results, tell)


def _print_event(event: str, facts: Mapping[str, Any]) -> None:
    print_json({"event": event, **facts})


def _say_event(event: str, facts: Mapping[str, Any]) -> None:
    if event == "verdict":
        value = "" if facts["score"] is None else f"{facts['score']:.4g}"
        print_sentence(
            f"{facts['verdict']:>5}  {value:>8}  {facts['path'] if facts['reason'] is None else facts['reason']}"
        )
    elif event == "lot":
        print_sentence(f"From now on: {facts['sentence']} {facts['monitored']}")
    elif event in ("shift", "promise"):
        print_sentence(facts["sentence"])
    elif event == "folder":
        say(f"The folder {facts['path']} is back." if facts["there"] else f"{facts['sentence']} Waiting for it.")
