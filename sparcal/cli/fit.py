"""`sparcal fit`: a station from a folder of good parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparcal.cli.console import Device, Json, core_count, print_json, progress, say, use_cores, wrong_call
from sparcal.cli.self_test import tell_self_test
from sparcal.devices import AUTO_DEVICE

if TYPE_CHECKING:
    from sparcal.station.station import Station


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
    insist: Annotated[
        bool, typer.Option("--insist", help="Fit even if more than 5 % of the images must be left out.")
    ] = False,
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
            fitted = grows.add(images, operator=operator, insist=insist, progress=report)
        else:
            fitted = Station.fit(
                images,
                host,
                path=station,
                encoder=encoder,
                weights=weights,
                operator=operator,
                workers=workers,
                insist=insist,
                device=device,
                progress=report,
            )
    if as_json:
        print_json(_facts(fitted))
    else:
        _tell(fitted)


def _facts(fitted: Station) -> dict[str, object]:
    """A fitted station for machines."""
    record, tested = fitted.record, fitted.record.self_test
    return {
        "station": str(fitted.path),
        "host": record.host,
        "encoder": record.encoder_id,
        "images": len(record.images),
        "left_out": [{"path": path, "reason": reason} for path, reason in record.left_out],
        "checks": [check.to_json() for check in record.checks],
        "threshold": fitted.own().threshold.to_json(),
        "self_test": None if tested is None else tested.to_json(),
    }


def _tell(fitted: Station) -> None:
    """A fitted station for people."""
    station, tested = fitted.path, fitted.record.self_test
    say(f"The station {station} is fitted on {len(fitted.record.images)} good parts.")
    tell_left_out(fitted)
    for check in fitted.record.checks:
        if check.verdict != "ok":
            say(f"{check.name}: {check.sentence}")
    say(fitted.own().threshold.sentence)
    if tested is not None:
        tell_self_test(tested)
    say("It judges with its own reference until a lot is calibrated: sparcal calibrate STATION NORMALS --lot NAME.")


def _check_host(name: str) -> None:
    from sparcal.hosts import find_host  # needs torch, so it comes after what can be refused at once

    find_host(name)


def tell_left_out(station: Station) -> None:
    """The images that a station was given and not fitted on, each with the reason."""
    left_out = station.record.left_out
    if left_out:
        say(f"{len(left_out)} image{' was' if len(left_out) == 1 else 's were'} left out:")
    for _, reason in left_out:
        say(f"  {reason}")
