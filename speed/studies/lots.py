"""Stations and lots for studies: three rendered products and, from a folder of photographs, real ones.

    cases(None)               15: plate, cap and fabric, each under five conditions
    cases(Path("photos"))     7 more from photos/bottle and photos/dobot_cubes, whichever is there

The cases of one product share their training images, so one station serves them all. Nothing is rendered or read
before it is asked for; a case then keeps its images until it is told to forget them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from PIL import Image as Photograph

from sparcal.errors import DataError
from sparcal.rendering.parts import (
    LOT_LIGHTS,
    PRODUCTS,
    TRAINING_LIGHT,
    ProductName,
    lot_offset,
    part_seeds,
    render_part,
)
from speed.studies.relight import Image, Mask, Recipe, draw_recipe, draw_shift, move_mask, relight

CONDITIONS = ("unshifted", "one lamp", "lamps", "moved", "lamps+moved")
TRAINED, GOOD, BAD = 60, 152, 120  # rendered parts of each kind: 152 are 32 normals and 120 to judge
SIZE = 256  # of a rendered part
LARGEST = 384  # edge of a photograph in pixels
BOTTLES_TRAINED = 80
LAMPS = 4  # over a lot of bottles; rendered parts have the five of the demonstration
JUDGED = 120  # good and bad parts of a lot, each, at most: with 48, chance alone moves an area by two points

Spoilt = tuple[list[Image], list[Mask], list[float]]


@dataclass(frozen=True, eq=False)
class Case:
    """One station and one lot.

    Args:
        product: what is made; cases of one product have the same training images.
        condition: how the lot was taken, one of CONDITIONS, or the day of the recording.
        load_train: images the station is fitted on.
        load_good: good parts of the lot, normals among them.
        load_bad: defective parts of the lot, their masks, and by how many grey levels each differs from a good part.
        lamps: number of the lamp over each good part; empty where all have one.
    """

    name: str
    product: str
    condition: str
    load_train: Callable[[], list[Image]]
    load_good: Callable[[], list[Image]]
    load_bad: Callable[[], Spoilt]
    lamps: tuple[int, ...] = ()

    @property
    def train(self) -> list[Image]:
        return self.load_train()

    @cached_property
    def good(self) -> list[Image]:
        return self.load_good()

    @cached_property
    def spoilt(self) -> Spoilt:
        return self.load_bad()

    @property
    def bad(self) -> list[Image]:
        return self.spoilt[0]

    @property
    def masks(self) -> list[Mask]:
        return self.spoilt[1]

    @property
    def contrasts(self) -> list[float]:
        return self.spoilt[2]

    def forget(self) -> None:
        """Free the images of the lot; they are made again when asked for."""
        self.__dict__.pop("good", None)
        self.__dict__.pop("spoilt", None)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A lot as a study uses it: `normals` to calibrate on, and parts to judge.

    Args:
        shown: whether the lamp over each good part was over one of the normals too.
    """

    normals: list[Image]
    good: list[Image]
    bad: list[Image]
    masks: list[Mask]
    contrasts: list[float]
    shown: list[bool]


def cases(photographs: Path | None, *, seed: int = 0) -> list[Case]:
    """All cases; `seed` decides parts, lamps and moves.

    Args:
        photographs: folder that holds `bottle`, `dobot_cubes` or both, in MVTec's layout.
    """
    found = [case for number, product in enumerate(PRODUCTS) for case in rendered_cases(product, 100 * seed + number)]
    if photographs is None:
        return found
    bottle, cubes = photographs / "bottle", photographs / "dobot_cubes"
    if not (bottle.is_dir() or cubes.is_dir()):
        raise DataError(
            f"cases needs a folder that holds bottle or dobot_cubes, got {photographs}: name another, or give none."
        )
    found += bottle_cases(bottle, seed) if bottle.is_dir() else []
    return found + (cube_cases(cubes) if cubes.is_dir() else [])


def draw(case: Case, k: int, seed: int) -> Drawn:
    """`k` normals of a lot, and at most JUDGED other good parts and as many bad ones, all at random.

    At random means that the normals may miss a lamp, as they may on a line.
    """
    if not 1 <= k < len(case.good):
        raise DataError(f"draw needs from 1 to {len(case.good) - 1} normals of {case.name}, got {k}: ask for others.")
    rng = np.random.default_rng([seed, k])
    order, bad = rng.permutation(len(case.good)), rng.permutation(len(case.bad))[:JUDGED]
    lamps = case.lamps or (0,) * len(case.good)
    over_normals = {lamps[i] for i in order[:k]}
    return Drawn(
        normals=[case.good[i] for i in order[:k]],
        good=[case.good[i] for i in order[k : k + JUDGED]],
        bad=[case.bad[i] for i in bad],
        masks=[case.masks[i] for i in bad],
        contrasts=[case.contrasts[i] for i in bad],
        shown=[lamps[i] in over_normals for i in order[k : k + JUDGED]],
    )


def rendered_cases(product: ProductName, seed: int) -> list[Case]:
    """The five conditions of a rendered product."""

    @cache
    def train() -> list[Image]:
        seeds = part_seeds(seed, 0, TRAINED)
        return [render_part(s, light=TRAINING_LIGHT, product=product, size=SIZE).image for s in seeds]

    return [rendered_case(product, condition, seed, train) for condition in CONDITIONS]


def rendered_case(product: ProductName, condition: str, seed: int, train: Callable[[], list[Image]]) -> Case:
    """One condition of a rendered product, with defects of all its kinds, of many sizes and strengths."""
    number = CONDITIONS.index(condition)
    rng = np.random.default_rng([seed, 1, number])
    lamps = LOT_LIGHTS if "lamps" in condition else (TRAINING_LIGHT,)
    if condition == "one lamp":
        lamps = (LOT_LIGHTS[rng.integers(len(LOT_LIGHTS))],)
    numbers = mixed(rng, GOOD + BAD, len(lamps))
    over = [lamps[i] for i in numbers]
    kinds = list(PRODUCTS[product].defects)
    strengths, extents = rng.uniform(0.4, 1, BAD), np.exp(rng.uniform(np.log(0.5), np.log(1.3), BAD))
    shift = lot_offset("moved" if "moved" in condition else "none", SIZE)

    def good() -> list[Image]:
        seeds = part_seeds(seed, 10 + number, GOOD)
        parts = [render_part(s, light=over[i], product=product, shift=shift, size=SIZE) for i, s in enumerate(seeds)]
        return [part.image for part in parts]

    def bad() -> Spoilt:
        def spoil(i: int, s: int) -> tuple[Image, Mask, float]:
            at = {"light": over[GOOD + i], "product": product, "shift": shift, "size": SIZE}
            kind, strength, extent = kinds[i % len(kinds)], float(strengths[i]), float(extents[i])
            part, sound = render_part(s, defect=kind, strength=strength, extent=extent, **at), render_part(s, **at)
            return part.image, part.mask, contrast_between(part.image, sound.image, part.mask)

        images, masks, contrasts = zip(
            *(spoil(i, s) for i, s in enumerate(part_seeds(seed, 20 + number, BAD))), strict=True
        )
        return list(images), list(masks), list(contrasts)

    return Case(f"{product}, {condition}", product, condition, train, good, bad, tuple(numbers[:GOOD]))


def bottle_cases(folder: Path, seed: int) -> list[Case]:
    """Bottles relit and moved: the station has the first 80 training images as they are, the lots have the others."""
    trained = images_in(folder / "train" / "good")
    sound = [*trained[BOTTLES_TRAINED:], *images_in(folder / "test" / "good")]
    spoilt = [path for kind in sorted((folder / "test").iterdir()) if kind.name != "good" for path in images_in(kind)]

    @cache
    def train() -> list[Image]:
        return [read_photograph(path) for path in trained[:BOTTLES_TRAINED]]

    def case(number: int, condition: str) -> Case:
        rng = np.random.default_rng([seed, 2, number])
        shift = draw_shift(rng) if "moved" in condition else (0, 0)
        count = {"one lamp": 1, "lamps": LAMPS, "lamps+moved": LAMPS}.get(condition, 0)
        recipes = [draw_recipe(rng, shift=shift) for _ in range(count)] or [Recipe(shift=shift)]
        numbers = mixed(rng, len(sound) + len(spoilt), len(recipes))
        over = [recipes[i] for i in numbers]

        def good() -> list[Image]:
            return [relight(read_photograph(path), over[i], seed=i) for i, path in enumerate(sound)]

        def bad() -> Spoilt:
            first = len(sound)
            images = [relight(read_photograph(path), over[first + i], seed=first + i) for i, path in enumerate(spoilt)]
            return with_contrasts(images, [move_mask(read_mask(path), shift) for path in spoilt])

        return Case(f"bottle, {condition}", "bottle", condition, train, good, bad, tuple(numbers[: len(sound)]))

    return [case(number, condition) for number, condition in enumerate(CONDITIONS)]


def cube_cases(folder: Path) -> list[Case]:
    """Cubes of the day of training, and of four days later, when camera, fixture and exposure had changed."""

    @cache
    def train() -> list[Image]:
        return [read_photograph(path) for path in images_in(folder / "train" / "good")]

    def case(day: str, condition: str) -> Case:
        sound, spoilt = (images_in(folder / "test" / kind, prefix=f"2023{day}") for kind in ("good", "hole"))
        return Case(
            f"cubes, {condition}",
            "cubes",
            condition,
            train,
            lambda: [read_photograph(path) for path in sound],
            lambda: with_contrasts([read_photograph(path) for path in spoilt], [read_mask(path) for path in spoilt]),
        )

    return [case("0210", "same day"), case("0214", "four days later")]


def mixed(rng: np.random.Generator, count: int, lamps: int) -> Sequence[int]:
    """A lamp for each of `count` parts: every lamp equally often, in no order."""
    return [int(number) for number in rng.permutation(np.arange(count) % lamps)]


def images_in(folder: Path, *, prefix: str = "") -> list[Path]:
    """The images of a folder in the order of their names."""
    found = sorted(path for path in folder.glob(f"{prefix}*") if path.suffix in (".jpg", ".png"))
    if not found:
        raise DataError(f"{folder} needs images named {prefix}*.jpg or .png, got none: check what was unpacked there.")
    return found


def read_photograph(path: Path) -> Image:
    """One photograph, reduced so that no edge is longer than 384 pixels."""
    with Photograph.open(path) as opened:
        opened.thumbnail((LARGEST, LARGEST))
        return np.asarray(opened.convert("RGB"))


def read_mask(path: Path) -> Mask:
    """The mask of a photograph, reduced like it."""
    kind = path.parent.name
    with Photograph.open(path.parents[2] / "ground_truth" / kind / f"{path.stem}_mask.png") as opened:
        opened.thumbnail((LARGEST, LARGEST), Photograph.Resampling.NEAREST)
        return np.asarray(opened.convert("L")) > 127


def with_contrasts(images: list[Image], masks: list[Mask]) -> Spoilt:
    """Photographs of bad parts with the contrasts of their defects, against what the surroundings suggest in their place."""
    import cv2

    contrasts = [
        contrast_between(image, cv2.inpaint(image, mask.astype(np.uint8), 3, cv2.INPAINT_TELEA), mask)
        for image, mask in zip(images, masks, strict=True)
    ]
    return images, masks, contrasts


def contrast_between(spoilt: Image, sound: Image, mask: Mask) -> float:
    """By how many grey levels the pixels of a defect differ from the same part without it, on average; 1 at least."""
    change = np.abs(spoilt.astype(np.int16) - sound)[mask]
    return max(1.0, float(change.mean())) if len(change) else 1.0
