"""What flows between the parts: Features, Scores and the three roles; the errors are in `sparcal.errors`.

Axes have one letter everywhere: n images, k calibration images, h w grid, d channels, s kept directions, m bank rows,
H W pixels. Grids are channels last, always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeGuard, TypeVar, get_args, runtime_checkable

import torch
from numpy.typing import NDArray
from torch import Tensor

from sparcal.arrays import Index, as_device, from_array, images_in_words, kind_in_words, rows_of
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.settings import function, in_short, one_of, several

if TYPE_CHECKING:
    from sparcal.imaging.maps import MapRule
    from sparcal.imaging.preprocess import Preprocess

Side = Literal["both", "reference", "test"]
Family = Literal["reference", "mutual", "cls"]
Grids = tuple[tuple[int, int, int], ...]  # (h, w, d) of each level
Learned = TypeVar("Learned")


@dataclass(frozen=True, eq=False)
class Features:
    """Patch features of n images, on one or several grids.

    Args:
        levels: one `(n, h, w, d)` floating tensor or NumPy array per grid, channels last, all with the same n.
        cls: one `(n, c)` vector per image for hosts that score images from it; no correction touches it.

    >>> features = Features((torch.zeros(5, 4, 4, 16), torch.zeros(5, 2, 2, 32)))  # two grids of five images
    >>> len(features), features.grids
    (5, ((4, 4, 16), (2, 2, 32)))
    >>> features[[0, 3]]
    <Features of 2 images: 4 x 4 x 16, 2 x 2 x 32, float32>
    """

    levels: tuple[Tensor, ...]
    cls: Tensor | None = None

    def __post_init__(self) -> None:
        if isinstance(self.levels, tuple):
            object.__setattr__(self, "levels", tuple(map(from_array, self.levels)))
        object.__setattr__(self, "cls", from_array(self.cls))
        if not isinstance(self.levels, tuple) or not self.levels:
            raise ShapeError(
                f"Features needs a tuple of at least one (n, h, w, d) tensor, got {type(self.levels).__name__}"
                f"{' of length 0' if isinstance(self.levels, tuple) else ''}: write Features((x,))."
            )
        for number, level in enumerate(self.levels):
            if not isinstance(level, Tensor) or level.ndim != 4 or not level.is_floating_point():
                got = f"{tuple(level.shape)} {level.dtype}" if isinstance(level, Tensor) else type(level).__name__
                raise ShapeError(
                    f"Features level {number} must be a floating tensor (n, h, w, d), got {got}: "
                    "put channels last and keep the image axis."
                )
            if level.shape[0] != self.levels[0].shape[0]:  # not len(): tracers cannot follow it
                raise ShapeError(
                    f"Features levels must hold the same images, got {len(self.levels[0])} in level 0 "
                    f"and {len(level)} in level {number}: encode them together."
                )
        if self.cls is not None and (
            not isinstance(self.cls, Tensor)
            or not self.cls.is_floating_point()
            or self.cls.ndim != 2
            or self.cls.shape[0] != self.levels[0].shape[0]
        ):
            given = str(tuple(self.cls.shape)) if isinstance(self.cls, Tensor) else in_short(self.cls)
            raise ShapeError(
                f"Features.cls must be ({len(self)}, c), one row per image, got {given}: encode patches and CLS together."
            )

    def __len__(self) -> int:
        return len(self.levels[0])

    def __repr__(self) -> str:
        grids = ", ".join(" x ".join(map(str, grid)) for grid in self.grids)
        vector = "" if self.cls is None else f", cls {self.cls.shape[1]}"
        return f"<Features of {images_in_words(len(self))}: {grids}{vector}, {kind_in_words(self.levels[0])}>"

    def numpy(self) -> tuple[NDArray[Any], ...]:
        """The levels as NumPy arrays, (n, h, w, d) each."""
        return tuple(x.detach().cpu().numpy() for x in self.levels)

    def __getitem__(self, index: Index) -> Self:
        """The chosen images; an integer keeps the image axis."""
        vectors = () if self.cls is None else (self.cls,)
        rows = rows_of((*self.levels, *vectors), index, "Features")
        return type(self)(tuple(rows[: len(self.levels)]), rows[-1] if vectors else None)

    @property
    def grids(self) -> Grids:
        """`(h, w, d)` of each level."""
        return tuple((x.shape[1], x.shape[2], x.shape[3]) for x in self.levels)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same images with every level changed; `cls` stays."""
        function(change, "What Features.map applies")
        return type(self)(tuple(change(x) for x in self.levels), self.cls)

    def to(self, device: torch.device | str) -> Self:
        """The same features on a device."""
        place = as_device(device, "Features.to")
        return type(self)(tuple(x.to(place) for x in self.levels), None if self.cls is None else self.cls.to(place))

    @classmethod
    def cat(cls, parts: Sequence[Features]) -> Self:
        """All images of `parts`, in order."""
        parts = [require_features(x, "Each of Features.cat's parts") for x in several(parts, "parts", "Features")]
        if not parts:
            raise ShapeError("Features.cat needs at least one part, got none: encode at least one image.")
        if any(part.grids != parts[0].grids or (part.cls is None) != (parts[0].cls is None) for part in parts):
            grids = ", ".join(sorted({str(part.grids) for part in parts}))
            raise ShapeError(f"Features.cat needs parts on one grid, all with or all without cls, got grids {grids}.")
        levels = tuple(torch.cat(level) for level in zip(*(part.levels for part in parts), strict=True))
        vectors = [part.cls for part in parts if part.cls is not None]
        return cls(levels, torch.cat(vectors) if vectors else None)


@dataclass(frozen=True, eq=False)
class Scores:
    """Anomaly scores of n images; larger is more anomalous.

    Args:
        image: `(n,)`.
        cell: `(n, h, w)`, on the detector's own grid; `sparcal.imaging.maps` takes it to native pixels.

    >>> scores = Scores(image=torch.tensor([0.1, 0.9]), cell=torch.zeros(2, 4, 4))
    >>> int(scores.image.argmax()), len(scores[:1])
    (1, 1)
    """

    image: Tensor
    cell: Tensor

    def __post_init__(self) -> None:
        for name in ("image", "cell"):
            value = from_array(getattr(self, name))
            object.__setattr__(self, name, value)
            if not isinstance(value, Tensor) or not value.is_floating_point():
                got = value.dtype if isinstance(value, Tensor) else in_short(value)
                raise ShapeError(f"Scores.{name} must be a floating tensor, got {got}.")
        if self.image.ndim != 1 or self.cell.ndim != 3 or len(self.image) != len(self.cell):
            raise ShapeError(
                f"Scores needs image (n,) and cell (n, h, w), got {tuple(self.image.shape)} and {tuple(self.cell.shape)}."
            )

    def __len__(self) -> int:
        return len(self.image)

    def __repr__(self) -> str:
        span = f"{float(self.image.min()):.4g} to {float(self.image.max()):.4g}" if len(self) else "none"
        h, w = self.cell.shape[1:]
        return f"<Scores of {images_in_words(len(self))}: {span}, cells {h} x {w}, {kind_in_words(self.image)}>"

    def numpy(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Image scores (n,) and cell scores (n, h, w) as NumPy arrays."""
        return self.image.detach().cpu().numpy(), self.cell.detach().cpu().numpy()

    def __getitem__(self, index: Index) -> Self:
        """The chosen images; an integer keeps the image axis."""
        return type(self)(*rows_of((self.image, self.cell), index, "Scores"))


@runtime_checkable
class Encoder(Protocol):
    """Images to Features; `id` names architecture, weights, layers, aggregation and preprocessing."""

    @property
    def id(self) -> str:
        """Two encoders of one id give the same features."""
        ...

    @property
    def preprocess(self) -> Preprocess:
        """What the encoder's images go through first."""
        ...

    @property
    def cell_pixels(self) -> int:
        """Input pixels along one side of a cell of the finest level."""
        ...

    def __call__(self, pixels: Tensor) -> Features:
        """`pixels`: (n, 3, H, W), already preprocessed by `self.preprocess`."""
        ...


@runtime_checkable
class Correction(Protocol):
    """Features to Features, fitted on the k calibration normals of a lot."""

    on: Side

    def fit(self, calibration: Features, reference: Features | None = None) -> Self:
        """Learn from the lot's normals, and from the training features where the method needs them."""
        ...

    def apply(self, features: Features) -> Features:
        """The test side."""
        ...

    def apply_reference(self, reference: Features) -> Features:
        """The reference side; the same as `apply` for most."""
        ...


@runtime_checkable
class Detector(Protocol):
    """A frozen scoring rule: `fit` builds its reference, `score` judges features against it."""

    family: Family
    map_rule: MapRule

    def fit(self, reference: Features | None) -> Self:
        """`reference`: normal features; None only for families that have no reference side."""
        ...

    def score(self, features: Features) -> Scores:
        """Scores of every image and cell."""
        ...


class KeepsRows(Detector, Protocol):
    """A detector that keeps some rows of its reference features, and can take the same rows from another reference.

    Rows count the n h w features of a reference image by image.
    """

    @property
    def thins(self) -> bool:
        """Whether `fit` selects rows, which is worth keeping, or takes them all."""
        ...

    @property
    def rows(self) -> Tensor:
        """(m,): the rows that `fit` kept."""
        ...

    def restricted_to(self, reference: Features, rows: Tensor) -> Self:
        """A fitted copy that keeps these rows of `reference`."""
        ...


class Rescores(Detector, Protocol):
    """A detector that saves most of the work on images which equal one already scored in most cells."""

    def rescore(self, features: Features, like: Features, known: Scores) -> Scores:
        """Scores of `features`, given one image `like` them and its scores."""
        ...


def rescores(detector: Detector) -> TypeGuard[Rescores]:
    """Whether the detector can score what differs from a scored image in a few cells."""
    return hasattr(type(detector), "rescore")


def keeps_rows(detector: Detector) -> TypeGuard[KeepsRows]:
    """Whether the detector thins its reference to rows that can be kept."""
    # Not isinstance: before Python 3.12 that would read `rows`, which an unfitted detector refuses.
    return hasattr(type(detector), "restricted_to") and bool(getattr(detector, "thins", False))


def check_side(on: object, who: str) -> None:
    """Raise DataError unless `on` names a side that a correction can act on."""
    one_of(on, who, get_args(Side))


def require_features(value: object, who: str) -> Features:
    """`value`, or a ShapeError where it is something else; what `encode` returns holds its Features in a field."""
    if isinstance(value, Features):
        return value
    remedy = "pass its .features" if hasattr(value, "features") else "write Features((x,)) around a tensor (n, h, w, d)"
    raise ShapeError(f"{who} must be Features, got {in_short(value)}: {remedy}.")


def require_reference(thing: object, reference: Features | None) -> Features:
    """`reference`, or a DataError where a detector that needs one got none."""
    name = type(thing).__name__
    if reference is None or len(require_features(reference, f"{name}'s reference")) == 0:
        got = "none" if reference is None else "0 images"
        raise DataError(f"{name} needs reference features of normal images, got {got}: pass reference=.")
    return reference


def fitted(thing: object, state: Learned | None) -> Learned:
    """`state`, which `thing.fit` sets, or a NotFittedError where `fit` has not run yet."""
    if state is None:
        name = type(thing).__name__
        raise NotFittedError(f"{name} must be fitted before use, got an unfitted one: call {name}.fit first.")
    return state
