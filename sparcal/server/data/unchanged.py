"""What the database has answered, remembered until it changes: every open page asks for the same, each second."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from sparcal.server.data.database import current_revision

Remembered = TypeVar("Remembered")
_MOST = 64  # answers that are kept: a station is asked the same by many, and anything by anybody


class Unchanged:
    """Answers of the database at one revision; a reader of another one begins anew, so none is ever out of date."""

    def __init__(self) -> None:
        self._known: tuple[int, dict[Hashable, Any]] = (-1, {})

    def answer(self, connection: sqlite3.Connection, key: Hashable, ask: Callable[[], Remembered]) -> Remembered:
        """What `ask` has answered since the last change, or what it answers now.

        Args:
            connection: within a transaction, so that all it reads is of one revision.
            key: names the question, with everything the answer depends on besides the database.
        """
        revision = current_revision(connection)
        known = self._known
        if known[0] != revision or len(known[1]) >= _MOST:
            known = self._known = (revision, {})
        if key not in known[1]:
            known[1][key] = ask()
        found: Remembered = known[1][key]
        return found
