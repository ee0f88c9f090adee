"""sparcal recalibrates a frozen visual anomaly detector to an incoming lot, from a few images known to be good."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparcal.artifacts import load as load
    from sparcal.artifacts import save as save
    from sparcal.corrections import CORRECTIONS as CORRECTIONS
    from sparcal.detectors import DETECTORS as DETECTORS
    from sparcal.encoders import load_encoder as load_encoder
    from sparcal.errors import SparcalError as SparcalError
    from sparcal.hosts import HOSTS as HOSTS
    from sparcal.hosts import load_host as load_host
    from sparcal.imaging.encode import encode as encode
    from sparcal.score import score_lot as score_lot
    from sparcal.sparc import SPARC as SPARC
    from sparcal.station.lot import Lot as Lot
    from sparcal.station.station import Station as Station
    from sparcal.types import Features as Features
    from sparcal.types import Scores as Scores

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first used, so that `import sparcal` costs nothing.
_HOMES = {
    "CORRECTIONS": "corrections",
    "DETECTORS": "detectors",
    "Features": "types",
    "HOSTS": "hosts",
    "Lot": "station.lot",
    "SPARC": "sparc",
    "Scores": "types",
    "SparcalError": "errors",
    "Station": "station.station",
    "encode": "imaging.encode",
    "load": "artifacts",
    "load_encoder": "encoders",
    "load_host": "hosts",
    "save": "artifacts",
    "score_lot": "score",
}

__all__ = [
    "CORRECTIONS",
    "DETECTORS",
    "HOSTS",
    "SPARC",
    "Features",
    "Lot",
    "Scores",
    "SparcalError",
    "Station",
    "encode",
    "load",
    "load_encoder",
    "load_host",
    "save",
    "score_lot",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'sparcal' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(f"sparcal.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
