"""One calibrated line for all tests of the commands; tests that change it put it back."""

from __future__ import annotations

import pytest

from sparcal.cli import run
from tests.support.tiny_line import fill, fit


@pytest.fixture(scope="session")
def calibrated_line(tmp_path_factory):
    """A folder with train/, normals/ and lot/, a fitted station, and an active lot L1."""
    root = fill(tmp_path_factory.mktemp("calibrated"))
    assert fit(root) == 0
    assert run(["calibrate", str(root / "station"), str(root / "normals"), "--lot", "L1", "--activate"]) == 0
    return root
