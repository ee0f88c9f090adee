"""The check of a copy: a whole one passes, and every kind of damage is named."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from sparcal.bench.datasets import DATASETS, Counts, Record, check, check_copy
from tests.support.trees import SMALL, TWO, expected_counts, spoil, write_tree


@pytest.fixture
def two_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every benchmark cut down to two categories, with the counts of a small tree as the published ones."""
    for name, categories in TWO.items():
        small = expected_counts(name)
        published = dict.fromkeys(categories, small) if DATASETS[name].published else {}
        total = Counts(small.train, 0, 2 * small.test_good, 2 * small.test_bad) if DATASETS[name].total else None
        fixed = () if name == "folder" else categories
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], categories=fixed, published=published, total=total))


def kinds(report: check.CheckReport) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in report.findings:
        found.setdefault(one.kind, []).append(one.path.name)
    return found


@pytest.mark.usefixtures("two_categories")
@pytest.mark.parametrize("name", DATASETS)
def test_a_complete_copy_passes_its_check(name: str, tmp_path: Path) -> None:
    root = write_tree(name, tmp_path)
    report = check_copy(name, str(root))
    assert report.ok, report.findings
    assert not [one for one in report.findings if one.is_problem]
    assert ".DS_Store" in [one.path.name for one in report.findings if one.kind == "junk file"]
    assert {row.masks for row in report.categories if row.category != "total"} == {SMALL.test_bad}


@pytest.mark.usefixtures("two_categories")
def test_check_names_every_kind_of_damage(tmp_path: Path) -> None:
    root = write_tree("mvtec-ad-2", tmp_path)
    spoil(root / "can/train/good/001_regular.png")
    truth = root / "can/test_public/ground_truth/bad"
    spoil(truth / "000_regular_mask.png")
    (truth / "000_overexposed_mask.png").rename(truth / "099_regular_mask.png")
    blank = root / "vial/test_public/ground_truth/bad/000_regular_mask.png"
    Image.new("L", (64, 48)).save(blank)
    (root / "vial/train/good/._000_regular.png").write_bytes(b"\0")
    (root / "vial/test_public/good/000_regular.png").unlink()
    report = check_copy("mvtec-ad-2", root)
    assert not report.ok
    assert kinds(report) == {
        "unreadable image": ["001_regular.png"],
        "unusable mask": ["000_regular_mask.png"],
        "image without mask": ["000_overexposed.png"],
        "mask without image": ["099_regular_mask.png"],
        "empty mask": ["000_regular_mask.png"],
        "junk file": [".DS_Store", "._000_regular.png"],
    }
    header, rows = report.table()
    assert header == ("category", "train", "validation", "test good", "test bad", "masks", "problems", "ok")
    assert rows == [("can", "4", "1", "6", "3", "2", "4", "no"), ("vial", "4", "1", "5 of 6", "3", "3", "0", "no")]


@pytest.mark.usefixtures("two_categories")
def test_check_reports_an_absent_category_and_goes_on(tmp_path: Path) -> None:
    report = check_copy("rad", write_tree("rad", tmp_path, categories=["bolt"]))
    assert [(row.category, row.ok) for row in report.categories] == [("bolt", True), ("tape", False)]
    [absent] = [one for one in report.findings if one.kind == "unusable category"]
    assert absent.category == "tape"
    assert "RAD needs images in" in absent.text


@pytest.mark.usefixtures("two_categories")
def test_check_says_which_files_hold_another_format(tmp_path: Path) -> None:
    report = check_copy("aebad-s", write_tree("aebad-s", tmp_path))
    other = [one for one in report.findings if one.kind == "other format"]
    assert len(other) == SMALL.train + 2 * (SMALL.test_good + SMALL.test_bad)
    assert {one.text for one in other} == {"named .png, holds .jpg; opened by content"}
    assert "__MACOSX" in kinds(report)["junk file"]
    assert not any(one.is_problem for one in other)


@pytest.mark.usefixtures("two_categories")
def test_a_damaged_shared_training_image_spoils_every_category(tmp_path: Path) -> None:
    root = write_tree("aebad-s", tmp_path)
    spoil(root / "AeBAD_S/train/good/view/IMG_0002.png")
    report = check_copy("aebad-s", root)
    assert kinds(report)["unreadable image"] == ["IMG_0002.png"]
    assert [(row.category, row.problems) for row in report.categories] == [("background", 1), ("view", 1), ("total", 1)]


@pytest.mark.usefixtures("two_categories")
def test_totals_are_checked_where_only_they_are_published(tmp_path: Path) -> None:
    root = write_tree("aebad-s", tmp_path)
    (root / "AeBAD_S/test/good/view/IMG_0005.png").unlink()
    report = check_copy("aebad-s", root)
    assert [(row.category, row.ok) for row in report.categories] == [
        ("background", True),
        ("view", True),
        ("total", False),
    ]
    assert report.table()[1][-1][3] == "11 of 12"


def test_own_images_may_come_without_masks(tmp_path: Path) -> None:
    root = write_tree("folder", tmp_path, categories=["alpha"])
    for mask in root.glob("alpha/ground_truth/*/*"):
        mask.unlink()
    report = check_copy("folder", root)
    assert report.ok
    assert kinds(report)["no masks"] == ["dent"]


def test_report_is_plain_json(tmp_path: Path) -> None:
    root = write_tree("folder", tmp_path)
    data = json.loads(json.dumps(check_copy("folder", root).to_json()))
    assert (data["dataset"], data["root"], data["ok"]) == ("folder", str(root), True)
    assert data["rows"][0] == {
        "category": "alpha",
        "found": {"train": 4, "validation": 0, "test_good": 6, "test_bad": 3},
        "published": None,
        "masks": 3,
        "problems": 0,
        "ok": True,
    }
    assert data["findings"] == [
        {
            "kind": "junk file",
            "category": "",
            "path": str(root / ".DS_Store"),
            "text": "left by an operating system; ignored",
            "problem": False,
        }
    ]


def test_check_tells_its_progress_and_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_tree("folder", tmp_path, categories=["alpha"])
    seen: list[tuple[int, int]] = []
    check_copy("folder", root, workers=2, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(done, 13) for done in range(1, 14)]

    inspected = []

    def slow(record: Record) -> list[check.CopyFinding]:
        time.sleep(0.02)
        inspected.append(record)
        return []

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "_inspect", slow)
    with pytest.raises(KeyboardInterrupt):
        check_copy("folder", root, workers=1, progress=stop)
    assert len(inspected) < 13
