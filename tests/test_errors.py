"""The error tree is as it is drawn: each error is also what Python calls it."""

from __future__ import annotations

import re

import pytest

from sparcal import errors

DRAWN = dict(re.findall(r"[├└]── (\w+).*\(also (\w+)\)", errors.__doc__))


def test_every_error_is_drawn():
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name != "SparcalError"}
    assert kinds - {"annotations"} == set(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_an_error_is_what_is_drawn(name):
    kind = getattr(errors, name)
    builtin = {kind.__name__: kind for kind in (ValueError, RuntimeError, ImportError, OSError, IndexError)}[
        DRAWN[name]
    ]
    assert issubclass(kind, errors.SparcalError)
    assert issubclass(kind, builtin)
