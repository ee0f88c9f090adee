"""Arguments and options that several commands take, said once: they read and mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of a table.")]

StationPath = Annotated[Path, typer.Argument(help="Folder of the station.")]
WeightsFile = Annotated[Path | None, typer.Option(help="Local weight file of the encoder.")]
OperatorName = Annotated[str | None, typer.Option(help="Who does this; kept in the history.")]
StopReason = Annotated[
    str | None, typer.Option("--reason", help="Why it judges even if a check says stop; kept in the history.")
]

Device = Annotated[
    str, typer.Option(help="Where to compute: auto (a CUDA card if there is one, else cpu), cpu, cuda, cuda:1 or mps.")
]
NewRuntime = Annotated[
    str | None,
    typer.Option(
        help="What computes the encoder on a processor: torch (the default), openvino, onnx, or auto for the fastest here.",
        show_default=False,
    ),
]
StationRuntime = Annotated[
    str, typer.Option(help="What computes the encoder: auto, which is what the station was fitted with, or its name.")
]

# Of `sparcal score` and `sparcal-line score`.
JudgedImages = Annotated[list[str], typer.Argument(help="Images, folders or patterns.")]
ResultsPath = Annotated[Path | None, typer.Option(help="Folder for tables, maps, overlays and the page.")]
MapFormat = Annotated[str, typer.Option(help="Native-size float maps in --out: npy, tiff or none.")]
Overlays = Annotated[bool, typer.Option(help="Heat maps over the images, in --out.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on judging what arrives in the folder.")]
Idle = Annotated[float | None, typer.Option(help="With --watch, end after so many seconds without a new image.")]
