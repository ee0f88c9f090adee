"""The test side of a fitted correction as an nn.Module, so that it moves, saves and exports with an anomalib model."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from sparcal.artifacts import load, save
from sparcal.errors import ArtifactError, DataError, ShapeError
from sparcal.sparc import SPARC
from sparcal.types import Correction, Features, fitted

Levels = tuple[Tensor, ...]  # (n, h, w, d) each


class SparcLayer(nn.Module):
    """f - V V^T (f - mu), Eq. 7, with one `mean_i` (h, w, d) and `basis_i` (h, w, s, d) buffer per level."""

    def __init__(self, mean: Levels, basis: Levels) -> None:
        super().__init__()
        self.count = len(mean)
        for i, (mu, v) in enumerate(zip(mean, basis, strict=True)):
            self.register_buffer(f"mean_{i}", mu.clone())
            self.register_buffer(f"basis_{i}", v.clone())

    def forward(self, levels: Levels) -> Levels:
        """Corrected levels, in plain tensor operations that every exporter knows."""
        corrected = []
        for i, f in enumerate(levels):
            mean, basis = self.get_buffer(f"mean_{i}"), self.get_buffer(f"basis_{i}")
            check_cells(f, mean)
            along = torch.einsum("nhwd,hwsd->nhws", f.to(mean.dtype) - mean, basis)
            corrected.append((f - torch.einsum("nhws,hwsd->nhwd", along, basis)).to(f.dtype))
        return tuple(corrected)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """An equal layer from its own state dict."""
        count = sum(name.startswith("mean_") for name in state)
        return cls(tuple(state[f"mean_{i}"] for i in range(count)), tuple(state[f"basis_{i}"] for i in range(count)))


class CorrectionLayer(nn.Module):
    """`apply` of any fitted correction; its tensors follow the module to other devices and travel as one artifact."""

    def __init__(self, correction: Correction) -> None:
        super().__init__()
        self.correction = copy.copy(correction)

    def forward(self, levels: Levels) -> Levels:
        return self.correction.apply(Features(levels)).levels

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.correction = with_tensors(self.correction, fn)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def get_extra_state(self) -> Tensor:
        """The correction as the bytes of a sparcal artifact: a checkpoint needs no pickle for it."""
        with tempfile.TemporaryDirectory() as folder:
            path = save(with_tensors(self.correction, torch.Tensor.cpu), Path(folder) / "correction")
            try:
                load(path)  # what reads a checkpoint has nobody to ask for a class
            except ArtifactError as error:
                raise DataError(
                    "A checkpoint takes sparcal's own corrections and registered ones, such as SPARC, got "
                    f"{type(self.correction).__name__}: offer its class under the entry point sparcal.corrections."
                ) from error
            return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        self.correction = read_correction(state)


def layer_of(correction: Correction) -> nn.Module:
    """The layer that corrects test features as `correction.apply` does."""
    if type(correction) is SPARC:
        return SparcLayer(fitted(correction, correction.mean_), fitted(correction, correction.basis_))
    return CorrectionLayer(correction)


def layer_from_state(state: Mapping[str, Tensor]) -> nn.Module:
    """The layer whose state dict, without prefix, is `state`."""
    if "_extra_state" in state:
        return CorrectionLayer(read_correction(state["_extra_state"]))
    return SparcLayer.from_state(state)


def read_correction(state: Tensor) -> Correction:
    """The correction that `CorrectionLayer.get_extra_state` wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "correction"
        path.write_bytes(bytes(state.cpu().tolist()))
        correction: Correction = load(path)
        return correction


def with_tensors(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of a correction with `change` applied to every tensor of its state."""
    changed = copy.copy(thing)
    for name, value in vars(thing).items():
        if isinstance(value, Tensor):
            setattr(changed, name, change(value))
        elif isinstance(value, tuple) and any(isinstance(part, Tensor) for part in value):
            setattr(changed, name, tuple(change(part) for part in value))
        elif name.endswith("_") and is_dataclass(value):
            setattr(changed, name, with_tensors(value, change))
    return changed


def check_cells(f: Tensor, mean: Tensor) -> None:
    """Raise ShapeError where an image of another size meets a calibrated model."""
    if f.shape[1:] != mean.shape:
        raise ShapeError(
            f"This model was calibrated on a grid (h, w, d) of {'x'.join(map(str, mean.shape))}, got "
            f"{'x'.join(map(str, f.shape[1:]))}: give it images of the size it was calibrated on."
        )
