"""How a job tells the queue how far it is, and hears that it is to stop or to give way."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sparcal.server.data import jobs
from sparcal.server.data.database import Database
from sparcal.server.data.jobs import Job

_REPORT_S = 0.3


class CancelledError(Exception):
    """Somebody asked to stop this job."""


class StepAsideError(Exception):
    """More urgent work waits; this job goes back into the queue as far as it has come."""


@dataclass
class Reporter:
    """Tells the queue how far a job is, now and then, and hears whether it is to stop."""

    database: Database
    job: Job
    _last: float = field(default=0.0, init=False)

    def __call__(self, done: int, total: int) -> None:
        """Note progress; raises CancelledError once somebody asked."""
        moment = time.monotonic()
        if moment - self._last < _REPORT_S and done < total:
            return
        self._last = moment
        if jobs.note_progress(self.database, self.job.id, done=done, total=total):
            raise CancelledError

    def step_aside(self) -> None:
        """Give way if something more urgent waits."""
        if jobs.urgent_waits(self.database, self.job.kind):
            raise StepAsideError
