"""Features on disk, extracted once per image and encoder, shared by every unit, process and machine that sees the folder.

An entry is named after what it holds: the hash of the image's bytes and the encoder's id. It is one safetensors file,
written beside its place and renamed, so that readers see all of it or nothing; two writers of an entry write the same
bytes, and the second rename changes nothing. Entries are read memory-mapped. When the folder outgrows
its limit, the entries unused for longest go; a process that still has one mapped keeps it, as on any POSIX system.

Images are encoded one at a time. Features then depend on the image alone, never on its neighbours in a batch.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparcal.errors import DataError
from sparcal.files.atomic import atomic_path
from sparcal.files.full_disk import needs_room, require_free_room
from sparcal.files.hashing import file_digest, words_digest
from sparcal.imaging.preprocess import Geometry
from sparcal.imaging.read import read_batches
from sparcal.types import Encoder, Features

Precision = Literal["float32", "float16"]

# The folder is measured again after this share of the limit has been written, and then emptied to this much below it.
_SLACK = 0.05
_FEATURES, _RESULTS = "features", "results"  # folders below the root, which are the cache's alone
_GROUP = 8  # images that are encoded before looking again at what other processes have written
_STALE_S = 3600.0  # a temporary file this old belongs to a process that was killed


@dataclass(frozen=True, eq=False)
class CachedFeatures:
    """Features of images, in order, with the geometry of each image, and how many this call had to extract."""

    features: Features
    geometries: list[Geometry]
    extracted: int


@dataclass(eq=False)
class FeatureCache:
    """A folder of features, and of small results that several units share.

    Args:
        limit: bytes that the folder may hold; None for no limit.
        precision: how features are stored; "float16" takes half the room and rounds them. They come back as float32.
    """

    root: Path
    limit: int | None = None
    precision: Precision = "float32"
    _digests: dict[tuple[str, int, int], str] = field(default_factory=dict, init=False, repr=False)
    _written: float = field(default=float("inf"), init=False, repr=False)  # measure the folder at the first write

    def __post_init__(self) -> None:
        if self.precision not in get_args(Precision):
            raise DataError(
                f"The cache stores {' or '.join(get_args(Precision))}, got {self.precision!r}: choose one of them."
            )
        if self.limit is not None and self.limit <= 0:
            raise DataError(f"The cache's limit must be above 0 bytes, got {self.limit}: leave it out for no limit.")

    def features(self, encoder: Encoder, images: Sequence[Path], *, keep: bool = True) -> CachedFeatures:
        """Features of image files on the CPU, read from the folder where it has them.

        Args:
            keep: False neither looks into the folder nor writes to it, for encoders that are used once.
        """
        if not keep:
            parts = list(self._encoded(encoder, images))
            return _joined([part for part, _ in parts], [geometry for _, geometry in parts], len(images))
        places = [self._place(encoder, image) for image in images]
        missing = {place: image for image, place in zip(images, places, strict=True) if not place.exists()}
        extracted = self._extract(encoder, missing)
        features, geometries = [], []
        for image, place in zip(images, places, strict=True):
            entry = _read_entry(place)
            if entry is None:  # removed in between, because the limit is smaller than what this call needs
                entry = next(self._encoded(encoder, [image]))
                extracted += 1
            features.append(entry[0])
            geometries.append(entry[1])
        return _joined(features, geometries, extracted)

    def remember(self, key: Iterable[str], compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """A few named tensors that another unit may have computed already.

        Args:
            key: every word that decides them.
        """
        place = self.root / _RESULTS / f"{words_digest((*key, self.precision))}.safetensors"
        stored = _read(place)
        if stored is not None:
            return stored[0]
        tensors = {name: tensor.cpu() for name, tensor in compute().items()}
        self._write(place, tensors, {})
        return tensors

    def digest(self, file: Path) -> str:
        """SHA-256 of a file's bytes; a file is read again only when its size or time changes."""
        status = file.stat()
        known = (str(file), status.st_size, status.st_mtime_ns)
        if known not in self._digests:
            self._digests[known] = file_digest(file)
        return self._digests[known]

    def trim(self) -> int:
        """Remove leftovers of killed processes and the entries unused for longest; returns the bytes that remain."""
        entries = sorted(self._entries(), key=lambda entry: (entry.used, entry.path.name))
        total = sum(entry.size for entry in entries)
        if self.limit is None or total <= self.limit:
            return total
        for entry in entries:
            if total <= self.limit * (1 - _SLACK):
                break
            entry.path.unlink(missing_ok=True)
            total -= entry.size
        return total

    def _entries(self) -> Iterator[_Entry]:
        """What this cache wrote: other files may lie in its folder, rendered parts for one, and are nobody's to remove."""
        now = time.time()
        for folder, _, names in chain.from_iterable(os.walk(self.root / kind) for kind in (_FEATURES, _RESULTS)):
            for name in names:
                path = Path(folder, name)
                draft = name.startswith(".") and name.endswith(".tmp")
                if not draft and path.suffix != ".safetensors":
                    continue
                try:
                    status = path.stat()
                except FileNotFoundError:  # another process was faster
                    continue
                if draft:
                    if now - status.st_mtime > _STALE_S:
                        path.unlink(missing_ok=True)
                else:
                    yield _Entry(path, status.st_size, status.st_mtime)

    def _place(self, encoder: Encoder, image: Path) -> Path:
        try:
            digest = self.digest(image)
        except OSError as error:
            raise DataError(f"{image} must be a readable image file, got {error.strerror}: check the copy.") from error
        return self.root / _FEATURES / _folder(encoder.id, self.precision) / digest[:2] / f"{digest}.safetensors"

    def _extract(self, encoder: Encoder, missing: dict[Path, Path]) -> int:
        """Encode what is missing; processes that need the same images take them in different orders and share the work."""
        places = list(missing)
        groups = [places[first : first + _GROUP] for first in range(0, len(places), _GROUP)]
        random.Random(os.getpid()).shuffle(groups)
        count = 0
        for group in groups:
            todo = [place for place in group if not place.exists()]
            for place, entry in zip(todo, self._encoded(encoder, [missing[x] for x in todo]), strict=True):
                if group is groups[0] and place is todo[0]:
                    self._require_room(entry[0], len(places))
                self._keep(place, *entry)
            count += len(todo)
        return count

    def _require_room(self, one: Features, count: int) -> None:
        """Raise FullDiskError where features of `count` images like this one will not fit; a limit keeps them fewer."""
        needed = count * sum(level.nbytes for level in one.levels)
        what = f"Caching the features of {count} images"
        remedy = "give another folder (--cache), half precision (--precision float16) or a limit"
        require_free_room(self.root, min(needed, self.limit or needed), what, remedy)

    def _encoded(self, encoder: Encoder, images: Sequence[Path]) -> Iterator[tuple[Features, Geometry]]:
        """Features of each image, computed on its own while the next file is being read."""
        dtype = getattr(torch, self.precision)
        for batch in read_batches(images, encoder.preprocess, batch_size=1, workers=1):
            if batch.failures:
                raise DataError(batch.failures[0].reason)
            with torch.inference_mode():
                features = encoder(batch.pixels)
            levels = tuple(level.to("cpu", dtype).contiguous() for level in features.levels)
            cls = None if features.cls is None else features.cls.to("cpu", torch.float32).contiguous()
            yield Features(levels, cls), batch.geometries[0]

    def _keep(self, place: Path, features: Features, geometry: Geometry) -> None:
        tensors = {f"level{i}": level for i, level in enumerate(features.levels)}
        if features.cls is not None:
            tensors["cls"] = features.cls
        self._write(place, tensors, {"geometry": json.dumps(geometry.to_json())})

    def _write(self, place: Path, tensors: dict[str, Tensor], notes: dict[str, str]) -> None:
        with needs_room(self.root), atomic_path(place) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata=notes)
        self._written += sum(tensor.nbytes for tensor in tensors.values())
        if self.limit is not None and self._written > _SLACK * self.limit / 2:
            self.trim()
            self._written = 0.0


@dataclass(frozen=True)
class _Entry:
    path: Path
    size: int
    used: float


def _folder(encoder_id: str, precision: Precision) -> str:
    return f"{hashlib.sha256(encoder_id.encode()).hexdigest()[:24]}-{precision}"


def _read(place: Path) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    """The tensors of an entry, memory-mapped, and its notes; None if there is no such entry. Reading marks it as used."""
    try:
        with safe_open(place, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            notes: dict[str, Any] = opened.metadata() or {}
        os.utime(place)
    except FileNotFoundError:
        return None
    except SafetensorError:  # the disk damaged it: an entry is never half written
        place.unlink(missing_ok=True)
        return None
    return tensors, notes


def _read_entry(place: Path) -> tuple[Features, Geometry] | None:
    stored = _read(place)
    if stored is None:
        return None
    tensors, notes = stored
    count = sum(name.startswith("level") for name in tensors)
    features = Features(tuple(tensors[f"level{i}"] for i in range(count)), tensors.get("cls"))
    return features, Geometry.from_json(json.loads(notes["geometry"]))


def _joined(parts: list[Features], geometries: list[Geometry], extracted: int) -> CachedFeatures:
    grids = {part.grids for part in parts}
    if len(grids) > 1:
        sizes = ", ".join(sorted(" + ".join("x".join(map(str, grid)) for grid in each) for each in grids))
        raise DataError(
            f"All images of a category must give one grid, got {sizes} (h x w x d): their aspect ratios differ, so use "
            "an encoder with resize=square, a crop, or geometry=full-frame."
        )
    return CachedFeatures(Features.cat(parts).map(Tensor.float), geometries, extracted)
