"""An exported lot in the place of a station's: it judges files the way `Lot.stream` does. No torch here.

A folder holds one model and any number of state files; every lot among them goes by its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparcal.errors import ArtifactError, DataError, MissingExtraError
from sparcal.export.lot_state import LotFacts, read_lot_state
from sparcal.export.runner import KIND, METADATA, ExportedModel, load_exported
from sparcal.files.json_record import read_record
from sparcal.imaging.decode import ImageSource, content_hash
from sparcal.station.judge_facts import JudgeFacts
from sparcal.station.judgement import Judgement

MODELS = ("model.onnx", "model.xml")


@dataclass(frozen=True, eq=False)
class ExportedLot:
    """A lot of an exported model, ready to judge; make one with `open_exported`."""

    model: ExportedModel

    @property
    def name(self) -> str | None:
        """None for a station's own reference."""
        return self.model.lot.name

    @property
    def title(self) -> str:
        """One line that says by what images are judged."""
        return "The station's own reference, exported" if self.name is None else f"Lot {self.name}, exported"

    @property
    def sentence(self) -> str:
        """By which lot parts are judged, and by which threshold."""
        return f"{self.title}: the threshold is {self.model.threshold:.4g}, as it was at the station."

    def on_page(self) -> JudgeFacts:
        """What a table or page says about the lot beside its verdicts."""
        said = "The threshold is the one that the lot had at its station when it was exported."
        return JudgeFacts(self.name, self.model.threshold, self.title, choice="", sentence=said)

    def stream(self, sources: Sequence[ImageSource]) -> Iterator[Judgement]:
        """Judge files one by one, in order, in memory that does not grow with their number."""
        # One image at a time: a runtime takes all cores for it, and OpenVINO must not be called by two threads.
        return (self._judge(Path(str(source))) for source in sources)

    def changed(self) -> bool:
        """Never: an exported lot stays as it was written."""
        return False

    def monitor(self) -> None:
        """Refused: what a monitor compares parts with stays at the station."""
        raise DataError("an exported lot has no features to compare parts with. Watch for shifts at the station.")

    @property
    def lot(self) -> ExportedLot:
        """The lot that judges now, which is this one."""
        return self

    def _judge(self, path: Path) -> Judgement:
        model, digest = self.model, None
        limits = model.threshold, model.threshold if model.lot.pixel_threshold is None else model.lot.pixel_threshold
        with contextlib.suppress(OSError):  # a file that cannot be read has no content to know it by
            digest = content_hash(path)
        try:
            judged = model.judge(path)
        except (DataError, MissingExtraError) as error:
            return Judgement(path, digest, None, limits[0], "error", limits[1], reason=str(error))
        return Judgement(
            path=path,
            sha256=digest,
            score=judged.score,
            threshold=limits[0],
            verdict="fail" if judged.score > limits[0] else "pass",
            pixel_threshold=limits[1],
            cell=judged.cells,
            geometry=judged.geometry,
            rule=model.map_rule,
            outside=model.outside_of(judged),
        )


def open_exported(place: Path, lot: str | None = None) -> ExportedLot:
    """The lot of that name among those of an exported model; without a name, the one that the model was exported for.

    Args:
        place: the folder that `sparcal export` wrote, or the model in it.
    """
    path = model_file(place)
    states = exported_lots(path)
    if lot is None:
        return ExportedLot(load_exported(path))
    if lot not in states:
        names = ", ".join(str(name) for name in states if name is not None) or "none with a name"
        raise DataError(
            f"The exported model {path} judges by the lots {names}, got {lot!r}: write its state into that folder with "
            "sparcal export --format state."
        )
    return ExportedLot(load_exported(path, state=states[lot]))


def exported_lots(model: Path) -> dict[str | None, Path | None]:
    """Every lot that a model can judge by, with its state file; None for the file of the lot inside the model."""
    metadata = read_record(model.parent / METADATA, KIND)
    try:
        own, signature = LotFacts.from_json(metadata["lot"]), metadata["signature"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{model.parent / METADATA} lacks or mistakes {error}: export the model again.") from error
    found: dict[str | None, Path | None] = {own.name: None}
    for path in sorted(model.parent.glob("*.safetensors")):
        state = read_lot_state(path)
        if state.signature != signature:
            continue  # of another station; naming it says so
        if found.get(state.facts.name) is not None:
            raise DataError(
                f"Each lot needs one state file, got {found[state.facts.name]} and {path} for {state.facts.title}: remove one."
            )
        found[state.facts.name] = path  # exported later than the model, so it counts
    return found


def model_file(place: Path) -> Path:
    """The model in a folder that `sparcal export` wrote, or the model itself."""
    if not place.is_dir():
        return place
    for name in MODELS:
        if (place / name).is_file():
            return place / name
    raise ArtifactError(
        f"An exported model was expected in {place}, got neither {' nor '.join(MODELS)}: give the folder that sparcal "
        "export wrote."
    )
