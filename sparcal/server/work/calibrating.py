"""A draft on its way to a lot: the checks, the calibration, and its images judged before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.errors import SparcalError
from sparcal.server.data import drafts
from sparcal.server.data.database import packed
from sparcal.server.data.lots import comparison_key, shown_check
from sparcal.server.sentences import sentence_of
from sparcal.server.work import pictures
from sparcal.server.work.loaded import Loaded
from sparcal.server.work.reading import Reading
from sparcal.server.work.reporting import Reporter

if TYPE_CHECKING:
    from sparcal.station.lot import Lot


@dataclass(frozen=True)
class Calibrating:
    """What the worker does for a draft."""

    reading: Reading
    loaded: Loaded

    def check(self, draft: int, shas: list[str]) -> str:
        """Run the checks on the images that are marked, and keep what they say."""
        usable = self.reading.named(str(draft), [sha for sha in shas if self.reading.usable(sha)])
        answer: dict[str, Any] = {"checks": [], "odd": [], "problem": None}
        try:
            checks = self.loaded.station.check(list(usable))
        except SparcalError as error:
            answer["problem"] = sentence_of(error, self._known(draft))
        else:
            answer["checks"] = [shown_check(check.to_json(), self._known(draft)) for check in checks]
            answer["odd"] = [usable[Path(image)] for one in checks if one.verdict == "stop" for image in one.images]
        with self.reading.database.write() as connection:
            drafts.keep_checks(connection, draft, shas, answer)
        return "Checked."

    def calibrate(self, request: dict[str, Any], report: Reporter) -> str:
        """Calibrate a draft's lot and offer it for decision; then score its images before and after."""
        draft = request["draft"]
        with self.reading.database.read() as connection:
            row = drafts.read_draft(connection, draft)
            drafts.require(row, "calibrating", "calibrated")
            shas = drafts.good(connection, draft)
            images = [image["sha"] for image in drafts.images(connection, draft)]
        readable = [sha for sha in images if self.reading.usable(sha)]
        total = drafts.CALIBRATION_STEPS + len(readable)
        lot = self._lot(row["name"], shas, request, lambda done, _: report(done, total))
        result = packed(self._result(lot, draft, request["false_reject"]))
        with self.reading.database.write() as connection:  # from here on a cancelled job costs heat maps only
            connection.execute(
                "UPDATE drafts SET state = 'calibrated', result = ? WHERE id = ? AND state = 'calibrating'",
                (result, draft),
            )
        for done, sha in enumerate(readable):
            report(drafts.CALIBRATION_STEPS + done, total)
            values = packed(self._compare(draft, lot, sha))
            with self.reading.database.write() as connection:
                connection.execute(
                    "UPDATE draft_images SET comparison = ? WHERE draft = ? AND sha = ?", (values, draft, sha)
                )
        report(total, total)
        return f"Lot {row['name']} is calibrated and waits for a decision."

    def _lot(self, name: str, shas: list[str], request: dict[str, Any], progress: Callable[[int, int], None]) -> Lot:
        """A new lot, or the one that a worker wrote before it died."""
        station = self.loaded.station
        if station.folder.lot(name).exists():
            lot = station.lot(name)
            if sorted(sha for _, sha in lot.record.images) == sorted(shas):
                return lot
        return station.calibrate(
            list(self.reading.named(str(request["draft"]), shas)),
            name,
            correction=request["correction"],
            operator=request["operator"],
            false_reject=request["false_reject"],
            activate=False,
            progress=progress,
        )

    def _compare(self, draft: int, lot: Lot, sha: str) -> dict[str, float] | None:
        """Scores and heat maps of one image by the station's own reference and by the lot, on one colour scale."""
        from sparcal.imaging.encode import encode_one
        from sparcal.imaging.read import Failure

        own, image = self.loaded.lot(""), self.reading.image(sha)
        seen = None if image is None else encode_one(lot.station.encoder, image, Path(sha), sha256=sha)
        if seen is None or isinstance(seen, Failure):
            return None
        high = 2 * max(lot.pixel_threshold.value, own.pixel_threshold.value)
        before, after = own.judge(seen), lot.judge(seen)
        for side, judged in (("before", before), ("after", after)):
            if (heat := judged.heat()) is not None:
                target = self.reading.store.heat(sha, comparison_key(draft, side))
                pictures.write_heat(heat, target, low=0.0, high=high)
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
            "base_threshold": self.loaded.lot("").threshold.value,
            "false_reject": false_reject,
            "free": record.image_threshold.free,
            "threshold_sentence": record.image_threshold.sentence,
            "scores": {
                "own_base": list(record.base.own),
                "lot_base": list(record.base.lot),
                "own": list(record.image.own),
                "lot": list(record.image.lot),
            },
            "self_test": None if record.self_test is None else record.self_test.to_json(),
            "planted_page": lot.self_test_page() is not None,
            "checks": [shown_check(check.to_json(), self._known(draft)) for check in record.checks],
        }

    def _known(self, draft: int) -> dict[str, str]:
        """What stands for paths in sentences about a draft."""
        named = self.reading.store.folder / "named" / str(draft)
        return {f"{named}/": "", str(self.loaded.path): self.loaded.path.name}
