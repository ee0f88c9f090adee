"""Why the web station says no: what was named is not there, the state does not allow it, or it is too much."""

from __future__ import annotations

from sparcal.errors import DataError


class NotFoundError(DataError):
    """Something was named that is not there."""


class ConflictError(DataError):
    """Something was asked for that the present state does not allow."""


class TooLargeError(DataError):
    """An upload is beyond a limit."""
