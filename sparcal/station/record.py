"""What is written about a station."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparcal.files.json_record import understood

if TYPE_CHECKING:
    from sparcal.calibration.check import Check
    from sparcal.calibration.self_test import SelfTest
    from sparcal.imaging.camera_format import CameraFormat
    from sparcal.types import Grids


@dataclass(frozen=True)
class StationRecord:
    """Everything that is known about a station, as it stands in its station.json.

    Args:
        encoder: as it was named, None for the host's own; "" for an encoder object, which must be given again.
        encoder_id: what it turned out to be, everything said.
        images: name and SHA-256 of each training image, in order.
        left_out: path and reason of images that were given and not used.
        kinds: (H, W, grey) of the training images.
        reference: folder of the fitted detector; `files` holds the SHA-256 of each file in it.
        own, own_peak: out-of-fold scores of the station's own parts by its own reference.
        outside: what a map says where the encoder never looked.
        tested: numbers of the images that are kept, so that the self-test can be run again.
        self_test: of the station's own reference; None in stations of version 0.1.
        checks: of the training images; none in stations of version 0.1.
        earlier: digests of the records that the station had before it grew, by which its lots are known; None in
            stations of version 0.1, whose lots are taken as they are.
        runtime_sentence: why the runtime in `encoder_id` was taken, where it was chosen by measuring.
    """

    created: str
    operator: str | None
    host: str
    encoder: str | None
    weights: str | None
    encoder_id: str
    grids: Grids
    images: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    kinds: tuple[CameraFormat, ...]
    reference: str
    files: dict[str, str]
    own: tuple[float, ...]
    own_peak: tuple[float, ...]
    outside: float
    seconds: float
    versions: dict[str, str]
    tested: tuple[int, ...] = ()
    self_test: SelfTest | None = None
    earlier: tuple[str, ...] | None = None
    checks: tuple[Check, ...] = ()
    runtime_sentence: str | None = None

    def check_runtime(self, station: Path, asked: str | None) -> None:
        """Refuse a runtime that is asked for and not the station's, or not installed."""
        if asked is not None:
            from sparcal.station.recorded_runtime import check_recorded_runtime

            check_recorded_runtime(station, self.encoder_id, asked)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` gives the same record back."""
        return {**asdict(self), "self_test": None if self.self_test is None else self.self_test.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StationRecord:
        """The record that `to_json` wrote."""
        from sparcal.calibration.check import Check
        from sparcal.calibration.self_test import SelfTest

        with understood("The station's record"):
            tested = data.get("self_test")
            earlier = data.get("earlier")
            changed: dict[str, Any] = {
                "tested": tuple(data.get("tested", ())),
                "self_test": None if tested is None else SelfTest.from_json(tested),
                "checks": tuple(Check.from_json(check) for check in data.get("checks", ())),
                "runtime_sentence": data.get("runtime_sentence"),
                "earlier": None if earlier is None else tuple(earlier),
                **{name: tuple((a, b) for a, b in data[name]) for name in ("images", "left_out")},
                **{name: tuple((a, b, c) for a, b, c in data[name]) for name in ("grids", "kinds")},
                **{name: tuple(data[name]) for name in ("own", "own_peak")},
            }
            return cls(**{name: changed[name] if name in changed else data[name] for name in cls.__dataclass_fields__})
