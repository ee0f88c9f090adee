"""What can stand between a frozen encoder and a frozen detector, by name, with what is known about each.

To add one, write its file and its entry here: `auto`, the command line, the web station, the export and the pages
that list corrections read everything else from the entry. Other packages add theirs as plug-ins (`sparcal.plugins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from sparcal.corrections.ablations import GlobalSubspace, Identity, MeanOnly, SparcMean
from sparcal.corrections.coral import Coral
from sparcal.corrections.normals import NormalsInReference
from sparcal.errors import DataError
from sparcal.plugins import plugins
from sparcal.settings import instance_of, mapping, switch, text, whole_number
from sparcal.sparc import SPARC
from sparcal.types import Correction

if TYPE_CHECKING:
    CORRECTIONS: dict[str, CorrectionFacts]

__all__ = [
    "CORRECTIONS",
    "STATION_REFERENCE",
    "Coral",
    "CorrectionFacts",
    "GlobalSubspace",
    "Identity",
    "MeanOnly",
    "NormalsInReference",
    "SparcMean",
]

STATION_REFERENCE = "identity"  # the station's own reference, uncorrected


@dataclass(frozen=True)
class CorrectionFacts:
    """A correction as it is offered; calling the entry makes one.

    Args:
        title: for tables and menus.
        kind: its class, and `settings` the fields in which it differs from the class's defaults.
        removes: what it takes away, in words for a person; None where it removes nothing from the features.
        learns_each: whether one part under a light teaches it nearly all about further parts under that light.
        auto: its place among what `auto` may take, what serves most lots best first; None where `auto` leaves it alone.
        exportable: whether an exported graph can carry it.
    """

    title: str
    kind: type[Correction]
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    removes: str | None = None
    learns_each: bool = True
    auto: int | None = None
    exportable: bool = False

    def __post_init__(self) -> None:
        text(self.title, "CorrectionFacts.title")
        instance_of(self.kind, "CorrectionFacts.kind", type)
        mapping(self.settings, "CorrectionFacts.settings")
        text(self.removes, "CorrectionFacts.removes", optional=True)
        switch(self.learns_each, "CorrectionFacts.learns_each")
        whole_number(self.auto, "CorrectionFacts.auto", least=0, optional=True)
        switch(self.exportable, "CorrectionFacts.exportable")

    def __call__(self, **settings: object) -> Correction:
        """One of it, unfitted; a setting that its class does not know is refused by the class."""
        return self.kind(**{**self.settings, **settings})


OWN_CORRECTIONS: dict[str, CorrectionFacts] = {
    STATION_REFERENCE: CorrectionFacts(
        "The station's own reference", Identity, learns_each=False, auto=4, exportable=True
    ),
    "sparc": CorrectionFacts(
        "SPARC", SPARC, removes="the ways in which the lot's good parts differ", auto=3, exportable=True
    ),
    "sparc-recentred": CorrectionFacts(
        "SPARC, recentred",
        SPARC,
        {"recentre": "cell"},
        removes="what the lot's good parts share against training, and the ways in which they differ",
        auto=0,
        exportable=True,
    ),
    "mean-only": CorrectionFacts(
        "Mean only", MeanOnly, removes="the lot's mean", learns_each=False, auto=2, exportable=True
    ),
    "global-subspace": CorrectionFacts(
        "Global subspace", GlobalSubspace, removes="the ways in which the lot's good parts differ anywhere in the image"
    ),
    "sparc-mean": CorrectionFacts(
        "SPARC and mean",
        SparcMean,
        removes="the lot's mean, and the ways in which its good parts differ",
        exportable=True,
    ),
    "coral": CorrectionFacts("CORAL", Coral, removes="the difference in mean and covariance", learns_each=False),
    "normals": CorrectionFacts("Normals added to the reference", NormalsInReference, auto=1, exportable=True),
    "sparc-normals": CorrectionFacts(
        "SPARC, normals added to the reference",
        NormalsInReference,
        {"after": "sparc"},
        removes="the ways in which the lot's good parts differ",
        exportable=True,
    ),
    "recentred-normals": CorrectionFacts(
        "SPARC recentred, normals added to the reference",
        NormalsInReference,
        {"after": "recentred"},
        removes="what the lot's good parts share against training, and the ways in which they differ",
        exportable=True,
    ),
}


def __getattr__(name: str) -> object:
    """CORRECTIONS, made when it is first used: a plug-in may import this module to describe itself."""
    if name != "CORRECTIONS":
        raise AttributeError(f"module 'sparcal.corrections' has no attribute {name!r}; it offers {', '.join(__all__)}")
    made = OWN_CORRECTIONS | plugins("sparcal.corrections", OWN_CORRECTIONS, _accepted)
    globals()[name] = made
    return made


def _accepted(entry: object) -> CorrectionFacts:
    """A plug-in's entry as facts; a bare class brings none but its name."""
    facts = CorrectionFacts(entry.__name__, entry) if isinstance(entry, type) else entry
    if not isinstance(facts, CorrectionFacts):
        raise DataError(f"a {type(entry).__name__} instead of a CorrectionFacts or a correction's class")
    roles = ("fit", "apply", "apply_reference")
    kind: type[object] = facts.kind  # as it claims
    if not is_dataclass(kind) or not all(callable(getattr(kind, role, None)) for role in roles):
        raise DataError(f"{kind.__name__}, which is not a dataclass with {', '.join(roles)}")
    return facts
