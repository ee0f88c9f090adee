"""What the worker does for each kind of job: the same calls to `Station` and `Lot` that the command line makes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.errors import DataError, SparcalError
from sparcal.imaging.decode import open_image
from sparcal.imaging.find import find_images
from sparcal.server.data import drafts, jobs, retention, scores
from sparcal.server.data.database import Database, packed
from sparcal.server.data.drafts import ConflictError
from sparcal.server.data.jobs import Job
from sparcal.server.data.lots import comparison_key, lot_key, shown_check
from sparcal.server.data.store import SHOWN_AS_IS, Store
from sparcal.server.web.errors import sentence_of, without_paths
from sparcal.server.work import pictures, watching
from sparcal.server.work.worker import Reporter

if TYPE_CHECKING:
    from sparcal.station.lot import Lot
    from sparcal.station.station import Station

_STEPS = 5  # of a calibration, as Station.calibrate counts them
_LOTS_LOADED = 3
_SETTLED_S = 2.0  # a file in the watched folder that changed this lately may still be growing


@dataclass
class Tasks:
    """The worker's hands; the station and its lots stay loaded between jobs."""

    database: Database
    store: Store
    path: Path
    watch: Path | None
    _station: Station | None = field(default=None, init=False)
    _lots: dict[tuple[str, int], Lot] = field(default_factory=dict, init=False)

    def run(self, job: Job, report: Reporter) -> str:
        """Do one job; returns a sentence for the queue."""
        subject = job.subject
        if job.kind == "read":
            return self.read(report)
        if job.kind == "collect" and subject.get("watch"):
            return watching.take(self.database, self.store, self.station.active() or "", report)
        if job.kind == "collect":
            return self.collect(report, draft=subject.get("draft"), lot=subject.get("lot"))
        if job.kind == "check":
            return self.check(subject["draft"], subject["images"])
        if job.kind == "calibrate":
            return self.calibrate(subject, report)
        if job.kind == "fit":
            return self.fit(subject["images"], subject["operator"], report)
        return self.score(subject["lot"], report)

    def read(self, report: Reporter) -> str:
        """Decode what has arrived, and make its thumbnails."""
        done = 0
        while waiting := self._unread():
            for sha in waiting:
                report(done, done + len(waiting))
                self.decode(sha)
                done += 1
        report(done, done)
        return f"{done} images read."

    def decode(self, sha: str) -> bool:
        """Read one image if it has not been read yet; whether it can be used."""
        with self.database.read() as connection:
            row = connection.execute("SELECT * FROM images WHERE sha = ?", (sha,)).fetchone()
        if row["state"] != "new":
            return bool(row["state"] == "ready")
        change: tuple[object, ...]
        try:
            image = open_image(self.store.image(sha))
            pictures.write_thumb(image, self.store.picture(sha, "thumb"))
            if row["kind"] not in SHOWN_AS_IS:
                pictures.write_view(image, self.store.picture(sha, "view"))
        except DataError as error:
            change = ("refused", None, None, sentence_of(error, {str(self.store.image(sha)): row["name"]}), sha)
        else:
            change = ("ready", image.width, image.height, None, sha)
        with self.database.write() as connection:
            connection.execute(
                "UPDATE images SET state = ?, width = ?, height = ?, problem = ? WHERE sha = ? AND state = 'new'",
                change,
            )
        return change[0] == "ready"

    def collect(self, report: Reporter, *, draft: int | None, lot: str | None) -> str:
        """Take copies of what lies in the watched folder, for a draft or to be judged."""
        if self.watch is None:
            raise ConflictError("The station watches no folder: start it with --watch FOLDER.")
        paths = [path for path in find_images(self.watch) if time.time() - path.stat().st_mtime > _SETTLED_S]
        taken, problems = 0, 0
        for done, path in enumerate(paths):
            report(done, len(paths))
            try:
                stored = self.store.copy(path)
            except (DataError, OSError):
                problems += 1
                continue
            with retention.arrival(self.database, self.store, stored) as connection:
                if draft is not None:
                    drafts.require_room(connection, draft, stored.sha, limit=self.store.limits.draft_images)
                    retention.admit(connection, self.store, stored)
                    drafts.add_image(connection, draft, stored.sha, limit=self.store.limits.draft_images)
                elif not scores.known(connection, stored.sha, lot or ""):
                    retention.admit(connection, self.store, stored)
                    scores.arrive(connection, stored.sha, lot or "")
            taken += 1
        with self.database.write() as connection:
            jobs.enqueue(connection, "read", {})
            if draft is None:
                jobs.enqueue(connection, "score", {"lot": lot or ""})
        return f"{taken} images taken{f', {problems} refused' if problems else ''}."

    def check(self, draft: int, shas: list[str]) -> str:
        """Run the checks on the images that are marked, and keep what they say."""
        usable = self._named(str(draft), [sha for sha in shas if self.decode(sha)])
        found: dict[str, Any] = {"checks": [], "odd": [], "problem": None}
        try:
            checked = self.station.check(list(usable))
        except SparcalError as error:
            found["problem"] = sentence_of(error, self._known(draft))
        else:
            found["checks"] = [shown_check(check.to_json(), self._known(draft)) for check in checked]
            found["odd"] = [usable[Path(image)] for one in checked if one.verdict == "stop" for image in one.images]
        with self.database.write() as connection:
            drafts.keep_checks(connection, draft, shas, found)
        return "Checked."

    def calibrate(self, request: dict[str, Any], report: Reporter) -> str:
        """Calibrate a draft's lot and offer it for decision; then score its images before and after."""
        draft = request["draft"]
        with self.database.read() as connection:
            row = drafts.get(connection, draft)
            drafts.require(row, "calibrating", "calibrated")
            shas = drafts.good(connection, draft)
            images = [image["sha"] for image in drafts.images(connection, draft)]
        readable = [sha for sha in images if self.decode(sha)]
        total = _STEPS + len(readable)
        lot = self._calibrated(row["name"], draft, shas, request, lambda done, _: report(done, total))
        result = packed(self._result(lot, draft, request["false_reject"]))
        with self.database.write() as connection:  # from here on a cancelled job costs heat maps and nothing else
            connection.execute(
                "UPDATE drafts SET state = 'calibrated', result = ? WHERE id = ? AND state = 'calibrating'",
                (result, draft),
            )
        for done, sha in enumerate(readable):
            report(_STEPS + done, total)
            values = self._compare(draft, lot, sha)
            with self.database.write() as connection:
                connection.execute(
                    "UPDATE draft_images SET comparison = ? WHERE draft = ? AND sha = ?", (packed(values), draft, sha)
                )
        report(total, total)
        return f"Lot {row['name']} is calibrated and waits for a decision."

    def fit(self, shas: list[str], operator: str, report: Reporter) -> str:
        """Add good parts to the station; its own reference is fitted anew, lots stay as they are."""
        usable = self._named("parts", [sha for sha in shas if self.decode(sha)])
        if not usable:
            raise ConflictError("None of the parts is here any more: confirm others.")
        self._station = None  # parts may have been added on the command line meanwhile
        self._station = self.station.add(list(usable), operator=operator, progress=report)
        self._lots.clear()
        held = {digest for _, digest in self._station.record.images}
        return f"{len(held & set(shas))} of {len(shas)} parts are in the station now, {len(held)} in all."

    def score(self, name: str, report: Reporter) -> str:
        """Judge what has arrived for a lot, one image at a time; gives way to more urgent work."""
        lot = self.lot(name)
        done = 0
        while waiting := self._waiting(name):
            for sha in waiting:
                report(done, done + len(waiting))
                report.step_aside()
                self._judge(lot, name, sha)
                done += 1
        report(done, done)
        return f"{done} images judged."

    @property
    def station(self) -> Station:
        """The station, loaded once."""
        if self._station is None:
            from sparcal.station.station import Station

            self._station = Station.open(self.path)
        return self._station

    def lot(self, name: str) -> Lot:
        """A lot, loaded once and again when its threshold was set by hand; the empty name is the station's own."""
        override = self.station.folder.override(name) if name else None
        key = (name, override.stat().st_mtime_ns if override is not None and override.exists() else 0)
        if key not in self._lots:
            while len(self._lots) >= _LOTS_LOADED:
                self._lots.pop(next(iter(self._lots)))
            self._lots[key] = self.station.lot(name) if name else self.station.own()
        return self._lots[key]

    def _calibrated(
        self, name: str, draft: int, shas: list[str], request: dict[str, Any], progress: Callable[[int, int], None]
    ) -> Lot:
        """A new lot, or the one that a worker wrote before it died."""
        if self.station.folder.lot(name).exists():
            lot = self.station.lot(name)
            if sorted(sha for _, sha in lot.record.images) == sorted(shas):
                return lot
        return self.station.calibrate(
            list(self._named(str(draft), shas)),
            name,
            correction=request["correction"],
            operator=request["operator"],
            false_reject=request["false_reject"],
            activate=False,
            progress=progress,
        )

    def _judge(self, lot: Lot, name: str, sha: str) -> None:
        if not self.decode(sha):
            with self.database.write() as connection:
                row = connection.execute("SELECT problem FROM images WHERE sha = ?", (sha,)).fetchone()
                scores.add(connection, sha, name, {"problem": row["problem"] or "It was removed before it was scored."})
            return
        judged = lot.score(self.store.image(sha))[0]
        heat = judged.heat()
        if heat is not None:
            target = self.store.heat(sha, lot_key(name))
            pictures.write_heat(heat, target, low=0.0, high=2 * judged.pixel_threshold, clear=True)
        values: dict[str, Any] = {"score": judged.score, "threshold": judged.threshold, "verdict": judged.verdict}
        if judged.verdict == "error":
            values = {"problem": without_paths(judged.reason or "It cannot be scored.", self._paths(sha))}
        with self.database.write() as connection:
            scores.add(connection, sha, name, values)

    def _compare(self, draft: int, lot: Lot, sha: str) -> dict[str, float] | None:
        """Scores and heat maps of one image by the station's own reference and by the lot, on one colour scale."""
        own = self.lot("")
        high = 2 * max(lot.pixel_threshold.value, own.pixel_threshold.value)
        before, after = (one.score(self.store.image(sha))[0] for one in (own, lot))
        for side, judged in (("before", before), ("after", after)):
            if (heat := judged.heat()) is not None:
                pictures.write_heat(heat, self.store.heat(sha, comparison_key(draft, side)), low=0.0, high=high)
        if before.score is None or after.score is None:
            return None
        hashes = [digest for _, digest in lot.record.images]
        left_out = dict(zip(hashes, lot.record.image.lot, strict=True)) if lot.record.image.lot else {}
        return {"base": before.score, "lot": left_out.get(sha, after.score)}

    def _result(self, lot: Lot, draft: int, false_reject: float) -> dict[str, Any]:
        record = lot.record
        return {
            "lot": record.name,
            "helps": bool(record.choice.helps),
            "sentence": record.choice.sentence,
            "correction": record.correction,
            "threshold": record.image_threshold.value,
            "base_threshold": self.lot("").threshold.value,
            "false_reject": false_reject,
            "free": record.image_threshold.free,
            "threshold_sentence": record.image_threshold.sentence,
            "scores": {
                "own_base": list(record.base.own),
                "lot_base": list(record.base.lot),
                "own": list(record.image.own),
                "lot": list(record.image.lot),
            },
            "checks": [shown_check(check.to_json(), self._known(draft)) for check in record.checks],
        }

    def _named(self, place: str, shas: list[str]) -> dict[Path, str]:
        """Images under the names that people know, because stations, lots and sentences keep file names."""
        folder = self.store.folder / "named" / place
        folder.mkdir(parents=True, exist_ok=True)
        with self.database.read() as connection:
            rows = [connection.execute("SELECT sha, name FROM images WHERE sha = ?", (sha,)).fetchone() for sha in shas]
        names = {row["sha"]: row["name"] for row in rows}
        found: dict[Path, str] = {}
        for sha in shas:
            path = folder / names[sha]
            if path in found or names[sha] in {".", ".."}:
                path = folder / f"{sha[:8]} {names[sha]}"
            path.unlink(missing_ok=True)
            try:
                os.link(self.store.image(sha), path)
            except OSError:  # not every file system has links
                shutil.copyfile(self.store.image(sha), path)
            found[path] = sha
        return found

    def _known(self, draft: int) -> dict[str, str]:
        """What stands for paths in sentences about a draft."""
        return {f"{self.store.folder / 'named' / str(draft)}/": "", str(self.path): self.path.name}

    def _unread(self) -> list[str]:
        with self.database.read() as connection:
            return [row["sha"] for row in connection.execute("SELECT sha FROM images WHERE state = 'new' LIMIT 50")]

    def _waiting(self, lot: str) -> list[str]:
        with self.database.read() as connection:
            return scores.waiting(connection, lot)

    def _paths(self, sha: str) -> dict[str, str]:
        with self.database.read() as connection:
            row = connection.execute("SELECT name FROM images WHERE sha = ?", (sha,)).fetchone()
        return {str(self.store.image(sha)): row["name"], str(self.path): self.path.name}
