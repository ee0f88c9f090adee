"""Reading images: long names, and files of several pages."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from PIL import Image

from sparcal.server.data import retention
from sparcal.server.data.store import Store, Stored, sniff
from sparcal.server.settings import Limits
from sparcal.server.work.reading import Reading


def pages(count, kind):
    rng = np.random.default_rng(0)
    first, *rest = (Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)) for _ in range(count))
    out = io.BytesIO()
    first.save(out, kind, save_all=True, append_images=rest)
    return out.getvalue()


@pytest.fixture
def reading(database):
    return Reading(database, Store(database.path.parent, Limits()))


def let_in(reading, name, content):
    path = reading.store.folder / "upload"
    path.write_bytes(content)
    stored = Stored(hashlib.sha256(content).hexdigest(), name, len(content), sniff(content[:16]), path)
    with retention.arrival(reading.database, reading.store, stored) as connection:
        retention.admit(connection, reading.store, stored)
    return stored.sha


def test_names_of_many_bytes_can_be_linked_and_stay_apart(reading):
    shas = [let_in(reading, "图" * 116 + f"{number}.png", pages(1, "PNG") + bytes([number])) for number in range(2)]
    links = reading.named("7", shas)
    assert list(links.values()) == shas
    assert all(path.is_file() and len(path.name.encode()) <= 255 for path in links)


@pytest.mark.parametrize("kind", ["TIFF", "WEBP", "PNG"])
def test_a_file_of_several_pages_is_refused_in_words(reading, kind):
    one = let_in(reading, f"one.{kind.lower()}", pages(1, kind))
    assert reading.usable(one)
    several = let_in(reading, f"several.{kind.lower()}", pages(3, kind))
    assert not reading.usable(several)
    assert reading.problem(several) == (
        f"several.{kind.lower()} must hold one picture, got 3 pages or frames: send each as a file of its own."
    )


def test_what_was_read_is_counted_in_words(reading):
    for count, told in ((0, "Nothing was left to read."), (1, "1 image read."), (2, "2 images read.")):
        for number in range(count):
            let_in(reading, f"{count}-{number}.png", pages(1, "PNG") + bytes([count, number]))
        assert reading.read_new(lambda _done, _total: None) == told
