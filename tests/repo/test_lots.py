"""Lots for studies: made when asked for, the same from a seed, drawn at random, photographs relit as the recipe says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparcal.errors import DataError
from sparcal.rendering.products import PRODUCTS
from speed.studies import lots
from speed.studies.lots import CONDITIONS, Case, cases, contrast_between, draw, mixed, with_contrasts
from speed.studies.relight import Recipe, draw_recipe, draw_shift, move_mask, relight


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few small parts for each rendered case, and a few bottles for a station."""
    for name, value in {"TRAINED": 2, "GOOD": 10, "BAD": 9, "SIZE": 64, "BOTTLES_TRAINED": 4}.items():
        monkeypatch.setattr(lots, name, value)


def photograph(path: Path, grey: int, *, size: tuple[int, int] = (64, 48)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), grey, np.uint8)).save(path)


def mask(path: Path, *, size: tuple[int, int] = (64, 48)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size[1], size[0]), np.uint8)
    pixels[20:24, 30:36] = 255
    Image.fromarray(pixels).save(path)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    for number in range(10):
        photograph(tmp_path / f"bottle/train/good/{number:03d}.png", 100 + number)
    photograph(tmp_path / "bottle/test/good/000.png", 120)
    for number in range(3):
        photograph(tmp_path / f"bottle/test/broken/{number:03d}.png", 90 + number)
        mask(tmp_path / f"bottle/ground_truth/broken/{number:03d}_mask.png")
    for day in ("20230210", "20230214"):
        for number in range(3):
            photograph(tmp_path / f"dobot_cubes/test/good/{day}{number}_red.png", 80, size=(640, 480))
            photograph(tmp_path / f"dobot_cubes/test/hole/{day}{number}_red.png", 70, size=(640, 480))
            mask(tmp_path / f"dobot_cubes/ground_truth/hole/{day}{number}_red_mask.png", size=(640, 480))
    photograph(tmp_path / "dobot_cubes/train/good/20230210_red.png", 80, size=(640, 480))
    return tmp_path


@pytest.mark.usefixtures("small")
def test_every_product_meets_every_condition() -> None:
    found = cases(None)
    assert [(case.product, case.condition) for case in found] == [(p, c) for p in PRODUCTS for c in CONDITIONS]
    assert len({case.name for case in found}) == len(found)
    case = found[2]
    assert (len(case.train), len(case.good), len(case.bad), len(case.masks)) == (2, 10, 9, 9)
    assert all(mask.any() and mask.shape == image.shape[:2] for mask, image in zip(case.masks, case.bad, strict=True))
    assert len(case.contrasts) == 9
    assert 1 <= min(case.contrasts) < max(case.contrasts) < 128


def test_nothing_is_rendered_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("rendered too early")

    monkeypatch.setattr(lots, "render_part", refuse)
    case = cases(None)[0]
    with pytest.raises(AssertionError, match="too early"):
        _ = case.good


@pytest.mark.usefixtures("small")
def test_cases_of_a_product_share_training_images_and_no_lot_part() -> None:
    first, second = cases(None)[:2]
    assert first.train is second.train
    assert not any(np.array_equal(one, other) for one in first.good for other in (*second.good, *first.train))


@pytest.mark.usefixtures("small")
def test_a_case_is_the_same_from_its_seed_and_after_forgetting() -> None:
    case, again, other = cases(None)[9], cases(None)[9], cases(None, seed=1)[9]
    before = case.bad[4]
    case.forget()
    assert "spoilt" not in case.__dict__
    assert np.array_equal(case.bad[4], before)
    assert np.array_equal(again.bad[4], before)
    assert not np.array_equal(other.bad[4], before)


def test_draw_splits_the_good_parts_at_random_and_keeps_masks_with_their_parts() -> None:
    images = [np.full((2, 2, 3), number, np.uint8) for number in range(200)]
    masks = [np.full((2, 2), number % 2 == 0) for number in range(200)]
    case = Case(
        "numbers", "numbers", "unshifted", list, lambda: images, lambda: (images, masks, [float(i) for i in range(200)])
    )
    drawn = draw(case, 8, 0)
    numbers = [int(image[0, 0, 0]) for image in (*drawn.normals, *drawn.good)]
    assert (len(drawn.normals), len(drawn.good), len(drawn.bad)) == (8, 120, 120)
    assert len(set(numbers)) == 128
    assert numbers != sorted(numbers)
    assert all(
        bool(mask[0, 0]) == (int(image[0, 0, 0]) % 2 == 0) for image, mask in zip(drawn.bad, drawn.masks, strict=True)
    )
    assert drawn.contrasts == [float(image[0, 0, 0]) for image in drawn.bad]
    assert [int(image[0, 0, 0]) for image in draw(case, 8, 0).normals] == numbers[:8]
    assert [int(image[0, 0, 0]) for image in draw(case, 8, 1).normals] != numbers[:8]
    for k in (0, 200):
        with pytest.raises(DataError, match=f"draw needs from 1 to 199 normals of numbers, got {k}: ask for others"):
            draw(case, k, 0)


def test_the_contrast_of_a_defect_is_its_mean_change_and_on_photographs_what_stands_out_from_the_surroundings() -> None:
    sound, mask = np.full((40, 40, 3), 100, np.uint8), np.zeros((40, 40), bool)
    mask[15:20, 15:25] = True
    spoilt = sound.copy()
    spoilt[mask] = (130, 100, 70)  # 30, 0 and 30 grey levels
    assert contrast_between(spoilt, sound, mask) == 20
    assert with_contrasts([spoilt], [mask])[2] == pytest.approx([20], abs=0.5)
    assert contrast_between(sound, sound, mask) == contrast_between(spoilt, sound, np.zeros_like(mask)) == 1


def test_mixed_uses_every_lamp_equally_and_eight_parts_may_miss_one() -> None:
    lamps = [mixed(np.random.default_rng(seed), 100, 5) for seed in range(20)]
    assert all(set(Counter(lamp).values()) == {20} for lamp in lamps)
    assert any(len(set(lamp[:8])) < 5 for lamp in lamps)


@pytest.mark.usefixtures("small")
def test_bottles_are_split_relit_and_moved_with_their_masks(photographs: Path) -> None:
    bottles = {case.condition: case for case in cases(photographs) if case.product == "bottle"}
    assert tuple(bottles) == CONDITIONS
    unshifted, moved = bottles["unshifted"], bottles["moved"]
    assert [int(image.mean()) for image in unshifted.train] == [100, 101, 102, 103]
    assert [int(image.mean()) for image in unshifted.good] == [104, 105, 106, 107, 108, 109, 120]
    assert [int(image.mean()) for image in unshifted.bad] == [90, 91, 92]
    assert unshifted.masks[0].sum() == moved.masks[0].sum() == 24
    assert not (unshifted.masks[0] & moved.masks[0]).all(where=unshifted.masks[0])

    def spread_of_colour(condition: str) -> float:
        red_to_blue = [image[..., 0].mean() / image[..., 2].mean() for image in bottles[condition].good]
        return float(np.ptp(red_to_blue))

    assert spread_of_colour("moved") == 0
    assert spread_of_colour("one lamp") < 0.05
    assert spread_of_colour("lamps") > 0.2


def test_cubes_are_split_by_day_and_reduced(photographs: Path) -> None:
    same, later = (case for case in cases(photographs) if case.product == "cubes")
    assert (len(same.train), len(same.good), len(same.bad), len(later.good)) == (1, 3, 3, 3)
    assert same.good[0].shape == (288, 384, 3)
    assert later.masks[0].shape == (288, 384)
    assert later.masks[0].any()


def test_a_folder_without_photographs_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs a folder that holds bottle or dobot_cubes, got .*: name another"):
        cases(tmp_path)
    (tmp_path / "bottle/train/good").mkdir(parents=True)
    with pytest.raises(DataError, match=r"needs images named \*.jpg or .png, got none: check what was unpacked"):
        cases(tmp_path)


def test_relight_follows_its_recipe() -> None:
    grey = np.full((9, 9, 3), 128, np.uint8)
    assert relight(grey, Recipe(), seed=0) is grey
    assert relight(grey, Recipe(gamma=2.0), seed=0)[4, 4, 0] == round(255 * (128 / 255) ** 2)
    assert relight(grey, Recipe(tint=(0.75, 1.0, 1.25)), seed=0)[4, 4].tolist() == [96, 128, 160]
    assert relight(grey, Recipe(brightness=0.7), seed=0)[4, 4, 0] == 90
    sloped = relight(grey, Recipe(gradient=(0.35, 0.0)), seed=0)
    assert (sloped[4, 0, 0], sloped[4, 4, 0], sloped[4, 8, 0]) == (83, 128, 173)
    noisy = relight(np.full((200, 200, 3), 128, np.uint8), Recipe(noise=3.0), seed=0)
    assert noisy.std() == pytest.approx(3, rel=0.05)
    dot = grey.copy()
    dot[4, 4] = 0
    assert np.argwhere(relight(dot, Recipe(shift=(2, -3)), seed=0)[..., 0] == 0).tolist() == [[1, 6]]
    assert np.argwhere(move_mask(dot[..., 0] == 0, (2, -3))).tolist() == [[1, 6]]


def test_recipes_stay_in_their_ranges() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        recipe, shift = draw_recipe(rng), draw_shift(rng)
        assert 0.8 <= recipe.gamma <= 1.35
        assert np.hypot(*recipe.gradient) <= 0.35
        assert all(0.75 <= tint <= 1.25 for tint in recipe.tint)
        assert 0.7 <= recipe.brightness <= 1
        assert all(4 <= abs(pixels) <= 9 for pixels in shift)
