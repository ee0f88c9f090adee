"""What made something is written down: sparcal, Python, and the packages that decide about numbers."""

from __future__ import annotations

import platform

import torch

import sparcal
from sparcal.files.versions import versions


def test_versions_are_those_that_run():
    recorded = versions()
    assert recorded["sparcal"] == sparcal.__version__
    assert recorded["python"] == platform.python_version()
    assert recorded["torch"] == torch.__version__.split("+")[0] or recorded["torch"] == torch.__version__


def test_a_missing_package_is_left_out(monkeypatch):
    monkeypatch.setattr("sparcal.files.versions._PACKAGES", ("no-such-package",))
    assert set(versions()) == {"sparcal", "python"}
