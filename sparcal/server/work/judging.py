"""What has arrived for a lot, judged one image at a time: score, heat map, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.server.data import scores
from sparcal.server.data.jobs import Job
from sparcal.server.data.lots import lot_key
from sparcal.server.sentences import without_paths
from sparcal.server.work import pictures
from sparcal.server.work.loaded import Loaded
from sparcal.server.work.noticing import Noticing
from sparcal.server.work.reading import Reading
from sparcal.server.work.reporting import Reporter

if TYPE_CHECKING:
    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot
    from sparcal.station.monitor import Monitor

REMOVED = "It was removed before it was scored."


@dataclass(frozen=True)
class Judging:
    """The scoring of images that wait for a lot."""

    reading: Reading
    loaded: Loaded
    noticing: Noticing

    def score_waiting(self, job: Job, report: Reporter) -> str:
        """Judge what has arrived for a lot; gives way to more urgent work between images, and counts on afterwards."""
        name = job.subject["lot"]
        lot = self.loaded.lot(name)
        done = max(job.done, job.total - len(self._waiting(name)))  # a worker that was killed told less than it did
        while waiting := self._waiting(name):
            total = done + len(waiting)
            for sha in waiting:
                report(done, total)
                report.step_aside()
                self._judge(lot, name, sha)
                done += 1
        report(done, done)
        return f"{done} image{'' if done == 1 else 's'} judged."

    def _judge(self, lot: Lot, name: str, sha: str) -> None:
        from sparcal.imaging.encode import encode_one
        from sparcal.imaging.read import Failure

        image = self.reading.image(sha)
        if image is None:
            return self._keep(sha, name, {"problem": self.reading.problem(sha) or REMOVED})
        seen = encode_one(lot.station.encoder, image, Path(self.reading.name(sha)), sha256=sha)
        if isinstance(seen, Failure):
            return self._keep(sha, name, {"problem": without_paths(seen.reason)})
        judged = lot.judge(seen)
        if judged.verdict == "error":
            return self._keep(sha, name, {"problem": without_paths(judged.reason or "It cannot be scored.")})
        heat = judged.heat()
        if heat is not None:
            target = self.reading.store.heat(sha, lot_key(name))
            pictures.write_heat(heat, target, low=0.0, high=2 * judged.pixel_threshold, clear=True)
        values = {"score": judged.score, "threshold": judged.threshold, "verdict": judged.verdict}
        return self._keep(sha, name, values, judged, self.noticing.look(lot))

    def _keep(
        self,
        sha: str,
        lot: str,
        values: dict[str, Any],
        judged: Judgement | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """Keep a verdict, and in the same transaction what the monitor says; a part that was judged before is no news."""
        try:
            with self.reading.database.write() as connection:
                news = not scores.ever_judged(connection, sha)
                scores.add(connection, sha, lot, values)
                if monitor is not None and judged is not None and news:
                    self.noticing.keep(connection, monitor, judged, sha, lot)
        except BaseException:
            self.noticing.forget()  # it has seen a part that was not kept
            raise

    def _waiting(self, lot: str) -> list[str]:
        with self.reading.database.read() as connection:
            return scores.waiting(connection, lot)
