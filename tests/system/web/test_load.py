"""The load test itself: a run that did nothing, or met an error, must fail."""

from __future__ import annotations

import pytest
from speed.web import KINDS, shortcomings

ALL = {"while scoring": {kind: [0.1] for kind in KINDS}}


def test_a_run_that_did_its_work_passes():
    assert shortcomings(ALL, {}, judged=3) == []


@pytest.mark.parametrize(
    ("times", "errors", "judged", "sentence"),
    [
        ({}, {}, 0, "No request for a page was answered."),
        (ALL, {"page: 503": 2}, 3, "2 requests failed: page: 503."),
        (ALL, {}, 0, "No image was judged, so the clients had nothing to wait for."),
        ({"at rest": ALL["while scoring"]}, {}, 3, "Nothing was read while images were scored: send more images."),
        ({"while scoring": {**ALL["while scoring"], "state": []}}, {}, 3, "No request for a state was answered."),
    ],
)
def test_a_run_that_proves_nothing_fails(times, errors, judged, sentence):
    assert sentence in shortcomings(times, errors, judged=judged)
