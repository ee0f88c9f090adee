"""A station: a host fitted once on good parts, with their features kept, so that each lot's reference is rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sparcal.calibration.defaults import AUTO, FALSE_REJECT, PLANTED
from sparcal.calibration.thresholds import Threshold, by_hand
from sparcal.errors import ArtifactError
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.find import image_sources
from sparcal.settings import check_workers, classes, file_path, text
from sparcal.station.folder import StationFolder
from sparcal.station.lot import Lot
from sparcal.station.lot_name import clean_name
from sparcal.station.lot_record import LotRecord, own_record
from sparcal.station.record import StationRecord

if TYPE_CHECKING:
    import torch

    from sparcal.calibration.check import Check
    from sparcal.calibration.self_test import SelfTest
    from sparcal.progress import Progress
    from sparcal.station.features import FeatureStore
    from sparcal.types import Correction, Detector, Encoder, Features, Grids


@dataclass(eq=False, repr=False)
class Station:
    """A fitted host in a folder; make one with `Station.fit` or `Station.open`.

    Args:
        digest: of `record`; lots name it, so that one can tell what they were calibrated from.
        workers: threads that read, encode and score; give torch one thread each when there are several.
        given: an encoder that is at hand already, and `weights` where a named one finds its file now.
        kinds: other people's classes that its files may be made into.
        device_name: as it was asked for; `device` is what it means here.
    """

    folder: StationFolder
    record: StationRecord
    digest: str
    workers: int = 1
    given: Encoder | None = None
    weights: str | Path | None = None
    kinds: tuple[type, ...] = ()
    device_name: str = AUTO

    def __repr__(self) -> str:
        return f"<Station {str(self.path)!r}: {self.record.host} on {len(self.record.images)} images>"

    def _repr_html_(self) -> str:
        """What it is, would find, and which lots it has, for notebooks."""
        from sparcal.station.notebook_card import station_card

        return station_card(self)

    @classmethod
    def fit(  # noqa: PLR0913
        cls,
        images: ImageSource | Sequence[ImageSource],
        host: str = "patchcore",
        *,
        path: str | Path,
        encoder: str | Encoder | None = None,
        weights: str | Path | None = None,
        detector: Detector | None = None,
        features: Features | None = None,
        operator: str | None = None,
        workers: int = 1,
        insist: bool = False,
        device: str = AUTO,
        runtime: str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Encode good parts, fit the host on them, and write a station.

        Work that was cut short is taken up again by the same call: images that were encoded are not encoded again.

        Args:
            images: files, folders, patterns, or images in memory.
            path: a new or empty folder.
            encoder: another encoder than the host's own, for instance "bundled"; an object must be given to `open` too.
            weights: a local weight file for the encoder.
            detector: another one than the host's own, unfitted; somebody else's class must be given to `open` too.
            features: of the images, one row each, where they have been encoded already; a few are compared.
            insist: fit though more than a few percent of the images must be left out.
            device: auto, cpu, cuda, cuda:1 or mps: where encoder, correction and search compute; not kept.
            runtime: what computes the encoder: torch (None), openvino, onnx, or auto for the fastest on some images; kept.
            progress: called with images done and in all, then with steps of fitting; a notebook draws bars without it.
        """
        from sparcal.station.making import FitRequest, make_station

        asked = FitRequest(path, host, encoder, weights, detector, features, operator, workers, insist, device, runtime)
        found = make_station(asked, image_sources(images), progress)
        kinds = () if detector is None else (type(detector),)
        return cls.open(path, encoder=found, workers=workers, kinds=kinds, device=device)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: Encoder | None = None,
        weights: str | Path | None = None,
        workers: int = 1,
        kinds: Iterable[type] = (),
        device: str = AUTO,
        runtime: str | None = None,
    ) -> Self:
        """The station in a folder.

        Args:
            encoder: for stations that were fitted with an encoder object, or to share a loaded one.
            weights: where the encoder's weights are now, if not where they were.
            kinds: other people's classes that the station was made with; a file never decides what is imported.
            device: as in `fit`; another one than the station was fitted on will do.
            runtime: the station's own or auto, which has it looked for now; None looks when the encoder is needed.
        """
        file_path(path, "A station's path")
        file_path(weights, "weights", optional=True)
        check_workers(workers)
        folder, kinds = StationFolder(Path(path)), classes(kinds, "kinds")
        written = folder.read_station()
        folder.sweep()
        record = StationRecord.from_json(written)
        station = cls(folder, record, written["digest"], workers, encoder, weights, kinds, device)
        record.check_runtime(folder.root, runtime)
        if encoder is not None or weights is not None or device != AUTO:  # refused now, not half way
            from sparcal.station.host_parts import check_parts

            check_parts(station.path, station.record, encoder, weights, device)
        return station

    @property
    def path(self) -> Path:
        """The folder that the station is kept in."""
        return self.folder.root

    @property
    def grids(self) -> Grids:
        """(h, w, d) of each level of the features."""
        return self.record.grids

    @cached_property
    def device(self) -> torch.device:
        """Where the encoder computes, and correction and search with it."""
        from sparcal.station.host_parts import station_device

        return station_device(self.given, self.device_name, self.record.encoder_id)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, loaded when it is first needed."""
        from sparcal.station.host_parts import recorded_encoder

        if self.given is not None:
            return self.given
        return recorded_encoder(self.path, self.record, self.weights, self.device_name)

    @cached_property
    def detector(self) -> Detector:
        """The detector fitted on uncorrected features: the station's own reference."""
        return self.own().calibrated.detector

    def add(
        self,
        images: ImageSource | Sequence[ImageSource],
        *,
        operator: str | None = None,
        insist: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Add good parts and fit the station's own reference anew; nothing known is encoded again, lots stay as they are."""
        from sparcal.station.making import grow_station

        grow_station(self, image_sources(images), operator=operator, insist=insist, progress=progress)
        return type(self).open(
            self.path, encoder=self.encoder, workers=self.workers, kinds=self.kinds, device=self.device_name
        )

    def calibrate(
        self,
        normals: ImageSource | Sequence[ImageSource],
        name: str,
        *,
        correction: str | Correction = AUTO,
        operator: str | None = None,
        false_reject: float = FALSE_REJECT,
        activate: bool = True,
        reason: str | None = None,
        progress: Progress | None = None,
    ) -> Lot:
        """Calibrate to a lot from its good parts, check, test, and write the lot; it becomes active unless a check says stop.

        Args:
            normals: 2 to 32 images known to be good; the paper measured 2 to 8.
            name: any printable text; must be new.
            correction: one of CORRECTIONS, "auto" for the one under which planted defects stand out best, or an
                unfitted correction; of somebody else's class, the lot can be read where `open` is given that class.
            false_reject: share of good parts that may be rejected.
            activate: whether the lot becomes the active one; past a stop only with a `reason`, which the history keeps.
            progress: called with steps done and steps in all; a notebook draws a bar without it.
        """
        from sparcal.station.calibrating import Request, calibrate_lot

        title = clean_name(name)
        request = Request(title, correction, false_reject, operator, activate, reason)
        calibrate_lot(self, image_sources(normals), request, progress)
        if not isinstance(correction, str):
            self.kinds = (*self.kinds, type(correction))
        return self.lot(title)

    def check(self, normals: ImageSource | Sequence[ImageSource]) -> tuple[Check, ...]:
        """Look at calibration images without calibrating: duplicates, alignment, odd ones, shift, expected benefit."""
        from sparcal.station.calibrating import look_at

        return look_at(self, image_sources(normals), FALSE_REJECT)

    def self_test(self, lot: str | None = None, *, n: int = PLANTED, seed: int = 0) -> SelfTest:
        """Plant new defects on verified parts, each left out, and judge them by the thresholds in service.

        Args:
            lot: its name; None for the active lot, or the station's own reference where none is active.
            n: plain defects; half as many faint ones come on top.
        """
        from sparcal.station.calibrating import test_again

        return test_again(self, self.lot(lot), n, seed)

    def lots(self) -> list[Lot]:
        """Every lot, oldest first."""
        return [self._lot(record) for record in self.folder.read_lots()]

    def lot(self, name: str | None = None) -> Lot:
        """The lot of that name; without a name the active one, or the station's own reference where none is active."""
        wanted = self.folder.active() if name is None else clean_name(name)
        return self.own() if wanted is None else self._lot(self.folder.read_lot(wanted))

    def own(self) -> Lot:
        """The station's own reference, uncorrected, as a lot without a name."""
        record = own_record(self.record, self.digest, FALSE_REJECT)
        return Lot(self, record, self.folder.references / self.record.reference, self._thresholds(record))

    def active(self) -> str | None:
        """The name of the lot that scores when none is named; None for the station's own reference."""
        return self.folder.active()

    def activate(self, name: str | None, *, operator: str | None = None, reason: str | None = None) -> Lot:
        """Go to a lot or roll back, None for the station's own reference; past a stop only with a `reason`, which is kept."""
        text(operator, "The operator", optional=True)
        text(reason, "The reason", optional=True)
        self.folder.activate(None if name is None else clean_name(name), operator, reason)
        return self.lot()

    def set_threshold(
        self, name: str | None, image: float | None = None, *, pixel: float | None = None, operator: str | None = None
    ) -> Lot:
        """Set thresholds of a lot by hand, recorded as such; None takes the calibrated one back."""
        lot = None if name is None else str(self.folder.read_lot(clean_name(name))["name"])
        text(operator, "The operator", optional=True)
        chosen = {kind: by_hand(x).value for kind, x in (("image", image), ("pixel", pixel)) if x is not None}
        self.folder.set_thresholds(lot, chosen, operator)
        return self.own() if lot is None else self.lot(lot)

    def compare(self, first: str | None, second: str | None) -> list[dict[str, Any]]:
        """What differs between two lots, one row per fact; None stands for the station's own reference."""
        from sparcal.station.comparing import compare

        return compare(*(self.own() if name is None else self.lot(name) for name in (first, second)))

    def history(self) -> list[dict[str, Any]]:
        """Who did what when, oldest first."""
        return self.folder.history()

    def _lot(self, written: dict[str, Any]) -> Lot:
        record = LotRecord.from_json(written)
        assert record.name is not None
        if self.record.earlier is not None and record.station not in (self.digest, *self.record.earlier):
            raise ArtifactError(
                f"The lot {record.name!r} was calibrated on another station than {self.path}: calibrate it here."
            )
        return Lot(self, record, self.folder.lot(record.name), self._thresholds(record))

    def _thresholds(self, record: LotRecord) -> tuple[Threshold, Threshold]:
        """As calibrated, unless somebody set others by hand since."""
        chosen = self.folder.thresholds(record.name)
        image, pixel = (by_hand(chosen[kind]) if kind in chosen else None for kind in ("image", "pixel"))
        return image or record.image_threshold, pixel or record.pixel_threshold

    def store(self) -> FeatureStore:
        """The training features on disk."""
        from sparcal.station.features import FeatureStore

        return FeatureStore(self.folder.features, self.record.encoder_id).refresh()
