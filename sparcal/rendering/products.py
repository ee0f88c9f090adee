"""The kinds of parts that can be rendered: how a good one is made, and what can go wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from sparcal.rendering.cap import turn_cap
from sparcal.rendering.cap_damage import LARGE_ON_CAP, SMALL_ON_CAP
from sparcal.rendering.damage import Damage
from sparcal.rendering.fabric import weave
from sparcal.rendering.fabric_damage import LARGE_ON_FABRIC, SMALL_ON_FABRIC
from sparcal.rendering.plate import Drawing, machine
from sparcal.rendering.plate_damage import LARGE_ON_PLATE, SMALL_ON_PLATE
from sparcal.rendering.surface import Surface, View

ProductName = Literal["plate", "cap", "fabric"]


@dataclass(frozen=True)
class Product:
    """A kind of part.

    Args:
        make: the good part of a seed, as a view shows it.
        small: defects that take a few hundredths of the image at most.
        large: defects that take up to about a fifth of it.
    """

    make: Callable[[View, int], Surface]
    small: Mapping[str, Damage]
    large: Mapping[str, Damage]

    @property
    def defects(self) -> dict[str, Damage]:
        """All of them by name, the small ones first."""
        return {**self.small, **self.large}


PRODUCTS: dict[ProductName, Product] = {
    "plate": Product(lambda view, seed: machine(Drawing(), view, seed=seed), SMALL_ON_PLATE, LARGE_ON_PLATE),
    "cap": Product(lambda view, seed: turn_cap(view, seed=seed), SMALL_ON_CAP, LARGE_ON_CAP),
    "fabric": Product(lambda view, seed: weave(view, seed=seed), SMALL_ON_FABRIC, LARGE_ON_FABRIC),
}
