"""Which images calibrate and which are evaluated: the paper's paired protocol and its variants.

A draw depends on nothing but (dataset, category, k, seed), the pool's name and its size: the images of a pool, in the
order of the dataset's records, are ranked by a hash of these words and their position, and the first k are taken. The
same words give the same draw on every machine and in every version.

* The main protocol draws k of the normal test images; the other normals and all anomalous images are evaluated.
* `source=train` draws the k that calibrate from the train split. The deployment draw is still held out, so base and
  evaluation are those of the main protocol.
* `contaminated=c` replaces the last c of the drawn normals by the first c of a draw from the anomalous images. Neither
  the drawn normals nor the anomalous images in use are evaluated; larger c only adds to smaller ones.
* `scene-disjoint` also leaves out every capture of a scene that calibrates, and draws so that a good scene remains to be
  evaluated: of the good scenes without which k images are left, the one that the drawing order reaches last is spared,
  and the first k images of the others calibrate. With scenes to spare that is the draw of the main protocol. A category
  that can spare no scene gives an undefined unit, which is listed and enters no average.
* `full-normal` shows the correction all normal test images; what is evaluated is as in the main protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sparcal.bench.datasets import Record
from sparcal.bench.plan.variant import Variant
from sparcal.errors import DataError

# Part of a unit's hash: raise one when the same words would give other images.
PROTOCOL = 1
SCENE_PROTOCOL = 2  # of scene-disjoint draws: 1 let a draw touch every good scene

Pool = Literal["test", "train", "anomalous"]


@dataclass(frozen=True)
class CalibrationDraw:
    """The images of one unit, each list in the order of the dataset's records.

    Args:
        calibration: what the correction sees.
        evaluated: what is scored: normal images first, then anomalous ones.
    """

    calibration: tuple[Record, ...]
    evaluated: tuple[Record, ...]

    @property
    def undefined(self) -> str:
        """Why no score can be computed, or an empty text."""
        labels = {record.label for record in self.evaluated}
        if labels == {0, 1}:
            return ""
        return f"the draw leaves no {'normal' if 0 not in labels else 'anomalous'} image to evaluate"


def make_draw(
    records: Sequence[Record], *, dataset: str, category: str, k: int, seed: int, variant: Variant
) -> CalibrationDraw:
    """The calibration and evaluation images of one unit.

    Args:
        records: of one category, as `list_records` gives them.
    """
    words = (dataset, category, k, seed)
    good = [r for r in records if r.split == "test" and r.label == 0]
    bad = [r for r in records if r.split == "test" and r.label == 1]
    held_out = _take(good, "test", words, spare_a_scene=variant.scene_disjoint)
    if variant.full_normal:
        calibration = good
    elif variant.source == "train":
        calibration = _take([r for r in records if r.split == "train"], "train", words)
    else:
        calibration = held_out
    if variant.contaminated:
        calibration = _contaminate(calibration, bad, variant.contaminated, words)
    left_out = {*held_out, *(r for r in calibration if r.label == 1)}
    evaluated = [r for r in (*good, *bad) if r not in left_out]
    if variant.scene_disjoint:
        scenes = _scenes(calibration, dataset)
        evaluated = [r for r in evaluated if r.scene not in scenes]
    position = {record: i for i, record in enumerate(records)}
    return CalibrationDraw(tuple(sorted(calibration, key=position.__getitem__)), tuple(evaluated))


def rank_pool(size: int, pool: Pool, words: tuple[str, str, int, int]) -> list[int]:
    """Every position of a pool, in the order in which it is drawn.

    Args:
        words: (dataset, category, k, seed).
    """
    text = "/".join(map(str, (*words, pool)))
    return sorted(range(size), key=lambda i: hashlib.sha256(f"{text}/{i}".encode()).digest())


def protocol_of(variant: Variant) -> int:
    """The version of the rules by which a variant draws."""
    return SCENE_PROTOCOL if variant.scene_disjoint else PROTOCOL


def _take(
    records: Sequence[Record], pool: Pool, words: tuple[str, str, int, int], *, spare_a_scene: bool = False
) -> list[Record]:
    """The first k of a pool, in the order in which they are drawn."""
    dataset, category, k, _ = words
    if len(records) < k:
        raise DataError(
            f"A draw of {k} needs at least {k} normal {pool} images of {dataset} {category}, got {len(records)}: "
            "lower k, or complete the copy."
        )
    ranked = [records[i] for i in rank_pool(len(records), pool, words)]
    return (_without_a_scene(ranked, k) if spare_a_scene else ranked)[:k]


def _without_a_scene(ranked: Sequence[Record], k: int) -> list[Record]:
    """`ranked` without the scene it reaches last, among those without which k images are left; all if there is none."""
    for scene in reversed(dict.fromkeys(record.scene for record in ranked)):
        others = [record for record in ranked if record.scene != scene]
        if len(others) >= k:
            return others
    return list(ranked)


def _contaminate(
    normals: Sequence[Record], bad: Sequence[Record], count: int, words: tuple[str, str, int, int]
) -> list[Record]:
    """`normals` in drawing order, the last `count` of them replaced by anomalous images."""
    if count > len(normals) or count > len(bad):
        raise DataError(
            f"contaminated={count} must be at most the {len(normals)} calibration and {len(bad)} anomalous images of "
            f"{words[0]} {words[1]}: lower it."
        )
    positions = rank_pool(len(bad), "anomalous", words)[:count]
    return [*normals[: len(normals) - count], *(bad[i] for i in positions)]


def _scenes(calibration: Sequence[Record], dataset: str) -> set[str | None]:
    scenes = {record.scene for record in calibration}
    if None in scenes:
        raise DataError(f"scene-disjoint needs a scene for each image, got none in {dataset}: use mvtec-ad-2.")
    return scenes
