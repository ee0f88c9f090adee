"""A thing as another process would get it."""

from __future__ import annotations

import pickle
from typing import Any


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301
