"""Files are found, read in order ahead of the encoder, and a bad one is reported without stopping the rest."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging import find as images
from sparcal.imaging.find import Preprocess, encode, find_images, load_batches
from sparcal.types import Encoder, Features

RULE = Preprocess(16, "square")


def picture(value, h=20, w=20):
    return np.full((h, w, 3), value, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Ten readable images, three unreadable files, and things that are no images."""
    for number in range(10):
        Image.fromarray(picture(20 * number)).save(tmp_path / f"part_{number}.png")
    (tmp_path / "part_0b.png").write_bytes(b"")
    (tmp_path / "part_4b.jpg").write_text("not an image")
    (tmp_path / "part_9b.bmp").write_bytes((tmp_path / "part_9.png").read_bytes()[:60])
    (tmp_path / "notes.txt").write_text("lot 42")
    (tmp_path / "._part_1.png").write_bytes(b"junk of another system")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "thumb.png").write_bytes(b"junk")
    return tmp_path


class MeanColour:
    """An encoder whose single cell is the mean of the input, so that rows can be traced to their image."""

    id = "mean-colour"
    cell_pixels = 8
    preprocess = Preprocess(16, "square", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1.0)

    def __init__(self, *, cls=False):
        self.cls = cls
        self.batches = []

    def __call__(self, pixels):
        assert torch.is_inference_mode_enabled()
        self.batches.append(len(pixels))
        cells = pixels.mean((2, 3))
        return Features(
            (cells[:, None, None, :], cells[:, None, None, :1].repeat(1, 2, 2, 1)), cells if self.cls else None
        )


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


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batches_keep_the_order_and_report_bad_files(folder, batch_size, workers):
    paths = find_images(folder)
    batches = list(load_batches(paths, RULE, batch_size=batch_size, workers=workers))
    assert [len(batch.paths) + len(batch.failures) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    good = [path for batch in batches for path in batch.paths]
    failed = [failure for batch in batches for failure in batch.failures]
    assert names(good) == [f"part_{number}.png" for number in range(10)]
    assert [failure.path.name for failure in failed] == ["part_0b.png", "part_4b.jpg", "part_9b.bmp"]
    assert all(str(failure.path) in failure.reason and "\n" not in failure.reason for failure in failed)
    for batch in batches:
        assert batch.pixels.shape == (len(batch.paths), 3, 16, 16)
        assert len(batch.geometries) == len(batch.paths)
        for pixels, path in zip(batch.pixels, batch.paths, strict=True):
            expected, _ = RULE(Image.open(path))
            assert torch.equal(pixels, expected)


def test_another_size_is_a_failure_with_a_sentence(folder):
    Image.fromarray(picture(7, 20, 40)).save(folder / "part_2b.png")
    (batch,) = load_batches(find_images(folder), Preprocess(16), batch_size=50)
    assert len(batch.paths) == 10
    assert batch.failures[1].path.name == "part_2b.png"
    assert batch.failures[1].reason == (
        f"{folder / 'part_2b.png'} must give an input of (16, 16) like the first image, got (16, 32) from (20, 40) "
        "pixels: use images of one aspect ratio, or preprocessing with resize='square' or a crop."
    )


def test_the_expected_size_is_remembered_across_batches():
    sizes = [(20, 20), (20, 40), (20, 20), (20, 40)]
    batches = list(load_batches([picture(1, *size) for size in sizes], Preprocess(16), batch_size=1))
    assert [len(batch.paths) for batch in batches] == [1, 0, 1, 0]
    assert batches[1].pixels.shape == (0, 3, 16, 16)
    assert batches[3].failures[0].path == Path("image-3")


class Counted(Sequence):
    """A list that knows how far it has been read."""

    def __init__(self, items):
        self.items, self.taken = items, 0

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.taken = max(self.taken, index + 1)
        return self.items[index]


def test_reading_stays_one_batch_ahead_and_stops_with_the_consumer():
    sources = Counted([picture(1)] * 50)
    batches = load_batches(sources, RULE, batch_size=4, workers=2)
    next(batches)
    assert sources.taken == 8
    batches.close()
    assert sources.taken == 8
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sparcal-read")]


def test_decoding_happens_while_the_consumer_works(monkeypatch):
    third = threading.Event()
    opened = images.open_image
    count = 0

    def open_and_tell(source):
        nonlocal count
        count += 1
        if count == 3:
            third.set()
        return opened(source)

    monkeypatch.setattr(images, "open_image", open_and_tell)
    batches = load_batches([picture(1)] * 4, RULE, batch_size=2, workers=1)
    next(batches)
    assert third.wait(5)  # the third image belongs to the second batch, which nobody has asked for
    batches.close()


@pytest.mark.parametrize("name", ["batch_size", "workers"])
def test_sizes_below_one_are_refused_at_once(name):
    with pytest.raises(DataError, match=f"load_batches needs {name} of at least 1, got 0"):
        load_batches([picture(1)], RULE, **{name: 0})


def test_a_mistake_of_the_program_is_not_hidden_as_a_bad_file(monkeypatch):
    def broken(_source):
        raise RuntimeError("a defect")

    monkeypatch.setattr(images, "open_image", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        next(load_batches([picture(1)], RULE))


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("cls", [False, True])
def test_encode_gives_features_in_order(folder, batch_size, cls):
    encoder = MeanColour(cls=cls)
    assert isinstance(encoder, Encoder)
    calls = []
    result = encode(encoder, folder, batch_size=batch_size, progress=lambda done, total: calls.append((done, total)))
    values = torch.arange(10.0) * 20
    assert result.features.grids == ((1, 1, 3), (2, 2, 1))
    assert torch.equal(result.features.levels[0][:, 0, 0, 0], values)
    assert torch.equal(result.features.levels[1][:, 1, 1, 0], values)
    if cls:
        assert torch.equal(result.features.cls, values[:, None].expand(-1, 3))
    else:
        assert result.features.cls is None
    assert names(result.paths) == [f"part_{number}.png" for number in range(10)]
    assert len(result.geometries) == 10
    assert len(result.failures) == 3
    assert calls == [(min(done, 13), 13) for done in range(batch_size, 13 + batch_size, batch_size)]
    assert not result.features.levels[0].is_inference()
    assert 0 not in encoder.batches


def test_encode_takes_images_in_memory(folder):
    values = [picture(30), Image.fromarray(picture(60)), (folder / "part_6.png").read_bytes(), folder / "part_9.png"]
    result = encode(MeanColour(), values)
    assert result.features.levels[0][:, 0, 0, 2].tolist() == [30, 60, 120, 180]
    assert result.paths == [Path("image-0"), Path("image-1"), Path("image-2"), folder / "part_9.png"]
    stack = encode(MeanColour(), np.stack([picture(1), picture(2)]))
    assert stack.features.levels[0][:, 0, 0, 0].tolist() == [1, 2]
    for one in (picture(5), Image.fromarray(picture(5)), (folder / "part_0.png").read_bytes()):
        assert len(encode(MeanColour(), one).features) == 1


def test_bad_images_in_memory_are_failures():
    result = encode(MeanColour(), [picture(3).astype(np.float32), picture(3)])
    assert result.paths == [Path("image-1")]
    assert "uint8 or uint16" in result.failures[0].reason


def test_encode_refuses_when_nothing_is_usable(folder):
    bad = [folder / "part_0b.png", folder / "part_4b.jpg"]
    with pytest.raises(DataError, match=r"at least one usable image, got 2 that failed, the first because: .*part_0b"):
        encode(MeanColour(), bad)
    with pytest.raises(DataError, match="needs at least one image, got an empty sequence"):
        encode(MeanColour(), [])


def test_public_names_exist():
    assert sorted(images.__all__) == images.__all__
    assert all(hasattr(images, name) for name in images.__all__)
