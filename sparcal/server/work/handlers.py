"""What the worker does for each kind of job: the same calls to `Station` and `Lot` that the command line makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sparcal.devices import AUTO_DEVICE
from sparcal.server.data import drafts
from sparcal.server.data.database import Database
from sparcal.server.data.jobs import Job
from sparcal.server.data.store import Store
from sparcal.server.refusals import ConflictError
from sparcal.server.work import watching
from sparcal.server.work.calibrating import Calibrating
from sparcal.server.work.collecting import collect
from sparcal.server.work.judging import Judging
from sparcal.server.work.loaded import Loaded
from sparcal.server.work.noticing import Noticing
from sparcal.server.work.reading import Reading
from sparcal.server.work.reporting import Reporter


@dataclass
class Tasks:
    """The worker's hands, one for each kind of job."""

    database: Database
    store: Store
    path: Path
    watch: Path | None
    device: str = AUTO_DEVICE
    reading: Reading = field(init=False)
    loaded: Loaded = field(init=False)
    noticing: Noticing = field(init=False)

    def __post_init__(self) -> None:
        self.reading = Reading(self.database, self.store)
        self.loaded = Loaded(self.path, self.device)
        self.noticing = Noticing(self.database, self.loaded)

    def run(self, job: Job, report: Reporter) -> str:
        """Do one job; returns a sentence for the queue."""
        subject = job.subject
        if job.kind == "read":
            return self.reading.read_new(report)
        if job.kind == "collect" and subject.get("watch"):
            return watching.take(self.database, self.store, self.loaded.station.active() or "", report)
        if job.kind == "collect":
            place = {"draft": subject.get("draft"), "lot": subject.get("lot")}
            return collect(self.database, self.store, self.watch, report, **place)
        if job.kind == "check":
            return Calibrating(self.reading, self.loaded).check(subject["draft"], subject["images"])
        if job.kind == "calibrate":
            return Calibrating(self.reading, self.loaded).calibrate(subject, report)
        if job.kind == "fit":
            return self.add_parts(subject["images"], subject["operator"], report)
        return Judging(self.reading, self.loaded, self.noticing).score_waiting(job, report)

    def add_parts(self, shas: list[str], operator: str, report: Reporter) -> str:
        """Add good parts to the station; its own reference is fitted anew, lots stay as they are."""
        usable = self.reading.named("parts", [sha for sha in shas if self.reading.usable(sha)])
        if not usable:
            raise ConflictError("None of the parts is here any more: judge others.")
        self.loaded.reload()  # parts may have been added on the command line meanwhile
        doubtful = self._doubtful(list(usable))
        passed = [path for path in usable if path not in doubtful]
        if passed:
            self.loaded.reload(self.loaded.station.add(passed, operator=operator, progress=report))
        held = {digest for _, digest in self.loaded.station.record.images}
        left_out = (
            f" Left out, because a check says stop: {', '.join(path.name for path in doubtful)}." if doubtful else ""
        )
        return f"{len(held & set(shas))} of {len(shas)} parts are in the station now, {len(held)} in all.{left_out}"

    def _doubtful(self, paths: list[Path]) -> set[Path]:
        """Parts that a check says stop to, in groups that a check can take; one part alone cannot be compared."""
        groups = -(-len(paths) // drafts.MOST)
        doubtful: set[Path] = set()
        for number in range(groups):
            group = paths[number::groups]
            if len(group) < drafts.FEWEST:
                continue
            checks = self.loaded.station.check(group)
            doubtful |= {Path(image) for check in checks if check.verdict == "stop" for image in check.images}
        return doubtful
