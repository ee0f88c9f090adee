"""What the text of the paper states and none of its tables prints, beside the same number of a run that has its rows."""

from __future__ import annotations

from dataclasses import dataclass

from sparcal.bench.report.measured import Measured
from sparcal.bench.report.paper import TablePlace
from sparcal.bench.report.table import Line, Table, value_of

_SCORED_BY_PATCHES = ("patchcore", "padim", "spade", "anomalydino", "subspacead", "winclip", "musc")
_ALL = (*_SCORED_BY_PATCHES, "anomalyclip-v", "anomalyclip-m")
_SOURCE = ("patchcore", "padim", "spade", "anomalydino", "subspacead", "musc")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with a number: over which hosts, and where it would stand in a table."""

    statement: str
    hosts: tuple[str, ...]
    place: TablePlace
    stated: str


CLAIMS = (
    Claim(
        "Main results: pooled change on the shift-prone benchmarks, seven hosts, Image AUROC",
        _SCORED_BY_PATCHES,
        TablePlace("shift-prone", "image_auroc", "delta"),
        "+13.8",
    ),
    Claim(
        "Main results: the same, AU-PRO 0.3",
        _SCORED_BY_PATCHES,
        TablePlace("shift-prone", "aupro_0.3", "delta"),
        "+3.5",
    ),
    Claim(
        "Contamination: 3 of 8, nine hosts, Image AUROC",
        _ALL,
        TablePlace("mvtec-ad-2", "image_auroc", "delta", variant="contaminated=3"),
        "+4.4",
    ),
    Claim(
        "Contamination: 4 of 8, nine hosts, Image AUROC",
        _ALL,
        TablePlace("mvtec-ad-2", "image_auroc", "delta", variant="contaminated=4"),
        "+1.3",
    ),
    Claim(
        "Contamination: 4 of 8, nine hosts, AU-PRO 0.3",
        _ALL,
        TablePlace("mvtec-ad-2", "aupro_0.3", "delta", variant="contaminated=4"),
        "-3.5",
    ),
    Claim(
        "Calibration source: normals of the lot, six hosts, Image AUROC",
        _SOURCE,
        TablePlace("shift-prone", "image_auroc", "delta", variant="source=deployment"),
        "+14.3",
    ),
    Claim(
        "Calibration source: training normals, six hosts, Image AUROC",
        _SOURCE,
        TablePlace("shift-prone", "image_auroc", "delta", variant="source=train"),
        "-0.3",
    ),
)


def claims_table(measured: Measured) -> Table | None:
    """The statements that this run has planned all hosts and datasets of; None where it has none."""
    lines = []
    for claim in CLAIMS:
        if not _applies(claim, measured):
            continue
        number = measured.number(claim.place, hosts=claim.hosts)
        lines.append(Line((claim.statement,), ((value_of(number, claim.place, claim.stated),),)))
    if not lines:
        return None
    caption = (
        "What the paper states in its text: changes in percentage points, every host and category with equal weight."
    )
    return Table("in-the-text", caption, ("Statement",), (("Δ",),), (("", tuple(lines)),))


def _applies(claim: Claim, measured: Measured) -> bool:
    datasets = measured.experiment.pool(claim.place.dataset)
    if not set(claim.hosts) <= set(measured.experiment.hosts) or not set(datasets) <= set(measured.experiment.datasets):
        return False
    return measured.number(claim.place, hosts=claim.hosts).missing is not None
