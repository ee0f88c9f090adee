"""Every argument of every public function, given something wrong: it is refused in one sentence, or means something.

tests/repo/test_every_setting.py does the same for the fields of dataclasses.
"""

from __future__ import annotations

import inspect
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sparcal import SPARC, Features, neighbours
from sparcal.bench import metrics, stats
from sparcal.errors import SparcalError
from tests.support.public_calls import GROUPS

PAGE = Path(__file__).parents[2] / "docs/reference/python.md"

# Public names that are called by no case here, and why.
ELSEWHERE = {
    "SPARC, Features, Scores, EncoderSpec, Recipe, Preprocess, MapRule": "fields: test_every_setting",
    "Station.lots, own, active, history, path": "take nothing",
    "Lot.name, threshold, pixel_threshold, title, maps, self_test_page": "take nothing",
    "Lot.plot": "an axis of matplotlib: tests/repo/test_python_manners.py",
    "Judgements, Judgement, Monitor.dismiss, ShiftAlarm, Threshold, Encoded": "what calls return",
    "ExportedModel, ExportedVerdict": "need an exported graph: tests/export/test_runner.py",
    "Encoder, Correction, Detector": "roles, which other people write: sparcal.testing",
    "encoder_checks, detector_checks, correction_checks, dataset_checks": "tests/testing",
    "EncoderCase, DetectorCase, CorrectionCase, DatasetCase, Dataset, Record": "what plug-ins' tests fill in",
    "Bank": "made by Bank.of",
    "Features.numpy, grids, Scores.numpy": "take nothing",
}

OTHER_GRIDS = {"features 2x2", "features levels", "features f64", "features d"}
ANY_FEATURES = OTHER_GRIDS | {"features 0", "features nan"}
TEXTS = {"''", "'bth'", "a folder's text", "nul", "surrogate", "long"}
PATHS = {"'bth'", "a folder", "a folder's text", "no file", "empty file", "surrogate"}
NUMBERS = {"0", "-1", "7", "1.5"}
# What an argument may take though it is another thing than the good call has, by pattern; the first that fits counts.
MEANS_SOMETHING = [
    (r"(sparc|SPARC|mean|global|normals|identity).*\.fit calibration", ANY_FEATURES, "any lot may be fitted"),
    (r"coral\.fit .*", {"features f64"}, "computes in float64 anyway"),
    (r".*recentred.*\.fit reference", set(), "the reference is used, so it is checked"),
    (r"winclip zero-shot\.fit reference", {"None", *ANY_FEATURES}, "not used"),
    (r"\w+\.with_text text", set(), "two vectors"),
    (r"\w+(-\w+)*\.fit reference", {"None", *ANY_FEATURES}, "not used by most corrections; detectors take any grid"),
    (r".*\.(apply|apply_reference|score) (features|reference)", ANY_FEATURES, "NaN stays NaN, and score_lot and stations refuse it"),
    (r"(Features|Scores).__getitem__ index", {"0", "-1", "[]", "[1]", "()"}, "numbers of images"),
    (r"score_lot correction|save thing|Station.calibrate correction", {"SPARC"}, "a correction"),
    (r"Features.cat parts", {"features 2x2", "features nan", "features levels", "features f64", "features d"}, "one by one"),
    (r"(aupro|AuproAccumulator.compute) fpr_limits", {"[1]", "set"}, "limits in (0, 1]"),
    (r"average_categories table", {"nan array", "nan tensor", "bools", "whole numbers"}, "NaN is a draw without a number"),
    (r"defined_mean values", {"[]", "[1]", "()", "(nan,)", "tensor", "features 0"}, "NaN is a draw without a number"),
    (r"nearest squared", {"True"}, "a switch"),
    (r"encode batch_size", {"None", "7", "huge"}, "as many as there are"),
    (r"(nearest|Bank.of) memory", {"7", "huge"}, "bytes"),
    (r"wilcoxon_greater deltas|holm p_values", {"[1]", "tensor", "[]", "()", "features 0"}, "numbers, or none"),
    (r"nearest k|greedy_coreset \w+|Station.(fit|open) workers|Station.self_test (n|seed)", {"0", "7", "None"}, "numbers"),
    (r"Lot.effect_of threshold|Station.set_threshold (image|pixel)", {"None", *NUMBERS}, "scores; None takes it back"),
    (r"Lot.monitor one_in", {"huge"}, "practically never"),
    (r".* (activate|insist)", {"None", "True"}, "a switch"),
    (r".* (operator|reason|settings)", {"None", "{}", *TEXTS}, "any text"),
    (r".* kinds", {"[]", "()", "empty array"}, "no classes"),
    (r"(save|export_lot) (path|target)", PATHS, "a file that can be written"),
    (r"Station.(fit|open) path", PATHS, "a folder that can be made"),
    (r"Station.(lot|activate|set_threshold|self_test|compare) (name|lot|first|second)", {"None", "'bth'", "a folder's text"}, "a lot that was made a moment ago"),
    (r"Station.calibrate name", {"'bth'", "a folder's text"}, "a lot may have any name"),
    (r"Lot.score images|Lot.stream sources", None, "what is no image gets the verdict error, with a sentence"),
    (r".*", {"None"}, "optional"),
]  # fmt: skip


def wrong_values(root: Path) -> dict[str, object]:
    folder = root / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("no image")
    (root / "empty.png").write_bytes(b"")
    grid = (3, 3, 3, 5)
    return {
        **{"None": None, "True": True, "0": 0, "-1": -1, "7": 7, "1.5": 1.5, "nan": math.nan, "inf": math.inf},
        **{"huge": 10**400, "''": "", "'bth'": "bth", "bytes": b"x", "object": object(), "class": SPARC},
        **{"[]": [], "[1]": [1], "[None]": [None], "['a']": ["a"], "{}": {}, "()": (), "(nan,)": (math.nan,)},
        **{"ragged": [[1], [1, 2]], "set": {1}, "nul": "a\0b", "surrogate": "\udcff", "long": "x" * 5000},
        **{"no axis": np.array(3), "texts": np.array(["a", "b"]), "objects": np.array([object()])},
        **{"empty array": np.zeros((0, 4)), "nan array": np.full((4, 4), np.nan), "complex": np.zeros(4, complex)},
        **{"five axes": np.zeros((1,) * 5), "tensor": torch.zeros(3), "nan tensor": torch.full((20, 4), math.nan)},
        **{"bools": torch.zeros(3, 4, dtype=torch.bool), "whole numbers": torch.zeros(20, 4, dtype=torch.int64)},
        **{"a folder": folder, "a folder's text": str(folder), "no file": root / "nowhere.png"},
        **{"empty file": root / "empty.png", "SPARC": SPARC()},
        "features 2x2": Features((torch.zeros(3, 2, 2, 5),)),
        "features 0": Features((torch.zeros(0, 3, 3, 5),)),
        "features nan": Features((torch.full(grid, math.nan),)),
        "features levels": Features((torch.zeros(grid),) * 2),
        "features f64": Features((torch.zeros(grid, dtype=torch.float64),)),
        "features d": Features((torch.zeros(3, 3, 3, 6),)),
    }


def may_mean(place: str, label: str) -> bool:
    allowed = next(labels for pattern, labels, _ in MEANS_SOMETHING if re.fullmatch(pattern, place))
    return allowed is None or label in allowed


def complaint(call, argument: str, label: str, value: object) -> str | None:
    """What is wrong with the answer to one wrong value; None where it is refused, or means something."""
    place = f"{call.name} {argument}"
    try:
        call(**{argument: value})
    except SparcalError as refused:
        said = str(refused)
        return None if said.strip().endswith(".") and "\n" not in said else f"{place}: {label}: no sentence: {said}"
    except Exception as error:
        return f"{place}: {label}: {type(error).__name__}: {error}"
    finally:
        Path("empty.png").write_bytes(b"")
        for made in (Path("bth"), Path("\udcff"), Path("nowhere.png")):  # by calls that take any path
            shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
    return None if may_mean(place, label) else f"{place}: {label}: was taken"


@pytest.mark.filterwarnings("ignore")  # what lots of 3 images with other grids warn about
@pytest.mark.parametrize("group", GROUPS)
def test_a_wrong_argument_is_refused_in_one_sentence(group, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = wrong_values(tmp_path)
    (tmp_path / "made").mkdir()
    found = []
    for call in GROUPS[group](tmp_path / "made"):
        if call.name != "load_exported":  # its graph would take seconds to make
            call()
        for argument in [*call.arguments, *call.fresh]:
            found += [complaint(call, argument, label, value) for label, value in values.items()]
    said = [one for one in found if one is not None]
    assert not said, "\n".join(said)


@pytest.mark.parametrize("group", GROUPS)
def test_every_argument_of_a_public_function_is_spoiled(group, tmp_path):
    for call in GROUPS[group](tmp_path):
        taken = set(inspect.signature(call.function).parameters)
        assert taken == {*call.arguments, *call.fresh}, call.name


@pytest.mark.parametrize("module", [metrics, stats, neighbours], ids=lambda module: module.__name__)
def test_every_function_of_the_numbers_is_called(module, tmp_path):
    own = [value for value in vars(module).values() if getattr(value, "__module__", "").startswith(module.__name__)]
    functions = {one.__name__ for one in own if callable(one) and not isinstance(one, type)}
    called = {call.name for call in GROUPS["numbers"](tmp_path)}
    assert {name for name in functions if not name.startswith("_")} - called == set()


def test_every_public_name_is_called_here_or_elsewhere(tmp_path):
    listed = set()
    for kind, name, members in re.findall(
        r"auto(\w+):: ([\w.]+)\n(?:   :members: ?([^\n]*))?", PAGE.read_text(encoding="utf-8")
    ):
        short = name.split(".")[-1]
        listed |= {short} if kind in ("function", "class") else set()
        listed |= {f"{short}.{member}" for member in members.split(", ") if member}
    elsewhere = set()
    for names in ELSEWHERE:
        owner = ""
        for name in names.split(", "):
            owner = name.partition(".")[0] if "." in name else owner
            elsewhere |= {name, f"{owner}.{name}"}
    (tmp_path / "made").mkdir()
    called = {call.name for group in GROUPS.values() for call in group(tmp_path / "made")}
    kinds = {name for name in elsewhere if "." not in name}
    missing = [
        name for name in sorted(listed) if name not in called | elsewhere and name.partition(".")[0] not in kinds
    ]
    assert [name for name in missing if f"{name}." not in " ".join(called)] == []
