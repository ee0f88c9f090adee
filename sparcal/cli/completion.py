"""What a shell offers when Tab is pressed, beyond commands, options and files."""

from __future__ import annotations

from pathlib import Path

from typer import Context

from sparcal.errors import SparcalError


def lot_names(ctx: Context, incomplete: str) -> list[str]:
    """The lots of the station that the call names so far; none where it names no station."""
    from sparcal.station.folder import StationFolder

    named = ctx.params.get("station") or next(iter(ctx.args), "")  # in args while an option waits for its value
    try:
        records = StationFolder(Path(named)).read_lots()
    except (SparcalError, OSError, ValueError):
        return []
    return [record["name"] for record in records if record["name"].startswith(incomplete)]
