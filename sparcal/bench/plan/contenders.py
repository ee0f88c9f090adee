"""Who takes part in the benchmark: the paper's nine hosts, the two query-conditioned detectors, and bare features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparcal.bench.datasets import DATASETS
from sparcal.bench.plan.unit import Unit, hashable_settings
from sparcal.bench.plan.variant import DetectorSettings, Framing
from sparcal.detectors import AnomalyDINO, WinCLIP
from sparcal.detectors.anomalydino import with_foreground
from sparcal.encoders import Recipe, load_encoder, parse_spec
from sparcal.errors import DataError
from sparcal.hosts import HOSTS, Host, build_host, encoder_for, make_detector
from sparcal.types import Detector, Encoder, Features

_CROP = "resize=short&size=256&crop=224&resample=bilinear"
_WRN = "timm:wide_resnet50_2.tv_in1k"

# Their reference is the calibration set: nothing is fitted on training images, and nothing corrects them. FastRecon's
# encoder is that of its authors' code. FastRef has none; its text puts it on PatchCore, so it has PatchCore's descriptor.
QUERY_CONDITIONED: dict[str, Host] = {
    host.name: host
    for host in (
        Host(
            name="fastrecon",
            title="FastRecon",
            family="reference",
            detector="fastrecon",
            encoder=f"{_WRN}?layers=8,16&aggregate=pool-nearest&resize=square&size=256&crop=224&resample=lanczos",
            recipe=Recipe("layers=8,16&aggregate=pool-nearest", "aggregate=pool-nearest"),
        ),
        Host(
            name="fastref",
            title="FastRef",
            family="reference",
            detector="fastref",
            encoder=HOSTS["patchcore"].encoder,
        ),
    )
}

# No detector: the paper's diagnostics look at layer2 + layer3 of WRN-50, concatenated to 1536 channels "before
# detector-specific feature reduction or scoring", so nothing is pooled either.
FEATURES = "features"
FEATURES_ENCODER = f"{_WRN}?layers=8,16&aggregate=nearest&{_CROP}"

# The paper's VisA images are centre-cropped for this host too, though it keeps whole images elsewhere; and SPARC needs
# one grid for all images of a category, which VisA's sizes would not give it.
_CROPPED = {
    ("anomalydino", "visa"): ("resize=short&size=448&multiple=14", "resize=short&size=448&crop=448&multiple=14")
}

NAMES = (*HOSTS, *QUERY_CONDITIONED, FEATURES)


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

    @property
    def masks_foreground(self) -> bool:
        """Whether the detector reads a foreground that must be taken from uncorrected features."""
        return isinstance(self.detector, AnomalyDINO) and self.detector.mask == "cls"

    def prepare(self, features: Features) -> Features:
        """Uncorrected features as the detector wants them, corrected or not."""
        if not self.masks_foreground:
            return features
        assert isinstance(self.detector, AnomalyDINO)
        return with_foreground(features, self.detector.threshold)


def title_of(host: str) -> str:
    """The host's name in tables."""
    return host if host == FEATURES else known_host(host).title


def resolve_encoder(
    host: str,
    *,
    dataset: str = "",
    other: str = "",
    geometry: Framing = "centre-crop",
    settings: DetectorSettings = (),
) -> str:
    """The encoder of a host in words, with another one and another geometry where they are asked for."""
    text = other or _own_encoder(host, dataset)
    if host != FEATURES:
        text = encoder_for(make_detector(known_host(host), dict(settings)), text)
    spec = parse_spec(text)
    if geometry == "centre-crop":
        return str(spec)
    return str(replace(spec, resize="pad", size=spec.crop or spec.size, crop=None))


def resolve_settings(host: str, dataset: str, given: Mapping[str, object]) -> DetectorSettings:
    """The detector's settings on a dataset: the authors' for that dataset, then those given, which may name it too.

    Args:
        given: fields of the detector, and fields for one dataset under its name.
    """
    if host == FEATURES:
        return ()
    shared = {name: value for name, value in given.items() if not isinstance(value, Mapping)}
    special = given.get(dataset, {})
    assert isinstance(special, Mapping)
    return hashable_settings({**known_host(host).dataset_settings.get(dataset, {}), **shared, **special})


def load_contender(unit: Unit, device: str = "cpu") -> Contender:
    """The encoder, on a device, and the detector that a unit names."""
    weights, prompts = unit.weights or None, unit.prompts or None
    if unit.host == FEATURES:
        return Contender(load_encoder(unit.encoder, weights=weights, device=device), None, False)
    host, settings = known_host(unit.host), dict(unit.settings)
    encoder, detector = build_host(
        host,
        encoder=unit.encoder,
        weights=weights,
        prompts=prompts,
        category=category_words(unit) or None,
        settings=settings,
        device=device,
    )
    return Contender(encoder, detector, unit.host in QUERY_CONDITIONED)


def category_words(unit: Unit) -> str:
    """What the images of a unit show, where its detector compares with texts; else an empty text."""
    if unit.host == FEATURES:
        return ""
    detector = make_detector(known_host(unit.host), dict(unit.settings))
    if not isinstance(detector, WinCLIP) or not detector.needs_text:
        return ""
    return DATASETS[unit.dataset].describe(unit.category) if unit.dataset in DATASETS else "part"


def known_host(name: str) -> Host:
    """The host of that name, one of the nine or one whose reference is the calibration set."""
    hosts = {**HOSTS, **QUERY_CONDITIONED}
    if name not in hosts:
        raise DataError(f"unknown host {name!r}; choose from {', '.join(NAMES)}.")
    return hosts[name]


def _own_encoder(host: str, dataset: str) -> str:
    if host == FEATURES:
        return FEATURES_ENCODER
    return known_host(host).encoder.replace(*_CROPPED.get((host, dataset), ("", "")))
