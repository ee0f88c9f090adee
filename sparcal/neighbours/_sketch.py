"""A few leading coordinates of high-dimensional points, with a proven limit on their rounding error.

Coordinates along orthonormal axes never make two points look farther apart than they are. So a distance
between sketches that exceeds a limit proves that the true distance does, at a small part of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Self

import torch
from torch import Tensor

from sparcal.errors import DataError

_SAMPLE = 1024  # rows that the axes are found from; their quality decides speed, never a result
_PIECE = 128  # coordinates in one product: rounding is bounded by the longest sum, so short sums prove more
_SHARE = 1 / 256  # (a + b)² <= (1 + share) a² + (1 + 1/share) b²: keeps the rounding allowance free of roots


@dataclass(frozen=True)
class Sketch:
    """Maps points x to (x - centre) @ axes / scale.

    Args:
        centre: `(d,)`, a point near the mean.
        axes: `(d, p)`, orthonormal columns by falling variance; None keeps all d coordinates unrotated.
        scale: at least the norm of every centred point, so that sketches lie in the unit ball.
    """

    centre: Tensor
    axes: Tensor | None
    scale: float

    @classmethod
    def of(
        cls,
        points: Tensor,
        *others: Tensor,
        width: int | None,
        chunk: int,
        dtype: torch.dtype,
        room: float = 1.0,
        axes: Tensor | None = None,
    ) -> Self:
        """The sketch to `width` leading axes of `points` (None: all), with a scale that covers `others` too.

        Args:
            chunk: rows handled at a time.
            dtype: of the products that make the coordinates.
            room: how many times as far out as these points others may lie.
            axes: orthonormal ones that were found for similar points; looked for unless given.
        """
        sample = points[:: max(1, len(points) // min(_SAMPLE, 4 * chunk))]
        centre = sample.mean(0)
        if width is not None and (axes is None or axes.dtype != dtype):
            axes = _leading_axes((sample - centre).to(dtype), width)
        parts = (part for rows in (points, *others) for part in rows.split(chunk))
        scale = max((float((part - centre).norm(dim=1).max()) for part in parts), default=0.0)
        return cls(centre, axes, room * scale * (1 + 2**-10) or 1.0)

    def __call__(self, points: Tensor, chunk: int) -> Tensor:
        """`(n, p)` float32 coordinates."""
        out = points.new_empty(len(points), self.width, dtype=torch.float32)
        axes = None if self.axes is None else self.axes / self.scale
        for rows, target in zip(points.split(chunk), out.split(chunk), strict=True):
            centred = rows - self.centre
            target.copy_(centred / self.scale if axes is None else _product(centred.to(axes.dtype), axes))
        return out

    def staged(self, points: Tensor, chunk: int, first: int) -> tuple[Tensor, Tensor]:
        """`(n, first + 2)` and `(n, p - first + 1)` float32, to be compared one after the other.

        In the first: the leading coordinates, the length of the rest of the point, and the squared norm of all these. In the
        second: the other coordinates, and the length of what no axis covers. Lengths differ by no more than the rests
        themselves, so either pair of sketches still proves what `pad` says, with `staged_pad` for it.
        """
        if self.axes is None or self.axes.dtype != torch.float64:
            raise DataError("Sketch.staged needs float64 axes, got others: a length by Pythagoras needs the digits.")
        axes, held = self.axes / self.scale, min(first, self.width)
        coarse = points.new_zeros(len(points), first + 2, dtype=torch.float32)
        fine = points.new_zeros(len(points), self.width - held + 1, dtype=torch.float32)
        for rows, low, high in zip(points.split(chunk), coarse.split(chunk), fine.split(chunk), strict=True):
            centred = (rows - self.centre).double()
            coordinates = _product(centred, axes)
            rest = (centred.norm(dim=1) / self.scale).square() - coordinates[:, :held].square().sum(1)
            low[:, :held], high[:, :-1] = coordinates[:, :held], coordinates[:, held:]
            low[:, first] = rest.clamp_min(0).sqrt()
            low[:, first + 1] = low[:, : first + 1].square().sum(1)
            high[:, -1] = (rest - coordinates[:, held:].square().sum(1)).clamp_min(0).sqrt()
        return coarse, fine

    def covers(self, points: Tensor, chunk: int) -> bool:
        """Whether the sketches of `points` lie in the unit ball too."""
        return all(bool(((part - self.centre).norm(dim=1) <= self.scale).all()) for part in points.split(chunk))

    @property
    def width(self) -> int:
        return len(self.centre) if self.axes is None else self.axes.shape[1]

    @property
    def growth(self) -> float:
        """Factor from a true squared distance to the limit that sketches must exceed; see `pad`."""
        return (1 + _SHARE) * (1 + 2**-12) / self.scale**2  # the second factor: float32 sums over the axes

    @property
    def pad(self) -> float:
        """Sketches whose squared distance exceeds `growth * t + pad` belong to points farther apart than sqrt(t).

        The error of a sketch, for a point of norm at most 1: the rounding of a dot product of length d per
        axis (the textbook bound), and that of storing float32.
        """
        return _allowance(self._products + 2**-22)

    @property
    def staged_pad(self) -> float:
        """The pad of `staged`: the root in a length can make much of the rounding of a square."""
        return _allowance(self._products + sqrt(8 * self._products) + 2**-21)

    @property
    def _products(self) -> float:
        """Rounding of all coordinates of a point together: of `_product`, of centring, and of scaling the axes."""
        if self.axes is None:
            return 0.0
        d = len(self.centre)
        return (min(d, _PIECE) + -(-d // _PIECE) + 3) * torch.finfo(self.axes.dtype).eps / 2 * sqrt(self.width)


def _product(points: Tensor, axes: Tensor) -> Tensor:
    """`points @ axes` as a sum over pieces of the coordinates, in that order whatever the library does within a piece."""
    total, *others = zip(points.split(_PIECE, dim=1), axes.split(_PIECE), strict=True)
    product = torch.mm(*total)
    for part in others:
        product += torch.mm(*part)
    return product


def _allowance(error: float) -> float:
    return (1 + 1 / _SHARE) * (2 * error) ** 2


def _leading_axes(centred: Tensor, width: int) -> Tensor:
    """`(d, width)` orthonormal axes that hold most of the rows' energy, by two rounds of subspace iteration."""
    width = min(width, *centred.shape)
    spread = torch.linspace(0, len(centred) - 1, width, device=centred.device).round().long()
    axes: Tensor = torch.linalg.qr(centred[spread].T).Q
    for _ in range(2):
        axes = torch.linalg.qr(centred.T @ (centred @ axes)).Q
    coordinates = centred @ axes
    rising = torch.linalg.eigh(coordinates.T @ coordinates).eigenvectors
    # The last step is a QR, so that the axes are orthonormal whatever precision the products had.
    ordered: Tensor = torch.linalg.qr(axes @ rising.flip(1)).Q
    return ordered
