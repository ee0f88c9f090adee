"""Runs a unit and makes its row: features from the cache, base and corrected scores of the same images, metrics."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from sparcal.bench.datasets import Record, list_records
from sparcal.bench.datasets.rendered import RENDERED
from sparcal.bench.metrics import METRICS
from sparcal.bench.plan.combinations import check_combination, correction_options
from sparcal.bench.plan.contenders import Contender, category_words, load_contender
from sparcal.bench.plan.protocol import CalibrationDraw, make_draw
from sparcal.bench.plan.unit import BATCHNORM, Unit
from sparcal.bench.plan.variant import Variant
from sparcal.bench.run.cache import FeatureCache
from sparcal.bench.run.category import CategoryFeatures
from sparcal.bench.run.diagnosis import diagnose
from sparcal.bench.run.measure import example_image, measure
from sparcal.bench.run.pictures import ExamplePicture, take_picture
from sparcal.bench.run.row import ResultRow, new_row
from sparcal.bench.run.sources import code_digest
from sparcal.bench.run.workplace import Workplace
from sparcal.corrections import CORRECTIONS
from sparcal.devices import float64_device
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.encoders.timm import TimmEncoder
from sparcal.errors import DataError
from sparcal.files.hashing import words_digest
from sparcal.imaging.preprocess import Geometry
from sparcal.imaging.read import read_batches
from sparcal.score import score_lot
from sparcal.sparc import EvidenceWarning
from sparcal.types import Correction, Detector, Encoder, Features, Scores


class Evaluator:
    """Runs units; keeps the last encoder and the last category's features, so neighbouring units are cheap."""

    def __init__(self, workplace: Workplace) -> None:
        self._place = workplace
        self._cache = FeatureCache(Path(workplace.cache), limit=workplace.cache_limit, precision=workplace.precision)
        self._contender: tuple[tuple[object, ...], Contender] | None = None
        self._lot: tuple[tuple[object, ...], CategoryFeatures] | None = None

    def run(self, unit: Unit) -> tuple[ResultRow, ExamplePicture | None]:
        """The row of a unit, and its picture where one is wanted."""
        clock = _Clock()
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)  # full-normal shows more than 8 images on purpose
            variant = Variant.parse(unit.variant)
            check_combination(unit.host, unit.correction, variant)
            root = self._place.root(unit.dataset)
            layout = "folder" if unit.dataset == RENDERED else unit.dataset
            records = list_records(layout, root, category=unit.category)
            draw = make_draw(
                records, dataset=unit.dataset, category=unit.category, k=unit.k, seed=unit.seed, variant=variant
            )
            row = new_row(unit, draw, root, self._place)
            row["evaluation"] = self._digest(draw.evaluated)
            if draw.undefined:
                return {**row, "status": "undefined", "reason": draw.undefined, **clock.seconds()}, None
            contender = self._load(unit)
            row |= {"encoder_id": contender.encoder.id, "detector": repr(contender.detector)}
            with clock("extract_s"):
                lot, row["extracted"] = self._features(unit, contender, records)
            if contender.detector is None:
                with clock("correct_s"):
                    row["diagnostics"] = diagnose(lot.take(draw.calibration), lot, draw)
                return {**row, **clock.seconds()}, None
            comparison = _Comparison(unit, variant, draw, contender.detector, lot)
            geometries = [lot.geometries[i] for i in lot.positions(draw.evaluated)]
            with clock("base_s"):
                base = self._base(comparison, contender)
            with clock("measure_s"):
                metrics = self._base_metrics(comparison, contender, base, geometries)
            row |= {f"base_{name}": metrics[name] for name in METRICS}
            corrected, rule = base, contender.detector.map_rule
            if unit.correction != "identity":
                with clock("correct_s"):
                    lot, correction = self._correction(comparison, contender, records)
                    reference = lot.reference if contender.needs_reference else None
                    corrected = self._score(
                        contender.detector, lot.take(draw.evaluated), reference, lot.take(draw.calibration), correction
                    )
                with clock("measure_s"):
                    metrics = measure(draw.evaluated, corrected, geometries, rule)
            row |= {f"corrected_{name}": metrics[name] for name in METRICS}
            picture = None
            if unit.picture:
                position = example_image(draw.evaluated, geometries)
                picture = take_picture(draw.evaluated[position], geometries[position], position, base, corrected, rule)
            return {**row, **clock.seconds()}, picture

    def _load(self, unit: Unit) -> Contender:
        key = (unit.host, unit.encoder, unit.weights, unit.prompts, unit.settings, category_words(unit))
        if self._contender is None or self._contender[0] != key:
            self._contender = None  # let the old network go before the new one comes
            self._contender = (key, load_contender(unit, self._place.device))
        return self._contender[1]

    def _features(self, unit: Unit, contender: Contender, records: Sequence[Record]) -> tuple[CategoryFeatures, int]:
        needs_train = contender.needs_reference or Variant.parse(unit.variant).source == "train"
        masked = contender.detector if contender.masks_foreground else None
        key = (unit.dataset, unit.category, contender.encoder.id, needs_train, repr(masked))
        if self._lot is None or self._lot[0] != key:
            self._lot = None
            lot, extracted = self._encode(contender, contender.encoder, records, needs_train, keep=True)
            self._lot = (key, lot)
            return lot, extracted
        return self._lot[1], 0

    def _encode(
        self, contender: Contender, encoder: Encoder, records: Sequence[Record], train: bool, *, keep: bool
    ) -> tuple[CategoryFeatures, int]:
        reference = tuple(r for r in records if r.split == "train") if train else ()
        test = tuple(r for r in records if r.split == "test")
        images = [record.image for record in (*reference, *test)]
        encoded = self._cache.features(encoder, images, keep=keep)
        features, n = contender.prepare(encoded.features), len(reference)
        lot = CategoryFeatures(features[:n] if n else None, reference, features[n:], test, encoded.geometries[n:])
        return lot, encoded.extracted

    def _base(self, comparison: _Comparison, contender: Contender) -> Scores:
        """Scores of the evaluated images without correction, computed once for all units that share them."""
        lot, draw, detector = comparison.lot, comparison.draw, comparison.detector
        alone = detector.family != "mutual" and not contender.uses_calibration_as_reference
        scored = lot.test_records if alone else draw.evaluated  # each image on its own: all at once serve every draw
        reference = lot.reference if contender.needs_reference else None
        if contender.uses_calibration_as_reference:
            reference = lot.take(draw.calibration)

        def compute() -> dict[str, Tensor]:
            scores = self._score(detector, lot.take(scored), reference, None, CORRECTIONS["identity"]())
            return {"image": scores.image, "cell": scores.cell}

        words = (*self._base_words(comparison, contender), self._digest(scored))
        kept = self._cache.remember(("scores", *words), compute)
        scores = Scores(kept["image"], kept["cell"])
        return scores[lot.positions(draw.evaluated)] if alone else scores

    def _base_words(self, comparison: _Comparison, contender: Contender) -> tuple[str, ...]:
        """What decides base scores, apart from the scored images."""
        lot, draw = comparison.lot, comparison.draw
        reference = draw.calibration if contender.uses_calibration_as_reference else ()
        if contender.needs_reference:
            reference = lot.reference_records
        prompts = comparison.unit.prompts
        return (
            code_digest(),
            repr(comparison.detector),
            contender.encoder.id,
            self._cache.digest(Path(prompts)) if prompts else "",
            category_words(comparison.unit),
            self._digest(reference),
            f"{self._place.device} {self._place.threads}",
        )

    def _base_metrics(
        self, comparison: _Comparison, contender: Contender, base: Scores, geometries: list[Geometry]
    ) -> dict[str, float]:
        evaluated = comparison.draw.evaluated

        def compute() -> dict[str, Tensor]:
            numbers = measure(evaluated, base, geometries, comparison.detector.map_rule)
            return {"metrics": torch.tensor([numbers[name] for name in METRICS], dtype=torch.float64)}

        masks = [self._cache.digest(record.mask) for record in evaluated if record.mask]
        words = (*self._base_words(comparison, contender), self._digest(evaluated), *masks)
        kept = self._cache.remember(("metrics", *words), compute)
        return dict(zip(METRICS, kept["metrics"].tolist(), strict=True))

    def _correction(
        self, comparison: _Comparison, contender: Contender, records: Sequence[Record]
    ) -> tuple[CategoryFeatures, Correction]:
        """The correction of a unit and the features it meets: batchnorm corrects the encoder, the others its output."""
        unit, variant = comparison.unit, comparison.variant
        if unit.correction != BATCHNORM:
            return comparison.lot, make_correction(unit.correction, variant)
        adapted = self._adapt(contender.encoder, comparison.draw, variant.source_weight or 0)
        lot, _ = self._encode(contender, adapted, records, contender.needs_reference, keep=False)
        return lot, CORRECTIONS["identity"]()

    def _score(
        self,
        detector: Detector,
        test: Features,
        reference: Features | None,
        calibration: Features | None,
        correction: Correction,
    ) -> Scores:
        """`score_lot` on the run's device; the scores return to the CPU."""
        device = float64_device(torch.device(self._place.device))
        here = [None if x is None else x.to(device) for x in (test, reference, calibration)]
        moved_test, moved_reference, moved_calibration = here
        assert moved_test is not None
        scores = score_lot(
            copy.copy(detector),
            moved_test,
            reference=moved_reference,
            calibration=moved_calibration if moved_calibration is not None else moved_test[:0],
            correction=correction,
        )
        return Scores(scores.image.cpu(), scores.cell.cpu())

    def _adapt(self, encoder: Encoder, draw: CalibrationDraw, source_weight: int) -> TimmEncoder:
        if not isinstance(encoder, TimmEncoder):
            raise DataError(
                f"batchnorm needs a timm encoder that torch computes, got {encoder.id}: use a ResNet or EfficientNet of timm, "
                "and no other runtime."
            )
        images = [record.image for record in draw.calibration]
        batch = next(read_batches(images, encoder.preprocess, batch_size=len(images)))
        if batch.failures:
            raise DataError(batch.failures[0].reason)
        return adapt_batchnorm(encoder, batch.pixels, source_weight=source_weight)

    def _digest(self, records: Sequence[Record]) -> str:
        return words_digest(self._cache.digest(record.image) for record in records)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """What base and corrected share."""

    unit: Unit
    variant: Variant
    draw: CalibrationDraw
    detector: Detector
    lot: CategoryFeatures


class _Clock:
    """Seconds per phase, and of the processor since the start."""

    def __init__(self) -> None:
        self._started = time.process_time()
        self._phases: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self._phases[phase] = self._phases.get(phase, 0.0) + time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        return {**self._phases, "cpu_s": time.process_time() - self._started}


def make_correction(name: str, variant: Variant) -> Correction:
    """The correction of that name, with the rank and side that the variant asks for."""
    options = {option: getattr(variant, option) for option in correction_options(name)}
    return CORRECTIONS[name](**{option: value for option, value in options.items() if value is not None})
