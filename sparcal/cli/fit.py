"""`sparcal fit`: a station from a folder of good parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparcal.cli.calibrate import with_short_names
from sparcal.cli.console import print_json, print_sentence, progress, say, tell_nameless, use_cores, wrong_call
from sparcal.cli.options import Device, Json, NewRuntime, OperatorName, WeightsFile
from sparcal.cli.self_test import tell_self_test
from sparcal.devices import AUTO_DEVICE
from sparcal.runtimes import AUTO_RUNTIME, TORCH, check_runtime, installed_runtimes, runtime_of
from sparcal.threads import core_count

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
    weights: WeightsFile = None,
    device: Device = AUTO_DEVICE,
    runtime: NewRuntime = None,
    operator: OperatorName = None,
    insist: Annotated[
        bool, typer.Option("--insist", help="Fit even if more than 5 % of the images must be left out.")
    ] = False,
    add: Annotated[bool, typer.Option("--add", help="Add the images to a station that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Fit a station on good parts, once. It keeps their features, so that each lot only needs a few images."""
    from sparcal.imaging.find import find_images
    from sparcal.station.station import Station

    with wrong_call():
        images = find_images(normals)
        grows = _opened(station, weights, device, runtime) if add else None
        _check_host(host)
        _check_computing(device, runtime, encoder)
        _check_encoder(host, encoder, weights)
    workers = use_cores()
    from sparcal.station.making import STAGES_OF_FITTING  # loads torch, which a wrong call needs not wait for

    with progress(*STAGES_OF_FITTING) as report:
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
                runtime=runtime,
                progress=report,
            )
    if as_json:
        print_json(_facts(fitted))
    else:
        tell_nameless(operator)
        _tell(fitted, of_runtimes=runtime is None and not add)


def _opened(station: Path, weights: Path | None, device: str, runtime: str | None) -> Station:
    from sparcal.station.station import Station

    asked = runtime or AUTO_RUNTIME
    return Station.open(station, weights=weights, workers=core_count(), device=device, runtime=asked)


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


def _tell(fitted: Station, *, of_runtimes: bool) -> None:
    """A fitted station for people."""
    if of_runtimes:
        _tell_of_runtimes(fitted)
    station, tested = fitted.path, fitted.record.self_test
    print_sentence(f"The station {station} is fitted on {len(fitted.record.images)} good parts.")
    tell_left_out(fitted)
    if fitted.record.runtime_sentence is not None:
        print_sentence(fitted.record.runtime_sentence)
    for check in fitted.record.checks:
        if check.verdict != "ok":
            print_sentence(with_short_names(check.sentence, check.images))
    print_sentence(fitted.own().threshold.sentence)
    if tested is not None:
        tell_self_test(tested)
    print_sentence(
        f"It judges with its own reference until a lot is calibrated: sparcal calibrate {station} NORMALS --lot NAME."
    )


def _tell_of_runtimes(fitted: Station) -> None:
    """A hint for those who wait longer than they must."""
    there = installed_runtimes()
    if there and fitted.device.type == "cpu" and runtime_of(fitted.record.encoder_id) == TORCH:
        say(
            f"This station judges with torch. If that is too slow, {' or '.join(there)} may be faster here: fit another "
            "station with --runtime auto, which measures, and takes what is faster and agrees."
        )


def _check_computing(device: str, runtime: str | None, encoder: str | None) -> None:
    """Refuse devices and runtimes that are not there, or not together."""
    from sparcal.encoders.placement import device_for
    from sparcal.encoders.spec import parse_spec

    spec = None if encoder is None else parse_spec(encoder)
    named = runtime or (spec and spec.runtime) or TORCH
    check_runtime(named)
    device_for(named, device, None if spec is None else spec.precision)


def _check_encoder(host: str, encoder: str | None, weights: Path | None) -> None:
    """Refuse an encoder that nobody knows, and a weight file that is not there, or that it has no use for."""
    from sparcal.encoders.known_models import require_known_model
    from sparcal.encoders.spec import check_weights, parse_spec
    from sparcal.hosts import find_host

    spec = parse_spec(encoder or find_host(host).encoder)
    check_weights(spec, weights)
    require_known_model(spec)


def _check_host(name: str) -> None:
    from sparcal.hosts import find_host  # needs torch, so it comes after what can be refused at once

    find_host(name)


def tell_left_out(station: Station) -> None:
    """The images that a station was given and not fitted on, each with the reason."""
    left_out = station.record.left_out
    if left_out:
        print_sentence(f"{len(left_out)} image{' was' if len(left_out) == 1 else 's were'} left out:")
    for _, reason in left_out:
        print_sentence(f"  {reason}")
