"""A lot's state as one small file, which replaces the lot inside a graph that was exported before. No torch here.

The file is safetensors: one tensor per name that the graph takes, and a header with the lot's name, the signature of
the graphs it fits and a digest of its own contents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparcal.errors import ArtifactError, DataError, MissingExtraError, ShapeError
from sparcal.imaging.camera_format import CameraFormat

STATE_FORMAT = 1
STATE_HEADER = "sparcal-lot-state"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class LotFacts:
    """What is known about a lot beside its graph.

    Args:
        name: None for a station's own reference, before any lot.
        pixel_threshold: a map is anomalous where it is higher.
        outside: what a map says where the encoder never looked; None for a value below all others of the image.
        kinds: (H, W, grey) of the images it was calibrated on; see `sparcal.imaging.camera_format`.
    """

    name: str | None
    pixel_threshold: float | None = None
    outside: float | None = None
    kinds: tuple[CameraFormat, ...] = ()

    @property
    def title(self) -> str:
        """The lot at the start of a sentence."""
        return "The station's own reference" if self.name is None else f"The lot {self.name!r}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LotFacts:
        """The facts as `asdict` gave them, back from JSON."""
        kinds = tuple((int(h), int(w), bool(grey)) for h, w, grey in data["kinds"])
        return cls(data["name"], data["pixel_threshold"], data["outside"], kinds)


@dataclass(frozen=True, eq=False)
class LotState:
    """What one lot decided, for the graphs of one signature."""

    facts: LotFacts
    signature: str
    arrays: Arrays

    @property
    def threshold(self) -> float:
        """An image with a larger score is anomalous."""
        return float(self.arrays["threshold"])

    @property
    def digest(self) -> str:
        """SHA-256 of facts, names, types, shapes and values."""
        digest = sha256(json.dumps([asdict(self.facts), self.signature], sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def write_lot_state(state: LotState, path: str | Path) -> Path:
    """Write a lot's state, whole or not at all; returns its path."""
    from safetensors.numpy import save_file

    from sparcal.files.atomic import atomic_path, remove_left_behind
    from sparcal.files.full_disk import needs_room, require_free_room

    header = {"format": STATE_FORMAT, "lot": asdict(state.facts), "signature": state.signature, "digest": state.digest}
    target = Path(path)
    remove_left_behind(target.parent)
    size = sum(array.nbytes for array in state.arrays.values())
    require_free_room(target, size, "A lot's state", "choose a folder on a larger disk")
    with needs_room(target.parent), atomic_path(target) as temporary:
        save_file(state.arrays, temporary, metadata={STATE_HEADER: json.dumps(header)})
    return target


def read_lot_state(path: str | Path) -> LotState:
    """The state that `write_lot_state` wrote, checked against its own digest."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError(
            "A lot's state file needs safetensors, which is not installed: run pip install safetensors."
        ) from error
    source = Path(path)
    if not source.is_file():
        raise ArtifactError(f"A lot's state was expected at {source}, got no file there: check the path.")
    try:
        with safe_open(source, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"The lot's state {source} is damaged or not a safetensors file: {error}.") from error
    try:
        header = json.loads(metadata[STATE_HEADER])
        version, digest = header["format"], header["digest"]
        state = LotState(LotFacts.from_json(header["lot"]), header["signature"], arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{source} is not the state of a lot: write one with sparcal export --format state."
        ) from error
    if version != STATE_FORMAT:
        raise ArtifactError(
            f"The lot's state {source} has format {version}, this sparcal reads {STATE_FORMAT}: export it again."
        )
    if state.digest != digest:
        raise ArtifactError(
            f"The lot's state {source} does not match its own digest, so it was changed or damaged: export it again."
        )
    return state


def check_fits(state: LotState, signature: str, shapes: Mapping[str, tuple[int | str, ...]]) -> None:
    """Raise DataError unless a graph of that signature takes this state."""
    if state.signature != signature:
        raise DataError(
            f"{state.facts.title} must be of the station that the graph was exported from, got a state for another "
            "encoder, input size or detector: export the graph of its own station."
        )
    check_shapes({name: array.shape for name, array in state.arrays.items()}, shapes, state.facts.title)


def check_shapes(tensors: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int | str, ...]], who: str) -> None:
    """Raise ShapeError unless every tensor is there with its shape; an axis with a letter may have any length."""
    if set(tensors) != set(shapes):
        raise ShapeError(f"{who} must give the tensors {', '.join(shapes)}, got {', '.join(sorted(tensors))}.")
    for name, shape in shapes.items():
        got = tensors[name]
        fits = len(got) == len(shape) and all(
            isinstance(axis, str) or axis == length for axis, length in zip(shape, got, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"{who} must give {name} as ({', '.join(map(str, shape))}), got {got}: "
                "calibrate it with the encoder and image size of the graph."
            )
