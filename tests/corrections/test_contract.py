"""Every correction against the one list of contract checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparcal.corrections import CORRECTIONS
from sparcal.testing import CorrectionCase, correction_checks

CASES = [
    CorrectionCase(name, CORRECTIONS[name], learns=name != "identity", changes_test=name not in ("identity", "normals"))
    for name in CORRECTIONS
]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{case.name}-{name}")
        for case in CASES
        for name, check in correction_checks(case).items()
    ],
)
def test_contract(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("name", CORRECTIONS)
def test_what_is_said_to_be_exportable_can_be_exported(name: str) -> None:
    assert CORRECTIONS[name].exportable == hasattr(CORRECTIONS[name].kind, "export_state")
