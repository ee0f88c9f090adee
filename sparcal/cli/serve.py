"""`sparcal serve`: the web station."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from sparcal.cli.console import print_json, say, wrong_call
from sparcal.cli.options import Device, Json, StationPath, StationRuntime
from sparcal.devices import AUTO_DEVICE
from sparcal.errors import DataError, MissingExtraError
from sparcal.runtimes import AUTO_RUNTIME


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    station: StationPath,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(envvar="SPARCAL_TOKEN", help="What browsers and programs must show; 12 characters or more."),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Serve other machines without a token.")] = False,
    watch: Annotated[Path | None, typer.Option(help="A folder whose images are judged as they arrive.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="A host name that browsers use for this machine.")] = None,
    device: Device = AUTO_DEVICE,
    runtime: StationRuntime = AUTO_RUNTIME,
    as_json: Json = False,
) -> None:
    """Serve the web station: calibrate and judge lots in a browser."""
    try:
        import uvicorn

        from sparcal.server.settings import WebSettings
        from sparcal.server.web.app import create_app
        from sparcal.server.web.patience import patient_config
    except ImportError as error:
        raise MissingExtraError(
            f"The web station needs {error.name}, which is not installed: run pip install 'sparcal[server]'."
        ) from error

    with wrong_call():
        settings = WebSettings(station, host, port, token, insecure, watch, tuple(name or ()), device)
        _check_runtime(station, runtime)
        app = create_app(settings)
    with _listening(host, port) as listening:
        address = _address(host, listening.getsockname()[1])
        if as_json:
            print_json({"address": address})
        else:
            say(f"The web station is at {address} (Ctrl+C ends it).")
        uvicorn.Server(patient_config(app)).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, so that asyncio sends small pieces at once; otherwise most answers wait 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise DataError(f"Serving needs a free address, got {host} port {port}: {error.strerror}.") from error
    return listening


def _check_runtime(station: Path, runtime: str) -> None:
    """Refuse here what the worker could not do."""
    from sparcal.station.folder import StationFolder
    from sparcal.station.recorded_runtime import check_recorded_runtime

    record = StationFolder(station).read_station()
    check_recorded_runtime(station, str(record.get("encoder_id", "")), runtime)


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
