"""AU-PRO against its definition, against anomalib's numbers, and what it refuses."""

from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import label

from sparcal.bench.metrics import region_overlap
from sparcal.bench.metrics.region_overlap import AuproAccumulator, aupro
from sparcal.errors import DataError, ShapeError

Pairs = tuple[list[np.ndarray], list[np.ndarray]]


def slow_aupro(masks: list[np.ndarray], maps: list[np.ndarray], limit: float) -> float:
    """The definition in float64: one curve point per distinct score, cut at the limit, trapezoids."""
    background, regions = [], []
    for mask, score_map in zip(masks, maps, strict=True):
        labels, count = label(mask, structure=np.ones((3, 3)))
        background.append(score_map[labels == 0])
        regions += [score_map[labels == r] for r in range(1, count + 1)]
    normal = np.concatenate(background)
    if not regions or normal.size == 0:
        return math.nan
    curve = [(0.0, 0.0)]
    for threshold in sorted(set(np.concatenate([normal, *regions]).tolist()), reverse=True):
        fpr = float(np.mean(normal >= threshold))
        pro = float(np.mean([np.mean(region >= threshold) for region in regions]))
        if fpr > limit:
            before_fpr, before_pro = curve[-1]
            pro = before_pro + (pro - before_pro) * (limit - before_fpr) / (fpr - before_fpr)
            curve.append((limit, pro))
            break
        curve.append((fpr, pro))
    area = sum((f2 - f1) * (p1 + p2) / 2 for (f1, p1), (f2, p2) in pairwise(curve))
    return area / curve[-1][0]


def scene(seed: int, n: int, size: tuple[int, int], *, levels: int | None = None, crop: float | None = None) -> Pairs:
    """Noise maps with lifted elliptic regions in every second image.

    Args:
        levels: round scores to this many values, so that ties abound.
        crop: share of each side, on the left and at the top, that holds one constant below all scores, as padding does.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: size[0], : size[1]]
    masks, maps = [], []
    for number in range(n):
        mask = np.zeros(size, bool)
        for _ in range(3 * (number % 2)):
            centre, radius = rng.uniform(0, size), rng.uniform(1, 0.2 * min(size), 2)
            mask |= ((rows - centre[0]) / radius[0]) ** 2 + ((columns - centre[1]) / radius[1]) ** 2 <= 1
        score_map = rng.normal(size=size) + 1.2 * mask
        if levels is not None:
            score_map = np.clip(np.floor((score_map + 3) / 7 * levels), 0, levels - 1)
        if crop is not None:
            score_map[: int(crop * size[0])] = -10
            score_map[:, : int(crop * size[1])] = -10
        masks.append(mask)
        maps.append(score_map.astype(np.float32))
    return masks, maps


def mixed_sizes() -> Pairs:
    first, second = scene(5, 4, (40, 56)), scene(6, 4, (33, 20), levels=12)
    return first[0] + second[0], first[1] + second[1]


# AU-PRO at 0.3 and 0.05 from anomalib 2.7.0 on CPU: `_AUPRO(fpr_limit=limit)`, update with the stacked maps and masks,
# compute. It cannot stack mixed sizes: there `connected_components_cpu` ran per image, ids were made unique over the
# set, and its `compute_pro` and `auc` got the flattened pixels of all images.
VECTORS: dict[str, tuple[Pairs, float, float]] = {
    "no ties": (scene(0, 6, (48, 64)), 0.5100072026, 0.2152273357),
    "seven levels": (scene(1, 6, (48, 64), levels=7), 0.4834536016, 0.1808787882),
    "binary maps": (scene(2, 6, (48, 64), levels=2), 0.3609847724, 0.0601641275),
    "padding not reached": (scene(3, 6, (48, 64), crop=0.3), 0.3978205621, 0.1712817252),
    "padding reached at both limits": (scene(4, 6, (48, 64), crop=0.8), 0.2516025007, 0.1353998035),
    "constant maps": (scene(5, 6, (48, 64), levels=1), 0.1500000060, 0.0250000022),
    "mixed sizes": (mixed_sizes(), 0.5069724917, 0.2570456266),
}


# ------------------------------------------------------------------------------------------------ AUROC


@pytest.mark.parametrize("name", VECTORS)
def test_aupro_equals_anomalib(name: str) -> None:
    (masks, maps), at_30, at_5 = VECTORS[name]
    assert aupro(masks, maps) == pytest.approx((at_30, at_5), abs=1e-6)


@settings(deadline=None, max_examples=300)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    density=st.sampled_from([0.0, 0.05, 0.3, 0.6, 1.0]),
    levels=st.sampled_from([1, 2, 3, 10, 10**6]),
    limits=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=3),
    sample=st.sampled_from([3, 1 << 20]),
)
def test_aupro_equals_the_definition(
    seed: int, sizes: list[tuple[int, int]], density: float, levels: int, limits: list[float], sample: int
) -> None:
    rng = np.random.default_rng(seed)
    masks = [rng.random(size) < density for size in sizes]
    # Signed and centred, so that -0.0 and 0.0 both occur and must tie.
    maps = [np.float32(np.round((rng.random(size) - 0.5) * levels) / levels) for size in sizes]
    with patch.object(region_overlap, "_SAMPLE", sample):
        ours = aupro(iter(masks), iter(maps), limits)
    assert ours == pytest.approx([slow_aupro(masks, maps, limit) for limit in limits], abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("order", [1, -1])
def test_aupro_is_exact_when_the_sample_misleads(order: int) -> None:
    masks, maps = scene(11, 4, (24, 24))
    # Every sampled pixel (stride 2304 // 3 | 1, one in each image: its first) is the extreme of its image.
    for mask, score_map in zip(masks, maps, strict=True):
        mask[0, 0] = False
        score_map[0, 0] = 50 * order
    with patch.object(region_overlap, "_SAMPLE", 3):
        assert aupro(masks, maps, (0.3,))[0] == pytest.approx(slow_aupro(masks, maps, 0.3), abs=1e-12)


def test_aupro_does_not_depend_on_the_order_of_images_nor_on_the_scale_of_scores() -> None:
    masks, maps = mixed_sizes()
    assert aupro(masks[::-1], maps[::-1]) == pytest.approx(aupro(masks, maps), abs=1e-12)
    assert aupro(masks, [8 * m for m in maps]) == aupro(masks, maps)


def test_aupro_of_perfect_useless_and_inverted_maps() -> None:
    masks, _ = scene(7, 4, (32, 32))
    assert aupro(masks, [m.astype(float) for m in masks]) == (1.0, 1.0)
    # One tie group: the curve is the diagonal, whose mean height up to L is L / 2.
    assert aupro(masks, [np.zeros(m.shape) for m in masks]) == pytest.approx((0.15, 0.025))
    assert aupro(masks, [1.0 - m for m in masks]) == (0.0, 0.0)


def test_aupro_counts_diagonal_neighbours_as_one_region() -> None:
    mask = np.zeros((6, 6), np.uint8)
    mask[1, 1] = mask[2, 2] = mask[4, 4] = 1  # two regions, of two and of one pixel
    score_map = np.zeros((6, 6))
    score_map[1, 1] = score_map[4, 4] = 1.0
    # Above zero: half of the first region, all of the second; at zero everything, a straight line to (1, 1).
    assert aupro([mask], [score_map], (0.2, 1.0)) == pytest.approx((0.75 + 0.25 * 0.2 / 2, 0.875))


@pytest.mark.parametrize("mask", [np.zeros((4, 4)), np.ones((4, 4))], ids=["no anomaly", "no background"])
def test_aupro_is_undefined_without_regions_or_background(mask: np.ndarray) -> None:
    assert np.isnan(aupro([mask], [np.random.default_rng(0).random((4, 4))])).all()


def test_aupro_of_nothing_is_undefined() -> None:
    assert np.isnan(aupro([], [])).all()


def test_aupro_takes_tensors_and_compares_as_float32() -> None:
    masks, maps = scene(8, 4, (16, 16), levels=9)
    tensors = [torch.tensor(m, requires_grad=True) for m in maps]
    expected = aupro(masks, maps)
    assert aupro([torch.tensor(m) for m in masks], tensors) == expected
    assert aupro(masks, [m.to(torch.bfloat16) for m in tensors]) == expected
    assert aupro(masks, [m.astype(np.float64) + 1e-12 for m in maps]) == expected


def test_accumulator_can_go_on_after_compute_and_copies_what_it_keeps() -> None:
    masks, maps = scene(9, 6, (20, 20))
    accumulator = AuproAccumulator()
    buffer = np.empty((20, 20), np.float32)
    for number, (mask, score_map) in enumerate(zip(masks, maps, strict=True), start=1):
        buffer[:] = score_map
        accumulator.update(mask, buffer)
        assert accumulator.compute() == pytest.approx(aupro(masks[:number], maps[:number]), abs=1e-12, nan_ok=True)
    assert accumulator.images == 6


def test_a_rejected_image_leaves_the_accumulator_as_it_was() -> None:
    masks, maps = scene(10, 2, (20, 20))
    accumulator = AuproAccumulator()
    for mask, score_map in zip(masks, maps, strict=True):
        accumulator.update(mask, score_map)
        with pytest.raises(DataError):
            accumulator.update(mask, np.full((20, 20), np.nan))
    assert accumulator.compute() == aupro(masks, maps)


def test_memory_stays_near_four_bytes_per_pixel() -> None:
    pixels = 16 * 512 * 512
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        accumulator = AuproAccumulator()
        for number in range(16):
            mask = np.zeros((512, 512), bool)
            mask[100:140, 100:140] = number % 2 == 1
            accumulator.update(mask, rng.random((512, 512), dtype=np.float32))
        kept = tracemalloc.get_traced_memory()[0]
        accumulator.compute()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept < 4.5 * pixels
    assert peak < 9 * pixels


GOOD_MASK, GOOD_MAP = np.eye(4), np.ones((4, 4))


@pytest.mark.parametrize(
    ("mask", "score_map", "error", "message"),
    [
        (
            GOOD_MASK,
            GOOD_MAP * np.nan,
            DataError,
            r"image 0 map must be finite in float32, got 16 NaN or infinite of 16",
        ),
        (GOOD_MASK, GOOD_MAP * np.inf, DataError, r"got 16 NaN or infinite of 16 pixels: give pixels .* lowest finite"),
        (GOOD_MASK, np.where(GOOD_MASK, -np.inf, 0), DataError, r"got 4 NaN or infinite"),
        (GOOD_MASK, GOOD_MAP * 1e300, DataError, r"must be finite in float32, got 16"),
        (
            GOOD_MASK,
            np.ones((4, 5)),
            ShapeError,
            r"image 0 needs an \(H, W\) mask .*, got \(4, 4\) and \(4, 5\): resize",
        ),
        (
            GOOD_MASK[None],
            GOOD_MAP[None],
            ShapeError,
            r"got \(1, 4, 4\) and \(1, 4, 4\): .* drop batch and channel axes",
        ),
        (GOOD_MASK * 255, GOOD_MAP, DataError, r"image 0 mask must hold only 0 and 1, got 255.0: pass `x > 0` if"),
        (GOOD_MASK * np.nan, GOOD_MAP, DataError, r"image 0 mask must hold only 0 and 1, got nan: pass"),
        (GOOD_MASK, GOOD_MAP * 1j, DataError, r"must be numeric, got dtype complex128: convert"),
    ],
)
def test_aupro_rejects(mask: np.ndarray, score_map: np.ndarray, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        aupro([mask], [score_map])


@pytest.mark.parametrize(("masks", "maps", "missing"), [(2, 1, "map"), (1, 2, "mask")])
def test_aupro_rejects_unpaired_images(masks: int, maps: int, missing: str) -> None:
    with pytest.raises(ShapeError, match=f"one map per mask, got no {missing} for image 1: pass"):
        aupro([GOOD_MASK] * masks, [GOOD_MAP] * maps)


@pytest.mark.parametrize("limits", [(), (0.0,), (0.3, 1.5), (math.nan,)])
def test_aupro_rejects_limits(limits: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match=r"fpr_limits must lie in \(0, 1\], got \("):
        aupro([GOOD_MASK], [GOOD_MAP], limits)
