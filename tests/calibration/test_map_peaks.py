"""The highest pixels of maps, against the maps themselves."""

from __future__ import annotations

import pytest
import torch

from sparcal.calibration.map_peaks import peaks, peaks_on
from sparcal.detectors import AnomalyDINO
from sparcal.imaging.maps import MapRule, input_map, native_map
from tests.support.random_grids import PLACE


def cells(n, seed=1):
    return torch.rand(n, 4, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rule", [MapRule(8), AnomalyDINO().map_rule])
def test_peaks_are_the_highest_pixels(rule):
    rule = MapRule(8, at=rule.at)
    cell = cells(3)
    got = peaks(cell, rule, [PLACE] * 3)
    for one, value in zip(cell, got, strict=True):
        whole = native_map(one, rule, PLACE, outside=0.0) if rule.at == "native" else input_map(one[None], rule).numpy()
        assert float(value) == pytest.approx(float(whole.max()), rel=1e-6)


def test_the_peak_on_a_defect_is_the_highest_pixel_in_its_cells():
    rule, cell = MapRule(8), cells(40)  # more than are drawn at once
    where = cells(40, seed=2) > 0.7
    drawn = input_map(cell, rule)
    got = peaks_on(cell, rule, where)
    for number in range(40):
        inside = [
            float(drawn[number, y, x])
            for y in range(drawn.shape[1])
            for x in range(drawn.shape[2])
            if where[number, y // 8, x // 8]
        ]
        assert float(got[number]) == max(inside, default=float("-inf"))


def test_a_hot_cell_elsewhere_does_not_mark_the_defect():
    cell, where = torch.zeros(1, 8, 10), torch.zeros(1, 8, 10, dtype=torch.bool)
    cell[0, 0, 0], where[0, 7, 9] = 5.0, True
    assert float(peaks(cell, MapRule(8), [PLACE])[0]) > 1
    assert float(peaks_on(cell, MapRule(8), where)[0]) < 0.01


def test_a_defect_where_the_encoder_does_not_look_has_no_peak():
    nowhere = torch.zeros(2, 4, 5, dtype=torch.bool)
    assert peaks_on(cells(2), MapRule(8), nowhere).tolist() == [float("-inf")] * 2
