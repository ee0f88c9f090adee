"""Images are read in order ahead of the consumer, and a bad one is reported without stopping the rest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging import read as images
from sparcal.imaging.find import find_images
from sparcal.imaging.preprocess import Preprocess
from sparcal.imaging.read import read_batches
from tests.imaging.conftest import picture

RULE = Preprocess(16, "square")


def names(paths):
    return [path.name for path in paths]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batches_keep_the_order_and_report_bad_files(folder, batch_size, workers):
    paths = find_images(folder)
    batches = list(read_batches(paths, RULE, batch_size=batch_size, workers=workers))
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
    (batch,) = read_batches(find_images(folder), Preprocess(16), batch_size=50)
    assert len(batch.paths) == 10
    assert batch.failures[1].path.name == "part_2b.png"
    assert batch.failures[1].reason == (
        f"{folder / 'part_2b.png'} must give an input of (16, 16) like the first image, got (16, 32) from (20, 40) "
        "pixels: use images of one aspect ratio, or preprocessing with resize='square' or a crop."
    )


def test_the_expected_size_is_remembered_across_batches():
    sizes = [(20, 20), (20, 40), (20, 20), (20, 40)]
    batches = list(read_batches([picture(1, *size) for size in sizes], Preprocess(16), batch_size=1))
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
    batches = read_batches(sources, RULE, batch_size=4, workers=2)
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
    batches = read_batches([picture(1)] * 4, RULE, batch_size=2, workers=1)
    next(batches)
    assert third.wait(5)  # the third image belongs to the second batch, which nobody has asked for
    batches.close()


@pytest.mark.parametrize("name", ["batch_size", "workers"])
def test_sizes_below_one_are_refused_at_once(name):
    with pytest.raises(DataError, match=f"{name} must be a whole number of at least 1, got 0"):
        read_batches([picture(1)], RULE, **{name: 0})


def test_a_mistake_of_the_program_is_not_hidden_as_a_bad_file(monkeypatch):
    def broken(_source):
        raise RuntimeError("a defect")

    monkeypatch.setattr(images, "open_image", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        next(read_batches([picture(1)], RULE))
