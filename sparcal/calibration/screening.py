"""A first look at a lot's normals: the checks that need no calibration, and which of the parts tell anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparcal.calibration import checks as look
from sparcal.calibration.check import Check
from sparcal.calibration.held_out import HeldOut, left_out, not_seen
from sparcal.calibration.inputs import CalibrationInputs
from sparcal.calibration.kept_rows import calibrate_on_rows, station_rows
from sparcal.calibration.outline import Outline
from sparcal.calibration.part_statistics import LeftOut, left_out_residuals, log_spread
from sparcal.calibration.planted_parts import PlantedParts
from sparcal.calibration.selection import CandidateCorrection
from sparcal.calibration.standing_apart import in_company
from sparcal.corrections import CORRECTIONS, STATION_REFERENCE, Identity
from sparcal.imaging.encode import EncodedImage
from sparcal.imaging.preprocess import Geometry
from sparcal.score import CalibratedDetector
from sparcal.types import Features

UNCHECKED = "sparc-recentred"  # taken where the lot is shifted and too few parts are there to leave one out


@dataclass(frozen=True, eq=False)
class ShownParts:
    """The normals of a lot, encoded, the same parts with planted defects, and where these could lie."""

    images: Sequence[EncodedImage]
    planted: PlantedParts
    outline: Outline

    @property
    def features(self) -> Features:
        """Of all normals."""
        return Features.cat([image.features for image in self.images])

    @property
    def geometries(self) -> list[Geometry]:
        """Of all normals."""
        return [image.geometry for image in self.images]

    @property
    def names(self) -> list[str]:
        """Of all normals, for people."""
        return [str(image.path) for image in self.images]


@dataclass(frozen=True, eq=False)
class Screening:
    """A first look at the normals, on a few of the station's images.

    Args:
        parts: the normals, with the planted defects that tell something: those on parts in company.
        company: the numbers of these parts; all where too few have company.
        held_out: the normals under recentred SPARC, each left out in turn; None where too few would be left.
        alone: which of the normals stand alone under their light; none where that could not be told.
    """

    few: CalibrationInputs
    parts: ShownParts
    company: tuple[int, ...]
    held_out: HeldOut | None
    statistics: LeftOut | None
    shifted: bool
    alone: tuple[bool, ...]
    checks: tuple[Check, ...]


def screen(inputs: CalibrationInputs, parts: ShownParts, *, compare: bool = True) -> Screening:
    """Look at the normals themselves, before anything is rebuilt on the whole station.

    Args:
        compare: whether planted defects are judged too, which only a comparison of corrections asks for.
    """
    calibration, names = parts.features, parts.names
    hashes = [image.sha256 for image in parts.images]
    few = inputs.few()
    held_out = try_candidate(few, parts, CandidateCorrection(UNCHECKED), parts.planted if compare else None)
    statistics = None if held_out is None else left_out_residuals(calibration, few.reference)
    maps, spread = None if held_out is None else held_out.good.cell, log_spread(inputs.own[0])
    shift, shifted = look.check_shift(calibration, inputs.reference)
    checks = (
        look.check_number(len(names)),
        look.check_duplicates(calibration, inputs.reference, names, hashes, inputs.hashes),
        look.check_alignment(calibration, inputs.reference, names),
        look.check_odd(maps, spread, names),
        look.check_alone(maps, spread, names),
        look.check_outline(parts.outline),
        shift,
    )
    alone = () if maps is None or len(maps) < look.FEW else tuple(look.stands_alone(maps, spread))
    company = tuple(int(number) for number in np.flatnonzero(in_company(alone, len(names))))
    parts, held_out = _that_tell(parts, held_out, company)
    return Screening(few, parts, company, held_out, statistics, shifted, alone, checks)


def _that_tell(
    parts: ShownParts, held_out: HeldOut | None, company: Sequence[int]
) -> tuple[ShownParts, HeldOut | None]:
    """Without the defects on parts that stand alone under their light.

    Left out, such a part is judged by what has never seen that light, and stands out whatever is planted on it: all its
    defects would count as found, the faintest too, and under every candidate.
    """
    numbers = parts.planted.lying_on(company)
    if len(numbers) == len(parts.planted):
        return parts, held_out
    if held_out is not None and held_out.planted is not None:
        held_out = replace(held_out, planted=held_out.planted[numbers])
    return replace(parts, planted=parts.planted[numbers]), held_out


def try_candidate(
    few: CalibrationInputs, parts: ShownParts, candidate: CandidateCorrection, planted: PlantedParts | None
) -> HeldOut | None:
    """How good parts and planted defects fare under a candidate, each part left out in turn."""
    if candidate.name == STATION_REFERENCE:
        own = CalibratedDetector(Identity(), few.detector)
        return not_seen(own, parts.features, parts.geometries, planted)
    correction = CORRECTIONS[candidate.name](**candidate.settings)
    calibrated = calibrate_on_rows(few.detector, correction, few.reference, parts.features)
    return leave_out(few, parts, calibrated, planted)


def leave_out(
    inputs: CalibrationInputs, parts: ShownParts, calibrated: CalibratedDetector, planted: PlantedParts | None
) -> HeldOut | None:
    """The normals of a lot, each judged by what the others alone give, and the defects planted on them."""
    return left_out(
        calibrated,
        inputs.reference,
        parts.features,
        parts.geometries,
        station_rows=station_rows(inputs.detector),
        planted=planted,
        workers=inputs.workers,
    )
