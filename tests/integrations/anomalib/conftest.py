"""These tests need anomalib, whose pins do not fit the main environment: `make test-anomalib` builds one and runs them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

FEW_PLANTED = 8

try:
    version("anomalib")
    collect_ignore_glob: list[str] = []
except PackageNotFoundError:
    collect_ignore_glob = ["*.py"]


def pytest_configure(config: pytest.Config) -> None:
    # anomalib, Lightning and the exporters warn a great deal; what sparcal itself says still counts.
    for line in ("ignore", "error:::sparcal", "error::sparcal.sparc.EvidenceWarning"):
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rendered parts: `train`, `lot/good`, `lot/more`, `test/good`, `test/bad`."""
    from tests.support.anomalib_parts import render_folders

    root = tmp_path_factory.mktemp("parts")
    render_folders(root)
    return root


@pytest.fixture(autouse=True)
def _few_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen planted defects take the same ways as the usual number, in a tenth of the time."""
    monkeypatch.setattr("sparcal.integrations.anomalib.model_station.PLANTED", FEW_PLANTED)


@pytest.fixture
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """anomalib's hard-coded downloads become small random models."""
    from tests.support.anomalib_parts import tiny_create_model, tiny_openclip

    monkeypatch.setattr("timm.create_model", tiny_create_model)
    monkeypatch.setattr("open_clip.create_model_and_transforms", tiny_openclip)
