"""LotCalibrator: what SPARC does to a lot, done to a model that anomalib has trained."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from sparcal.calibration.asked import check_asked
from sparcal.calibration.calibrate import calibrate
from sparcal.calibration.checks import check_number, check_threshold
from sparcal.calibration.defaults import AUTO, FALSE_REJECT
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.thresholds import check_rate
from sparcal.errors import DataError, NotFittedError
from sparcal.feature_checks import check_finite
from sparcal.integrations.anomalib.adapters import Adapter, refuse_calibrated, refuse_tiling
from sparcal.integrations.anomalib.checkpoint import read_features, write_checkpoint, write_features
from sparcal.integrations.anomalib.collector import FeatureCollector
from sparcal.integrations.anomalib.detector import ModelDetector
from sparcal.integrations.anomalib.encoder import ModelEncoder
from sparcal.integrations.anomalib.layers import layer_of
from sparcal.integrations.anomalib.lot_report import LotReport, judged_by, report_of
from sparcal.integrations.anomalib.model_station import model_inputs, shown_parts
from sparcal.integrations.anomalib.model_thresholds import (
    ModelThresholds,
    held_out_thresholds,
    restore_thresholds,
    set_thresholds,
    threshold_state,
)
from sparcal.integrations.anomalib.models import LAYER
from sparcal.integrations.anomalib.one_sided import WARNING, find_place, map_levels
from sparcal.integrations.anomalib.passes import (
    Images,
    batches,
    device_of,
    preprocessed,
    read_images,
    score_images,
)
from sparcal.integrations.anomalib.reference_state import ReferenceState, put_reference, reference_state
from sparcal.integrations.anomalib.unchecked import unfitted, why_unchecked
from sparcal.progress import Progress, shown_progress
from sparcal.score import rebuild
from sparcal.settings import seed_number, switch
from sparcal.sparc import MOST_NORMALS, EvidenceWarning
from sparcal.types import Correction, Detector, Features, fitted

FEWEST_NORMALS = 2

Parts = list[tuple[Path, Tensor]]


@dataclass(eq=False)
class LotCalibrator:
    """Calibrates a fitted anomalib model to a lot as a station does: correction, reference, thresholds, self-test, checks.

    Args:
        model: a Patchcore, Padim, AnomalyDINO or few-shot WinClip, trained or about to be.
        correction: "auto" takes the one under which planted defects stand out best; or a name from `sparcal
            corrections`, or any Correction, which is copied, never changed.
        false_reject: share of good parts that the threshold may reject.
        seed: of the planted defects, and of a coreset where anomalib has to draw one again.
        test_side_only: correct test features of a flow or distillation model, whose trained side cannot be rebuilt.

    `features_` holds the training features once collected; `correction_` and `report_` the lot's, until `reset`.
    """

    model: Any = field(repr=False)
    correction: str | Correction = AUTO
    false_reject: float = FALSE_REJECT
    seed: int = 0
    test_side_only: bool = False
    features_: Features | None = field(default=None, init=False, repr=False)
    image_size_: tuple[int, int] | None = field(default=None, init=False, repr=False)
    correction_: Correction | None = field(default=None, init=False, repr=False)
    report_: LotReport | None = field(default=None, init=False, repr=False)
    _adapter: Adapter | None = field(init=False, repr=False)
    _encoder: ModelEncoder = field(init=False, repr=False)
    _inputs: CalibrationInputs | None = field(default=None, init=False, repr=False)
    _original: tuple[ReferenceState, dict[str, Tensor]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.false_reject)
        seed_number(self.seed, "LotCalibrator.seed")
        switch(self.test_side_only, "LotCalibrator.test_side_only")
        check_asked(self.correction)
        refuse_calibrated(self.model)
        self._adapter, place = find_place(self.model, test_side_only=self.test_side_only)
        self._encoder = ModelEncoder(self.model, place, self.to_features)

    def collector(self) -> FeatureCollector:
        """A callback for Engine(callbacks=[...]) that keeps the training features while the model is fitted."""
        self._two_sided()
        return FeatureCollector(self)

    def collect(self, batches: Iterable[Any]) -> None:
        """Keep the training features in one pass over anomalib's batches, such as `datamodule.train_dataloader()`."""
        self._two_sided().check(self.model)
        refuse_calibrated(self.model)
        parts, size = [], (0, 0)
        for batch in batches:
            image = preprocessed(self.model, batch.image)
            size = (image.shape[-2], image.shape[-1])
            parts.append(self._encoder(image))
        if not parts:
            raise DataError("LotCalibrator.collect needs at least one batch of training images, got none.")
        self.keep(parts, size)

    def keep(self, parts: list[Features], size: tuple[int, int]) -> None:
        """Take over training features that came from preprocessed images of `size`."""
        features = Features.cat(parts)
        check_finite(features, "The training features")
        self.features_, self.image_size_, self._inputs = features, size, None

    def calibrate(
        self, images: Images, *, held_out: Images | None = None, progress: Progress | None = None
    ) -> LotReport:
        """Calibrate the model to a lot from its good parts: what is chosen and measured goes into the model.

        Args:
            images: 2 to 32 good parts: a folder, files, or a tensor (k, 3, H, W) in [0, 1] without normalisation.
            held_out: further good parts of the same lot. The thresholds then come from them alone; without them they
                come from the training images, scored out of fold, and from `images`, each left out in turn.
            progress: called with steps done and steps in all; a notebook draws a bar without it.
        """
        self.reset()
        refuse_calibrated(self.model)
        parts = read_images(images, "LotCalibrator.calibrate")
        others = None if held_out is None else read_images(held_out, "LotCalibrator.calibrate(held_out=)")
        if not parts or others == []:
            raise DataError(
                "LotCalibrator.calibrate needs 2 to 8 good images of the lot, and some or no held_out=, got an empty set."
            )
        if not FEWEST_NORMALS <= len(parts) <= MOST_NORMALS:
            raise DataError(
                f"LotCalibrator.calibrate takes {FEWEST_NORMALS} to {MOST_NORMALS} good images of the lot, got "
                f"{len(parts)}: 8 are usually enough."
            )
        reference = self._reference()
        unchecked = why_unchecked(self.correction, reference, held_out=others is not None)
        self._original = reference_state(self.model, self._adapter), threshold_state(self.model)
        try:
            if unchecked is not None and others is not None:
                correction, report = self._without_evidence(parts, others, reference, unchecked)
            else:
                assert reference is not None
                with shown_progress(progress, "Calibrating") as told:
                    correction, report = self._by_evidence(parts, others, reference, told)
            set_thresholds(self.model, report.thresholds)
        except BaseException:
            self.reset()
            raise
        self.correction_, self.report_ = correction, report
        return report

    def reset(self) -> None:
        """Give the model back its own reference, thresholds and class, bit for bit; harmless if it has them."""
        if self._original is None:
            return
        reference, thresholds = self._original
        if hasattr(self.model.model, LAYER):
            self._encoder.place.remove(self.model)
            delattr(self.model.model, LAYER)
        put_reference(self.model, reference)
        restore_thresholds(self.model, thresholds)
        self._original = self.correction_ = self.report_ = None

    def save_checkpoint(self, path: str | Path) -> Path:
        """Write the model as it stands to a Lightning checkpoint, which `load_calibrated` reads."""
        return write_checkpoint(self.model, path)

    def save_features(self, path: str | Path) -> Path:
        """Write the training features to a safetensors file, so that later lots need no training images."""
        features, size = self._collected()
        return write_features(features, path, model=type(self.model).__name__, image_size=size)

    def load_features(self, path: str | Path) -> None:
        """Take over the training features that `save_features` wrote for this model."""
        self._two_sided()
        features, size = read_features(path, model=type(self.model).__name__)
        self.keep([features], size)

    @property
    def site(self) -> tuple[Any, str]:
        """The object and the name of its method through which the model's features pass."""
        return self._encoder.place.site(self.model)

    def to_features(self, image: Tensor, output: Any) -> Features:
        """What the model's own method returned for `image`, as Features."""
        return map_levels(output) if self._adapter is None else self._adapter.features(self.model, image, output)

    def _by_evidence(
        self, parts: Parts, others: Parts | None, reference: Features, progress: Progress
    ) -> tuple[Correction, LotReport]:
        """Let planted defects choose, on both sides, and put the result into the model."""
        inputs = self._inputs = self._inputs or model_inputs(
            self._detector().fit_as_trained(reference), self._encoder, reference
        )
        shown = shown_parts(self._encoder, parts, reference, seed=self.seed)
        outcome = calibrate(
            inputs,
            shown,
            correction=self.correction,
            false_reject=self.false_reject,
            seed=self.seed,
            progress=progress,
        )
        self._install(outcome.taken.calibrated.correction, outcome.taken.calibrated.detector)
        report = report_of(outcome) if others is None else judged_by(self._thresholds_on(others), outcome)
        return outcome.taken.calibrated.correction, report

    def _without_evidence(
        self, parts: Parts, others: Parts, reference: Features | None, why: str
    ) -> tuple[Correction, LotReport]:
        """Take a correction as it is, with thresholds from `others`."""
        calibration = Features.cat([self._encoder(batch) for batch in batches(self._prepared(parts))])
        name, correction = unfitted(self.correction, one_sided=self._adapter is None)
        if reference is None or correction.on == "test":
            fitted, detector = correction.fit(calibration, reference), None
        else:
            pair = rebuild(self._detector(), correction, reference=reference, calibration=calibration)
            fitted, detector = pair.correction, pair.detector
        if self._adapter is None:
            warnings.warn(WARNING.format(model=type(self.model).__name__), EvidenceWarning, stacklevel=3)
        self._install(fitted, detector)
        thresholds = self._thresholds_on(others)
        checks = check_number(len(parts)), check_threshold(thresholds.image, (), ())
        sentence = f"{name} is taken unchecked: {why}."
        return fitted, LotReport(name, {}, sentence, (), thresholds, None, checks)

    def _install(self, correction: Correction, detector: Detector | None) -> None:
        """Put a fitted correction, and the reference that was rebuilt with it, into the model."""
        if isinstance(detector, ModelDetector):
            put_reference(self.model, fitted(detector, detector.state_))
        if correction.on != "reference":
            setattr(self.model.model, LAYER, layer_of(correction).to(device_of(self.model)))
            self._encoder.place.insert(self.model)

    def _thresholds_on(self, others: Parts) -> ModelThresholds:
        return held_out_thresholds(score_images(self.model, self._prepared(others)), self.false_reject)

    def _prepared(self, parts: Parts) -> list[Tensor]:
        return [preprocessed(self.model, image) for _, image in parts]

    def _detector(self) -> ModelDetector:
        _, size = self._collected()
        return ModelDetector(self.model, self._two_sided(), size, self.seed)

    def _two_sided(self) -> Adapter:
        if self._adapter is None:
            raise DataError(
                f"{type(self.model).__name__} is corrected on the test side alone, got a call about its training "
                "features: it needs none."
            )
        return self._adapter

    def _collected(self) -> tuple[Features, tuple[int, int]]:
        if self.features_ is None or self.image_size_ is None:
            raise NotFittedError(
                "LotCalibrator needs the training features, which anomalib drops, got none: fit with "
                "Engine(callbacks=[calibrator.collector()]), or call collect(datamodule.train_dataloader())."
            )
        return self.features_, self.image_size_

    def _reference(self) -> Features | None:
        """The training features; None for a model whose trained side stays as it is."""
        if self._adapter is None:
            refuse_tiling(self.model)
            return None
        self._adapter.check(self.model)
        images = getattr(self.model.model, "reference_images", None)
        if images is not None:  # WinClip keeps its few reference images, as it encodes them
            self.keep([self._encoder(images.to(device_of(self.model)))], (images.shape[-2], images.shape[-1]))
        features, _ = self._collected()
        return features
