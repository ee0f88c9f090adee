"""Where pretrained weights come from: a file the user names, the folder $SPARCAL_WEIGHTS, or the model hub."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.encoders.spec import RANDOM_WEIGHTS, require_weight_file
from sparcal.errors import WeightsError
from sparcal.files.hashing import file_digest

FOLDER_VARIABLE = "SPARCAL_WEIGHTS"
WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
WeightTensors = dict[str, Tensor]


def find_weights(model: str, weights: str | Path | None) -> str | Path | None:
    """The file to load for `model`, "random:SEED" where that was asked for, or None for the hub."""
    if isinstance(weights, str) and weights.startswith(RANDOM_WEIGHTS):
        if not weights.removeprefix(RANDOM_WEIGHTS).isdecimal():
            raise WeightsError(
                f"Random weights need a seed, as in {RANDOM_WEIGHTS}0, got {weights!r}: give a whole number."
            )
        return weights
    if weights is not None:
        require_weight_file(model, weights)
        return Path(weights)
    folder = os.environ.get(FOLDER_VARIABLE)
    stem = model.replace("/", "_")
    candidates = [Path(folder) / f"{stem}{suffix}" for suffix in WEIGHT_SUFFIXES] if folder else []
    return next((path for path in candidates if path.is_file()), None)


def load_into(model: nn.Module, source: str | Path, *, tidy: Callable[[WeightTensors], WeightTensors] = dict) -> str:
    """Load `source` into `model`, every tensor accounted for; returns a short note that identifies the weights.

    Args:
        tidy: takes a file's tensors to the names that the model uses.
    """
    if isinstance(source, str):
        seed = int(source.removeprefix(RANDOM_WEIGHTS))
        _randomise(model, seed)
        return f"random-{seed}"
    state = tidy(read_weights(source))
    own = model.state_dict()
    extra = [name for name in state if name not in own and not name.startswith(("head", "fc", "classifier"))]
    missing = [name for name in own if name not in state]
    wrong = [name for name, tensor in state.items() if name in own and tensor.shape != own[name].shape]
    if extra or missing or wrong:
        what = f"{len(missing)} tensors are missing, {len(extra)} are unknown, {len(wrong)} have another shape"
        raise WeightsError(
            f"The weight file {source.name} does not fit {type(model).__name__}: {what} "
            f"(first: {(missing + extra + wrong)[0]}); give the file of the model that the encoder names."
        )
    model.load_state_dict({name: state[name].to(own[name].dtype) for name in own})
    return f"sha256-{file_digest(source)[:16]}"


def read_weights(path: Path, *, inside: tuple[str, ...] = ("state_dict", "model")) -> WeightTensors:
    """The tensors of a weight file, read without running anything that is in it.

    Args:
        inside: entries of the file that hold the tensors, where it has more than tensors.
    """
    if _is_torchscript(path):
        raise WeightsError(
            f"The weight file {path.name} must hold tensors only, got a TorchScript archive, which holds code: if you "
            f"trust it, save torch.jit.load('{path.name}', map_location='cpu').state_dict() once with "
            f"safetensors.torch.save_file as {path.stem}.safetensors and use that."
        )
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state: Any = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:  # the file may be sound
        raise
    except Exception as error:  # every loader has its own error types; all mean that the file cannot be used
        reason = str(error).split("\n")[0][:200]
        raise WeightsError(
            f"The weight file {path.name} cannot be read as safetensors or plain tensors: {reason}"
        ) from error
    for key in inside:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(
            f"The weight file {path.name} must hold a dictionary of tensors, got {type(state).__name__}."
        )
    return state


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def weights_error(model: str, cause: Exception) -> WeightsError:
    """The sentence for weights that no source could give."""
    reason = str(cause).split("\n")[0].split(". ")[0][:160].rstrip(".")
    return WeightsError(
        f"The pretrained weights of {model} are not in the hub's cache and could not be fetched ({reason}): "
        f"put the file {model.replace('/', '_')}.safetensors into the folder that the environment variable "
        f"{FOLDER_VARIABLE} names, pass its path with --weights (weights= in Python), or take the encoder that needs no "
        "hub, --encoder bundled."
    )


def _randomise(model: nn.Module, seed: int) -> None:
    """Fill every parameter from `seed` alone, at a scale that keeps activations alive."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                fan_in = max(1, math.prod(parameter.shape[1:]))
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * fan_in**-0.5)
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
