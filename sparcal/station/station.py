"""A station: a host fitted once on good parts, with their features kept, so that each lot's reference is rebuilt from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sparcal.calibration.defaults import AUTO, FALSE_REJECT, PLANTED
from sparcal.calibration.thresholds import Threshold, by_hand
from sparcal.errors import ArtifactError
from sparcal.files.json_record import now, read_json, write_json
from sparcal.imaging.decode import ImageSource
from sparcal.imaging.find import image_sources
from sparcal.station.folder import StationFolder
from sparcal.station.lot import Lot, compare
from sparcal.station.lot_name import clean_name
from sparcal.station.lot_record import LotRecord, own_record
from sparcal.station.record import StationRecord

if TYPE_CHECKING:
    import torch

    from sparcal.calibration.calibrate import Progress
    from sparcal.calibration.check import Check
    from sparcal.calibration.self_test import SelfTest
    from sparcal.imaging.encode import Grids
    from sparcal.station.features import FeatureStore
    from sparcal.types import Detector, Encoder


@dataclass(eq=False)
class Station:
    """A fitted host in a folder; make one with `Station.fit` or `Station.open`.

    Args:
        digest: of `record`; lots name it, so that one can tell what they were calibrated from.
        workers: threads that read, encode and score; give torch one thread each when there are several.
        given: an encoder that is at hand already, and `weights` where a named one finds its file now.
        device_name: as it was asked for; `device` is what it means here.
    """

    folder: StationFolder
    record: StationRecord
    digest: str
    workers: int = 1
    given: Encoder | None = None
    weights: str | Path | None = None
    device_name: str = AUTO

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
        operator: str | None = None,
        workers: int = 1,
        device: str = AUTO,
        progress: Progress | None = None,
    ) -> Self:
        """Encode good parts, fit the host on them, and write a station.

        Work that was cut short is taken up again by the same call: images that were encoded are not encoded again.

        Args:
            images: files, folders, patterns, or images in memory.
            path: a new or empty folder.
            encoder: another encoder than the host's own, for instance "bundled"; an object must be given to `open` too.
            weights: a local weight file for the encoder.
            detector: another configuration than the host's own, unfitted.
            device: auto, cpu, cuda, cuda:1 or mps: where encoder, correction and search compute; not kept.
            progress: called with images done and images in all, then with steps of fitting and steps in all.
        """
        from sparcal.station.features import FeatureStore
        from sparcal.station.fit import encoder_text, fit_reference, take_in, weights_text
        from sparcal.station.host_parts import host_parts

        folder = StationFolder(Path(path))
        folder.prepare()
        sources = image_sources(images)
        found, configured = host_parts(host, encoder, weights, device)
        about = {
            "host": host,
            "encoder": encoder_text(encoder),
            "weights": weights_text(weights),
            "encoder_id": found.id,
            "operator": operator,
        }
        with folder.fitting():
            store = FeatureStore(folder.features, found.id)
            intake = take_in(store, found, sources, workers=workers, progress=progress)
            parts = found, detector or configured
            fit_reference(folder, store, parts, intake, about, workers=workers, progress=progress)
        return cls.open(path, encoder=found, workers=workers, device=device)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: Encoder | None = None,
        weights: str | Path | None = None,
        workers: int = 1,
        device: str = AUTO,
    ) -> Self:
        """The station in a folder.

        Args:
            encoder: for stations that were fitted with an encoder object, or to share a loaded one.
            weights: where the encoder's weights are now, if not where they were.
            device: as in `fit`; another one than the station was fitted on will do.
        """
        folder = StationFolder(Path(path))
        written = folder.read_station()
        folder.sweep()
        station = cls(folder, StationRecord.from_json(written), written["digest"], workers, encoder, weights, device)
        if encoder is not None or device != AUTO:  # what does not fit is refused now, not half way
            from sparcal.station.host_parts import check_parts

            check_parts(station.path, station.record, encoder, device)
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

        return station_device(self.given, self.device_name)

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
        progress: Progress | None = None,
    ) -> Self:
        """Add good parts and fit the station's own reference anew; nothing known is encoded again, lots stay as they are."""
        from sparcal.station.fit import fit_reference, take_in

        sources = image_sources(images)
        record = self.record
        about = {name: getattr(record, name) for name in ("host", "encoder", "weights", "encoder_id")}
        with self.folder.fitting():
            if self.folder.read_station()["digest"] != self.digest:
                raise ArtifactError(f"The station {self.path} has changed since it was opened: open it again.")
            store = self.store()
            intake = take_in(
                store, self.encoder, sources, before=record.images, workers=self.workers, progress=progress
            )
            if len(intake.images) > len(record.images):
                about["operator"] = operator
                own = self.encoder, self.detector
                fit_reference(self.folder, store, own, intake, about, workers=self.workers, progress=progress)
        return type(self).open(self.path, encoder=self.encoder, workers=self.workers, device=self.device_name)

    def calibrate(
        self,
        normals: ImageSource | Sequence[ImageSource],
        name: str,
        *,
        correction: str = AUTO,
        operator: str | None = None,
        false_reject: float = FALSE_REJECT,
        activate: bool | None = None,
        progress: Progress | None = None,
    ) -> Lot:
        """Calibrate to a lot from its good parts, check, test, and write the lot; it becomes active unless a check says stop.

        Args:
            normals: 2 to 32 images known to be good; the paper measured 2 to 8.
            name: any printable text; must be new.
            correction: one of CORRECTIONS, or "auto": the one under which planted defects stand out best.
            false_reject: share of good parts that may be rejected.
            activate: whether the lot becomes the active one; None means unless a check says stop.
            progress: called with steps done and steps in all.
        """
        from sparcal.station.calibrating import Request, calibrate_lot

        title = clean_name(name)
        request = Request(title, correction, false_reject, operator, activate)
        calibrate_lot(self, image_sources(normals), request, progress)
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

    def activate(self, name: str | None, *, operator: str | None = None) -> Lot:
        """Go to a lot, or roll back to an earlier one; None goes back to the station's own reference."""
        self.folder.activate(name, operator)
        return self.lot()

    def set_threshold(
        self, name: str | None, image: float | None = None, *, pixel: float | None = None, operator: str | None = None
    ) -> Lot:
        """Set thresholds of a lot by hand, recorded as such; None takes the calibrated one back."""
        lot = self.own() if name is None else self.lot(name)
        chosen = {kind: value for kind, value in (("image", image), ("pixel", pixel)) if value is not None}
        for value in chosen.values():
            by_hand(value)
        with self.folder.locked():
            write_json(self.folder.override(lot.name), {**chosen, "operator": operator, "time": now()})
            self.folder.log("threshold", {"lot": lot.name, "operator": operator, **chosen})
        return self.lot(lot.name) if lot.name is not None else self.own()

    def compare(self, first: str | None, second: str | None) -> list[dict[str, Any]]:
        """What differs between two lots, one row per fact; None stands for the station's own reference."""
        a, b = (self.own() if name is None else self.lot(name) for name in (first, second))
        return compare(a, b)

    def history(self) -> list[dict[str, Any]]:
        """Who did what when, oldest first."""
        return self.folder.history()

    def _lot(self, written: dict[str, Any]) -> Lot:
        record = LotRecord.from_json(written)
        assert record.name is not None
        return Lot(self, record, self.folder.lot(record.name), self._thresholds(record))

    def _thresholds(self, record: LotRecord) -> tuple[Threshold, Threshold]:
        """As calibrated, unless somebody set others by hand since."""
        path = self.folder.override(record.name)
        chosen = read_json(path) if path.is_file() else {}
        image, pixel = (by_hand(chosen[kind]) if kind in chosen else None for kind in ("image", "pixel"))
        return image or record.image_threshold, pixel or record.pixel_threshold

    def store(self) -> FeatureStore:
        """The training features on disk."""
        from sparcal.station.features import FeatureStore

        store = FeatureStore(self.folder.features, self.record.encoder_id)
        store.refresh()
        return store
