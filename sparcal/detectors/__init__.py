"""The frozen scoring rules, by name; each is loaded when it is first used.

A detector is a class in a file of its name. To add one, write the file, name its class here, and put it under the
contract in tests/detectors/test_contract.py.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

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

AnyDetector = TypeVar("AnyDetector", bound=Detector)


def __getattr__(name: str) -> object:
    if name == "DETECTORS":
        value: object = {title.lower(): _load(title) for title in _CLASSES}
    elif name in _CLASSES:
        value = _load(name)
    else:
        raise AttributeError(f"module 'sparcal.detectors' has no attribute {name!r}; it offers {', '.join(__all__)}")
    globals()[name] = value
    return value


def _load(title: str) -> type[Detector]:
    kind: type[Detector] = getattr(import_module(f"sparcal.detectors.{title.lower()}"), title)
    return kind


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
