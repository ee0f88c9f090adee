"""A lot on the rows that the station's coreset has chosen: the rows stay, their features are corrected."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from sparcal.calibration.thin_reference import ThinReference, thin_out
from sparcal.neighbours.coreset import greedy_coreset
from sparcal.score import CalibratedDetector, reference_side
from sparcal.types import Correction, Detector, Features, KeepsRows, keeps_rows

ADDED_SHARE = 1 / 3  # of the features of normals that are added to a thinned reference
ADDED_LIMIT = 8192  # rows that normals may add to it


def calibrate_on_rows(
    detector: Detector, correction: Correction, reference: Features, calibration: Features
) -> CalibratedDetector:
    """The calibrated pair of section 3, on the rows that the station has chosen.

    Args:
        detector: fitted on `reference`, uncorrected; gives the settings, and the rows of a coreset.
    """
    fitted = copy.copy(correction).fit(calibration, reference)
    if not keeps_rows(detector):
        return CalibratedDetector(fitted, copy.copy(detector).fit(reference_side(fitted, reference)))
    return CalibratedDetector(fitted, on_rows(detector, fitted, thin_out(reference, detector.rows), None))


def station_rows(detector: Detector) -> Tensor | None:
    """The rows of a fitted station's coreset; None for a detector without one."""
    return detector.rows if keeps_rows(detector) else None


def on_rows(detector: KeepsRows, correction: Correction, thin: ThinReference, added: Tensor | None) -> KeepsRows:
    """The detector on the kept rows of a corrected reference.

    Args:
        added: rows of the normals that the correction adds, counted from the first of these; chosen anew unless given.
    """
    corrected, kept, m = thin.corrected_by(correction)
    if added is None:
        added = _rows_of_added(corrected, m)
    return detector.restricted_to(corrected, torch.cat([kept, added + m * cells_of_grid(corrected)]))


def added_rows(calibrated: CalibratedDetector, reference: Features) -> Tensor:
    """The rows of normals in a calibrated detector's bank, counted from the first of the normals."""
    detector, correction = calibrated.detector, calibrated.correction
    assert keeps_rows(detector)
    count = len(reference_side(correction, reference[:1])) - 1  # normals that the correction adds
    if count == 0:
        return detector.rows[:0]
    last = int(detector.rows.max()) // cells_of_grid(reference) + 1
    first = (last - count) * cells_of_grid(reference)
    return detector.rows[detector.rows >= first] - first


def rows_without(added: Tensor | None, image: int, cells: int) -> Tensor:
    """The added rows less those of one normal; the rows of later ones move up."""
    assert added is not None
    of = added // cells
    return torch.cat([added[of < image], added[of > image] - cells])


def _rows_of_added(corrected: Features, m: int) -> Tensor:
    """Rows that cover the images which a correction has added after the first m, counted from these."""
    points = corrected.levels[0][m:].flatten(0, 2)
    if len(points) == 0:
        return torch.empty(0, dtype=torch.long, device=points.device)
    size = max(1, min(ADDED_LIMIT, round(ADDED_SHARE * len(points))))
    rows = greedy_coreset(points, size)
    if int(rows.max()) < len(points) - cells_of_grid(corrected):  # a last normal like one before it adds nothing
        rows[-1] = len(points) - 1  # but keeps a row: `added_rows` counts the normals back from the last
    return rows.sort().values


def cells_of_grid(features: Features) -> int:
    """h w of the first level."""
    return features.levels[0].shape[1] * features.levels[0].shape[2]
