"""Each layout gives the images that were written, in order, and says what it misses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparcal.bench.datasets import DATASETS, Counts, Record, check_copy, list_categories, list_records, read_mask
from sparcal.bench.datasets.catalogue import open_copy
from sparcal.bench.report.paper import paper_table
from sparcal.errors import DataError
from sparcal.imaging.decode import open_image
from tests.support.trees import SMALL, TWO, Tree, expected_counts, write_tree, write_visa_reorganised


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
