"""Training features on disk: named by what they hold, memory-mapped, appended to without encoding anything again.

A shard is one safetensors file with the features of up to SHARD images; its header says which. Its file name is the
SHA-256 of its bytes, so that damage is seen before anything is built from it. An image is known by the hash of its
content; the store belongs to one encoder, whose id is in every header. Shards appear whole or not at all, so that
work which was cut short is picked up where the last shard ended.

Features are kept in half precision, and in single precision where they do not fit its range. They come back as
float32. Scores move by less than one part in a thousand; docs/reference/station.md has the measurement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparcal.errors import ArtifactError
from sparcal.files.atomic import atomic_path
from sparcal.files.hashing import file_digest
from sparcal.imaging.camera_format import CameraFormat
from sparcal.imaging.encode import EncodedImage
from sparcal.imaging.preprocess import Geometry
from sparcal.types import Features, Grids

SHARD = 16
HALF_LIMIT = 60000.0  # a little below the largest half-precision number
_SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Note:
    """Where an image's features are, where its cells lie in it, and whether it is grey."""

    shard: Path
    row: int
    geometry: Geometry
    grey: bool

    @property
    def kind(self) -> CameraFormat:
        """Size and colour."""
        return (*self.geometry.native, self.grey)


@dataclass(eq=False)
class FeatureStore:
    """The features of a station's training images.

    Args:
        encoder_id: whose features these are; shards of another encoder are refused.
    """

    folder: Path
    encoder_id: str
    _notes: dict[str, Note] = field(default_factory=dict, init=False, repr=False)
    _read: set[Path] = field(default_factory=set, init=False, repr=False)

    def refresh(self) -> Self:
        """Read the headers of shards that have appeared since the last look."""
        for shard in sorted(self.folder.glob(f"*{_SUFFIX}")):
            if shard in self._read or shard.name.startswith("."):
                continue
            header = _header(shard)
            if header.get("encoder") != self.encoder_id:
                raise ArtifactError(
                    f"The features in {shard} must be of the encoder {self.encoder_id}, got {header.get('encoder')}: "
                    "fit in a new folder."
                )
            try:
                self._take_in(shard, header["images"])
            except (KeyError, TypeError, ValueError) as error:
                raise _damaged(shard) from error
        return self

    @staticmethod
    def encoder_in(folder: Path) -> str | None:
        """The encoder whose features are in a folder, for instance from work that was cut short; None for none."""
        shard = next((x for x in sorted(folder.glob(f"*{_SUFFIX}")) if not x.name.startswith(".")), None)
        return None if shard is None else str(_header(shard).get("encoder"))

    def __contains__(self, key: object) -> bool:
        return key in self._notes

    @property
    def grids(self) -> Grids | None:
        """(h, w, d) of each level, None for an empty store."""
        if not self._read:
            return None
        shard = next(iter(self._read))
        try:
            with safe_open(shard, framework="pt") as opened:
                shapes = [opened.get_slice(name).get_shape() for name in _levels(opened)]
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(shard) from error
        return tuple((h, w, d) for _, h, w, d in shapes)

    def require(self, keys: Sequence[str]) -> None:
        """Raise ArtifactError where features of some of these images are missing."""
        missing = sum(key not in self for key in keys)
        if missing:
            raise ArtifactError(
                f"The features of {missing} of {len(keys)} training images are not in {self.folder}: "
                "restore the folder from a copy, or fit again."
            )

    def note(self, key: str) -> Note:
        """Where the image's cells lie, and whether it is grey."""
        return self._notes[key]

    def add(self, images: Sequence[EncodedImage]) -> None:
        """Write one shard."""
        joined = Features.cat([image.features for image in images])
        tensors = {f"level{i}": _short(level) for i, level in enumerate(joined.levels)}
        if joined.cls is not None:
            tensors["cls"] = joined.cls.to("cpu", torch.float32).contiguous()
        entries = [{"sha256": x.sha256, "geometry": x.geometry.to_json(), "grey": x.grey} for x in images]
        note = json.dumps({"encoder": self.encoder_id, "images": entries})
        self.folder.mkdir(parents=True, exist_ok=True)
        # Written under a name of its own first: the final name depends on the bytes.
        draft = self.folder / f".{images[0].sha256[:16]}.draft"
        with atomic_path(draft) as temporary:
            save_file(tensors, temporary, metadata={"sparcal": note})
        target = self.folder / f"{file_digest(draft)}{_SUFFIX}"
        draft.replace(target)
        self._take_in(target, entries)

    def load(self, keys: Sequence[str]) -> Features:
        """The features of these images, in order, as float32; every shard is checked against its name."""
        self.require(keys)
        rows: dict[Path, list[tuple[int, int]]] = {}
        for position, key in enumerate(keys):
            note = self._notes[key]
            rows.setdefault(note.shard, []).append((position, note.row))
        levels: list[Tensor] = []
        cls: Tensor | None = None
        for shard, wanted in rows.items():
            mapped, vectors = _open(shard)
            if not levels:
                levels = [torch.empty(len(keys), *x.shape[1:]) for x in mapped]
                cls = None if vectors is None else torch.empty(len(keys), vectors.shape[1])
            for position, row in wanted:
                for level, values in zip(levels, mapped, strict=True):
                    level[position] = values[row]
                if cls is not None and vectors is not None:
                    cls[position] = vectors[row]
        return Features(tuple(levels), cls)

    def _take_in(self, shard: Path, entries: list[dict[str, Any]]) -> None:
        for row, entry in enumerate(entries):
            note = Note(shard, row, Geometry.from_json(entry["geometry"]), bool(entry["grey"]))
            self._notes.setdefault(entry["sha256"], note)
        self._read.add(shard)


def _short(level: Tensor) -> Tensor:
    fits = float(level.abs().max()) < HALF_LIMIT
    return level.to("cpu", torch.float16 if fits else torch.float32).contiguous()


def _header(shard: Path) -> dict[str, Any]:
    if not shard.is_file():  # a pipe would be waited for, without end
        raise _damaged(shard)
    try:
        with safe_open(shard, framework="pt") as opened:
            note: dict[str, Any] = json.loads((opened.metadata() or {})["sparcal"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise _damaged(shard) from error
    return note


def _open(shard: Path) -> tuple[list[Tensor], Tensor | None]:
    """The shard's tensors, mapped from the file."""
    try:
        whole = file_digest(shard) == shard.stem
    except OSError as error:
        raise _damaged(shard) from error
    if not whole:
        raise _damaged(shard)
    with safe_open(shard, framework="pt") as opened:
        cls = opened.get_tensor("cls") if "cls" in opened.keys() else None  # noqa: SIM118
        return [opened.get_tensor(name) for name in _levels(opened)], cls


def _levels(opened: Any) -> list[str]:
    return sorted((name for name in opened.keys() if name != "cls"), key=lambda name: int(name[5:]))  # noqa: SIM118


def _damaged(shard: Path) -> ArtifactError:
    return ArtifactError(
        f"The feature file {shard} was expected to be as it was written, got a damaged one: restore it from a copy, "
        "or delete it and fit again, which encodes its images anew."
    )
