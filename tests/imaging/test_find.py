"""Files are found by path, folder and pattern, sorted, without what operating systems leave behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.find import find_images, image_sources, images_in
from tests.imaging.conftest import picture


def names(paths):
    return [path.name for path in paths]


def test_a_folder_is_searched_sorted_and_without_junk(folder):
    (folder / "deep" / "er").mkdir(parents=True)
    Image.fromarray(picture(1)).save(folder / "deep" / "er" / "UPPER.TIF")
    found = find_images(folder)
    assert found == sorted(found)
    assert names(found)[0] == "UPPER.TIF"
    assert len(found) == 14
    assert not any(name.startswith(".") or name.endswith(".txt") for name in names(found))
    assert find_images(str(folder)) == found


def test_a_file_is_taken_whatever_its_suffix(folder):
    assert find_images(folder / "notes.txt") == [folder / "notes.txt"]


def test_globs_files_and_folders_can_be_mixed(folder):
    (folder / "lot_a").mkdir()
    Image.fromarray(picture(1)).save(folder / "lot_a" / "x.png")
    assert names(find_images(f"{folder}/part_[12]*")) == ["part_1.png", "part_2.png"]
    assert names(find_images(f"{folder}/lot_*")) == ["x.png"]
    assert names(find_images(f"{folder}/**/x.*")) == ["x.png"]
    mixed = find_images([folder / "part_7.png", folder / "lot_a", f"{folder}/part_3*", folder / "part_7.png"])
    assert names(mixed) == ["part_7.png", "x.png", "part_3.png", "part_7.png"]


def test_a_file_whose_name_looks_like_a_glob_is_found(tmp_path):
    path = tmp_path / "part[1].png"
    path.write_bytes(b"x")
    assert find_images(path) == [path]


def test_links_are_followed_and_loops_end(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    Image.fromarray(picture(1)).save(other / "linked.png")
    os.symlink(other, folder / "link")
    os.symlink(folder, folder / "loop")
    found = find_images(folder)
    assert len(found) == 14
    assert "linked.png" in names(found)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("empty", r"at least one file ending in \.bmp, .*\.webp, got none in .*empty"),
        ("nothing*", r"got none in .*nothing\*"),
        ("missing", r"must be a file, a folder or a glob pattern, got .*missing, which does not exist"),
    ],
)
def test_nothing_found_is_one_sentence(tmp_path, source, sentence):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=sentence):
        find_images(tmp_path / source)


def test_no_sources_at_all():
    with pytest.raises(DataError, match="got none in"):
        find_images([])


def test_a_folder_that_cannot_be_read_is_not_left_out_without_a_word(folder, monkeypatch):
    scandir = os.scandir
    closed = folder / "closed"
    closed.mkdir()

    def refuse(path):
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"The folder .*closed must be readable, got Permission denied: check"):
        find_images(folder)


def test_a_folder_that_goes_away_meanwhile_is_passed_over(folder, monkeypatch):
    scandir, gone = os.scandir, folder / "gone"
    gone.mkdir()

    def vanish(path):
        if Path(path) == gone:
            gone.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanish)
    assert find_images(folder)
    with pytest.raises(DataError, match="got No such file or directory"):
        images_in(gone)


@pytest.mark.parametrize(
    ("images", "got"),
    [
        (3, "got 3: see sparcal.encode"),
        (None, "got None"),
        ([3.5], "got 3.5"),
        ([None], "got None"),
        (torch.zeros(3, 4, 4), r"got a Tensor: pass \(255 \* x\)"),
        ([torch.zeros(3, 4, 4)], r"got a Tensor: pass \(255 \* x\).byte"),
        (object(), "got an object"),
    ],
)
def test_what_is_no_image_is_refused_in_a_sentence(images, got):
    with pytest.raises(DataError, match=f"An image must be a path, the bytes of a file, an array .*{got}"):
        image_sources(images)
