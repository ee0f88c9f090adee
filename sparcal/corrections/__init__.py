"""What can stand between a frozen encoder and a frozen detector, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sparcal.corrections.ablations import GlobalSubspace, Identity, MeanOnly, SparcMean
from sparcal.corrections.coral import Coral
from sparcal.corrections.normals import NormalsInReference
from sparcal.sparc import SPARC
from sparcal.types import Correction

CORRECTIONS: dict[str, Callable[..., Correction]] = {
    "identity": Identity,
    "sparc": SPARC,
    "sparc-recentred": partial(SPARC, recentre="cell"),
    "mean-only": MeanOnly,
    "global-subspace": GlobalSubspace,
    "sparc-mean": SparcMean,
    "coral": Coral,
    "normals": NormalsInReference,
    "sparc-normals": partial(NormalsInReference, after="sparc"),
    "recentred-normals": partial(NormalsInReference, after="recentred"),
}

__all__ = [
    "CORRECTIONS",
    "Coral",
    "GlobalSubspace",
    "Identity",
    "MeanOnly",
    "NormalsInReference",
    "SparcMean",
]
