"""Models that anomalib trains on uncorrected features: normalizing flows and distillation.

Their reference is a trained network, which cannot be rebuilt in closed form. Only the features of test images can be
corrected: the paper's one-sided variant, which it finds less reliable. LotCalibrator does this on request only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from sparcal.errors import DataError
from sparcal.integrations.anomalib.adapters import ADAPTERS, Adapter
from sparcal.integrations.anomalib.models import LAYER, Place
from sparcal.types import Features

# The torch model's frozen encoder, by the name of the Lightning class.
ENCODERS = {
    "Cflow": "encoder",
    "Csflow": "feature_extractor",
    "Fastflow": "feature_extractor",
    "ReverseDistillation": "encoder",
    "Uflow": "feature_extractor",
}

HOOK = "lot_correction_hook"

WARNING = (
    "{model} was trained on uncorrected features, so only test features are corrected here; the paper corrects both "
    "sides and finds one-sided correction less reliable: compare with the uncorrected model before you trust a lot to it."
)


def find_place(model: Any, *, test_side_only: bool) -> tuple[Adapter | None, Place]:
    """The adapter, or None for a model that is corrected on the test side alone, and where its features pass."""
    kind = type(model).__name__
    adapter = ADAPTERS.get(type(getattr(model, "model", None)))
    if adapter is not None and not test_side_only:
        return adapter, adapter.place
    if adapter is not None:
        raise DataError(
            f"{kind} is corrected on both sides, got test_side_only=True: leave it out, or pass SPARC(on='test')."
        )
    if kind not in ENCODERS:
        raise DataError(
            f"LotCalibrator works with Patchcore, Padim, AnomalyDINO and WinClip, and with {', '.join(ENCODERS)} on the "
            f"test side alone, got {kind}: its features cannot be corrected."
        )
    if not test_side_only:
        raise DataError(
            f"{kind} was trained on uncorrected features, which cannot be rebuilt, got test_side_only=False: use "
            "Patchcore, Padim, AnomalyDINO or WinClip, or ask for the weaker correction with test_side_only=True."
        )
    return None, EncoderPlace(ENCODERS[kind])


@dataclass(frozen=True)
class EncoderPlace:
    """The output of a frozen encoder, corrected by a forward hook."""

    encoder: str

    def site(self, model: Any) -> tuple[Any, str]:
        return getattr(model.model, self.encoder), "forward"

    def insert(self, model: Any) -> None:
        encoder = getattr(model.model, self.encoder)
        hook = encoder.register_forward_hook(partial(corrected_output, getattr(model.model, LAYER)))
        setattr(model.model, HOOK, hook)

    def remove(self, model: Any) -> None:
        getattr(model.model, HOOK).remove()
        delattr(model.model, HOOK)


def corrected_output(layer: nn.Module, _encoder: nn.Module, _inputs: Any, output: Any) -> Any:
    """The encoder's output with every map corrected."""
    maps = [x.permute(0, 3, 1, 2) for x in layer(map_levels(output).levels)]
    return dict(zip(output, maps, strict=True)) if isinstance(output, Mapping) else maps


def map_levels(output: Any) -> Features:
    """An encoder's list or dict of (n, d, h, w) maps as Features, one level each."""
    maps = list(output.values()) if isinstance(output, Mapping) else list(output)
    if not all(isinstance(x, Tensor) and x.ndim == 4 for x in maps):
        raise DataError(
            "Test-side correction needs an encoder that gives maps (n, d, h, w), got others: use a convolutional backbone."
        )
    return Features(tuple(x.permute(0, 2, 3, 1) for x in maps))
