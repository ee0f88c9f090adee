"""The frozen scoring rules, by name."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TypeVar

from sparcal.detectors.anomalyclip import AnomalyCLIP
from sparcal.detectors.anomalydino import AnomalyDINO
from sparcal.detectors.fastrecon import FastRecon
from sparcal.detectors.fastref import FastRef
from sparcal.detectors.musc import MuSc
from sparcal.detectors.padim import PaDiM
from sparcal.detectors.patchcore import PatchCore
from sparcal.detectors.spade import SPADE
from sparcal.detectors.subspacead import SubspaceAD
from sparcal.detectors.winclip import WinCLIP
from sparcal.types import Detector

DETECTORS: dict[str, type[Detector]] = {
    "anomalyclip": AnomalyCLIP,
    "anomalydino": AnomalyDINO,
    "fastrecon": FastRecon,
    "fastref": FastRef,
    "musc": MuSc,
    "padim": PaDiM,
    "patchcore": PatchCore,
    "spade": SPADE,
    "subspacead": SubspaceAD,
    "winclip": WinCLIP,
}

__all__ = [
    "DETECTORS",
    "SPADE",
    "AnomalyCLIP",
    "AnomalyDINO",
    "FastRecon",
    "FastRef",
    "MuSc",
    "PaDiM",
    "PatchCore",
    "SubspaceAD",
    "WinCLIP",
    "for_cell_pixels",
]


AnyDetector = TypeVar("AnyDetector", bound=Detector)


def for_cell_pixels(detector: AnyDetector, cell_pixels: int) -> AnyDetector:
    """A copy of `detector` for an encoder whose finest cells are `cell_pixels` input pixels wide."""
    sized = copy.copy(detector)
    if isinstance(sized, SPADE):  # its scores come per pixel, so it takes the cell size itself
        sized.cell_pixels = cell_pixels
    else:
        sized.map_rule = replace(sized.map_rule, cell_pixels=cell_pixels)
    return sized
