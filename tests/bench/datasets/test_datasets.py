from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sparcal.bench.datasets import DATASETS, Counts, Record, check, check_copy, list_categories, list_records, read_mask
from sparcal.bench.datasets.catalogue import open_copy
from sparcal.bench.report.paper import paper_table
from sparcal.errors import DataError
from sparcal.imaging.decode import open_image
from tests.support.trees import SMALL, Tree, spoil, write_tree, write_visa_reorganised

TWO = {
    "mvtec-ad-2": ("can", "vial"),
    "aebad-s": ("background", "view"),
    "visa": ("candle", "pcb1"),
    "rad": ("bolt", "tape"),
    "mvtec-ad": ("bottle", "grid"),
    "folder": ("alpha", "beta"),
}
WITH_VALIDATION = {"mvtec-ad-2"}


@pytest.fixture
def two_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every benchmark cut down to two categories, with the counts of a small tree as the published ones."""
    for name, categories in TWO.items():
        small = expected_counts(name)
        published = dict.fromkeys(categories, small) if DATASETS[name].published else {}
        total = Counts(small.train, 0, 2 * small.test_good, 2 * small.test_bad) if DATASETS[name].total else None
        fixed = () if name == "folder" else categories
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], categories=fixed, published=published, total=total))


def expected_counts(name: str) -> Counts:
    return SMALL if name in WITH_VALIDATION else SMALL._replace(validation=0)


def count(records: list[Record]) -> Counts:
    found = [(record.split, record.label) for record in records]
    return Counts(*(found.count(kind) for kind in [("train", 0), ("validation", 0), ("test", 0), ("test", 1)]))


# Every layout


@pytest.mark.parametrize("name", DATASETS)
def test_every_layout_gives_the_images_that_were_written(name: str, tmp_path: Path) -> None:
    root = write_tree(name, tmp_path / "copy")
    records = list_records(name, root)
    categories = list_categories(name, root)
    assert categories == (DATASETS[name].categories or TWO[name])
    assert list(dict.fromkeys(record.category for record in records)) == list(categories)
    for category in categories:
        mine = [record for record in records if record.category == category]
        assert count(mine) == expected_counts(name)
        assert mine == list_records(name, root, category=category)
    for record in records:
        image = open_image(record.image)
        assert (record.mask is not None) == (record.label == 1)
        assert read_mask(record, (image.height, image.width)).any() == (record.label == 1)
        assert not record.image.name.startswith(".")


@pytest.mark.parametrize("name", DATASETS)
def test_order_is_split_then_label_then_path(name: str, tmp_path: Path) -> None:
    records = list_records(name, write_tree(name, tmp_path), category=TWO[name][0])
    order = {"train": 0, "validation": 1, "test": 2}
    assert records == sorted(records, key=lambda r: (order[r.split], r.label, r.image.as_posix()))


@pytest.mark.usefixtures("two_categories")
@pytest.mark.parametrize("name", DATASETS)
def test_a_complete_copy_passes_its_check(name: str, tmp_path: Path) -> None:
    root = write_tree(name, tmp_path)
    report = check_copy(name, str(root))
    assert report.ok, report.findings
    assert not [one for one in report.findings if one.is_problem]
    assert ".DS_Store" in [one.path.name for one in report.findings if one.kind == "junk file"]
    assert {row.masks for row in report.categories if row.category != "total"} == {SMALL.test_bad}


# One layout each


def test_mvtec_ad_2_reads_scene_and_lighting_from_the_name(tmp_path: Path) -> None:
    root = write_tree("mvtec-ad-2", tmp_path, categories=["vial"], per_split=Counts(2, 1, 8, 5), lightings=4)
    records = list_records("mvtec-ad-2", root, category="vial")
    good = [r for r in records if r.split == "test" and r.label == 0]
    assert [(r.scene, r.condition) for r in good] == [
        (f"test_public/good/{scene}", light)
        for scene in ("000", "001")
        for light in ("overexposed", "regular", "shift_1", "underexposed")
    ]
    bad = [r for r in records if r.label == 1]
    assert {r.scene for r in bad} == {"test_public/bad/000", "test_public/bad/001"}
    assert all(r.mask is not None and r.mask.name == f"{r.image.stem}_mask.png" for r in bad)
    assert {r.condition for r in records if r.split != "test"} == {"regular"}
    assert len({r.scene for r in records}) == 2 + 1 + 2 + 2
    assert not any("private" in r.image.as_posix() for r in records)


def test_mvtec_ad_2_rejects_a_name_without_scene(tmp_path: Path) -> None:
    root = write_tree("mvtec-ad-2", tmp_path, categories=["can"])
    stray = root / "can/test_public/good/preview.png"
    stray.write_bytes((root / "can/test_public/good/000_regular.png").read_bytes())
    with pytest.raises(DataError, match=r"must be named like 007_shift_1\.png, .* got preview\.png: move what"):
        list_records("mvtec-ad-2", root, category="can")


def test_aebad_s_trains_every_domain_on_one_set(tmp_path: Path) -> None:
    root = write_tree("aebad-s", tmp_path)
    by_category = {name: list_records("aebad-s", root, category=name) for name in ("same", "view")}
    training = {name: [r.image for r in found if r.split == "train"] for name, found in by_category.items()}
    assert training["same"] == training["view"]
    assert {r.condition for r in by_category["same"] if r.split == "train"} == {"background", "illumination", "view"}
    assert {r.condition for r in by_category["same"] if r.split == "test"} == {"same"}
    for record in by_category["view"]:
        assert record.image.read_bytes()[:3] == b"\xff\xd8\xff", "the real files hold JPEG under a .png name"
        assert record.mask is None or record.mask.name == record.image.name


def test_aebad_s_may_be_given_as_the_archive_or_its_inner_folder(tmp_path: Path) -> None:
    root = write_tree("aebad-s", tmp_path)
    assert list_records("aebad-s", root) == list_records("aebad-s", root / "AeBAD_S")


def test_visa_follows_the_split_table_not_the_folders(tmp_path: Path) -> None:
    root = write_tree("visa", tmp_path, categories=["candle"])
    records = list_records("visa", root, category="candle")
    assert {r.image.parent.name for r in records if r.label == 0} == {"Normal"}
    assert [r.image.name for r in records if r.split == "test" and r.label == 0] == [f"{i:04}.JPG" for i in range(6)]
    assert [r.image.name for r in records if r.split == "train"] == [f"{i:04}.JPG" for i in range(6, 10)]
    stored = [np.asarray(Image.open(r.mask)).max() for r in records if r.mask is not None]
    assert stored == [1, 2, 3], "class indices, almost black to the eye"


def test_visa_reorganised_by_its_authors_gives_the_same_counts_and_pairs(tmp_path: Path) -> None:
    write_visa_reorganised(Tree(tmp_path, SMALL, (48, 64), ("regular",)), ["candle"])
    for root in (tmp_path, tmp_path / "1cls"):
        records = list_records("visa", root, category="candle")
        assert count(records) == expected_counts("visa")
        assert all(r.mask is not None and r.mask.stem == r.image.stem for r in records if r.label == 1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a,b\n1,2\n", r"1cls\.csv must have the columns object, split, label, image, mask, got a, b: take VisA's own"),
        ("", r"must have the columns .*, got none: take VisA's own"),
        (
            "object,split,label,image,mask\ncandle,dev,normal,x.JPG,\n",
            r"line 2 must give split train or test, .* got dev, normal and 'x\.JPG'",
        ),
        (
            "object,split,label,image,mask\ncandle,train,normal,x.JPG,\n",
            r"must list train normals, test normals and test anomalies of candle, got 1 rows of it",
        ),
    ],
)
def test_visa_rejects_a_foreign_split_table(table: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "split_csv").mkdir()
    (tmp_path / "split_csv/1cls.csv").write_text(table)
    with pytest.raises(DataError, match=message):
        list_records("visa", tmp_path, category="candle")


def test_rad_accepts_both_mask_names_and_repeats_its_normals(tmp_path: Path) -> None:
    root = write_tree("rad", tmp_path)
    bolt, ribbon = (list_records("rad", root, category=name) for name in ("bolt", "ribbon"))
    assert {r.mask.name for r in bolt if r.mask} == {f"00{i}_mask.png" for i in range(3)}
    assert {r.mask.name for r in ribbon if r.mask} == {f"00{i}.png" for i in range(3)}
    normals = [[r.image.read_bytes() for r in records if r.label == 0] for records in (bolt, ribbon)]
    assert normals[0] == normals[1]


def test_mvtec_ad_pools_its_defects_and_grey_images_become_rgb(tmp_path: Path) -> None:
    root = write_tree("mvtec-ad", tmp_path, categories=["grid"])
    records = list_records("mvtec-ad", root, category="grid")
    assert [r.image.parent.name for r in records if r.label] == ["dent", "dent", "scratch"]
    with Image.open(records[0].image) as image:
        assert image.mode == "L"
    assert open_image(records[0].image).mode == "RGB"


def test_folder_is_one_category_or_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_tree("folder", tmp_path)
    (root / "notes").mkdir()
    assert list_categories("folder", root) == ("alpha", "beta")
    assert list_categories("folder", root / "beta") == ("beta",)
    one = list_records("folder", root / "beta")
    assert one == list_records("folder", root, category="beta")
    monkeypatch.chdir(root / "beta")
    assert list_records("folder", ".") == one


def test_folder_reads_validation_images_where_there_are_some(tmp_path: Path) -> None:
    root = write_tree("folder", tmp_path, categories=["alpha"])
    (root / "alpha/validation/good").mkdir(parents=True)
    (root / "alpha/train/good/000.png").rename(root / "alpha/validation/good/000.png")
    assert count(list_records("folder", root)) == Counts(3, 1, 6, 3)


# What cannot be read


def test_unknown_dataset_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"unknown dataset 'visaa'; choose from mvtec-ad-2, aebad-s, visa, rad, mvtec-ad"
    ):
        list_records("visaa", tmp_path)


def test_unknown_category_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown category 'nut' of RAD; choose from bolt, ribbon, sponge, tape\."):
        list_records("rad", tmp_path, category="nut")


def test_a_missing_root_says_where_the_benchmark_comes_from(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"MVTec AD 2 needs a folder, got no such folder at .*: .* MVTec's download page"
    ):
        list_records("mvtec-ad-2", tmp_path / "nowhere")
    (tmp_path / "archive.tar").touch()
    with pytest.raises(DataError, match=r"RAD needs a folder, got a file at .*archive\.tar"):
        check_copy("rad", tmp_path / "archive.tar")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mvtec-ad-2", r"images in .*/can/train/good, got only"),
        ("aebad-s", r"folders of images, one per domain, in .*/train/good, got only"),
        ("visa", r"candle/train/good or the table .*/split_csv/1cls\.csv, got only"),
        ("rad", r"images in .*/bolt/train/good, got only"),
        ("mvtec-ad", r"images in .*/bottle/train/good, got only"),
        ("folder", r"train/good, or folders that each hold train/good, in .*, got a folder"),
    ],
)
def test_another_layout_says_what_was_expected_and_what_is_there(name: str, expected: str, tmp_path: Path) -> None:
    for other in "abcdefgh":
        (tmp_path / other).mkdir()
    (tmp_path / ".DS_Store").touch()
    title, remedy = (re.escape(text) for text in (DATASETS[name].title, DATASETS[name].remedy))
    there = "holds a, b, c, d, e, f and 2 more"
    sentence = rf"^{title} needs {expected}.* {there}: point to its root, or {remedy}\.$"
    for look in (list_records, check_copy):
        with pytest.raises(DataError, match=sentence):
            look(name, tmp_path)


@pytest.mark.parametrize("name", ["mvtec-ad", "aebad-s"])
def test_anomalous_images_must_be_there(name: str, tmp_path: Path) -> None:
    root = write_tree(name, tmp_path, categories=TWO[name], per_split=SMALL._replace(test_bad=0))
    with pytest.raises(DataError, match=r"needs at least one (folder of|defect with) anomalous images"):
        list_records(name, root, category=TWO[name][0])


def test_one_absent_category_is_not_passed_over(tmp_path: Path) -> None:
    root = write_tree("mvtec-ad-2", tmp_path, categories=["can"])
    with pytest.raises(DataError, match=r"images in .*/fabric/train/good, got only .*, which holds can: "):
        list_records("mvtec-ad-2", root)


def test_an_empty_folder_is_told_from_an_absent_one(tmp_path: Path) -> None:
    (tmp_path / "bolt/train/good").mkdir(parents=True)
    with pytest.raises(DataError, match=r"images in .*/bolt/train/good, got a folder that holds nothing"):
        list_records("rad", tmp_path, category="bolt")


# Masks


def record_of(mask: Path | None, label: int = 1) -> Record:
    return Record("c", "test", label, "", None, Path("image.png"), mask)


def saved(image: Image.Image, folder: Path) -> Record:
    image.save(folder / "mask.png")
    return record_of(folder / "mask.png")


MARKED = np.array([[0, 0, 1], [0, 2, 0]], dtype=np.uint8)


def palette_mask() -> Image.Image:
    image = Image.frombytes("P", (3, 2), MARKED.tobytes())
    image.putpalette([255, 255, 255, 0, 0, 0, 9, 9, 9])  # white background, black defect: indices count, not colours
    return image


@pytest.mark.parametrize(
    "image",
    [
        pytest.param(Image.fromarray(MARKED), id="class indices"),
        pytest.param(Image.fromarray((MARKED > 0) * np.uint8(255)), id="0 and 255"),
        pytest.param(Image.fromarray((MARKED > 0) * np.uint8(255)).convert("1"), id="one bit"),
        pytest.param(Image.fromarray(MARKED.astype(np.uint16) * 300), id="16 bit"),
        pytest.param(Image.fromarray(np.stack([MARKED, 0 * MARKED, MARKED], axis=2)), id="colour"),
        pytest.param(Image.fromarray(np.stack([*3 * [MARKED], 0 * MARKED + 255], axis=2)), id="opaque colour"),
        pytest.param(Image.fromarray(np.stack([MARKED, 0 * MARKED + 255], axis=2)), id="opaque grey"),
        pytest.param(palette_mask(), id="palette"),
    ],
)
def test_every_value_above_zero_is_anomalous(image: Image.Image, tmp_path: Path) -> None:
    mask = read_mask(saved(image, tmp_path), (2, 3))
    assert mask.dtype == bool
    assert mask.tolist() == (MARKED > 0).tolist()


def test_a_normal_image_has_an_empty_mask_of_its_own_size() -> None:
    mask = read_mask(record_of(None, label=0), (5, 7))
    assert (mask.shape, mask.dtype, mask.any()) == ((5, 7), bool, False)


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    target=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    seed=st.integers(0, 99),
)
def test_a_mask_in_another_resolution_takes_the_nearest_pixel(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, int], target: tuple[int, int], seed: int
) -> None:
    stored = np.random.default_rng(seed).random(shape) < 0.5
    record = saved(Image.fromarray(stored * np.uint8(255)), tmp_path_factory.mktemp("mask"))
    (h, w), (H, W) = shape, target
    if abs(h * W - w * H) > max(*shape, *target):
        with pytest.raises(DataError, match=rf"must have the shape of its image, {H} x {W} .*, got {h} x {w}: check"):
            read_mask(record, target)
        return
    rows, columns = ([int(Fraction(2 * i + 1, 2) * a / b) for i in range(b)] for a, b in ((h, H), (w, W)))
    slow = [[bool(stored[y, x]) for x in columns] for y in rows]
    assert read_mask(record, target).tolist() == slow


def test_a_mask_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"image\.png is anomalous and must have a mask, got none: restore"):
        read_mask(record_of(None), (2, 3))
    with pytest.raises(DataError, match=r"gone\.png must be a mask image, got no file of that name: copy"):
        read_mask(record_of(tmp_path / "gone.png"), (2, 3))
    record = saved(Image.fromarray(np.random.default_rng(0).integers(0, 9, (64, 64), dtype=np.uint8)), tmp_path)
    assert record.mask is not None
    spoil(record.mask)
    with pytest.raises(DataError, match=r"mask\.png must be a readable mask image, got .*: copy the benchmark again\."):
        read_mask(record, (64, 64))


# The check of a copy


def kinds(report: check.CheckReport) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in report.findings:
        found.setdefault(one.kind, []).append(one.path.name)
    return found


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


# The data about the benchmarks


def total(name: str) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*DATASETS[name].published.values(), strict=True))


def test_published_counts_add_up_to_the_published_totals() -> None:
    private = 2 * (321 + 314 + 255 + 277 + 142 + 276 + 232 + 228)  # two private sets, which are not read
    assert sum(total("mvtec-ad-2")) + private == 8004
    assert total("mvtec-ad") == (3629, 0, 467, 1258)
    train, validation, good, bad = total("visa")
    assert (train + good, validation, bad) == (9621, 0, 1200)


@pytest.mark.parametrize("name", ["mvtec-ad-2", "aebad-s", "visa", "rad"])
def test_categories_are_those_of_the_paper(name: str) -> None:
    assert set(DATASETS[name].categories) == {row["category"] for row in paper_table(f"per-category-{name}")}


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_known_by_its_name(name: str, tmp_path: Path) -> None:
    spec, home = open_copy(name, tmp_path)
    assert (spec.name, home) == (name, tmp_path)
