"""`sparcal fit`: a station from a folder of good parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparcal.cli.console import Device, Json, core_count, print_json, progress, say, use_cores, wrong_call
from sparcal.cli.self_test import tell_self_test
from sparcal.devices import AUTO_DEVICE


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)


def fit(
    normals: Annotated[str, typer.Argument(help="Folder, file or pattern of images of good parts.")],
    station: Annotated[Path, typer.Option(help="Folder of the station to make.")],
    host: Annotated[str, typer.Option(help="Detector configuration; see 'sparcal hosts'.")] = "patchcore",
    encoder: Annotated[str | None, typer.Option(help="Another encoder than the host's own, e.g. bundled.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Local weight file of the encoder.")] = None,
    device: Device = AUTO_DEVICE,
    operator: Annotated[str | None, typer.Option(help="Who does this; kept in the station's history.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add the images to a station that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Fit a station on good parts, once. It keeps their features, so that each lot only needs a few images."""
    from sparcal.devices import find_device
    from sparcal.imaging.find import find_images
    from sparcal.station.station import Station

    with wrong_call():
        images = find_images(normals)
        grows = Station.open(station, weights=weights, workers=core_count(), device=device) if add else None
        _check_host(host)
        if device not in (AUTO_DEVICE, "cpu"):  # which are always there, and asking loads torch
            find_device(device)
    workers = use_cores()
    with progress("Encoding good parts", "Fitting and testing") as report:
        if grows is not None:
            fitted = grows.add(images, operator=operator, progress=report)
        else:
            fitted = Station.fit(
                images,
                host,
                path=station,
                encoder=encoder,
                weights=weights,
                operator=operator,
                workers=workers,
                device=device,
                progress=report,
            )
    own, tested = fitted.own(), fitted.record.self_test
    if as_json:
        said = {"station": str(station), "host": fitted.record.host, "encoder": fitted.record.encoder_id}
        facts = {"threshold": own.threshold.to_json(), "self_test": None if tested is None else tested.to_json()}
        print_json({**said, "images": len(fitted.record.images), **facts})
        return
    say(f"The station {station} is fitted on {len(fitted.record.images)} good parts.")
    say(own.threshold.sentence)
    if tested is not None:
        tell_self_test(tested)
    say("It judges with its own reference until a lot is calibrated: sparcal calibrate STATION NORMALS --lot NAME.")


def _check_host(name: str) -> None:
    from sparcal.hosts import find_host  # needs torch, so it comes after what can be refused at once

    find_host(name)
