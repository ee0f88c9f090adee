"""LotCalibrator: what SPARC does to a lot, done to a model that anomalib has trained."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparcal.calibration.thresholds import check_rate
from sparcal.corrections import CORRECTIONS
from sparcal.errors import DataError, NotFittedError
from sparcal.integrations.anomalib.adapters import Adapter, refuse_calibrated, refuse_tiling
from sparcal.integrations.anomalib.checkpoint import read_features, write_checkpoint, write_features
from sparcal.integrations.anomalib.collector import FeatureCollector
from sparcal.integrations.anomalib.layers import layer_of
from sparcal.integrations.anomalib.model_thresholds import (
    NONE,
    GoodScores,
    ModelThresholds,
    good_part_thresholds,
    restore_thresholds,
    set_thresholds,
    threshold_state,
)
from sparcal.integrations.anomalib.models import LAYER, Place
from sparcal.integrations.anomalib.one_sided import WARNING, find_place, map_levels
from sparcal.integrations.anomalib.passes import (
    Images,
    device_of,
    preprocessed,
    read_images,
    record_features,
    score_features,
    score_images,
    seeded,
)
from sparcal.sparc import EvidenceWarning, check_finite
from sparcal.types import Correction, Features

# With three, every fold of Padim still has the two images that a covariance needs, and every left-out fit of SPARC the
# two that a disagreement needs.
FEWEST_FOLDED = 3
FEWEST_LEFT_OUT = 3


@dataclass(eq=False)
class LotCalibrator:
    """Calibrates a fitted anomalib model to a lot: corrects both sides, rebuilds the reference, resets the thresholds.

    Args:
        model: a Patchcore, Padim, AnomalyDINO or few-shot WinClip, trained or about to be.
        correction: a name from `sparcal corrections`, or any Correction; it is copied, never changed.
        false_reject: share of good parts that the threshold may reject.
        folds: parts into which the training images are cut, to score each against a reference without it.
        seed: of the coreset that anomalib draws.
        test_side_only: correct test features of a flow or distillation model, whose trained side cannot be rebuilt.

    `features_` holds the training features once collected; `correction_` and `thresholds_` the lot's, until `reset`.
    """

    model: Any = field(repr=False)
    correction: str | Correction = "sparc"
    false_reject: float = 0.05
    folds: int = 5
    seed: int = 0
    test_side_only: bool = False
    features_: Features | None = field(default=None, init=False, repr=False)
    image_size_: tuple[int, int] | None = field(default=None, init=False, repr=False)
    correction_: Correction | None = field(default=None, init=False, repr=False)
    thresholds_: ModelThresholds | None = field(default=None, init=False, repr=False)
    _adapter: Adapter | None = field(init=False, repr=False)
    _place: Place = field(init=False, repr=False)
    _original: tuple[dict[str, Any], dict[str, Tensor]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.false_reject)
        if self.folds < 2:
            raise DataError(f"LotCalibrator.folds must be at least 2, got {self.folds}: 5 is the default.")
        if isinstance(self.correction, str) and self.correction not in CORRECTIONS:
            raise DataError(f"unknown correction {self.correction!r}; choose from {', '.join(sorted(CORRECTIONS))}.")
        refuse_calibrated(self.model)
        self._adapter, self._place = find_place(self.model, test_side_only=self.test_side_only)

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
            parts.append(self._encode([image]))
        if not parts:
            raise DataError("LotCalibrator.collect needs at least one batch of training images, got none.")
        self.keep(parts, size)

    def keep(self, parts: list[Features], size: tuple[int, int]) -> None:
        """Take over training features that came from preprocessed images of `size`."""
        features = Features.cat(parts)
        check_finite(features, "The training features")
        self.features_, self.image_size_ = features, size

    def calibrate(self, images: Images, *, held_out: Images | None = None) -> ModelThresholds:
        """Fit the correction on good images of the lot and put it, the reference and the thresholds into the model.

        Args:
            images: 2 to 8 good parts: a folder, files, or a tensor (k, 3, H, W) in [0, 1] without normalisation.
            held_out: further good parts of the same lot. The thresholds then come from them alone; without them they
                come from the training images, scored out of fold, and from `images`, each left out in turn.
        """
        self.reset()
        refuse_calibrated(self.model)
        normals = self._prepared(images, "LotCalibrator.calibrate")
        others = None if held_out is None else self._prepared(held_out, "LotCalibrator.calibrate(held_out=)")
        if not normals or others == []:
            raise DataError(
                "LotCalibrator.calibrate needs 2 to 8 good images of the lot, and some or no held_out=, got an empty set."
            )
        if others is None and self._unfitted().on == "test":
            raise DataError(
                "A correction of test features alone needs further good images of the lot for its threshold, got no "
                "held_out=: the trained reference cannot be scored out of fold."
            )
        reference = self._reference(others)
        calibration = self._encode(normals)
        fitted = self._unfitted().fit(calibration, reference)
        if self._adapter is None:
            warnings.warn(WARNING.format(model=type(self.model).__name__), EvidenceWarning, stacklevel=2)
        self._original = (self._reference_state(), threshold_state(self.model))
        try:
            own, lot = self._install(fitted, reference, None if others else calibration)
            thresholds = good_part_thresholds(
                own, score_images(self.model, others) if others else lot, self.false_reject
            )
            set_thresholds(self.model, thresholds)
        except BaseException:
            self.reset()
            raise
        self.correction_, self.thresholds_ = fitted, thresholds
        return thresholds

    def reset(self) -> None:
        """Give the model back its own reference, thresholds and class, bit for bit; harmless if it has them."""
        if self._original is None:
            return
        reference, thresholds = self._original
        if hasattr(self.model.model, LAYER):
            self._place.remove(self.model)
            delattr(self.model.model, LAYER)
        self._restore_reference(reference)
        restore_thresholds(self.model, thresholds)
        self._original = self.correction_ = self.thresholds_ = None

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
        return self._place.site(self.model)

    def to_features(self, image: Tensor, output: Any) -> Features:
        """What the model's own method returned for `image`, as Features."""
        return map_levels(output) if self._adapter is None else self._adapter.features(self.model, image, output)

    def _encode(self, images: Sequence[Tensor]) -> Features:
        return record_features(self._place, self.model, images, self.to_features)

    def _prepared(self, images: Images, who: str) -> list[Tensor]:
        return [preprocessed(self.model, image) for image in read_images(images, who)]

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

    def _reference(self, held_out: Sequence[Tensor] | None) -> Features | None:
        """The training features; None for a model whose trained side stays as it is."""
        if self._adapter is None:
            refuse_tiling(self.model)
            return None
        self._adapter.check(self.model)
        images = getattr(self.model.model, "reference_images", None)
        if images is not None:  # WinClip keeps its few reference images, as it encodes them
            self.keep([self._encode([images.to(device_of(self.model))])], (images.shape[-2], images.shape[-1]))
        features, _ = self._collected()
        if held_out is None and len(features) < FEWEST_FOLDED:
            raise DataError(
                f"LotCalibrator needs at least {FEWEST_FOLDED} training images to score them out of fold, got "
                f"{len(features)}: pass good images of the lot as held_out=."
            )
        return features

    def _unfitted(self) -> Correction:
        named = self.correction
        correction = CORRECTIONS[named]() if isinstance(named, str) else copy.copy(named)
        if self._adapter is None:
            correction.on = "test"
        return correction

    def _install(
        self, fitted: Correction, reference: Features | None, calibration: Features | None
    ) -> tuple[GoodScores, GoodScores]:
        """Rebuild the reference and insert the correction; the scores of good parts if `calibration` is given."""
        own = lot = NONE
        if self._adapter is not None and reference is not None and fitted.on != "test":
            corrected = fitted.apply_reference(reference)
            with seeded(self.seed, device_of(self.model)):
                self._adapter.rebuild(self.model, corrected)
            if calibration is not None:
                built = self._reference_state()
                chosen = self._adapter.chosen(self.model, corrected)
                test = corrected[: len(reference)] if fitted.on == "both" else reference
                own = self._out_of_fold(test, corrected, chosen)
                lot = self._leave_one_out(calibration, reference, chosen)
                self._restore_reference(built)
        if fitted.on != "reference":
            setattr(self.model.model, LAYER, layer_of(fitted).to(device_of(self.model)))
            self._place.insert(self.model)
        return own, lot

    def _out_of_fold(self, test: Features, corrected: Features, chosen: Tensor | None) -> GoodScores:
        """Scores of the training images, each against a reference without it."""
        adapter, (_, size) = self._two_sided(), self._collected()
        fold = torch.arange(len(corrected)) % min(self.folds, len(corrected))
        image, pixel = torch.empty(len(test)), torch.empty(len(test))
        for number in range(int(fold.max()) + 1):
            out = fold == number
            adapter.rebuild_without(self.model, corrected, chosen, out)
            scored = out[: len(test)].nonzero().flatten()
            image[scored], pixel[scored] = score_features(adapter, self.model, test[scored], size=size)
        return image, pixel

    def _leave_one_out(self, calibration: Features, reference: Features, chosen: Tensor | None) -> GoodScores:
        """Scores of the lot's images, each by what the others alone would have calibrated; none with fewer than 3."""
        adapter, (_, size), k = self._two_sided(), self._collected(), len(calibration)
        scored: list[GoodScores] = [NONE]
        for left in range(k) if k >= FEWEST_LEFT_OUT else ():
            correction = self._unfitted()
            rank = getattr(correction, "rank", None)
            if rank is not None:
                correction.rank = min(rank, k - 2)  # type: ignore[attr-defined]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvidenceWarning)  # said once already
                fitted = correction.fit(calibration[[i for i in range(k) if i != left]], reference)
            corrected = fitted.apply_reference(reference)
            nothing_out = torch.zeros(len(corrected), dtype=torch.bool)
            adapter.rebuild_without(self.model, corrected, chosen, nothing_out)
            one = calibration[[left]]
            scored.append(
                score_features(adapter, self.model, fitted.apply(one) if fitted.on == "both" else one, size=size)
            )
        images, pixels = zip(*scored, strict=True)
        return torch.cat(images), torch.cat(pixels)

    def _reference_state(self) -> dict[str, Any]:
        names = () if self._adapter is None else self._adapter.state
        return {name: attrgetter(name)(self.model.model) for name in names}

    def _restore_reference(self, state: dict[str, Any]) -> None:
        device = device_of(self.model)
        for name, value in state.items():
            owner, _, attribute = name.rpartition(".")
            moved = [x.to(device) for x in value] if isinstance(value, list) else value.to(device)
            setattr(self.model.model.get_submodule(owner), attribute, moved)
