"""Files: a calibrated model as a Lightning checkpoint, and the training features that every new lot starts from."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparcal.errors import ArtifactError
from sparcal.files.atomic import atomic_path
from sparcal.integrations.anomalib.adapters import WinClipAdapter, refuse_calibrated
from sparcal.integrations.anomalib.layers import layer_from_state
from sparcal.integrations.anomalib.model_thresholds import hold
from sparcal.integrations.anomalib.models import LAYER
from sparcal.integrations.anomalib.one_sided import ENCODERS, find_place
from sparcal.types import Features

LAYER_PREFIX = f"model.{LAYER}."
FEATURES_HEADER = "sparcal-anomalib-features"


def load_calibrated(model: Any, path: str | Path) -> Any:
    """Put the calibrated state of a checkpoint into `model` and return it.

    Args:
        model: of the same class and settings as the one that was saved, such as a new one; it need not be fitted.
    """
    refuse_calibrated(model)
    checkpoint = read_checkpoint(path, model)
    state: dict[str, Tensor] = checkpoint["state_dict"]
    own = {name.removeprefix(LAYER_PREFIX): value for name, value in state.items() if name.startswith(LAYER_PREFIX)}
    if not own:
        raise ArtifactError(
            f"The checkpoint {path} holds no correction, got a model as it was trained: load it with "
            f"{type(model).__name__}.load_from_checkpoint."
        )
    adapter, place = find_place(model, test_side_only=type(model).__name__ in ENCODERS)
    setattr(model.model, LAYER, layer_from_state(own))
    place.insert(model)
    try:
        model.on_load_checkpoint(checkpoint)
        model.load_state_dict(state)
    except (RuntimeError, KeyError) as error:
        place.remove(model)
        delattr(model.model, LAYER)
        raise ArtifactError(
            f"The checkpoint {path} does not fit this {type(model).__name__}: build it with the settings that were saved "
            f"({' '.join(str(error).split())[:200]})."
        ) from error
    if model.post_processor is not None:
        hold(model.post_processor)
    if isinstance(adapter, WinClipAdapter):
        adapter.resume(model)
    return model


def write_checkpoint(model: Any, path: str | Path) -> Path:
    """Write `model` as Lightning does, trained by this process or not."""
    trainer = Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.strategy.connect(model)
    with atomic_path(Path(path)) as temporary:
        trainer.save_checkpoint(temporary, weights_only=True)
    return Path(path)


def read_checkpoint(path: str | Path, model: Any) -> dict[str, Any]:
    """The content of a Lightning checkpoint of `model`'s class, without running code from it."""
    source = Path(path)
    if not source.is_file():
        raise ArtifactError(f"The checkpoint {source} was expected to be a file, got none there: check the path.")
    try:
        with safe_globals(model):
            checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ArtifactError(
            f"The checkpoint {source} is damaged, or cannot be read without running code from it: write it with "
            "LotCalibrator.save_checkpoint and anomalib 2.7 or newer."
        ) from error
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("state_dict"), dict):
        raise ArtifactError(
            f"The file {source} holds no Lightning state_dict: give a checkpoint of a calibrated model."
        )
    return checkpoint


def safe_globals(model: Any) -> Any:
    """What anomalib allows in a checkpoint of this model beside tensors and plain values."""
    try:
        from anomalib.utils.serialization import anomalib_safe_globals
    except ModuleNotFoundError:  # before 2.7
        from anomalib import PrecisionType

        return torch.serialization.safe_globals([PrecisionType])
    return anomalib_safe_globals(extra=model.checkpoint_safe_globals())


def write_features(features: Features, path: str | Path, *, model: str, image_size: tuple[int, int]) -> Path:
    """Write training features to one safetensors file, whole or not at all."""
    tensors = {f"level.{i}": level.contiguous() for i, level in enumerate(features.levels)}
    if features.cls is not None:
        tensors["cls"] = features.cls.contiguous()
    header = {"model": model, "levels": len(features.levels), "image_size": list(image_size)}
    target = Path(path)
    with atomic_path(target) as temporary:
        save_file(tensors, temporary, metadata={FEATURES_HEADER: json.dumps(header)})
    return target


def read_features(path: str | Path, *, model: str) -> tuple[Features, tuple[int, int]]:
    """Training features and image size that `write_features` wrote for the same kind of model."""
    source = Path(path)
    try:
        with safe_open(source, framework="pt") as opened:
            header = json.loads((opened.metadata() or {})[FEATURES_HEADER])
            tensors: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        features = Features(tuple(tensors[f"level.{i}"] for i in range(header["levels"])), tensors.get("cls"))
        height, width = header["image_size"]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"The file {source} is missing, damaged or not written by LotCalibrator.save_features: collect them again."
        ) from error
    if header["model"] != model:
        raise ArtifactError(
            f"The features in {source} are of a {header['model']}, got a {model} to calibrate: give that model's own."
        )
    return features, (height, width)
