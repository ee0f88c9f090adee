"""What is written about a lot.

Opening a station reads no lot, so the rooms that know how to read one are asked for when one is read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sparcal.calibration.defaults import OWN_REFERENCE
from sparcal.calibration.thresholds import Threshold, find_threshold, histogram
from sparcal.files.json_record import understood

if TYPE_CHECKING:
    from sparcal.calibration.check import Check, Verdict
    from sparcal.calibration.choice import Choice
    from sparcal.calibration.self_test import SelfTest
    from sparcal.imaging.camera_format import CameraFormat
    from sparcal.station.record import StationRecord

CORRECTION_FILE = "correction.safetensors"
REFERENCE_FILE = "reference.safetensors"
MAPS_FILE = "maps.safetensors"
SELF_TEST_FILE = "self-test.html"


@dataclass(frozen=True)
class Pair:
    """Scores of the station's own good parts, out of fold, and of the lot's, left out in turn."""

    own: tuple[float, ...]
    lot: tuple[float, ...]

    def histogram(self) -> dict[str, list[float]]:
        """Bin edges, and how many of each fall between them."""
        return histogram(self.own, self.lot)


@dataclass(frozen=True)
class LotRecord:
    """Everything that is known about a lot, as it stands in its lot.json.

    Args:
        name: None for the station's own reference, before any lot.
        station: digest of the station's record at the time.
        asked: the correction that was asked for; "auto" lets the evidence decide.
        images: path and SHA-256 of each calibration image.
        kinds: (H, W, grey) of the images it was made from; others are not scored.
        image, pixel: evidence for the two thresholds; for pixels, the highest pixel of each part's map.
        base: image scores of the same parts by the station's own reference.
        outside: what a map says where the encoder never looked.
        files: SHA-256 of each file beside lot.json.
        self_test: None where too few parts were shown, and in lots of version 0.1.
    """

    name: str | None
    created: str
    operator: str | None
    station: str
    host: str
    encoder: str
    correction: str
    asked: str
    choice: Choice
    images: tuple[tuple[str, str], ...]
    kinds: tuple[CameraFormat, ...]
    image_threshold: Threshold
    pixel_threshold: Threshold
    image: Pair
    pixel: Pair
    base: Pair
    checks: tuple[Check, ...]
    outside: float
    seconds: float
    versions: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    self_test: SelfTest | None = None

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of the checks."""
        from sparcal.calibration.check import worst

        return worst(self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the histograms; `from_json` gives the same record back."""
        shown = {"image": self.image.histogram(), "pixel": self.pixel.histogram()}
        tested = None if self.self_test is None else self.self_test.to_json()
        return {**asdict(self), "verdict": self.verdict, "histogram": shown, "self_test": tested}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LotRecord:
        """The record that `to_json` wrote."""
        from sparcal.calibration.check import Check
        from sparcal.calibration.self_test import SelfTest

        with understood("The lot's record"):
            tested = data.get("self_test")
            image, pixel, base = (
                Pair(tuple(data[name]["own"]), tuple(data[name]["lot"])) for name in ("image", "pixel", "base")
            )
            return cls(
                **{name: data[name] for name in _PLAIN},
                image=image,
                pixel=pixel,
                base=base,
                choice=_choice(data["choice"]),
                images=tuple((path, digest) for path, digest in data["images"]),
                kinds=tuple((h, w, grey) for h, w, grey in data["kinds"]),
                image_threshold=Threshold.from_json(data["image_threshold"]),
                pixel_threshold=Threshold.from_json(data["pixel_threshold"]),
                checks=tuple(Check.from_json(check) for check in data["checks"]),
                self_test=None if tested is None else SelfTest.from_json(tested),
            )


_PLAIN = (
    "name", "created", "operator", "station", "host", "encoder", "correction", "asked", "outside", "seconds",
    "versions", "files",
)  # fmt: skip


def _choice(data: dict[str, Any]) -> Choice:
    """A choice as it was written; version 0.1 compared corrections by other figures, which are passed over."""
    from sparcal.calibration.choice import Choice, Trial

    trials = tuple(Trial(**one) for one in data["trials"] if "stands_out" in one)
    return Choice(data["correction"], data.get("settings", {}), data["helps"], data["sentence"], trials)


def own_record(of: StationRecord, station: str, false_reject: float) -> LotRecord:
    """The station's own reference, described as a lot without a name."""
    from sparcal.calibration.choice import Choice

    sentence = "Not calibrated to any lot: the station's own reference scores."
    image, pixel = Pair(of.own, ()), Pair(of.own_peak, ())
    return LotRecord(
        name=None,
        created=of.created,
        operator=of.operator,
        station=station,
        host=of.host,
        encoder=of.encoder_id,
        correction=OWN_REFERENCE,
        asked=OWN_REFERENCE,
        choice=Choice(OWN_REFERENCE, {}, None, sentence, ()),
        images=(),
        kinds=of.kinds,
        image_threshold=find_threshold(of.own, [], false_reject),
        pixel_threshold=find_threshold(of.own_peak, [], false_reject),
        image=image,
        pixel=pixel,
        base=image,
        checks=of.checks,
        outside=of.outside,
        seconds=of.seconds,
        versions=of.versions,
        files=of.files,
        self_test=of.self_test,
    )
