"""Scores of parts that the reference has not seen, against a plain loop that refits everything."""

from __future__ import annotations

import copy

import pytest
import torch

from sparcal.calibration.held_out import (
    left_out,
    make_folds,
    not_seen,
    own_parts,
    own_scores,
    plain_folds,
    spaced,
)
from sparcal.calibration.kept_rows import ADDED_SHARE, added_rows, calibrate_on_rows, station_rows
from sparcal.calibration.map_peaks import peaks, peaks_on
from sparcal.corrections import CORRECTIONS
from sparcal.detectors import PaDiM, PatchCore
from sparcal.imaging.maps import MapRule
from sparcal.score import CalibratedDetector, reference_side, score_lot
from sparcal.types import Features, rescores
from tests.support.random_grids import PLACE, grids, planted_on

WHOLE = [PaDiM(map_rule=MapRule(8)), PatchCore(coreset=1, map_rule=MapRule(8))]
THINNED = PatchCore(coreset=0.3, map_rule=MapRule(8))
COMPARED = ["identity", "mean-only", "normals", "sparc", "sparc-recentred"]


def without(n, j):
    return [i for i in range(n) if i != j]


def fitted(detector, reference):
    return copy.copy(detector).fit(reference)


def uncorrected(detector):
    return CalibratedDetector(CORRECTIONS["identity"](), detector)


@pytest.mark.parametrize("correction", COMPARED)
@pytest.mark.parametrize("detector", WHOLE)
def test_own_parts_are_scored_by_what_never_saw_them(detector, correction):
    reference, calibration = grids(12, 1), grids(4, 2)
    rebuilt = calibrate_on_rows(fitted(detector, reference), CORRECTIONS[correction](), reference, calibration)
    corrected = reference_side(rebuilt.correction, reference)
    own = own_scores(rebuilt, reference, [PLACE] * 12, make_folds(detector, reference))
    for members in plain_folds(12):
        kept = [i for i in range(len(corrected)) if i not in members]
        expected = fitted(detector, corrected[kept]).score(corrected[list(members)])
        torch.testing.assert_close(own.image[list(members)], expected.image)
        torch.testing.assert_close(own.cell[list(members)], expected.cell)


@pytest.mark.parametrize("correction", COMPARED)
@pytest.mark.parametrize("detector", WHOLE)
@pytest.mark.parametrize("workers", [1, 3])
def test_each_normal_and_its_planted_defects_are_scored_without_that_normal(detector, correction, workers):
    reference, calibration = grids(12, 1), grids(4, 2)
    planted = planted_on(calibration, 10)
    rebuilt = calibrate_on_rows(fitted(detector, reference), CORRECTIONS[correction](), reference, calibration)
    held = left_out(rebuilt, reference, calibration, [PLACE] * 4, station_rows=None, planted=planted, workers=workers)

    def alone(j, test):
        return score_lot(
            detector,
            test,
            reference=reference,
            calibration=calibration[without(4, j)],
            correction=CORRECTIONS[correction](),
        )

    for j in range(4):
        expected = alone(j, calibration[j])
        torch.testing.assert_close(held.good.image[j : j + 1], expected.image)
        torch.testing.assert_close(held.good.cell[j : j + 1], expected.cell)
        torch.testing.assert_close(held.good.peak[j : j + 1], peaks(expected.cell, detector.map_rule, [PLACE]))
    for number, part in enumerate(planted.part):
        expected = alone(part, planted.features[[number]])
        torch.testing.assert_close(held.planted.image[number : number + 1], expected.image)
        if not rescores(detector):  # which searches only cells that could be the highest of their image
            torch.testing.assert_close(held.planted.cell[[number]], expected.cell)
            on_it = peaks_on(expected.cell, detector.map_rule, planted.cells[[number]])
            torch.testing.assert_close(held.planted.peak[[number]], on_it)


@pytest.mark.parametrize("correction", ["sparc-recentred", "normals", "recentred-normals"])
def test_a_coreset_keeps_its_rows_and_never_those_of_a_part_left_out(correction):
    """Each left-out part is replaced by one far away: a score that noticed would be far off too."""
    reference, calibration = grids(12, 1), grids(4, 2)
    station, folds = fitted(THINNED, reference), make_folds(THINNED, reference)
    rebuilt = calibrate_on_rows(station, CORRECTIONS[correction](), reference, calibration)
    own = own_scores(rebuilt, reference, [PLACE] * 12, folds)
    assert len(own) == 12
    for number, members in enumerate(folds.left_out):
        far = reference.levels[0].clone()
        far[list(members)] += 100 * torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(7))
        moved = own_scores(rebuilt, Features((far,)), [PLACE] * 12, folds)
        assert float(moved.image[list(members)].min()) > 100, number


@pytest.mark.parametrize("correction", COMPARED[1:])
def test_on_a_coreset_each_normal_is_scored_by_the_stations_rows_corrected_without_it(correction):
    reference, calibration = grids(12, 1), grids(4, 2)
    station = fitted(THINNED, reference)
    rebuilt = calibrate_on_rows(station, CORRECTIONS[correction](), reference, calibration)
    held = left_out(rebuilt, reference, calibration, [PLACE] * 4, station_rows=station_rows(station))
    assert held.planted is None
    for j in range(4):
        alone = CORRECTIONS[correction]().fit(calibration[without(4, j)], reference)
        bank = reference_side(alone, reference).levels[0].flatten(0, 2)
        kept = bank[station.rows]
        if correction == "normals":  # and the rows that cover the normals, less those of the one left out
            added = rebuilt.detector.bank_[len(station.rows) :]
            mine = calibration[j].levels[0].flatten(0, 2)
            others = [row for row in added if not bool((row == mine).all(dim=1).any())]
            kept = torch.cat([kept, torch.stack(others)])
        judged = alone.apply(calibration[j]).levels[0].flatten(0, 2)
        expected = torch.cdist(judged.double(), kept.double()).square().amin(dim=1).max()
        assert float(held.good.image[j]) == pytest.approx(float(expected), rel=1e-3)


def test_a_normal_that_lies_far_off_is_not_helped_by_its_own_rows():
    reference, level = grids(12, 1), grids(4, 2).levels[0].clone()
    level[2] += 100
    calibration, station = Features((level,)), fitted(THINNED, reference)
    rebuilt = calibrate_on_rows(station, CORRECTIONS["normals"](), reference, calibration)
    assert float(rebuilt.score(calibration[2]).image) < 10  # it is in the reference
    held = left_out(rebuilt, reference, calibration, [PLACE] * 4, station_rows=station.rows)
    assert float(held.good.image[2]) > 1000
    assert float(held.good.image[[0, 1, 3]].max()) < 10


def test_what_a_correction_adds_is_thinned_and_keeps_to_its_images():
    reference, calibration = grids(12, 1), grids(4, 2)
    station = fitted(THINNED, reference)
    bank = calibrate_on_rows(station, CORRECTIONS["normals"](), reference, calibration).detector.bank_
    m = len(station.rows)
    assert torch.equal(bank[:m], station.bank_)
    assert len(bank) - m == round(ADDED_SHARE * 4 * 4 * 5)
    shown = calibration.levels[0].flatten(0, 2)
    assert all(bool((row == shown).all(dim=1).any()) for row in bank[m:])


@pytest.mark.parametrize("correction", ["normals", "recentred-normals"])
def test_the_rows_of_normals_are_known_where_the_last_is_like_the_first(correction):
    reference, level = grids(12, 1), grids(4, 2).levels[0].clone()
    level[3] = level[0]
    station = fitted(THINNED, reference)
    rebuilt = calibrate_on_rows(station, CORRECTIONS[correction](), reference, Features((level,)))
    shown = rebuilt.correction.normals_[0].flatten(0, 2)
    torch.testing.assert_close(shown[added_rows(rebuilt, reference)], rebuilt.detector.bank_[len(station.rows) :])


def test_a_reference_that_saw_no_normal_leaves_none_out():
    reference, calibration = grids(12, 1), grids(4, 2)
    planted = planted_on(calibration, 6)
    own = uncorrected(fitted(WHOLE[0], reference))
    held = not_seen(own, calibration, [PLACE] * 4, planted)
    torch.testing.assert_close(held.good.image, own.score(calibration).image)
    torch.testing.assert_close(held.planted.image, own.score(planted.features).image)
    assert not_seen(own, calibration, [PLACE] * 4).planted is None


@pytest.mark.parametrize("count", [8, 2])  # three on four parts, the faint one counted: `sparcal test --n 2`
@pytest.mark.parametrize("detector", [WHOLE[0], THINNED])
def test_defects_on_the_stations_own_parts_are_scored_out_of_fold(detector, count):
    reference = grids(12, 1)
    folds = make_folds(detector, reference)
    numbers = (1, 4, 7, 11)
    planted = planted_on(reference[list(numbers)], count)
    station = fitted(detector, reference)
    held = own_parts(station, reference, folds, numbers, planted)
    scored = own_scores(uncorrected(station), reference, [PLACE] * 12, folds)
    carriers = [numbers[place] for place in sorted(set(planted.part))]
    torch.testing.assert_close(held.good.image, scored.image[carriers])
    for number, place in enumerate(planted.part):
        members = next(fold for fold in folds.left_out if numbers[place] in fold)
        kept = [i for i in range(12) if i not in members]
        fold = folds.left_out.index(members)
        alone = (
            station.restricted_to(reference[kept], folds.rows[fold])
            if folds.rows
            else fitted(detector, reference[kept])
        )
        expected = alone.score(planted.features[[number]])
        torch.testing.assert_close(held.planted.image[[number]], expected.image)


def test_nothing_is_left_out_of_two():
    reference, calibration = grids(6, 1), grids(2, 2)
    station = fitted(PatchCore(), reference)
    rebuilt = calibrate_on_rows(station, CORRECTIONS["sparc"](), reference, calibration)
    assert left_out(rebuilt, reference, calibration, [PLACE] * 2, station_rows=station.rows) is None


def test_a_test_side_correction_leaves_the_reference():
    correction = CORRECTIONS["sparc"](on="test")
    station = fitted(PatchCore(coreset=1), grids(6, 1))
    rebuilt = calibrate_on_rows(station, correction, grids(6, 1), grids(3, 2))
    assert torch.equal(rebuilt.detector.bank_, grids(6, 1).levels[0].flatten(0, 2))
    plain = uncorrected(rebuilt.detector)
    assert not torch.equal(rebuilt.score(grids(2, 3)).image, plain.score(grids(2, 3)).image)


def test_neither_station_nor_correction_is_changed():
    station, correction = fitted(THINNED, grids(6, 1)), CORRECTIONS["sparc"]()
    bank = station.bank_.clone()
    rebuilt = calibrate_on_rows(station, correction, grids(6, 1), grids(3, 2))
    left_out(rebuilt, grids(6, 1), grids(3, 2), [PLACE] * 3, station_rows=station.rows)
    assert torch.equal(station.bank_, bank)
    assert correction.basis_ is None


def test_chosen_parts_are_evenly_spaced():
    assert spaced(5, 10) == [0, 1, 2, 3, 4]
    assert spaced(100, 4) == [0, 25, 50, 75]
    assert sorted(i for fold in plain_folds(300) for i in fold) == spaced(300, 120)


def test_fewer_own_parts_are_scored_where_a_limit_is_given():
    reference = grids(40, 1)
    station = uncorrected(fitted(WHOLE[0], reference))
    folds = make_folds(WHOLE[0], reference)
    every = own_scores(station, reference, [PLACE] * 40, folds)
    some = own_scores(station, reference, [PLACE] * 40, folds, limit=10)
    assert (len(every), len(some)) == (40, 10)
    assert set(some.image.tolist()) <= set(every.image.tolist())
    assert len(own_scores(station, reference, [PLACE] * 40, folds, limit=1)) == 5  # one of each fold
