"""Save and load fitted corrections and detectors: one safetensors file each, with JSON in its header. Never pickle.

The header holds the format version, the kind, the settings and a digest of everything, so that a damaged file, a
foreign file or a file of another version is refused before anything is built from it. Files appear whole or not
at all: they are written under another name and renamed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparcal.devices import find_device
from sparcal.errors import ArtifactError, DataError
from sparcal.files.atomic import atomic_path

ARTIFACT_FORMAT = 1
ARTIFACT_HEADER = "sparcal"


def save(thing: object, path: str | Path) -> Path:
    """Write a correction or detector, fitted or not, to one file; returns its path.

    >>> from sparcal import load, save
    >>> from sparcal.detectors import PatchCore
    >>> path = save(PatchCore(neighbours=3), "mine.safetensors")
    >>> load(path).neighbours
    3
    """
    tensors: dict[str, Tensor] = {}
    description = _describe(thing, "", tensors)
    description["format"] = ARTIFACT_FORMAT
    description["digest"] = _digest(description, tensors)
    target = Path(path)
    with atomic_path(target) as temporary:
        save_file(tensors, temporary, metadata={ARTIFACT_HEADER: json.dumps(description)})
    return target


def load(path: str | Path, *, device: str | torch.device = "cpu") -> Any:
    """The correction or detector that `save` wrote to `path`; its bytes are checked, and no code of it is run.

    Args:
        device: where its tensors go; see `sparcal.devices`.

    >>> from sparcal import SPARC, load, save
    >>> load(save(SPARC(rank=3), "sparc.safetensors"))
    SPARC(rank=3, on='both', recentre='none')
    """
    place = find_device(device)
    source = Path(path)
    if not source.is_file():
        raise ArtifactError(f"The artifact {source} was expected to be a file, got none there: check the path.")
    try:
        with safe_open(source, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"The artifact {source} is damaged or not a safetensors file: {error}.") from error
    try:
        description = json.loads(metadata[ARTIFACT_HEADER])
        version, digest = description["format"], description.pop("digest")
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"The file {source} was not written by sparcal: save the object again.") from error
    if version != ARTIFACT_FORMAT:
        raise ArtifactError(
            f"The artifact {source} has format {version}, this sparcal reads {ARTIFACT_FORMAT}: use the sparcal that wrote it."
        )
    if _digest(description, tensors) != digest:
        raise ArtifactError(f"The artifact {source} does not match its own digest, so it was changed or damaged.")
    try:
        return _build(description, "", {name: tensor.to(place) for name, tensor in tensors.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"The artifact {source} cannot be rebuilt: {error}.") from error


def _kinds() -> dict[str, type[Any]]:
    """Every class that can be saved: the corrections, the detectors, and the small values in their settings."""
    from sparcal.corrections import CORRECTIONS
    from sparcal.detectors import DETECTORS
    from sparcal.imaging.maps import MapRule

    classes = [*(entry.kind for entry in CORRECTIONS.values()), *DETECTORS.values(), MapRule]
    return {kind.__name__: kind for kind in classes}


def _describe(thing: object, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Kind, settings and small state of `thing` as JSON values; its tensors go into `tensors` under `prefix`."""
    kind = type(thing).__name__
    if kind not in _kinds() or not is_dataclass(thing):
        raise DataError(f"save takes one of {', '.join(sorted(_kinds()))}, got {kind}.")
    settings = {f.name: _plain(getattr(thing, f.name)) for f in fields(thing) if f.init}
    state: dict[str, Any] = {}
    for name, value in vars(thing).items():
        if not name.endswith("_"):
            continue
        if isinstance(value, Tensor):
            tensors[prefix + name] = value.cpu().contiguous().clone()
            state[name] = {"tensor": True}
        elif isinstance(value, tuple) and value and all(isinstance(part, Tensor) for part in value):
            tensors.update({f"{prefix}{name}.{i}": part.cpu().contiguous().clone() for i, part in enumerate(value)})
            state[name] = {"tensors": len(value)}
        elif is_dataclass(value):
            state[name] = {"object": _describe(value, f"{prefix}{name}/", tensors)}
        else:
            state[name] = {"value": _plain(value)}
    return {"kind": kind, "settings": settings, "state": state}


def _build(description: dict[str, Any], prefix: str, tensors: dict[str, Tensor]) -> Any:
    kind = _kinds().get(description["kind"])
    if kind is None:
        raise ValueError(f"unknown kind {description['kind']!r}")
    thing = kind(**{name: _value(value) for name, value in description["settings"].items()})
    for name, held in description["state"].items():
        if "tensor" in held:
            value: Any = tensors[prefix + name]
        elif "tensors" in held:
            value = tuple(tensors[f"{prefix}{name}.{i}"] for i in range(held["tensors"]))
        elif "object" in held:
            value = _build(held["object"], f"{prefix}{name}/", tensors)
        else:
            value = _value(held["value"])
        setattr(thing, name, value)
    return thing


def _plain(value: object) -> Any:
    """`value` in JSON's types; tuples and small dataclasses are marked so that they come back as they were."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_plain(part) for part in value]}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type) and type(value).__name__ in _kinds():
        return {"of": type(value).__name__, "settings": {k: _plain(v) for k, v in asdict(value).items()}}
    raise DataError(f"save keeps numbers, texts, tuples and tensors, got a {type(value).__name__}.")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(part) for part in plain]
    if isinstance(plain, dict) and "tuple" in plain:
        return tuple(_value(part) for part in plain["tuple"])
    if isinstance(plain, dict):
        return _kinds()[plain["of"]](**{name: _value(value) for name, value in plain["settings"].items()})
    return plain


def _digest(description: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
