"""The study that makes the picture of docs/explanation/planted-defects.md: a case that exists, and a report with its counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speed.studies.challenge import CASE, challenge
from speed.studies.lots import cases


def test_its_case_is_one_of_the_rendered_lots():
    assert CASE in {case.name for case in cases(None)}


@pytest.mark.slow
def test_it_tells_what_was_foretold_and_what_was_found(tmp_path):
    said = challenge(tmp_path / "station", CASE, 3)
    assert "planted defects" in said
    assert re.search(r"Of 48 bad parts \d+ are found, of 48 good ones \d+ are rejected\.", said)
    page = re.search(r"The page is (.*)\.$", said)
    assert page
    assert Path(page[1]).stat().st_size < 1_000_000
