"""Has the line left what a lot was calibrated for? A monitor looks at every judged part as a whole, without labels."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sparcal.calibration.defaults import FEWEST_KEPT, ONE_IN
from sparcal.calibration.shift import OPEN, REMEMBERED, ShiftTest
from sparcal.calibration.shift_words import whole_image, words_for
from sparcal.calibration.sight import Expectation, PartReading, Sight, expect, read, read_each, see
from sparcal.errors import DataError
from sparcal.imaging.encode import EncodedImage, encode_one
from sparcal.imaging.read import Failure
from sparcal.settings import instance_of
from sparcal.station.kept_images import kept_images
from sparcal.threads import in_order

if TYPE_CHECKING:
    from sparcal.station.judgement import Judgement
    from sparcal.station.lot import Lot

WORDED = 500  # earlier parts that words compare with
LEAST_ONE_IN = 100


@dataclass(frozen=True)
class ShiftAlarm:
    """What a monitor announces.

    Args:
        first: the part with which it began, counted from 0 among the parts that the monitor was given.
        last: the part at which it was noticed.
        signal: what gave it away, one of `sparcal.calibration.sight.SIDES`.
        words: what is different, the clearest first; empty where nothing that has a name is.
    """

    first: int
    last: int
    signal: str
    words: tuple[str, ...]

    @property
    def what(self) -> str:
        """What is different, as a clause."""
        return whole_image(self.words)

    @property
    def sentence(self) -> str:
        """For people."""
        return f"Parts look different: {self.what}. Calibrate a new lot?"


@dataclass
class Monitor:
    """Watches the parts that one lot judges; make one with `Lot.monitor`.

    Its memory is what it has read: a monitor for the same lot that takes the same readings in the same order is the same.

    Args:
        native: (H, W) of the images.
        shift: what was announced; from then on parts are only remembered, until `dismiss`.
        seen: parts since it was made, or since the last `dismiss`.
    """

    expected: Expectation
    test: ShiftTest
    native: tuple[int, int]
    shift: ShiftAlarm | None = None
    seen: int = 0
    _before: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=WORDED), repr=False)
    _latest: deque[PartReading] = field(default_factory=deque, repr=False)

    def read(self, judgement: Judgement) -> PartReading | None:
        """What the monitor sees of a judged part; None where the part could not be judged."""
        return None if judgement.sight is None else read(judgement.sight, self.expected)

    def watch(self, judgement: Judgement) -> ShiftAlarm | None:
        """One more part of the stream, in the order they come; a ShiftAlarm at the moment that one is noticed."""
        from sparcal.station.judgement import Judgement

        instance_of(judgement, "What a monitor watches", Judgement, hint="it comes from Lot.score")
        reading = self.read(judgement)
        return None if reading is None else self.take(reading)

    def take(self, reading: PartReading) -> ShiftAlarm | None:
        """The same for a part that was read already."""
        self.seen += 1
        self._latest.append(reading)
        if self.shift is not None:
            if len(self._latest) > REMEMBERED:
                self._latest.popleft()
            return None
        if len(self._latest) > OPEN:  # a change that is still open to be found began later
            self._before.append(self._latest.popleft().centre)
        if not self.test.take(reading):
            return None
        first = self.test.since
        for _ in range(len(self._latest) - (self.seen - first)):
            self._before.append(self._latest.popleft().centre)
        words = words_for(self._before, [one.centre for one in self._latest], self.native)
        self.shift = ShiftAlarm(first, self.seen - 1, self.test.leading, words)
        return self.shift

    def dismiss(self) -> None:
        """Take what was announced as the new normal: later parts are compared with those since the shift."""
        if self.shift is None:
            raise DataError("A monitor has nothing to dismiss before it has announced a shift.")
        self.restart(list(self._latest))

    def restart(self, known: Sequence[PartReading]) -> None:
        """Begin anew with these parts as the ones that are in order."""
        self.shift, self.seen = None, 0
        self.test = ShiftTest(self.test.one_in)
        self.test.remember(known)
        self._before = deque((one.centre for one in known), maxlen=WORDED)
        self._latest = deque()


def monitor_for(lot: Lot, one_in: int) -> Monitor:
    """A monitor that knows a lot's good parts, or, for the station's own reference, those that the station has kept."""
    if one_in < LEAST_ONE_IN:
        raise DataError(
            f"A monitor needs at least {LEAST_ONE_IN} parts between two false alarms, got {one_in}: 100,000 is usual."
        )
    files = lot.record.files if lot.name is not None else lot.station.record.files
    sights = _sights(lot, kept_images(lot.folder, files))
    if len(sights) < FEWEST_KEPT:
        raise DataError(
            f"{lot.title} cannot be monitored with {len(sights)} kept images of good parts, {FEWEST_KEPT} are needed: "
            "calibrate on more parts, or fit the station again if version 0.1 made it."
        )
    height, width, _ = lot.record.kinds[0]
    return monitor_from(sights, (height, width), one_in)


def monitor_from(sights: Sequence[Sight], native: tuple[int, int], one_in: int = ONE_IN) -> Monitor:
    """A monitor that knows these good parts and has taken none.

    Args:
        native: (H, W) of the images.
    """
    monitor = Monitor(expect(sights), ShiftTest(one_in), native)
    monitor.restart(read_each(sights))
    return monitor


def _sights(lot: Lot, images: Sequence[Path]) -> list[Sight]:
    station = lot.station

    def work(path: Path) -> EncodedImage | Failure:
        return encode_one(station.encoder, path, path, sha256=path.name)  # its content was checked a moment ago

    encoded = in_order(work, images, workers=station.workers)
    return [see(one.features, one.look) for one in encoded if isinstance(one, EncodedImage) and one.look is not None]
