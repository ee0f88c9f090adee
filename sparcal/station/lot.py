"""A lot: what one calibration produced. It scores images; once written it never changes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sparcal.calibration.defaults import ONE_IN, OWN_REFERENCE
from sparcal.calibration.thresholds import Threshold
from sparcal.errors import ArtifactError
from sparcal.imaging.decode import ImageSource, content_hash
from sparcal.imaging.find import image_sources
from sparcal.settings import finite_number, one_by_one, whole_number
from sparcal.station.lot_record import CORRECTION_FILE, MAPS_FILE, REFERENCE_FILE, SELF_TEST_FILE, LotRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import Tensor

    from sparcal.calibration.self_test import SelfTest
    from sparcal.calibration.threshold_effect import ThresholdEffect
    from sparcal.imaging.encode import EncodedImage
    from sparcal.imaging.read import Failure
    from sparcal.progress import Progress
    from sparcal.score import CalibratedDetector
    from sparcal.station.judge_facts import JudgeFacts
    from sparcal.station.judgement import Judgement, Judgements
    from sparcal.station.monitor import Monitor
    from sparcal.station.station import Station
    from sparcal.types import Correction, Detector


@dataclass(frozen=True, eq=False, repr=False)
class Lot:
    """One calibrated lot of a station, or, with no name, the station's own reference.

    Args:
        folder: where its files are.
        thresholds: (image, pixel), as calibrated or as set by hand since.
    """

    station: Station
    record: LotRecord
    folder: Path
    thresholds: tuple[Threshold, Threshold]

    def __repr__(self) -> str:
        made = f"{len(self.record.images)} images, " if self.name is not None else ""
        limit = f"threshold {self.threshold.value:.4g} ({self.threshold.basis})"
        return f"<{self.title}: {made}{limit}, checks {self.record.verdict}>"

    @property
    def name(self) -> str | None:
        """None for the station's own reference."""
        return self.record.name

    @property
    def threshold(self) -> Threshold:
        """For image scores."""
        return self.thresholds[0]

    @property
    def pixel_threshold(self) -> Threshold:
        """For maps."""
        return self.thresholds[1]

    @property
    def title(self) -> str:
        """One line that says by what images are judged."""
        if self.name is None:
            return "The station's own reference, not calibrated to any lot"
        how = "the station's own reference" if self.record.correction == OWN_REFERENCE else self.record.correction
        return f"Lot {self.name}, {how}"

    @property
    def origin(self) -> str:
        """When it was made, and by whom."""
        made = f"made {self.record.created[:10]} {self.record.created[11:16]} UTC"
        return f"{made} by {self.record.operator}" if self.record.operator else made

    @property
    def sentence(self) -> str:
        """By which lot parts are judged, and what its threshold does to good parts and planted defects."""
        limit = self.threshold.value
        return f"{self.title}: the threshold {limit:.4g} {self.effect_of(limit).sentence}."

    def on_page(self) -> JudgeFacts:
        """What a table or page says about the lot beside its verdicts."""
        from sparcal.station.judge_facts import JudgeFacts

        effect = self.effect_of(self.threshold.value).sentence
        return JudgeFacts(
            name=self.name,
            threshold=self.threshold.value,
            limit=self.threshold,
            title=self.title,
            origin=f"Station {self.station.path.resolve().name}; {self.origin}.",
            choice=self.record.choice.sentence,
            sentence=f"{self.threshold.sentence} The threshold {effect}.",
            checks=self.record.checks,
            self_test=self.self_test,
            self_test_page=self.self_test_page(),
        )

    def effect_of(self, threshold: float) -> ThresholdEffect:
        """Good parts that an image threshold would reject, and planted defects that it would find."""
        from sparcal.calibration.threshold_effect import counted, effect_of

        finite_number(threshold, "A threshold")
        record = self.record
        tested = record.self_test
        planted = None if tested is None else [one.score for one in tested.defects if one.plain]
        return effect_of(threshold, counted(record.image_threshold.basis, record.image.own, record.image.lot), planted)

    @cached_property
    def self_test(self) -> SelfTest | None:
        """What the lot finds of planted defects at the threshold that it has now; None where none were planted."""
        from sparcal.calibration.self_test import at_threshold

        tested, limit = self.record.self_test, self.threshold.value
        if tested is None or self.threshold.basis != "by hand":
            return tested
        effect = self.effect_of(limit)
        return at_threshold(tested, limit, floor=effect.rejected / effect.good)

    @cached_property
    def calibrated(self) -> CalibratedDetector:
        """Correction and detector, as they were written."""
        from sparcal.artifacts import load
        from sparcal.corrections import Identity
        from sparcal.devices import float64_device
        from sparcal.score import CalibratedDetector

        place = float64_device(self.station.device)
        own = CORRECTION_FILE not in self.record.files
        kinds = self.station.kinds
        correction: Correction = Identity() if own else load(self._file(CORRECTION_FILE), kinds=kinds, device=place)
        detector: Detector = load(self._file(REFERENCE_FILE), kinds=kinds, device=place)
        return CalibratedDetector(correction, detector)

    def maps(self) -> dict[str, Tensor]:
        """What the checks keep per cell: the share of energy removed, (h, w), and the left-out scores, (k, h, w)."""
        from safetensors.torch import load_file

        return load_file(self._file(MAPS_FILE)) if MAPS_FILE in self.record.files else {}

    def self_test_page(self) -> Path | None:
        """The page of planted defects, found and missed; None where the lot has none, or not as it was written."""
        with contextlib.suppress(ArtifactError):  # its figures stand in the record too: judging goes on without it
            return self._file(SELF_TEST_FILE)
        return None

    def score(
        self,
        images: ImageSource | Sequence[ImageSource],
        *,
        progress: Progress | None = None,
    ) -> Judgements:
        """Judge images: files, folders, patterns, or images in memory.

        Args:
            progress: called with images done and images in all; a notebook draws a bar without it.
        """
        from sparcal.progress import shown_progress
        from sparcal.station.judgement import Judgements

        sources = image_sources(images)

        judged = Judgements()
        with shown_progress(progress, "Judging") as told:
            for judgement in self.stream(sources):
                judged.append(judgement)
                told(len(judged), len(sources))
        return judged

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores of good parts and planted defects around the threshold, on `ax` or a new figure; needs matplotlib."""
        from sparcal.station.plots import plot_lot

        return plot_lot(self, ax)

    def _repr_html_(self) -> str:
        """What the lot is and would find, for notebooks."""
        from sparcal.station.notebook_card import lot_card

        return lot_card(self)

    def stream(self, sources: Sequence[ImageSource]) -> Iterator[Judgement]:
        """Judge images one by one, in order, in memory that does not grow with their number."""
        from sparcal.imaging.encode import encode_each, encode_one
        from sparcal.imaging.read import Failure, name_of

        one_by_one(sources, "What Lot.stream judges", "images")  # looked at, not read: they come in their turn
        encoder, _ = self.station.encoder, self.calibrated  # loaded here, before threads ask for it
        if self.station.device.type != "cpu":  # one card: threads read, the images go to it in batches
            encoded = encode_each(encoder, sources, workers=self.station.workers)
            return (
                self._failed(item, source) if isinstance(item, Failure) else self.judge(cast("EncodedImage", item))
                for item, source in zip(encoded, sources, strict=True)
            )

        def work(job: tuple[int, ImageSource]) -> Judgement:
            position, source = job
            item = encode_one(encoder, source, name_of(source, position))
            return self._failed(item, source) if isinstance(item, Failure) else self.judge(item)

        from sparcal.threads import in_order

        return in_order(work, enumerate(sources), workers=self.station.workers)

    def judge(self, image: EncodedImage) -> Judgement:
        """Judge an image that the station's encoder has encoded already."""
        from sparcal.calibration.sight import see
        from sparcal.imaging.encode import stranger
        from sparcal.imaging.maps import cell_array
        from sparcal.imaging.read import Failure
        from sparcal.station.judgement import Judgement

        reason = stranger(image, self.station.grids, self.record.kinds)
        if reason is not None:
            return self._failed(Failure(image.path, reason), None, image.sha256)
        scores = self.calibrated.score(image.features)
        score = float(scores.image[0])
        if not math.isfinite(score):  # no comparison with a threshold would ever fail it
            why = f"{image.path} must get a finite score, got {score}: check the image and the encoder."
            return self._failed(Failure(image.path, why), None, image.sha256)
        return Judgement(
            path=image.path,
            sha256=image.sha256,
            score=score,
            threshold=self.threshold.value,
            verdict="fail" if score > self.threshold.value else "pass",
            pixel_threshold=self.pixel_threshold.value,
            cell=cell_array(scores.cell[0]),
            geometry=image.geometry,
            rule=self.calibrated.detector.map_rule,
            outside=self.record.outside,
            sight=None if image.look is None else see(image.features, image.look),
        )

    def monitor(self, *, one_in: int = ONE_IN) -> Monitor:
        """Has the line left what this lot was calibrated for? Feed it judgements in the order they come.

        Args:
            one_in: parts between two false alarms, on average at least.
        """
        from sparcal.station.monitor import monitor_for

        whole_number(one_in, "one_in", least=1)
        return monitor_for(self, one_in)

    def _failed(self, failure: Failure, source: ImageSource | None, digest: str | None = None) -> Judgement:
        from sparcal.station.judgement import Judgement

        limits = self.threshold.value, self.pixel_threshold.value
        if source is not None:
            with contextlib.suppress(OSError):  # a file that cannot be read has no content to know it by
                digest = content_hash(source)
        return Judgement(failure.path, digest, None, limits[0], "error", limits[1], reason=failure.reason)

    def _file(self, name: str) -> Path:
        from sparcal.files.verified import CALIBRATE_AGAIN, FIT_AGAIN, verified

        remedy = FIT_AGAIN if self.name is None else CALIBRATE_AGAIN
        return verified(self.folder / name, self.record.files.get(name), remedy=remedy)
