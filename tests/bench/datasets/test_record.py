"""Masks: every value above zero is anomalous, at any resolution and bit depth."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sparcal.bench.datasets import Record, read_mask
from sparcal.errors import DataError
from tests.support.trees import spoil


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
