"""`sparcal calibrate`: a lot from 2 to 8 images known to be good."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparcal.cli.console import Json, print_json, print_table, progress, say, use_cores, wrong_call


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)


def calibrate(
    station: Annotated[Path, typer.Argument(help="Folder of the station.")],
    normals: Annotated[list[str], typer.Argument(help="2 to 8 images of good parts of the lot, or their folder.")],
    lot: Annotated[str, typer.Option(help="Name of the lot; any text that is new.")],
    k: Annotated[int | None, typer.Option(min=2, help="Take the first k images only.")] = None,
    correction: Annotated[str, typer.Option(help="auto, or one of 'sparcal corrections'.")] = "auto",
    false_reject: Annotated[float, typer.Option(help="Share of good parts that may be rejected.")] = 0.01,
    operator: Annotated[str | None, typer.Option(help="Who does this; kept with the lot.")] = None,
    activate: Annotated[
        bool | None, typer.Option(help="Judge with this lot from now on; default: unless a check says stop.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Local weight file of the encoder.")] = None,
    as_json: Json = False,
) -> None:
    """Check the good parts, fit the correction, rebuild the reference, set the threshold, and write the lot."""
    from sparcal.calibration.thresholds import check_rate
    from sparcal.imaging.find import find_images
    from sparcal.station.lot_name import clean_name
    from sparcal.station.station import Station

    with wrong_call():
        clean_name(lot)
        check_rate(false_reject)
        images = find_images([str(part) for part in normals])[:k]
        opened = Station.open(station, weights=weights, workers=use_cores())
    with progress(f"Calibrating lot {lot}") as report:
        made = opened.calibrate(
            images,
            lot,
            correction=correction,
            operator=operator,
            false_reject=false_reject,
            activate=activate,
            progress=report,
        )
    active = opened.active() == made.name
    if as_json:
        print_json({**made.record.to_json(), "active": active})
        return
    print_table(check_rows(made.record.checks), title=f"Checks of lot {lot}")
    say(made.record.choice.sentence)
    say(made.threshold.sentence)
    say(f"Lot {lot} judges from now on." if active else f"Lot {lot} is written but does not judge yet: see the checks.")


def check_rows(checks: object) -> list[dict[str, object]]:
    """One line per check, for a table."""
    return [
        {"check": check.name, "verdict": check.verdict, "number": check.number, "what it means": check.sentence}
        for check in checks  # type: ignore[attr-defined]
    ]
