"""The runtime that a station was fitted with, asked for again: its features are of that one and no other. No torch here."""

from __future__ import annotations

from pathlib import Path

from sparcal.errors import DataError, MissingExtraError
from sparcal.runtimes import AUTO_RUNTIME, TORCH, check_runtime, missing_package, runtime_of
from sparcal.settings import text


def check_recorded_runtime(station: Path, encoder_id: str, asked: str) -> None:
    """Refuse another runtime than the station's, and one that is not installed; `auto` asks for the station's.

    Args:
        encoder_id: as the station recorded it.
    """
    recorded = runtime_of(encoder_id)
    text(asked, "A station's runtime")
    if asked not in (AUTO_RUNTIME, recorded):
        check_runtime(asked)
        raise DataError(
            f"The station {station} was fitted with the runtime {recorded}, got {asked}: leave --runtime out (runtime= in "
            f"Python), or fit another station with {asked}."
        )
    missing = None if recorded == TORCH else missing_package(recorded)
    if missing is not None:
        raise MissingExtraError(
            f"The station {station} was fitted with the runtime {recorded}, which needs {missing}, and that is not "
            "installed: run pip install 'sparcal[export]'."
        )
