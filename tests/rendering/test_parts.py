"""The rendered parts: reproducible, masked exactly, and different where and only where they should be."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sparcal.errors import DataError
from sparcal.rendering.parts import (
    LOT_LIGHTS,
    MOVED_CAMERA,
    PRODUCTS,
    TRAINING_LIGHT,
    DemoSet,
    Light,
    Part,
    make_demo,
    random_light,
    render_part,
    write_demo,
)
from sparcal.rendering.photograph import develop, gloss, shadow, surface_normals
from sparcal.rendering.plate import Drawing, machine
from sparcal.rendering.surface import Surface, View, polyline_distance, view_part

SIZE = 128
DEFECTS = tuple(PRODUCTS["plate"].small)


def digest(part: Part) -> str:
    return hashlib.sha256(part.image.tobytes() + part.mask.tobytes()).hexdigest()


def difference(a: Part, b: Part) -> np.ndarray:
    return np.abs(a.image.astype(int) - b.image.astype(int)).max(axis=-1)


def offset(moved: Part, still: Part) -> tuple[int, int]:
    """Whole pixels (right, down) by which `moved` fits `still` best, by trying them all."""

    def misfit(right: int, down: int) -> float:
        rolled = np.roll(still.image.astype(int), (down, right), axis=(0, 1))
        return float(np.abs(rolled - moved.image)[16:-16, 16:-16].mean())

    return min(((x, y) for x in range(-9, 10) for y in range(-9, 10)), key=lambda xy: misfit(*xy))


def test_default_part_has_the_documented_form() -> None:
    part = render_part(0, light=TRAINING_LIGHT)
    assert part.image.shape == (256, 256, 3)
    assert part.image.dtype == np.uint8
    assert part.mask.shape == (256, 256)
    assert part.mask.dtype == np.bool_
    assert (part.defect, part.light) == (None, "training")


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_same_arguments_give_the_same_bytes(defect: str | None) -> None:
    first, second = (render_part(3, light=LOT_LIGHTS[1], defect=defect, size=SIZE) for _ in range(2))
    assert digest(first) == digest(second)


def test_another_seed_gives_another_part_of_the_same_kind() -> None:
    first, second = (render_part(seed, light=TRAINING_LIGHT, size=SIZE) for seed in (1, 2))
    apart = difference(first, second)
    assert (apart > 0).mean() > 0.5
    assert apart.mean() < 15


def test_a_good_part_has_an_empty_mask_and_uses_the_range_of_the_sensor() -> None:
    part = render_part(4, light=TRAINING_LIGHT, size=SIZE)
    assert not part.mask.any()
    assert part.image.min() < 25
    assert part.image.max() > 190


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), defect=st.sampled_from(DEFECTS), strength=st.sampled_from([0.3, 0.6, 1.0]))
def test_a_defect_changes_the_image_inside_its_mask_and_nowhere_else(seed: int, defect: str, strength: float) -> None:
    light = LOT_LIGHTS[seed % len(LOT_LIGHTS)]
    bad = render_part(seed, light=light, defect=defect, strength=strength, size=SIZE)
    changed = difference(bad, render_part(seed, light=light, size=SIZE))
    assert 10 < bad.mask.sum() < 0.1 * bad.mask.size
    assert not changed[~bad.mask].any()
    assert (changed[bad.mask] > 0).mean() > 0.3


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_stronger_defect_is_easier_to_see(defect: str) -> None:
    good = render_part(11, light=TRAINING_LIGHT)
    seen = []
    for strength in (0.25, 0.5, 1.0):
        bad = render_part(11, light=TRAINING_LIGHT, defect=defect, strength=strength)
        seen.append(difference(bad, good).sum())
    assert seen[0] < seen[1] < seen[2]
    assert difference(bad, good)[bad.mask].mean() > 8


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_mask_does_not_depend_on_the_light(defect: str) -> None:
    masks = [render_part(9, light=light, defect=defect, size=SIZE).mask for light in (TRAINING_LIGHT, *LOT_LIGHTS)]
    assert all(np.array_equal(masks[0], mask) for mask in masks)


def test_every_light_is_another_picture() -> None:
    lights = (TRAINING_LIGHT, *LOT_LIGHTS, random_light(0), random_light(1))
    assert len({light.name for light in lights}) == len(lights)
    parts = [render_part(5, light=light, size=SIZE) for light in lights]
    for one, other in combinations(parts, 2):
        assert difference(one, other).mean() > 5, (one.light, other.light)


def test_random_light_is_reproducible_and_stays_above_the_part() -> None:
    assert random_light(7) == random_light(7)
    for seed in range(50):
        x, y, z = random_light(seed).position
        assert z / np.hypot(x, y) > np.tan(np.deg2rad(27))


@pytest.mark.parametrize("shift", [(5.0, -3.0), (-4.0, 0.0)])
def test_shift_moves_the_part_and_its_mask(shift: tuple[float, float]) -> None:
    still, moved = (
        render_part(6, light=TRAINING_LIGHT, defect="missing_bore", shift=by, size=SIZE) for by in ((0.0, 0.0), shift)
    )
    assert offset(moved, still) == shift
    rolled = np.roll(still.mask, (int(shift[1]), int(shift[0])), axis=(0, 1))
    assert (rolled ^ moved.mask).sum() <= 0.02 * moved.mask.sum()


def test_shift_by_a_fraction_of_a_pixel_is_seen() -> None:
    still, moved = (render_part(6, light=TRAINING_LIGHT, shift=(by, 0.0), size=SIZE) for by in (0.0, 0.4))
    assert 0.3 < difference(moved, still).mean() < 10


def test_a_larger_image_shows_the_same_part() -> None:
    small = render_part(8, light=TRAINING_LIGHT, defect="missing_bore", size=SIZE)
    large = render_part(8, light=TRAINING_LIGHT, defect="missing_bore", size=2 * SIZE)
    halved = large.image.reshape(SIZE, 2, SIZE, 2, 3).mean(axis=(1, 3))
    assert np.abs(halved - small.image).mean() < 8
    assert large.mask.mean() == pytest.approx(small.mask.mean(), rel=0.25)


def test_make_demo_counts_names_and_conditions() -> None:
    demo = make_demo(0, train=3, good=6, bad=12, size=64)
    assert [len(group) for group in (demo.train, demo.lot_good, demo.lot_bad)] == [3, 6, 12]
    names = [part.name for part in (*demo.train, *demo.lot_good, *demo.lot_bad)]
    assert len(set(names)) == len(names)
    assert {part.light for part in demo.train} == {"training"}
    assert [part.light for part in demo.lot_good] == [light.name for light in (*LOT_LIGHTS, LOT_LIGHTS[0])]
    assert [part.defect for part in demo.lot_bad] == [*DEFECTS, *DEFECTS]
    assert not any(part.mask.any() for part in (*demo.train, *demo.lot_good))
    assert all(part.mask.any() for part in demo.lot_bad)


def test_make_demo_is_reproducible_and_grows_without_changing() -> None:
    small, again, large = (make_demo(1, train=2, good=2, bad=n, size=64) for n in (2, 2, 4))
    for group in ("train", "lot_good", "lot_bad"):
        hashes = [[digest(part) for part in getattr(demo, group)] for demo in (small, again, large)]
        assert hashes[0] == hashes[1] == hashes[2][:2]
    assert digest(small.train[0]) != digest(make_demo(2, train=1, good=0, bad=0, size=64).train[0])


def test_groups_hold_different_parts_even_without_a_shift() -> None:
    demo = make_demo(0, train=2, good=2, bad=0, shift="none", size=64)
    assert {part.light for part in demo.lot_good} == {"training"}
    assert len({digest(part) for part in (*demo.train, *demo.lot_good)}) == 4


def test_random_lights_differ_from_part_to_part() -> None:
    demo = make_demo(0, train=1, good=4, bad=4, shift="random", size=64)
    assert len({part.light for part in (*demo.lot_good, *demo.lot_bad)}) == 8


def test_moved_camera_shifts_the_lot_under_the_training_light() -> None:
    moved, still = (make_demo(0, train=1, good=1, bad=1, shift=shift, size=SIZE) for shift in ("moved", "none"))
    assert digest(moved.train[0]) == digest(still.train[0])
    for group in ("lot_good", "lot_bad"):
        a, b = getattr(moved, group)[0], getattr(still, group)[0]
        assert a.light == "training"
        assert offset(a, b) == (MOVED_CAMERA[0] * SIZE / 256, MOVED_CAMERA[1] * SIZE / 256)


def test_strength_of_the_set_reaches_its_bad_parts() -> None:
    weak, strong = (make_demo(0, train=0, good=0, bad=3, strength=s, size=SIZE).lot_bad for s in (0.2, 1.0))
    for one, other in zip(weak, strong, strict=True):
        assert difference(one, other).max() > 10


def test_write_demo_lays_out_the_tree_and_loses_nothing(tmp_path: Path) -> None:
    demo = make_demo(0, train=2, good=2, bad=7, size=64)
    write_demo(demo, tmp_path / "a")
    write_demo(demo, tmp_path / "b")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.png"))
    expected = [f"train/good/{part.name}.png" for part in demo.train]
    expected += [f"test/good/{part.name}.png" for part in demo.lot_good]
    expected += [f"test/{part.defect}/{part.name}.png" for part in demo.lot_bad]
    expected += [f"ground_truth/{part.defect}/{part.name}_mask.png" for part in demo.lot_bad]
    assert files == sorted(map(Path, expected))
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)
    bad = demo.lot_bad[0]
    image = np.asarray(Image.open(tmp_path / "a" / "test" / str(bad.defect) / f"{bad.name}.png"))
    mask = np.asarray(Image.open(tmp_path / "a" / "ground_truth" / str(bad.defect) / f"{bad.name}_mask.png"))
    assert np.array_equal(image, bad.image)
    assert np.array_equal(mask, bad.mask * np.uint8(255))


def test_write_demo_refuses_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "old.png").touch()
    with pytest.raises(DataError, match=r"needs a new or empty folder, got .*: choose another, or empty it first"):
        write_demo(DemoSet([], [], []), tmp_path)
    with pytest.raises(DataError, match="needs a new or empty folder"):
        write_demo(DemoSet([], [], []), tmp_path / "old.png")


def test_unknown_names_list_the_valid_ones() -> None:
    with pytest.raises(DataError, match=f"unknown defect 'rust' of a plate; choose from {', '.join(DEFECTS)}"):
        render_part(0, light=TRAINING_LIGHT, defect="rust")
    with pytest.raises(DataError, match=r"unknown shift 'tilted'; choose from .*, moved, lights\+moved\."):
        make_demo(0, shift="tilted")  # type: ignore[arg-type]


@pytest.mark.parametrize("strength", [0.0, -1.0, 1.5, float("nan")])
def test_strength_outside_its_range_is_rejected(strength: float) -> None:
    with pytest.raises(DataError, match=r"strength must be above 0 and at most 1, got .*: for a good part"):
        render_part(0, light=TRAINING_LIGHT, defect="dent", strength=strength)


def test_bad_seed_size_and_counts_are_rejected() -> None:
    with pytest.raises(DataError, match="needs a seed of 0 or more, got -1"):
        render_part(-1, light=TRAINING_LIGHT)
    with pytest.raises(DataError, match="needs a size of at least 64 pixels, got 32"):
        render_part(0, light=TRAINING_LIGHT, size=32)
    with pytest.raises(DataError, match="make_demo needs a seed of 0 or more, got -1"):
        make_demo(-1)
    with pytest.raises(DataError, match=r"needs counts of 0 or more, got train=1, good=-2, bad=0"):
        make_demo(0, train=1, good=-2, bad=0)


def test_impossible_lights_are_rejected() -> None:
    with pytest.raises(DataError, match=r"Light 'cellar' needs its lamp at least 0.2 image widths .* got -1.0"):
        Light("cellar", (0.0, 0.0, -1.0))
    with pytest.raises(DataError, match=r"Light 'training' needs colour, .* of 0 or more, got -0.5"):
        replace(TRAINING_LIGHT, ambient=-0.5)


def test_polyline_distance_equals_a_loop_over_dense_points() -> None:
    view = view_part(64, shift=(0.0, 0.0), angle=0.0)
    corners = np.array([(-40.0, -20.0), (10.0, 30.0), (60.0, 5.0)])
    distance, along = polyline_distance(view, corners)
    for row, column in [(0, 0), (10, 50), (32, 32), (40, 20), (63, 63)]:
        x, y = float(view.x[row, column]), float(view.y[row, column])
        t = np.linspace(0, 2, 20001)
        px, py = np.interp(t, [0, 1, 2], corners[:, 0]), np.interp(t, [0, 1, 2], corners[:, 1])
        apart = np.hypot(px - x, py - y)
        assert distance[row, column] == pytest.approx(apart.min(), abs=0.01)
        assert along[row, column] == pytest.approx(t[apart.argmin()] / 2, abs=0.001)


def test_normals_of_a_ramp_are_known() -> None:
    slope = np.tile(np.arange(64, dtype=np.float32) * 2, (64, 1))
    assert np.allclose(surface_normals(slope, 2.0)[:, 5, 5], np.array([-1, 0, 1]) / np.sqrt(2))


def test_shadow_of_a_wall_falls_away_from_the_lamp_as_far_as_its_height_says() -> None:
    wall = np.zeros((64, 64), np.float32)
    wall[:, 30:34] = 10
    lit = shadow(wall, 1.0, Light("right", (1.0, 0.0, 1.0), spread=0.0))  # 45 degrees: as long as the wall is high
    assert (lit[32, 36:] == 1).all()
    assert (lit[32, 22:29] < 0.1).all()
    assert (lit[32, :18] == 1).all()
    assert (shadow(wall, 1.0, Light("above", (0.0, 0.0, 1.0))) == 1).all()


def test_reflection_is_brightest_in_the_mirror_direction_and_wider_across_the_tool_marks() -> None:
    def seen(x: float, y: float) -> float:
        one = np.ones((1, 1), np.float32)
        surface = Surface(0 * one, one[None], one[None], np.stack([0.1 * one, 0.4 * one]), np.stack([one, 0 * one]))
        lamp = np.array([x, y, 1.0], np.float32).reshape(3, 1, 1) / np.float32(np.sqrt(x * x + y * y + 1))
        return float(gloss(surface, np.stack([0 * one, 0 * one, one]), lamp, 0.0)[0, 0])

    assert seen(0, 0) > seen(0, 0.3) > 3 * seen(0.3, 0)


def test_develop_is_monotone_and_keeps_black_and_white() -> None:
    levels = develop(np.linspace(0, 20, 400, dtype=np.float32))
    assert (np.diff(levels.astype(int)) >= 0).all()
    assert (levels[0], levels[-1]) == (0, 255)


def test_surface_blend_goes_from_one_to_the_other() -> None:
    view: View = view_part(64, shift=(0.0, 0.0), angle=0.0)
    whole, bare = machine(Drawing(), view, seed=0), machine(Drawing(bores=(), ribs=(), text=" "), view, seed=0)
    half = whole.blend(bare, 0.5)
    assert np.allclose(whole.blend(bare, 1.0).height, bare.height, atol=1e-5)
    assert np.allclose(half.mirror, (whole.mirror + bare.mirror) / 2, atol=1e-6)
    assert np.array_equal(whole.blend(bare, np.zeros_like(whole.height)).rough, whole.rough)
