"""Draws: pure, uniform, paired across variants, and undefined where nothing is left to evaluate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparcal.bench.datasets import Record
from sparcal.bench.plan.protocol import make_draw, rank_pool
from sparcal.bench.plan.variant import Variant
from sparcal.errors import DataError


def category(train=20, good=20, bad=12, captures=4):
    """Records as MVTec AD 2 has them: `captures` images of each scene."""
    rows = [Record("can", "train", 0, "regular", f"train/{i}", Path(f"train/{i:03}"), None) for i in range(train)]
    for label, count, name in ((0, good, "good"), (1, bad, "bad")):
        for i in range(count):
            scene, image = f"{name}/{i // captures}", Path(f"{name}/{i:03}")
            mask = Path(f"mask/{i:03}") if label else None
            rows.append(Record("can", "test", label, str(i % captures), scene, image, mask))
    return rows


def draw(records, text="", *, k=8, seed=0, dataset="mvtec-ad-2"):
    return make_draw(records, dataset=dataset, category="can", k=k, seed=seed, variant=Variant.parse(text))


def test_the_rest_and_all_anomalous_images_are_evaluated():
    records = category()
    found = draw(records)
    test = [r for r in records if r.split == "test"]
    assert len(found.calibration) == 8
    assert all(r.label == 0 and r.split == "test" for r in found.calibration)
    assert list(found.evaluated) == [r for r in test if r not in found.calibration]
    assert found.undefined == ""


def test_a_draw_never_changes():
    """Written down once: another version or machine must draw the same images."""
    assert rank_pool(10, "test", ("mvtec-ad-2", "can", 8, 0)) == [4, 5, 1, 6, 2, 9, 3, 7, 8, 0]
    assert [r.image.name for r in draw(category(), k=2).calibration] == ["008", "010"]


@given(st.integers(2, 8), st.integers(0, 4), st.integers(9, 30))
def test_a_draw_is_a_function_of_its_words(k, seed, good):
    records = category(good=good)
    assert draw(records, k=k, seed=seed) == draw(list(records), k=k, seed=seed)


def test_other_words_give_other_draws():
    words = [("a", "b", 8, 0), ("a", "b", 8, 1), ("a", "b", 4, 0), ("a", "c", 8, 0), ("c", "b", 8, 0)]
    orders = {tuple(rank_pool(30, "test", word)) for word in words} | {tuple(rank_pool(30, "train", words[0]))}
    assert len(orders) == len(words) + 1


def test_every_image_is_drawn_equally_often():
    counts = Counter(i for seed in range(3000) for i in rank_pool(12, "test", ("d", "c", 3, seed))[:3])
    expected = 3000 * 3 / 12
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())
    assert len(counts) == 12


def test_training_normals_calibrate_and_the_evaluation_stays():
    records = category()
    main, train = draw(records), draw(records, "source=train")
    assert all(r.split == "train" for r in train.calibration)
    assert len(train.calibration) == 8
    assert train.evaluated == main.evaluated


def test_contamination_replaces_normals_step_by_step():
    records = category()
    main = draw(records)
    before = set(main.calibration)
    for count in range(1, 5):
        found = draw(records, f"contaminated={count}")
        bad = {r for r in found.calibration if r.label == 1}
        assert len(found.calibration) == 8
        assert len(bad) == count
        assert len(before - set(found.calibration)) == 1, "one more normal goes at each step"
        assert not set(found.calibration) & set(found.evaluated)
        assert set(main.evaluated) - set(found.evaluated) == bad, "the replaced normals stay held out"
        before = set(found.calibration)


def test_scene_disjoint_leaves_out_every_capture_of_a_calibration_scene():
    records = category(good=40)
    main, found = draw(records, k=4), draw(records, "scene-disjoint", k=4)
    scenes = {r.scene for r in found.calibration}
    assert found.calibration == main.calibration, "with scenes to spare the draw is that of the main protocol"
    assert list(found.evaluated) == [r for r in main.evaluated if r.scene not in scenes]
    assert {r.label for r in found.evaluated} == {0, 1}


@given(st.integers(0, 40), st.integers(2, 8), st.integers(2, 6))
def test_a_good_scene_remains_where_there_is_one_to_spare(seed, scenes, captures):
    """The first k in drawing order, of which none may touch the last untouched scene."""
    records = category(good=scenes * captures, captures=captures)
    found = draw(records, "scene-disjoint", seed=seed) if scenes * captures >= 8 else None
    if found is None:
        return
    touched = {r.scene for r in found.calibration}
    if (scenes - 1) * captures >= 8:
        assert found.undefined == ""
        assert len(touched) < scenes
        good = [r for r in records if r.split == "test" and r.label == 0]
        ranked = [good[i] for i in rank_pool(len(good), "test", ("mvtec-ad-2", "can", 8, seed))]
        taken: list = []
        for record in ranked:
            if len(taken) < 8 and len({r.scene for r in [*taken, record]}) < scenes:
                taken.append(record)
        assert set(found.calibration) == set(taken)
    else:
        assert found.undefined == "the draw leaves no normal image to evaluate"
        assert found.calibration == draw(records, seed=seed).calibration


def test_scenes_of_different_sizes_spare_the_one_that_leaves_enough():
    """Five captures of one scene and three of another: only the small one can be spared."""
    records = [r for r in category(good=24, captures=6) if r.split == "train" or r.label == 1]
    for name, count in (("large", 8), ("small", 3)):
        records += [
            Record("can", "test", 0, str(i), f"good/{name}", Path(f"good/{name}-{i}"), None) for i in range(count)
        ]
    for seed in range(20):
        assert {r.scene for r in draw(records, "scene-disjoint", seed=seed).calibration} == {"good/large"}


def test_full_normal_sees_all_and_evaluates_the_same():
    records = category()
    found = draw(records, "full-normal")
    assert len(found.calibration) == 20
    assert found.evaluated == draw(records).evaluated


def test_as_many_normals_as_k_leave_none_to_evaluate():
    assert draw(category(good=8)).undefined == "the draw leaves no normal image to evaluate"


@pytest.mark.parametrize(
    ("records", "text", "message"),
    [
        (category(good=7), "", "A draw of 8 needs at least 8 normal test images of mvtec-ad-2 can, got 7: lower k"),
        (category(train=3), "source=train", "A draw of 8 needs at least 8 normal train images .* got 3"),
        (category(bad=2), "contaminated=3", "contaminated=3 must be at most the 8 calibration and 2 anomalous images"),
    ],
)
def test_too_small_pools_are_refused(records, text, message):
    with pytest.raises(DataError, match=message):
        draw(records, text)


def test_scene_disjoint_needs_scenes():
    records = [Record("can", "test", i % 2, "", None, Path(f"{i}"), None) for i in range(30)]
    with pytest.raises(DataError, match="scene-disjoint needs a scene for each image, got none in rad: use mvtec-ad-2"):
        draw(records, "scene-disjoint", dataset="rad")
