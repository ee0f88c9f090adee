"""What a threshold does: counted by hand, and on the parts that it stands on."""

from __future__ import annotations

import pytest

from sparcal.calibration.threshold_effect import counted, effect_of, rejected_share

OWN, LOT = [1.0, 2.0, 3.0], [4.0, 5.0]


@pytest.mark.parametrize(
    ("basis", "lot", "expected"),
    [
        ("pooled", LOT, [*OWN, *LOT]),
        ("lot", LOT, LOT),
        ("lot with margin", LOT, LOT),
        ("own", [], OWN),
    ],
)
def test_the_stations_parts_count_only_where_they_were_shown_to_agree(basis, lot, expected):
    assert counted(basis, OWN, lot) == expected


@pytest.mark.parametrize(
    ("threshold", "sentence"),
    [
        (0.0, "rejects 2 of 2 good parts, finds 3 of 3 planted"),
        (4.0, "rejects 1 of 2 good parts, finds 2 of 3 planted"),
        (9.0, "rejects 0 of 2 good parts, finds 0 of 3 planted"),
    ],
)
def test_a_part_at_the_threshold_passes(threshold, sentence):
    assert effect_of(threshold, LOT, [4.0, 6.0, 9.0]).sentence == sentence


def test_without_a_self_test_nothing_is_said_about_defects():
    assert effect_of(4.0, LOT, None).sentence == "rejects 1 of 2 good parts"


@pytest.mark.parametrize(("threshold", "rejected"), [(0.0, 4), (2.0, 2), (2.5, 2), (9.0, 0)])
def test_the_share_that_a_threshold_rejects(threshold, rejected):
    assert rejected_share([1.0, 2.0, 3.0, 4.0], threshold) == (rejected, 4)
    assert rejected_share([], threshold) == (0, 0)
