"""The load test itself: a run that did nothing, or met an error, must fail."""

from __future__ import annotations

import pytest

from speed.studies.web_load import KINDS, shortcomings
from speed.studies.web_opening import slow_pages

ALL = {kind: [0.1] for kind in KINDS}


def test_a_run_that_did_its_work_passes():
    assert shortcomings(ALL, {}, judged=3) == []


@pytest.mark.parametrize(
    ("times", "errors", "judged", "sentence"),
    [
        ({}, {}, 0, "No request for a page was answered."),
        (ALL, {"page: 503": 2}, 3, "2 requests failed: page: 503."),
        (ALL, {}, 0, "No image was judged meanwhile, so the clients shared the machine with nobody."),
        ({**ALL, "page": [0.2, 2.0]}, {}, 3, "Pages took 1.91 s in the 95th percentile, 1 s are allowed."),
        ({**ALL, "state": []}, {}, 3, "No request for a state was answered."),
    ],
)
def test_a_run_that_proves_nothing_fails(times, errors, judged, sentence):
    assert sentence in shortcomings(times, errors, judged=judged)


def test_pages_that_were_never_opened_or_late_are_told():
    assert slow_pages({"judge": [0.1, 0.2, 9.0], "lots": [0.3]}, limit=0.5) == []
    assert slow_pages({"judge": [], "lots": [0.7]}, limit=0.5) == [
        "The page judge was never opened.",
        "The page lots stood after 0.70 s, 0.5 s are allowed.",
    ]
