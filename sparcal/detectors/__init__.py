"""The frozen scoring rules, by name; each is loaded when it is first used.

A detector is a class in a file of its name. To add one, write the file, name its class here, and put it under the
contract in tests/detectors/test_contract.py. Other packages add theirs as plug-ins (`sparcal.plugins`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast, get_args

from sparcal.errors import DataError
from sparcal.plugins import plugins
from sparcal.types import Detector, Family

if TYPE_CHECKING:
    from sparcal.detectors.anomalyclip import AnomalyCLIP as AnomalyCLIP
    from sparcal.detectors.anomalydino import AnomalyDINO as AnomalyDINO
    from sparcal.detectors.fastrecon import FastRecon as FastRecon
    from sparcal.detectors.fastref import FastRef as FastRef
    from sparcal.detectors.musc import MuSc as MuSc
    from sparcal.detectors.padim import PaDiM as PaDiM
    from sparcal.detectors.patchcore import PatchCore as PatchCore
    from sparcal.detectors.spade import SPADE as SPADE
    from sparcal.detectors.subspacead import SubspaceAD as SubspaceAD
    from sparcal.detectors.winclip import WinCLIP as WinCLIP

    DETECTORS: dict[str, type[Detector]]

_CLASSES = (
    "AnomalyCLIP",
    "AnomalyDINO",
    "FastRecon",
    "FastRef",
    "MuSc",
    "PaDiM",
    "PatchCore",
    "SPADE",
    "SubspaceAD",
    "WinCLIP",
)

__all__ = [
    "DETECTORS",
    "SPADE",
    "AnomalyCLIP",
    "AnomalyDINO",
    "DetectorFacts",
    "FastRecon",
    "FastRef",
    "MuSc",
    "PaDiM",
    "PatchCore",
    "SubspaceAD",
    "WinCLIP",
    "detector_facts",
    "for_cell_pixels",
]

OWN_DETECTORS = tuple(title.lower() for title in _CLASSES)

AnyDetector = TypeVar("AnyDetector", bound=Detector)


def __getattr__(name: str) -> object:
    if name == "DETECTORS":
        ours = {title.lower(): _load(title) for title in _CLASSES}
        value: object = ours | plugins("sparcal.detectors", OWN_DETECTORS, _accepted)
    elif name in _CLASSES:
        value = _load(name)
    else:
        raise AttributeError(f"module 'sparcal.detectors' has no attribute {name!r}; it offers {', '.join(__all__)}")
    globals()[name] = value
    return value


def _load(title: str) -> type[Detector]:
    kind: type[Detector] = getattr(import_module(f"sparcal.detectors.{title.lower()}"), title)
    return kind


def _accepted(entry: object) -> type[Detector]:
    """A plug-in's entry, which must be a detector's class."""
    if not isinstance(entry, type):
        raise DataError(f"a {type(entry).__name__} instead of a detector's class")
    roles = all(callable(getattr(entry, role, None)) for role in ("fit", "score"))
    if not is_dataclass(entry) or not roles or getattr(entry, "family", None) not in get_args(Family):
        raise DataError(f"{entry.__name__}, which is not a dataclass with a family, fit and score")
    return cast("type[Detector]", entry)


@dataclass(frozen=True)
class DetectorFacts:
    """What its class says about a detector.

    Args:
        title: as in the literature.
        exportable: whether it has an export rule.
    """

    title: str
    family: Family
    exportable: bool


def detector_facts(name: str) -> DetectorFacts:
    """The facts of a registered detector."""
    from sparcal.detectors import DETECTORS

    kind = DETECTORS[name]
    return DetectorFacts(kind.__name__, kind.family, hasattr(kind, "export_rule"))


def for_cell_pixels(detector: AnyDetector, cell_pixels: int) -> AnyDetector:
    """A copy of `detector` for an encoder whose finest cells are `cell_pixels` input pixels wide."""
    sized = copy.copy(detector)
    if hasattr(sized, "cell_pixels"):  # its scores come per pixel, so it takes the cell size itself
        sized.cell_pixels = cell_pixels
    else:
        sized.map_rule = replace(sized.map_rule, cell_pixels=cell_pixels)
    return sized
