"""`sparcal export`: a calibrated lot for machines without torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparcal.cli.completion import lot_names
from sparcal.cli.console import print_json, print_sentence, print_table, progress, wrong_call
from sparcal.cli.options import Device, Json, StationPath, StationRuntime, WeightsFile
from sparcal.devices import AUTO_DEVICE
from sparcal.runtimes import AUTO_RUNTIME


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)


def export(
    station: StationPath,
    lot: Annotated[
        str | None, typer.Option(help="The lot's name; by default the active one.", autocompletion=lot_names)
    ] = None,
    format_: Annotated[
        Literal["onnx", "openvino", "state"],
        typer.Option("--format", help="A whole graph, or state: this lot alone, for a graph exported before."),
    ] = "onnx",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write (state: file); by default LOT-FORMAT or LOT.safetensors.")
    ] = None,
    weights: WeightsFile = None,
    device: Device = AUTO_DEVICE,
    runtime: StationRuntime = AUTO_RUNTIME,
    as_json: Json = False,
) -> None:
    """Export a lot as a graph. ONNX or OpenVINO, for machines without torch."""
    from sparcal.export.lot import export_lot
    from sparcal.export.runner import METADATA
    from sparcal.station.lot_name import folder_name
    from sparcal.station.station import Station

    with wrong_call():
        calibrated = Station.open(station, weights=weights, device=device, runtime=runtime).lot(lot)
    name = folder_name(calibrated.name) if calibrated.name is not None else "own"
    target = out or Path(f"{name}.safetensors" if format_ == "state" else f"{name}-{format_}")
    with progress("Exporting"):
        path = export_lot(calibrated, target, format=format_)
    written = [path] if format_ == "state" else sorted(file for file in path.parent.iterdir() if file.is_file())
    report = {"lot": calibrated.name, "format": format_, "path": str(path), "threshold": calibrated.threshold.value}
    if format_ != "state":
        metadata = json.loads((path.parent / METADATA).read_text(encoding="utf-8"))
        report |= {name: metadata[name] for name in ("difference_from_torch", "compared_on")}
    if as_json:
        print_json({**report, "files": [str(file) for file in written]})
        return
    print_table([{"file": str(file), "kB": math.ceil(file.stat().st_size / 1000)} for file in written])
    print_sentence(f"{calibrated.title}, is exported as {format_}.")
