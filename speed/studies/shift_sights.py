"""What a monitor sees of parts as they are, under other lamps, dimmed, moved, out of focus and spoilt; encoded once and kept.

Every photograph has its own sensor noise, its own brightness (1 %) and its own place (1 pixel), whatever else was done to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from sparcal.calibration.sight import Sight, see
from sparcal.files.atomic import atomic_path
from sparcal.imaging.appearance import Appearance
from sparcal.imaging.encode import EncodedImage, encode_one
from sparcal.rendering.parts import PRODUCTS, TRAINING_LIGHT, Light, ProductName, part_seeds, random_light, render_part
from sparcal.types import Encoder
from speed.studies.lots import SIZE, images_in, read_photograph
from speed.studies.relight import Image, Recipe, draw_recipe, relight

GOOD = 200  # photographs of good parts
RENDERED = 100  # good parts that are rendered; real ones are as many as there are
EACH = 12  # photographs under each lamp, and of each other change
LAMPS = 5
DEFECTS = 24
BLUR = 1.5  # pixels
DIMMED = {"15 % darker": 0.85, "5 % darker": 0.95}
MOVED = {"moved by 5 pixels": ((4, -3), (-3, 4)), "moved by 2 pixels": ((2, 0), (-2, 0), (0, 2), (0, -2))}


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs of one product.

    Args:
        good: of good parts, at a plain place under the light of training.
        under: the photograph under lamp number i of good part number j.
        defects: of parts with small defects, or with whatever there is.
        large: of parts with defects that take up to a fifth of the image.
        half: of parts with defects that take about half of it.
        later: of good parts on another day, if there was one.
        ordered: whether `good` is in the order in which a camera took it.
    """

    good: list[Image]
    under: Callable[[int, int], Image]
    defects: list[Image]
    large: list[Image]
    half: list[Image]
    later: list[Image]
    ordered: bool


@dataclass(frozen=True, eq=False)
class Seen:
    """The sights of one product by group, and which part each photograph of a good part shows."""

    groups: dict[str, list[Sight]]
    shows: list[int]
    native: tuple[int, int]


def taken(image: Image, rng: np.random.Generator, recipe: Recipe = Recipe()) -> Image:  # noqa: B008 - it cannot change
    """One more photograph of a part: fresh noise, a little more or less light, a pixel off."""
    right, down = rng.integers(-1, 2, 2)
    light = recipe.brightness * float(np.exp(rng.normal(0, 0.01)))
    shift = (recipe.shift[0] + int(right), recipe.shift[1] + int(down))
    changed = replace(recipe, shift=shift, brightness=light, noise=max(recipe.noise, 1.0))
    return relight(image, changed, seed=int(rng.integers(2**31)))


def rendered(product: ProductName, seed: int) -> Photographs:
    """A rendered product; lamps are those of stations that nobody has seen."""
    made = PRODUCTS[product]

    def part(number: int, light: Light = TRAINING_LIGHT, defect: str | None = None, extent: float = 1.0) -> Image:
        return render_part(number, light=light, product=product, size=SIZE, defect=defect, extent=extent).image

    def spoilt(group: int, kinds: list[str], extent: float) -> list[Image]:
        seeds = part_seeds(seed, group, DEFECTS)
        return [part(s, defect=kinds[i % len(kinds)], extent=extent) for i, s in enumerate(seeds)]

    numbers = part_seeds(seed, 1, RENDERED)
    return Photographs(
        [part(number) for number in numbers],
        lambda lamp, j: part(numbers[j], random_light(LAMPS * seed + lamp)),
        spoilt(2, list(made.small), 1.3),
        spoilt(3, list(made.large), 1.0),
        spoilt(4, list(made.large), 2.0),
        [],
        ordered=False,
    )


def bottles(folder: Path, seed: int) -> Photographs:
    """Photographs of bottles, relit as other stations would."""
    kinds = [path for path in sorted((folder / "test").iterdir()) if path.name != "good"]
    good = read_all([*images_in(folder / "train" / "good"), *images_in(folder / "test" / "good")])
    defects = read_all([path for kind in kinds for path in images_in(kind)])
    large = read_all(images_in(folder / "test" / "broken_large"))
    return Photographs(good, relit(good, seed), defects, large, [], [], ordered=True)


def cubes(folder: Path, seed: int) -> Photographs:
    """Photographs of cubes; camera, fixture and exposure had changed four days later."""
    paths = [*images_in(folder / "train" / "good"), *images_in(folder / "test" / "good", prefix="20230210")]
    good = read_all(sorted(paths, key=lambda path: path.name))
    holes = read_all(images_in(folder / "test" / "hole", prefix="20230210"))
    later = read_all(images_in(folder / "test" / "good", prefix="20230214"))
    return Photographs(good, relit(good, seed), holes, [], [], later, ordered=True)


def read_all(paths: list[Path]) -> list[Image]:
    """Photographs, reduced."""
    return [read_photograph(path) for path in paths]


def relit(good: list[Image], seed: int) -> Callable[[int, int], Image]:
    """Good parts under the lamps of other stations."""
    recipes = [draw_recipe(np.random.default_rng([seed, 9, lamp])) for lamp in range(LAMPS)]
    return lambda lamp, j: relight(good[j], recipes[lamp], seed=1000 * lamp + j)


def streams(photographs: Photographs, seed: int) -> Iterator[tuple[str, int, Image]]:
    """Every photograph with the name of its group and the number of the good part that it shows, -1 for none."""
    rng, good = np.random.default_rng([seed, 77]), photographs.good
    for number in range(max(GOOD, len(good))):
        yield "good", number % len(good), taken(good[number % len(good)], rng)
    if photographs.ordered:
        yield from (("in order", number, image) for number, image in enumerate(good))
    for lamp in range(LAMPS):
        for j in rng.choice(len(good), EACH, replace=False):
            yield f"lamp {lamp + 1}", int(j), taken(photographs.under(lamp, int(j)), rng)
    recipes = {name: [Recipe(brightness=light)] for name, light in DIMMED.items()}
    recipes |= {name: [Recipe(shift=shift) for shift in shifts] for name, shifts in MOVED.items()}
    for name, kinds in recipes.items():
        for number, recipe in enumerate(kinds):
            title = name if len(kinds) == 1 else f"{name} {number + 1}"
            for j in rng.choice(len(good), EACH, replace=False):
                yield title, int(j), taken(good[j], rng, recipe)
    for j in rng.choice(len(good), EACH, replace=False):
        yield "out of focus", int(j), np.asarray(cv2.GaussianBlur(taken(good[j], rng), (0, 0), BLUR), np.uint8)
    for name in ("defects", "large", "half", "later"):
        yield from ((name, -1, taken(image, rng)) for image in getattr(photographs, name))


def seen(product: str, photographs: Path | None, seed: int, encoder: Encoder, work: Path) -> Seen:
    """The sights of one product, from the file that an earlier run has kept, or encoded now."""
    path = work / f"{product}-{seed}.npz"
    if not path.exists():
        _encode(product, photographs, seed, encoder, path)
    with np.load(path) as kept:
        arrays = {name: kept[name] for name in kept.files}
    names, shows = arrays["name"].tolist(), arrays["shows"].tolist()
    groups: dict[str, list[Sight]] = {}
    for i, name in enumerate(names):
        sight = Sight(Appearance(arrays["fields"][i], arrays["picture"][i]), arrays["sketch"][i])
        groups.setdefault(name, []).append(sight)
    good = [show for name, show in zip(names, shows, strict=True) if name == "good"]
    height, width = arrays["native"].tolist()
    return Seen(groups, good, (height, width))


def _encode(product: str, photographs: Path | None, seed: int, encoder: Encoder, path: Path) -> None:
    if product in PRODUCTS:
        found = rendered(product, zlib.crc32(product.encode()) % 1000 + seed)
    else:
        assert photographs is not None
        found = (
            bottles(photographs / "bottle", seed) if product == "bottle" else cubes(photographs / "dobot_cubes", seed)
        )
    names, shows, fields, pictures, sketches = [], [], [], [], []
    for name, part, image in streams(found, seed):
        encoded = encode_one(encoder, image, Path(name))
        assert isinstance(encoded, EncodedImage)
        assert encoded.look is not None
        names.append(name)
        shows.append(part)
        fields.append(encoded.look.fields)
        pictures.append(encoded.look.picture)
        sketches.append(see(encoded.features, encoded.look).sketch)
    arrays = {"name": names, "shows": shows, "fields": fields, "picture": pictures, "sketch": sketches}
    arrays["native"] = list(found.good[0].shape[:2])
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as kept, kept.open("wb") as stream:
        np.savez(stream, **{name: np.array(values) for name, values in arrays.items()})
