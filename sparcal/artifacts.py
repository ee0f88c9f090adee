"""Save and load fitted corrections and detectors: one safetensors file each, with JSON in its header. Never pickle.

The header holds the format version, the kind, the settings and a digest of everything, so that a damaged file, a
foreign file or a file of another version is refused before anything is built from it. Files appear whole or not
at all: they are written under another name and renamed.

Somebody else's class is saved in one of two ways:

* a dataclass whose constructor's fields are settings, and whose attributes with a trailing underscore are what `fit`
  learned, needs nothing more: that is how sparcal's own classes are made;
* any other class has `state()`, which gives everything it needs as a mapping, and the class method `from_state`, which
  makes the object from it again (`Savable`).

Values may be tensors, numbers, texts, None, and tuples and lists of these. A file names the class, but never decides
what is imported: a class that is not sparcal's, nor registered with it, is used where the caller hands it in,
`load(path, kinds=[Whitening])`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sparcal.devices import find_device
from sparcal.errors import ArtifactError, DataError, PlaceError
from sparcal.files.atomic import atomic_path, remove_left_behind
from sparcal.settings import classes, file_path, with_article

ARTIFACT_FORMAT = 1
ARTIFACT_HEADER = "sparcal"


@runtime_checkable
class Savable(Protocol):
    """A correction or detector that is no dataclass, or keeps more than one can: `sparcal.save` asks it for its state."""

    def state(self) -> Mapping[str, object]:
        """Everything that it needs: tensors, numbers, texts, None, tuples and lists of these, other savable objects."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> Self:
        """The object of which `state` gave this; refuse what it did not give."""
        ...


def save(thing: object, path: str | Path) -> Path:
    """Write a correction or detector, fitted or not, to one file; returns its path.

    >>> from sparcal import load, save
    >>> from sparcal.detectors import PatchCore
    >>> path = save(PatchCore(neighbours=3), "mine.safetensors")
    >>> load(path).neighbours
    3
    """
    file_path(path, "save's path")
    tensors: dict[str, Tensor] = {}
    description = _describe(thing, "", tensors)
    description["format"] = ARTIFACT_FORMAT
    description["digest"] = _digest(description, tensors)
    target = Path(path)
    if target.is_dir():
        raise PlaceError(f"save writes one file, got the folder {target}: name a file in it.")
    remove_left_behind(target.parent)
    with atomic_path(target) as temporary:
        save_file(tensors, temporary, metadata={ARTIFACT_HEADER: json.dumps(description)})
    return target


def check_savable(thing: object) -> None:
    """Raise DataError where `save` would refuse `thing` as it is now; an unfitted one is judged by its settings."""
    _describe(thing, "", {})


def kind_name(kind: type) -> str:
    """What a file calls a class: sparcal's own by its name, any other by module and name."""
    return f"{kind.__module__}:{kind.__qualname__}" if is_foreign(kind) else kind.__name__


def is_foreign(kind: type) -> bool:
    """Whether a class is somebody else's."""
    return kind.__module__.split(".")[0] != "sparcal"


def load(path: str | Path, *, kinds: Iterable[type] = (), device: str | torch.device = "cpu") -> Any:
    """The correction or detector that `save` wrote to `path`; its bytes are checked, and no code of it is run.

    Args:
        kinds: classes that may be made from the file, besides sparcal's own and registered ones.
        device: where its tensors go; see `sparcal.devices`.

    >>> from sparcal import SPARC, load, save
    >>> load(save(SPARC(rank=3), "sparc.safetensors"))
    SPARC(rank=3, on='both', recentre='none')
    """
    file_path(path, "load's path")
    known, place = _kinds(kinds), find_device(device)
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
        return _build(description, "", {name: tensor.to(place) for name, tensor in tensors.items()}, known)
    except ArtifactError as error:
        raise ArtifactError(f"The artifact {source} {error}") from error
    except Exception as error:  # a stranger's file may hold anything, and a stranger's class may raise anything
        raise ArtifactError(f"The artifact {source} cannot be rebuilt: {error}.") from error


def _kinds(more: Iterable[type] = ()) -> dict[str, type[Any]]:
    """Every class that can be made from a file, by the name that files have for it."""
    from sparcal.corrections import CORRECTIONS
    from sparcal.detectors import DETECTORS
    from sparcal.imaging.maps import MapRule

    own = [*(entry.kind for entry in CORRECTIONS.values()), *DETECTORS.values(), MapRule]
    return {kind_name(kind): kind for kind in (*own, *classes(more, "kinds"))}


def _describe(thing: object, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Kind, settings and state of `thing` as JSON values; its tensors go into `tensors` under `prefix`."""
    kind = kind_name(type(thing))
    if isinstance(thing, Savable):
        state = thing.state()
        if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
            raise DataError(f"{kind}.state must give a mapping from texts, got {with_article(type(state).__name__)}.")
        return {"kind": kind, "state": _held(state, kind, prefix, tensors)}
    if not _by_convention(thing) or (":" not in kind and kind not in _kinds()):
        raise DataError(
            f"save takes a correction or a detector, a dataclass or an object with state and from_state, got "
            f"{with_article(type(thing).__name__)}: see sparcal.artifacts."
        )
    settings = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}  # type: ignore[arg-type]
    learned = {name: value for name, value in vars(thing).items() if _is_learned(name)}
    return {
        "kind": kind,
        "settings": {name: _plain(value, f"{kind}.{name}") for name, value in settings.items()},
        "state": _held(learned, kind, prefix, tensors),
    }


def _by_convention(thing: object) -> bool:
    return is_dataclass(thing) and not isinstance(thing, type) and callable(getattr(thing, "fit", None))


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _held(values: Mapping[str, object], kind: str, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            tensors[prefix + name] = value.detach().cpu().contiguous().clone()
            held[name] = {"tensor": True}
        elif isinstance(value, tuple) and value and all(isinstance(part, Tensor) for part in value):
            tensors.update(
                {f"{prefix}{name}.{i}": part.detach().cpu().contiguous().clone() for i, part in enumerate(value)}
            )
            held[name] = {"tensors": len(value)}
        elif isinstance(value, Savable) or _by_convention(value):
            held[name] = {"object": _describe(value, f"{prefix}{name}/", tensors)}
        else:
            held[name] = {"value": _plain(value, f"{kind}.{name}")}
    return held


def _build(description: dict[str, Any], prefix: str, tensors: dict[str, Tensor], known: dict[str, type[Any]]) -> Any:
    kind = known.get(description["kind"])
    if kind is None:
        raise ArtifactError(
            f"holds a {description['kind']!r}, which is neither sparcal's nor registered: import its class and hand it "
            "in as kinds=[...], if you trust it with this file."
        )
    state = {name: _taken(name, held, prefix, tensors, known) for name, held in description["state"].items()}
    if "settings" not in description:
        return kind.from_state(state)
    thing = kind(**{name: _value(value, known) for name, value in description["settings"].items()})
    for name, value in state.items():
        if not _is_learned(name):
            raise ValueError(f"{name!r} is not something that fit learns")
        setattr(thing, name, value)
    return thing


def _taken(
    name: str, held: dict[str, Any], prefix: str, tensors: dict[str, Tensor], known: dict[str, type[Any]]
) -> Any:
    if "tensor" in held:
        return tensors[prefix + name]
    if "tensors" in held:
        return tuple(tensors[f"{prefix}{name}.{i}"] for i in range(held["tensors"]))
    if "object" in held:
        return _build(held["object"], f"{prefix}{name}/", tensors, known)
    return _value(held["value"], known)


def _plain(value: object, who: str) -> Any:
    """`value` in JSON's types; tuples and map rules are marked so that they come back as they were."""
    from sparcal.imaging.maps import MapRule

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [_plain(part, who) for part in value]}
    if isinstance(value, list):
        return [_plain(part, who) for part in value]
    if isinstance(value, MapRule):
        settings = {f.name: _plain(getattr(value, f.name), who) for f in fields(value)}
        return {"of": kind_name(MapRule), "settings": settings}
    raise DataError(
        f"save keeps numbers, texts, tuples and tensors, got {with_article(type(value).__name__)} in {who}: "
        "give the class state and from_state, see sparcal.artifacts."
    )


def _value(plain: Any, known: dict[str, type[Any]]) -> Any:
    if isinstance(plain, list):
        return [_value(part, known) for part in plain]
    if isinstance(plain, dict) and "tuple" in plain:
        return tuple(_value(part, known) for part in plain["tuple"])
    if isinstance(plain, dict):
        return known[plain["of"]](**{name: _value(value, known) for name, value in plain["settings"].items()})
    return plain


def _digest(description: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
