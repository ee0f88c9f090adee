"""`sparcal compare`: what differs between two lots, fact by fact."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sparcal.calibration.defaults import OWN_REFERENCE
from sparcal.cli.completion import lot_names
from sparcal.cli.console import print_json, print_table, wrong_call
from sparcal.cli.options import Json, StationPath

OWN = "the station's own reference"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(tell_lots_apart)


def tell_lots_apart(
    station: StationPath,
    first: Annotated[str, typer.Argument(help="A lot.", autocompletion=lot_names)],
    second: Annotated[
        str | None, typer.Argument(help="Another; without it, the station's own reference.", autocompletion=lot_names)
    ] = None,
    as_json: Json = False,
) -> None:
    """Two lots side by side. Their images, corrections, thresholds, planted defects found, and checks."""
    from sparcal.station.station import Station

    with wrong_call():
        opened = Station.open(station)
        rows = opened.compare(opened.lot(first).name, second)
    if as_json:
        print_json({"first": first, "second": second, "compare": rows})
    else:
        print_comparison(rows, first, second)


def print_comparison(rows: list[dict[str, Any]], first: str | None, second: str | None) -> None:
    """One row per fact, for people."""
    from sparcal.calibration.check_words import check_title

    names = [OWN if name is None else name for name in (first, second)]
    if names[0] == names[1]:
        names = [f"{names[0]} (1)", f"{names[1]} (2)"]
    table = []
    for row in rows:
        values = [in_words(row[side]) if row["what"] == "correction" else row[side] for side in ("first", "second")]
        kind, _, check = row["what"].partition(": ")
        if kind != "check":  # what it measured means little without its sentence, which `sparcal show` has
            table.append({"": check_title(check) if check else kind, names[0]: values[0], names[1]: values[1]})
    print_table(table)


def in_words(correction: object) -> str:
    """A correction's name as a person reads it."""
    return "station's own" if correction == OWN_REFERENCE else str(correction)
