"""`sparcal parts`: photographs to try everything on, for people who have none at hand."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sparcal.cli.console import print_json, print_sentence, wrong_call
from sparcal.cli.options import Json

if TYPE_CHECKING:
    from sparcal.rendering.products import ProductName


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(parts)


def parts(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    product: Annotated[str, typer.Option(help="What is made: plate, cap or fabric.")] = "plate",
    seed: Annotated[int, typer.Option(min=0, help="Another seed renders other parts.")] = 0,
    size: Annotated[int, typer.Option(min=64, help="Edge of the photographs in pixels.")] = 256,
    as_json: Json = False,
) -> None:
    """Render photographs of parts to try sparcal on. Training parts, a day under the old lamp, a lot under a new one."""
    from sparcal.rendering.line import TRUTH, write_line

    with wrong_call():
        written = write_line(folder, product=cast("ProductName", product), seed=seed, size=size)
    if as_json:
        print_json({"folder": str(folder), "folders": [asdict(one) for one in written], "truth": TRUTH})
        return
    for one in written:
        bad = f", {one.bad} of them bad" if one.bad else ", all good"
        print_sentence(f"{folder / one.name}: {one.parts} parts{bad}; lamp: {one.light.name}")
    print_sentence(f"{folder / TRUTH} says which parts are bad.")
