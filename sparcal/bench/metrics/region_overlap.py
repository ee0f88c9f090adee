"""AU-PRO, exact and on a 0..1 scale, of images that come one at a time.

AU-PRO is the area under the per-region overlap curve up to a false positive rate, as MVTec defines it and
anomalib >= 2.3 computes it: regions are the 8-connected components of the masks, every distinct score is a threshold,
neighbouring points are joined by straight lines, the curve is cut by interpolation at the limit, and the area is
divided by the limit.

No curve has to be built. As thresholds fall, a region pixel with score s lifts its region's overlap along the one
segment that passes its score, from false positive rate a = share of background > s to b = share of background >= s.
Its part of the area is that ramp plus the rectangle behind it, so

    AU-PRO(L) = 1/L * mean over regions of mean over pixels of  rise^2 / (2 (b - a)) + max(L - b, 0)

with rise = L - a clipped to [0, b - a]. Two counts per region pixel are enough, and background below the limit's
own score never counts, so only the top share of it is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sparcal.bench.metrics.inputs import as_binary, as_numbers
from sparcal.errors import DataError, ShapeError
from sparcal.settings import in_short, is_number, several

_SAMPLE = 1 << 20  # background scores looked at to guess the limit's score
_BLOCK = 1 << 18  # region pixels worked on at once


def aupro(
    masks: Iterable[ArrayLike | Tensor],
    maps: Iterable[ArrayLike | Tensor],
    fpr_limits: Sequence[float] = (0.3, 0.05),
) -> tuple[float, ...]:
    """AU-PRO of a set of images at each limit, in one pass over `masks` and `maps`.

    Args:
        masks: one binary (H, W) mask per image; generators and mixed image sizes are fine.
        maps: one finite (H, W) score map per image, larger is more anomalous; compared as float32.
        fpr_limits: false positive rates in (0, 1].

    Returns one number per limit; nan for all if no image has an anomalous or none a normal pixel.

    >>> mask = np.zeros((8, 8), bool)
    >>> mask[2:4, 2:4] = True
    >>> aupro([mask], [mask.astype(float)])  # a perfect map
    (1.0, 1.0)
    """
    _check_limits(fpr_limits)
    for name, given in (("masks", masks), ("maps", maps)):
        if not isinstance(given, Iterable) or isinstance(given, str | bytes) or getattr(given, "ndim", 1) == 0:
            raise ShapeError(f"aupro needs one of its {name} per image, got {in_short(given)}: pass a list.")
    accumulator = AuproAccumulator()
    for mask, score_map in zip_longest(masks, maps):
        if mask is None or score_map is None:
            missing = "mask" if mask is None else "map"
            raise ShapeError(
                f"aupro needs one map per mask, got no {missing} for image {accumulator.images}: "
                "pass masks and maps of the same images."
            )
        accumulator.update(mask, score_map)
    return accumulator.compute(fpr_limits)


@dataclass(eq=False)
class AuproAccumulator:
    """AU-PRO of images that come one at a time; keeps 4 bytes per pixel and 8 more per anomalous one, no mask, no map.

    Nothing can be dropped earlier and stay exact: images still to come decide which background reaches the limit.
    """

    images: int = field(default=0, init=False)
    regions: int = field(default=0, init=False)
    _normal_pixels: int = field(default=0, init=False, repr=False)
    _background: list[NDArray[np.float32]] = field(default_factory=list, init=False, repr=False)
    _region_pixels: list[tuple[NDArray[np.float32], NDArray[np.int32]]] = field(
        default_factory=list, init=False, repr=False
    )

    def update(self, mask: ArrayLike | Tensor, score_map: ArrayLike | Tensor) -> None:
        """Add one image.

        Args:
            mask: binary (H, W).
            score_map: finite (H, W).
        """
        subject = f"AU-PRO image {self.images}"
        anomalous, scores = _checked_pair(mask, score_map, subject)
        background = scores.copy()  # the caller may reuse its buffer
        self._normal_pixels += scores.size
        if anomalous.any():
            region_scores, sizes, n_regions = _region_pixels(anomalous, scores)
            self._region_pixels.append((region_scores, sizes))
            self.regions += n_regions
            self._normal_pixels -= region_scores.size
            np.copyto(background, -np.inf, where=anomalous)  # reaches no score; faster than to copy only the others
        self._background.append(background.reshape(-1))
        self.images += 1

    def compute(self, fpr_limits: Sequence[float] = (0.3, 0.05)) -> tuple[float, ...]:
        """AU-PRO of the images so far at each limit; nan without an anomalous or without a normal pixel."""
        _check_limits(fpr_limits)
        total = self._normal_pixels
        if self.regions == 0 or total == 0:
            return (float("nan"),) * len(fpr_limits)
        floor, reached = _limit_score(self._background, total, max(fpr_limits) * total)
        top = _sorted_above(self._background, floor, reached)
        tied = reached - top.size  # background scoring exactly `floor`
        kinds = np.unique(np.concatenate([sizes for _, sizes in self._region_pixels]))
        areas = np.zeros((len(fpr_limits), len(kinds)))
        for scores, sizes in self._reached_pixels(floor):
            from_least = np.searchsorted(top, scores, side="left")
            above = top.size - _past_ties(top, scores, from_least)
            at_or_above = top.size - from_least + np.where(scores == floor, tied, 0)
            step = at_or_above - above
            kind = np.searchsorted(kinds, sizes)
            for i, most in enumerate(limit * total for limit in fpr_limits):
                rise = np.clip(most - above, 0, step)
                area = rise**2 / (2 * np.maximum(step, 1)) + np.maximum(most - at_or_above, 0)
                areas[i] += np.bincount(kind, weights=area / most, minlength=len(kinds))
        # Divided last, so that nothing is rounded where every pixel counts in full: a perfect map has an area of 1.
        return tuple(float(np.sum(area / kinds) / self.regions) for area in areas)

    def _reached_pixels(self, floor: float) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int32]]]:
        """Scores >= floor of region pixels with their regions' sizes, ascending, so that searches walk through memory."""
        kept = [(scores >= floor, scores, sizes) for scores, sizes in self._region_pixels]
        all_scores = np.concatenate([scores[reached] for reached, scores, _ in kept])
        all_sizes = np.concatenate([sizes[reached] for reached, _, sizes in kept])
        order = np.argsort(all_scores)
        for start in range(0, order.size, _BLOCK):
            block = order[start : start + _BLOCK]
            yield all_scores[block], all_sizes[block]


def _region_pixels(
    anomalous: NDArray[np.bool_], scores: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.int32], int]:
    """Score and region size of every anomalous pixel, and the number of regions."""
    import cv2

    mask = anomalous.astype(np.uint8)
    x, y, width, height = cv2.boundingRect(mask)
    box = (slice(y, y + height), slice(x, x + width))
    count, labels = cv2.connectedComponents(np.ascontiguousarray(mask[box]), connectivity=8)
    inside = anomalous[box]
    label = labels[inside]
    sizes = np.bincount(label, minlength=count).astype(np.int32)
    return scores[box][inside], sizes[label], count - 1


def _limit_score(background: list[NDArray[np.float32]], total: int, wanted: float) -> tuple[float, int]:
    """A score that at least `wanted` of `total` background pixels reach, not far below the best such, and how many do."""
    stride = total // _SAMPLE | 1  # odd, so as not to follow the columns of a power-of-two width
    sample = np.sort(np.concatenate([chunk[::stride] for chunk in background]))[::-1]
    sample = sample[: np.count_nonzero(sample > -np.inf)]  # without pixels of regions
    for guess in _guesses(sample, wanted / total):
        reached = sum(int(np.count_nonzero(chunk >= guess)) for chunk in background)
        if reached >= wanted:
            return guess, reached
    return float("-inf"), total


def _guesses(descending: NDArray[np.float32], share: float) -> Iterator[float]:
    """Sampled scores at and ever further below the quantile `share`; a sample may err, so the caller counts."""
    rank, excess = int(share * descending.size), descending.size // 128 + 1
    while rank + excess < descending.size:
        yield float(descending[rank + excess])
        excess *= 4


def _sorted_above(background: list[NDArray[np.float32]], floor: float, most: int) -> NDArray[np.float32]:
    """All background scores > floor, ascending; at most `most`."""
    top = np.empty(most, np.float32)
    end = 0
    for chunk in background:
        # Indexing by position is three times faster here than by a mask whose hits are scattered.
        above = chunk[np.flatnonzero(chunk > floor)]
        top[end : end + above.size] = above
        end += above.size
    top = top[:end]
    top.sort()
    return top


def _past_ties(
    ascending: NDArray[np.float32], scores: NDArray[np.float32], first: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Where each score would be inserted behind its equals; `first` is before them, and few have any."""
    behind = first.copy()
    if ascending.size > 0:  # a score beyond all of them is compared with the last, which is smaller
        tied = np.flatnonzero(ascending[np.minimum(first, ascending.size - 1)] == scores)
        behind[tied] = np.searchsorted(ascending, scores[tied], side="right")
    return behind


def _checked_pair(
    mask: ArrayLike | Tensor, score_map: ArrayLike | Tensor, subject: str
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """The mask as bool and the map as float32, or one sentence that says what is wrong with them."""
    truth, values = as_numbers(mask), as_numbers(score_map)
    if truth.ndim != 2 or truth.shape != values.shape:
        raise ShapeError(
            f"{subject} needs an (H, W) mask and a map of the same shape, got {truth.shape} and {values.shape}: "
            "resize the map to the mask and drop batch and channel axes."
        )
    anomalous = as_binary(truth, f"{subject} mask")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which is rejected next
        scores = values.astype(np.float32, copy=False)
    finite = np.isfinite(scores)
    if not finite.all():
        raise DataError(
            f"{subject} map must be finite in float32, got {int(scores.size - finite.sum())} NaN or infinite of "
            f"{scores.size} pixels: give pixels that were not scored the lowest finite score of the set."
        )
    return anomalous, scores


def _check_limits(fpr_limits: Sequence[float]) -> None:
    fpr_limits = several(fpr_limits, "AU-PRO fpr_limits", "numbers")
    if len(fpr_limits) == 0 or not all(map(is_number, fpr_limits)) or not all(0 < limit <= 1 for limit in fpr_limits):
        raise DataError(f"AU-PRO fpr_limits must lie in (0, 1], got {tuple(fpr_limits)}: the paper uses (0.3, 0.05).")
