"""Who takes part in the benchmark: the paper's nine hosts, the two query-conditioned detectors, and bare features."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, replace

from sparcal.bench.plan.unit import Unit
from sparcal.bench.plan.variant import Framing
from sparcal.detectors import DETECTORS, for_cell_pixels
from sparcal.encoders import load_encoder, parse_spec
from sparcal.errors import DataError
from sparcal.hosts import HOSTS, Host, load_host
from sparcal.types import Detector, Encoder

_CROP = "resize=short&size=256&crop=224&resample=bilinear"
_WRN = "timm:wide_resnet50_2.tv_in1k"

# Their reference is the calibration set: nothing is fitted on training images, and nothing corrects them.
QUERY_CONDITIONED: dict[str, Host] = {
    name: Host(
        name=name,
        title=title,
        family="reference",
        detector=name,
        encoder=f"{_WRN}?layers=8,16&aggregate=patchcore&{_CROP}",
    )
    for name, title in (("fastrecon", "FastRecon"), ("fastref", "FastRef"))
}

# No detector: the paper's diagnostics look at layer2 + layer3 of WRN-50, concatenated to 1536 channels.
FEATURES = "features"
FEATURES_ENCODER = f"{_WRN}?layers=8,16&aggregate=pool&{_CROP}"

# The paper's VisA images are centre-cropped for this host too, though it keeps whole images elsewhere; and SPARC needs
# one grid for all images of a category, which VisA's sizes would not give it.
_CROPPED = {
    ("anomalydino", "visa"): ("resize=short&size=448&multiple=14", "resize=short&size=448&crop=448&multiple=14")
}

NAMES = (*HOSTS, *QUERY_CONDITIONED, FEATURES)

# How the paper's main table names the encoders of the hosts.
BACKBONE_TITLES = {
    "patchcore": "WRN-50",
    "padim": "WRN-50",
    "spade": "WRN-50",
    "anomalydino": "DINOv2-S/14",
    "subspacead": "DINOv2-G",
    "winclip": "CLIP-B/16",
    "musc": "CLIP-L/14",
    "anomalyclip-v": "CLIP-L/14",
    "anomalyclip-m": "CLIP-L/14",
}


@dataclass(frozen=True, eq=False)
class Contender:
    """An encoder and the unfitted detector on it; no detector for bare features."""

    encoder: Encoder
    detector: Detector | None
    uses_calibration_as_reference: bool

    @property
    def needs_reference(self) -> bool:
        """Whether training features are needed."""
        if self.detector is None:
            return True
        return self.detector.family == "reference" and not self.uses_calibration_as_reference


def title_of(host: str) -> str:
    """The host's name in tables."""
    known = {**HOSTS, **QUERY_CONDITIONED}
    return known[host].title if host in known else host


def resolve_encoder(host: str, *, dataset: str = "", other: str = "", geometry: Framing = "centre-crop") -> str:
    """The encoder of a host in words, with another one and another geometry where they are asked for."""
    text = other or _own_encoder(host, dataset)
    if geometry == "centre-crop":
        return str(parse_spec(text))
    spec = parse_spec(text)
    return str(replace(spec, resize="pad", size=spec.crop or spec.size, crop=None))


def load_contender(unit: Unit) -> Contender:
    """The encoder and detector that a unit names."""
    weights, prompts = unit.weights or None, unit.prompts or None
    if unit.host == FEATURES:
        return Contender(load_encoder(unit.encoder, weights=weights), None, False)
    if unit.host in QUERY_CONDITIONED:
        host = QUERY_CONDITIONED[unit.host]
        encoder = load_encoder(unit.encoder, weights=weights, recipe=host.recipe)
        detector: Detector = for_cell_pixels(DETECTORS[host.detector](), encoder.cell_pixels)
    else:
        encoder, detector = load_host(unit.host, encoder=unit.encoder, weights=weights, prompts=prompts)
    return Contender(encoder, _with_settings(detector, unit), unit.host in QUERY_CONDITIONED)


def _own_encoder(host: str, dataset: str) -> str:
    if host == FEATURES:
        return FEATURES_ENCODER
    known = {**HOSTS, **QUERY_CONDITIONED}
    if host not in known:
        raise DataError(f"unknown host {host!r}; choose from {', '.join(NAMES)}.")
    return known[host].encoder.replace(*_CROPPED.get((host, dataset), ("", "")))


def _with_settings(detector: Detector, unit: Unit) -> Detector:
    """A copy of `detector` with the unit's settings; what texts it carries stays."""
    names = [f.name for f in fields(detector) if f.init and f.name != "map_rule"]  # type: ignore[arg-type]
    changed = copy.copy(detector)
    for name, value in unit.settings:
        if name not in names:
            raise DataError(f"The host {unit.host} has no setting {name!r}; choose from {', '.join(names)}.")
        setattr(changed, name, value)
    return changed
