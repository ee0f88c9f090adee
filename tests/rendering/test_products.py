"""The kinds of products: each looks the same from a seed, spoils where its mask says, and the plate is what it was."""

from __future__ import annotations

import hashlib
import time
from itertools import pairwise

import numpy as np
import pytest

from sparcal.errors import DataError
from sparcal.rendering.fabric import weave
from sparcal.rendering.parts import LOT_LIGHTS, TRAINING_LIGHT, Part, make_demo, render_part
from sparcal.rendering.products import PRODUCTS, ProductName
from sparcal.rendering.surface import drill, view_part

SIZE = 128
OTHERS: tuple[ProductName, ...] = ("cap", "fabric")
SMALL = [(product, defect) for product in OTHERS for defect in PRODUCTS[product].small]
LARGE = [(product, defect) for product in PRODUCTS for defect in PRODUCTS[product].large]
MISSING = ("missing_hole", "missing_print", "missing_seal", "missing_bore", "missing_text")

# Sum of all pixels and of the mask, of plates rendered before there was any other product: seed, defect, strength.
# Sums, not hashes: the lowest and the newest versions of what we draw with round 1 value in 100 to another grey level,
# which moved a sum by up to 201; another drawing moves it by thousands.
PLATES = [
    (0, None, 1.0, 4545356, 0),
    (50, None, 1.0, 4564009, 0),
    (1, "scratch", 1.0, 4363229, 131),
    (51, "scratch", 0.4, 4448226, 173),
    (2, "dent", 1.0, 5690941, 123),
    (52, "dent", 0.4, 5650571, 68),
    (3, "stain", 1.0, 5609652, 176),
    (53, "stain", 0.4, 5636802, 235),
    (4, "chipped_rib", 1.0, 3537341, 52),
    (54, "chipped_rib", 0.4, 3544826, 51),
    (5, "missing_bore", 1.0, 4541628, 223),
    (55, "missing_bore", 0.4, 4542604, 226),
    (6, "missing_text", 1.0, 4412996, 142),
    (56, "missing_text", 0.4, 4460271, 124),
]


def digest(part: Part) -> str:
    return hashlib.sha256(part.image.tobytes() + part.mask.tobytes()).hexdigest()


def difference(a: Part, b: Part) -> np.ndarray:
    return np.abs(a.image.astype(int) - b.image.astype(int)).max(axis=-1)


@pytest.mark.parametrize(("seed", "defect", "strength", "pixels", "mask"), PLATES)
def test_the_plate_is_what_it_was(seed: int, defect: str | None, strength: float, pixels: int, mask: int) -> None:
    part = render_part(seed, light=LOT_LIGHTS[seed % 5], defect=defect, strength=strength, size=SIZE)
    assert int(part.image.sum()) == pytest.approx(pixels, abs=400)
    assert int(part.mask.sum()) == pytest.approx(mask, abs=1)


@pytest.mark.parametrize("product", OTHERS)
def test_same_seed_same_bytes_and_another_seed_another_part(product: ProductName) -> None:
    defect = next(iter(PRODUCTS[product].large))
    for kind in (None, defect):
        first, again, other = (
            render_part(seed, light=LOT_LIGHTS[2], product=product, defect=kind, size=SIZE) for seed in (3, 3, 4)
        )
        assert digest(first) == digest(again) != digest(other)


@pytest.mark.parametrize(("product", "defect"), SMALL)
@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_a_small_defect_changes_the_image_inside_its_mask_and_nowhere_else(
    product: ProductName, defect: str, strength: float
) -> None:
    for seed in range(3):
        light = LOT_LIGHTS[seed]
        bad = render_part(seed, light=light, product=product, defect=defect, strength=strength, size=SIZE)
        changed = difference(bad, render_part(seed, light=light, product=product, size=SIZE))
        assert 10 < bad.mask.sum() < 0.04 * bad.mask.size
        assert not changed[~bad.mask].any()
        assert (changed[bad.mask] > 0).mean() > 0.3


@pytest.mark.parametrize(("product", "defect"), SMALL)
def test_a_small_defect_at_full_strength_is_plain_to_see(product: ProductName, defect: str) -> None:
    bad = render_part(11, light=TRAINING_LIGHT, product=product, defect=defect)
    good = render_part(11, light=TRAINING_LIGHT, product=product)
    assert difference(bad, good)[bad.mask].mean() > 8


@pytest.mark.parametrize(("product", "defect"), LARGE)
def test_a_large_defect_is_large_and_only_its_shadow_leaves_the_mask(product: ProductName, defect: str) -> None:
    for seed in range(4):
        bad = render_part(seed, light=TRAINING_LIGHT, product=product, defect=defect, size=SIZE)
        changed = difference(bad, render_part(seed, light=TRAINING_LIGHT, product=product, size=SIZE))
        assert 0.04 < bad.mask.mean() < 0.26
        assert (changed[bad.mask] > 0).mean() > 0.7
        assert changed[bad.mask].mean() > 5 * changed[~bad.mask].mean()


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_large_stain_casts_no_shadow(product: ProductName) -> None:
    defect = "large_oil_stain" if product == "fabric" else "large_stain"
    bad = render_part(1, light=LOT_LIGHTS[1], product=product, defect=defect, size=SIZE)
    changed = difference(bad, render_part(1, light=LOT_LIGHTS[1], product=product, size=SIZE))
    assert changed[~bad.mask].max() <= 8  # what of the film is too thin for the mask


@pytest.mark.parametrize(("product", "defect"), SMALL + LARGE)
def test_strength_and_extent_both_add_to_a_defect(product: ProductName, defect: str) -> None:
    def seen(strength: float, extent: float) -> tuple[int, int]:
        bad = render_part(
            12, light=TRAINING_LIGHT, product=product, defect=defect, strength=strength, extent=extent, size=SIZE
        )
        good = render_part(12, light=TRAINING_LIGHT, product=product, size=SIZE)
        return int(difference(bad, good).sum()), int(bad.mask.sum())

    weak, middle, strong = (seen(strength, 1.0)[0] for strength in (0.25, 0.5, 1.0))
    assert weak < middle < strong
    areas = [seen(1.0, extent)[1] for extent in (0.5, 1.0, 1.5)]
    if defect in MISSING:
        assert areas[0] == areas[1] == areas[2]
    else:
        assert all(smaller < larger for smaller, larger in pairwise(areas))


@pytest.mark.parametrize(("product", "defect"), SMALL + LARGE)
def test_the_mask_does_not_depend_on_the_light(product: ProductName, defect: str) -> None:
    lights = (TRAINING_LIGHT, *LOT_LIGHTS[:2])
    masks = [render_part(9, light=light, product=product, defect=defect, size=SIZE).mask for light in lights]
    assert all(np.array_equal(masks[0], mask) for mask in masks)


@pytest.mark.parametrize("product", OTHERS)
def test_every_light_is_another_picture_of_the_product(product: ProductName) -> None:
    parts = [render_part(5, light=light, product=product, size=SIZE) for light in (TRAINING_LIGHT, *LOT_LIGHTS)]
    assert all(difference(one, other).mean() > 5 for one, other in pairwise(parts))


def test_caps_lie_alike_and_pieces_of_fabric_do_not() -> None:
    def unlikeness(product: ProductName) -> float:
        """How much two parts differ, as a share of the contrast of one; the mean of five pairs."""
        images = [
            render_part(seed, light=TRAINING_LIGHT, product=product, size=SIZE).image.astype(int) for seed in range(6)
        ]
        pairs = [np.abs(a - b).mean() / np.abs(a - a.mean(axis=(0, 1))).mean() for a, b in pairwise(images)]
        return float(np.mean(pairs))

    assert unlikeness("cap") < 0.4
    assert unlikeness("fabric") > 0.8


def test_fabric_fills_the_image_and_shows_the_table_nowhere() -> None:
    surface = weave(view_part(256, shift=(0, 0), angle=0.0), seed=4)
    assert (surface.mirror[0] < 0.02).mean() < 0.03  # gaps between threads, a few pixels each


def test_a_missing_weft_thread_is_a_line_along_the_weft() -> None:
    mask = render_part(5, light=TRAINING_LIGHT, product="fabric", defect="missing_weft").mask
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    assert np.ptp(rows) < 30 < np.ptp(columns)


def test_drill_goes_down_to_the_floor_inside_and_leaves_the_rest() -> None:
    distance = np.array([[-5.0, -1.0, 0.5, 9.0]], np.float32)
    height, opening = drill(np.full((1, 4), 10, np.float32), [(distance, 2.0)], floor=-6.0)
    assert height[0, 0] == -6
    assert opening[0, 0] == 1
    assert 8 < height[0, 2] < 10
    assert height[0, 3] == 10
    assert opening[0, 3] == 0


@pytest.mark.parametrize("product", OTHERS)
@pytest.mark.parametrize("shift", ["lights", "random", "none", "moved", "lights+moved"])
def test_make_demo_knows_every_product_and_shift(product: ProductName, shift: str) -> None:
    demo = make_demo(0, train=1, good=2, bad=2, shift=shift, size=64, product=product)  # type: ignore[arg-type]
    assert [part.defect for part in demo.lot_bad] == list(PRODUCTS[product].small)[:2]
    plate = make_demo(0, train=1, good=2, bad=2, shift=shift, size=64)  # type: ignore[arg-type]
    assert [part.light for part in demo.lot_good] == [part.light for part in plate.lot_good]
    assert digest(demo.train[0]) != digest(plate.train[0])


def test_lights_and_moved_is_both() -> None:
    both, lights, moved = (
        make_demo(0, train=0, good=2, bad=0, shift=shift, size=SIZE).lot_good
        for shift in ("lights+moved", "lights", "moved")  # type: ignore[arg-type]
    )
    assert [part.light for part in both] == [part.light for part in lights]
    still = render_part(7, light=LOT_LIGHTS[0], size=SIZE)
    pushed = render_part(7, light=LOT_LIGHTS[0], shift=(3, -2), size=SIZE)
    assert difference(still, pushed).mean() > 2
    assert all(difference(one, other).mean() > 2 for one, other in zip(both, lights, strict=True))
    assert all(difference(one, other).mean() > 2 for one, other in zip(both, moved, strict=True))


def test_unknown_products_defects_and_extents_are_refused_with_a_sentence() -> None:
    with pytest.raises(DataError, match="unknown product 'bolt'; choose from plate, cap, fabric"):
        render_part(0, light=TRAINING_LIGHT, product="bolt")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown product 'bolt'"):
        make_demo(0, product="bolt")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown defect 'dent' of a fabric; choose from missing_weft, slub"):
        render_part(0, light=TRAINING_LIGHT, product="fabric", defect="dent")
    for extent in (0.0, 2.5, float("nan")):
        with pytest.raises(DataError, match=r"extent must be from 0.25 to 2.0, got .*: for something still"):
            render_part(0, light=TRAINING_LIGHT, defect="dent", extent=extent)


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_part_takes_well_under_a_tenth_of_a_second(product: ProductName) -> None:
    render_part(0, light=TRAINING_LIGHT, product=product)
    began = time.process_time()
    for seed in range(5):
        render_part(seed, light=TRAINING_LIGHT, product=product)
    assert (time.process_time() - began) / 5 < 0.1
