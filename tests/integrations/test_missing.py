"""Bridges to libraries that are not installed say how to get them; tests/anomalib has the rest."""

from __future__ import annotations

import importlib
import sys

import pytest

from sparcal.errors import MissingExtraError


def test_missing_anomalib_names_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("sparcal.integrations")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "anomalib", None)  # as if it were not installed, wherever this runs
    with pytest.raises(MissingExtraError, match=r"needs anomalib 2.4 or newer.*pip install 'sparcal\[anomalib\]'"):
        importlib.import_module("sparcal.integrations.anomalib")
