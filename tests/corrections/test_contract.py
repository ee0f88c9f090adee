"""Every correction against the one list of contract checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparcal.corrections import CORRECTIONS
from tests.support.correction_checks import checks_for


@pytest.mark.parametrize(
    ("name", "check"),
    [pytest.param(name, check, id=f"{name}-{check.__name__}") for name in CORRECTIONS for check in checks_for(name)],
)
def test_contract(name: str, check: Callable[[str], None]) -> None:
    check(name)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_what_is_said_to_be_exportable_can_be_exported(name: str) -> None:
    assert CORRECTIONS[name].exportable == hasattr(CORRECTIONS[name].kind, "export_state")
