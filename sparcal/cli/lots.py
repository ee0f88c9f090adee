"""`sparcal lots` and `sparcal show`: what a station has been calibrated to, and one lot in full."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparcal.cli.calibrate import check_rows
from sparcal.cli.console import CallError, Json, print_json, print_table, say, wrong_call


def register(app: typer.Typer) -> None:
    """Add the two commands."""
    app.command()(lots)
    app.command()(show)


def lots(
    station: Annotated[Path, typer.Argument(help="Folder of the station.")],
    activate: Annotated[str | None, typer.Option(help="Judge with this lot from now on (roll back).")] = None,
    own: Annotated[bool, typer.Option("--own", help="Judge with the station's own reference from now on.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Who did what when, instead.")] = False,
    operator: Annotated[str | None, typer.Option(help="Who does this; kept in the history.")] = None,
    as_json: Json = False,
) -> None:
    """The station's lots, oldest first; the active one judges."""
    from sparcal.station import Station

    if own and activate is not None:
        raise CallError("Either --activate NAME or --own can be asked for, got both: leave one out.")
    with wrong_call():
        opened = Station.open(station)
    if own or activate is not None:
        opened.activate(activate, operator=operator)
    if history:
        rows = opened.history()
    else:
        active = opened.active()
        rows = [
            {
                "lot": lot.name,
                "active": lot.name == active,
                "created": lot.record.created,
                "operator": lot.record.operator,
                "images": len(lot.record.images),
                "correction": lot.record.correction,
                "threshold": lot.threshold.value,
                "checks": lot.record.verdict,
            }
            for lot in opened.lots()
        ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows)
        if not history and opened.active() is None:
            say("No lot is active: the station judges with its own reference.")
    else:
        say(f"The station {station} has no lots: it judges with its own reference until one is calibrated.")


def show(
    station: Annotated[Path, typer.Argument(help="Folder of the station.")],
    lot: Annotated[str | None, typer.Option(help="Name of the lot; without it, the one that judges.")] = None,
    against: Annotated[str | None, typer.Option(help="Another lot to compare with.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Set the lot's image threshold by hand.")] = None,
    operator: Annotated[str | None, typer.Option(help="Who does this; kept in the history.")] = None,
    as_json: Json = False,
) -> None:
    """One lot: its checks, its threshold and where that comes from, who made it; or two lots side by side."""
    from sparcal.station import Station

    with wrong_call():
        opened = Station.open(station)
        shown = opened.lot(lot)
        rows = opened.compare(shown.name, against) if against is not None else []
    if threshold is not None:
        shown = opened.set_threshold(shown.name, threshold, operator=operator)
    if as_json:
        limits = {"threshold": shown.threshold.to_json(), "pixel_threshold": shown.pixel_threshold.to_json()}
        print_json({"compare": rows} if against is not None else {**shown.record.to_json(), **limits})
        return
    if against is not None:
        print_table(rows, title=f"{shown.name} against {against}")
        return
    record = shown.record
    say(f"{shown.title}, made {record.created}{f' by {record.operator}' if record.operator else ''}.")
    if record.checks:
        print_table(check_rows(record.checks))
    if record.choice.sentence:
        say(record.choice.sentence)
    say(shown.threshold.sentence)
    print_table(_histogram(record.image.histogram()), title="Scores of good parts behind the threshold")


def _histogram(bins: dict[str, list[float]]) -> list[dict[str, object]]:
    """Bars of text: the station's own parts, and the lot's marked after them."""
    edges, own, lot = bins["edges"], bins["own"], bins["lot"]
    most = max([*(a + b for a, b in zip(own, lot, strict=True)), 1])
    rows: list[dict[str, object]] = []
    for low, high, mine, theirs in zip(edges[:-1], edges[1:], own, lot, strict=True):
        bar = "#" * round(40 * mine / most) + "o" * (round(40 * theirs / most) or int(theirs > 0))
        rows.append({"score": f"{low:.4g} to {high:.4g}", "station": mine, "lot": theirs, "# station, o lot": bar})
    return rows
