"""The folder of a run: its experiment, its plan, one small file per finished unit, and what failed.

experiment.toml      the file that was run, as it was
plan.json            every unit, resolved
units/HASH.parquet   one row each; written beside its place and renamed, so a kill at any moment loses nothing
pictures/HASH.npz    maps of the example image, where an experiment asks for them
failures/HASH.txt    the sentence and the traceback of a unit that failed; removed when it succeeds
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sparcal.bench.plan.experiment import Experiment, parse_experiment
from sparcal.bench.plan.unit import Unit
from sparcal.bench.run.pictures import ExamplePicture, write_picture
from sparcal.bench.run.row import ResultRow, read_rows, write_row
from sparcal.errors import ArtifactError, DataError
from sparcal.files.atomic import atomic_path, remove_left_behind, require_folder_place
from sparcal.files.json_record import write_json
from sparcal.settings import file_path

PLAN_FORMAT = 1
StartMode = Literal["new", "resume", "restart"]


@dataclass(frozen=True)
class RunFolder:
    """A results folder; make one with `start_results` or `open_results`."""

    path: Path

    @property
    def experiment(self) -> Experiment:
        """The experiment that was run."""
        return parse_experiment((self.path / "experiment.toml").read_text(encoding="utf-8"), "experiment.toml")

    def plan(self) -> tuple[list[Unit], str]:
        """Every planned unit, in order, and how the call changed the experiment, in words."""
        plan = json.loads((self.path / "plan.json").read_text(encoding="utf-8"))
        if plan.get("format") != PLAN_FORMAT:
            raise ArtifactError(
                f"The plan in {self.path} has format {plan.get('format')}, this sparcal reads {PLAN_FORMAT}: run it again."
            )
        return [Unit.from_json(unit) for unit in plan["units"]], plan["overrides"]

    def is_finished(self, unit: Unit) -> bool:
        """Whether a unit has its row, and its picture if it wants one."""
        return self._row(unit).exists() and (not unit.picture or self.picture(unit).exists())

    def adopt(self, other: RunFolder, unit: Unit) -> bool:
        """Copy a unit that another run has finished; returns whether it had."""
        if not other.is_finished(unit):
            return False
        copies = [(other._row(unit), self._row(unit))]
        copies += [(other.picture(unit), self.picture(unit))] if unit.picture else []
        for source, target in reversed(copies):
            with atomic_path(target) as temporary:
                shutil.copyfile(source, temporary)
        return True

    def finish(self, unit: Unit, row: ResultRow, picture: ExamplePicture | None) -> None:
        """Keep the results of a unit; the row is written last, because a unit with a row counts as finished."""
        if picture is not None:
            write_picture(picture, self.picture(unit))
        write_row(row, self._row(unit))
        self._failure(unit).unlink(missing_ok=True)

    def fail(self, unit: Unit, sentence: str, trace: str) -> None:
        """Write down why a unit failed."""
        with atomic_path(self._failure(unit)) as temporary:
            temporary.write_text(f"{unit}\n{sentence}\n\n{trace}", encoding="utf-8")

    def failures(self) -> dict[str, str]:
        """Why each unit failed that has not succeeded since, by hash."""
        paths = sorted((self.path / "failures").glob("*.txt"))
        return {path.stem: path.read_text(encoding="utf-8").split("\n")[1] for path in paths}

    def rows(self) -> list[ResultRow]:
        """The rows of all finished units of the plan, in the order of the plan."""
        units, _ = self.plan()
        return read_rows([self._row(unit) for unit in units if self.is_finished(unit)])

    def picture(self, unit: Unit) -> Path:
        """The file for the picture of a unit."""
        return self.path / "pictures" / f"{unit.hash}.npz"

    def _row(self, unit: Unit) -> Path:
        return self.path / "units" / f"{unit.hash}.parquet"

    def _failure(self, unit: Unit) -> Path:
        return self.path / "failures" / f"{unit.hash}.txt"


def start_results(
    path: Path, source: str, units: Sequence[Unit], *, overrides: str = "", mode: StartMode = "new"
) -> RunFolder:
    """The folder of a run that is about to begin or go on.

    Args:
        source: the text of the experiment file.
        mode: "new" refuses a folder that holds results; "resume" keeps what is finished; "restart" removes it.
    """
    results = RunFolder(path)
    require_folder_place(path, "A run")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        if not (path / "plan.json").is_file():
            raise DataError(
                f"The results folder {path} must be new or of an earlier run, got something else: choose another."
            )
        if mode == "new":
            raise DataError(
                f"The results folder {path} must be new, got one that holds results: go on with --resume, begin again "
                "with --restart, or choose another with --out."
            )
        if mode == "restart":
            for name in ("units", "pictures", "failures", "report"):
                shutil.rmtree(path / name, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    for place, _, _ in os.walk(path):
        remove_left_behind(Path(place))
    with atomic_path(path / "experiment.toml") as temporary:
        temporary.write_text(source, encoding="utf-8")
    write_json(
        path / "plan.json",
        {"format": PLAN_FORMAT, "overrides": overrides, "units": [unit.to_json() for unit in units]},
    )
    return results


def open_results(path: Path) -> RunFolder:
    """The folder of an earlier run."""
    file_path(path, "A results folder")
    if not (path / "plan.json").is_file() or not (path / "experiment.toml").is_file():
        raise DataError(f"{path} must be a results folder of sparcal bench run, got none there: check the path.")
    return RunFolder(path)
