"""What a web station is told when it starts, and where it keeps its own files."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from sparcal.devices import AUTO_DEVICE, find_device
from sparcal.errors import DataError
from sparcal.settings import file_path, instance_of, switch, text, texts, whole_number

MIN_TOKEN = 12
LARGEST_PORT = 65535
WEB_FOLDER = "web"


@dataclass(frozen=True)
class Limits:
    """How much a browser may send, and how much is kept."""

    upload_bytes: int = 64 * 2**20
    images: int = 20_000
    store_bytes: int = 50 * 2**30
    draft_images: int = 64

    def __post_init__(self) -> None:
        for name in ("upload_bytes", "images", "store_bytes", "draft_images"):
            whole_number(getattr(self, name), f"Limits.{name}", least=1)


@dataclass(frozen=True)
class WebSettings:
    """One running web station.

    Args:
        watch: a folder whose images are judged as they arrive; only the command line can name it.
        names: host names, beyond addresses and localhost, under which browsers may reach the page.
        device: where the worker computes; see `sparcal.devices`.
    """

    station: Path
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None
    insecure: bool = False
    watch: Path | None = None
    names: tuple[str, ...] = ()
    device: str = AUTO_DEVICE
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        instance_of(self.station, "WebSettings.station", Path)
        text(self.host, "WebSettings.host")
        whole_number(self.port, "WebSettings.port", least=0, most=LARGEST_PORT)
        text(self.token, "WebSettings.token", optional=True)
        switch(self.insecure, "WebSettings.insecure")
        instance_of(self.watch, "WebSettings.watch", Path, optional=True)
        texts(self.names, "WebSettings.names")
        text(self.device, "WebSettings.device")
        instance_of(self.limits, "WebSettings.limits", Limits)
        if self.token is not None and len(self.token) < MIN_TOKEN:
            raise DataError(
                f"The token must have at least {MIN_TOKEN} characters, got {len(self.token)}: use a longer one."
            )
        if self.token is None and not self.insecure and not is_loopback(self.host):
            raise DataError(
                f"Serving on {self.host} lets other machines in, so it needs a token, got none: "
                "pass --token, or --insecure if the network itself is trusted."
            )
        if self.device not in (AUTO_DEVICE, "cpu"):  # these are always there, and asking loads torch
            find_device(self.device)
        file_path(self.watch, "The watched folder", optional=True)
        if self.watch is not None and not self.watch.is_dir():
            raise DataError(f"The watched folder must be a folder, got {self.watch}, which is not one.")
        if self.watch is not None and _overlap(self.watch.resolve(), self.station.resolve()):
            raise DataError(
                f"The watched folder must lie outside the station's folder and not around it, got {self.watch}: "
                "the station would judge its own pictures."
            )

    @property
    def folder(self) -> Path:
        """Where the web station keeps its database, uploads and pictures."""
        return self.station / WEB_FOLDER


def _overlap(first: Path, second: Path) -> bool:
    return first.is_relative_to(second) or second.is_relative_to(first)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
