"""How a lot's good parts differ from each other and from the training parts, cell by cell, before any detector."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from sparcal.memory import mean_of_images
from sparcal.sparc import project_out, subspace
from sparcal.types import Features

REACH = 3  # cells by which a displacement is searched
LENT = 6  # degrees of freedom that the station's spread lends to what the other parts show
ODD_SHARE = 1 / 4  # of the parts that may hide one another
DULLEST = 1 / 4  # of a part's cells: a defect that covers all but these is taken for a light


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Each normal against the subspace of the others.

    Args:
        residual: (k, h, w), squared length of what lies outside.
        removed: (h, w), mean share of the squared deviation that lies inside: what SPARC removes from an unseen part.
        own_residual: (n, h, w), the same residual of training parts about their own mean.
        own_removed: share of the training parts' own deviation that SPARC removes.
    """

    residual: Tensor
    removed: Tensor
    own_residual: Tensor
    own_removed: float


def left_out_residuals(calibration: Features, reference: Features) -> LeftOut:
    """What the others' subspace leaves of each normal, and of training parts, at the first level."""
    lot, train = calibration.levels[0], reference.levels[0]
    k = len(lot)
    residuals, shares = [], []
    for j in range(k):
        others = lot[[i for i in range(k) if i != j]]
        mean, basis, _ = subspace(others, k - 2)
        whole = (lot[j] - mean).square().sum(dim=-1)
        left = (project_out(lot[j : j + 1], mean, basis)[0] - mean).square().sum(dim=-1)
        residuals.append(left)
        shares.append(1 - left / whole.clamp_min(torch.finfo(whole.dtype).tiny))
    mean, basis, _ = subspace(lot, k - 1)
    own_mean = mean_of_images(train).to(train.dtype)
    own = project_out(train - own_mean + mean, mean, basis) - mean
    whole_own = (train - own_mean).square().sum(dtype=torch.float64)
    own_residual = own.square().sum(dim=-1)
    own_removed = 1 - float(own_residual.sum(dtype=torch.float64) / whole_own) if float(whole_own) > 0 else 0.0
    return LeftOut(torch.stack(residuals), torch.stack(shares).mean(dim=0), own_residual, own_removed)


def oddness(maps: Tensor, own_spread: float) -> tuple[Tensor, Tensor]:
    """(k,) each: how far each left-out part stands above the others, by level and by prominence, in standard deviations.

    Level is the log of the highest cell: a smashed part raises it as much as a scratch does, but so does a lamp that no
    other part shares. Prominence is the log ratio of the highest cell to nine tenths of the part's own cells: a lamp
    raises both alike, but so does a defect that covers a tenth of the part. Each sees where the other is blind.

    Args:
        maps: (k, h, w), cell scores of the parts, each left out in turn.
        own_spread: standard deviation of the log scores of the station's own parts; it steadies what few others tell.
    """
    flat = maps.flatten(1).double()
    tiny = torch.finfo(torch.float32).tiny
    top = flat.amax(dim=1).clamp_min(tiny).log()
    level = _against_others(top, own_spread)
    return level, _against_others(top - flat.quantile(0.9, dim=1).clamp_min(tiny).log(), own_spread)


def _against_others(values: Tensor, own_spread: float) -> Tensor:
    """(k,): each value less the mean of the others, in standard deviations that a further value would have.

    Two odd parts would hide each other, for each widens the spread that the other is measured in. So the highest are also
    compared with those below them only, as far down as ODD_SHARE of the parts, and what stands out takes all above along.
    """
    k = len(values)
    each = [_deviations(values[j], torch.cat([values[:j], values[j + 1 :]]), own_spread) for j in range(k)]
    order = values.argsort(descending=True).tolist()
    for rank in range(1, int(ODD_SHARE * k) + 1):
        found = _deviations(values[order[rank]], values[order[rank + 1 :]], own_spread)
        for j in order[: rank + 1]:
            each[j] = max(each[j], found)
    return torch.tensor(each, dtype=torch.float64)


def _deviations(value: Tensor, others: Tensor, own_spread: float) -> float:
    n = len(others)
    squares = float((others - others.mean()).square().sum()) + LENT * own_spread**2
    spread = math.sqrt(squares / (n - 1 + LENT) * (1 + 1 / n))
    return float(value - others.mean()) / max(spread, 1e-9)


def loneliness(maps: Tensor, own_spread: float) -> Tensor:
    """(k,): how far the dullest cells of each left-out part score above those of the others, in the station's deviations.

    A light or fixture that no other part shares raises every cell of a part once it is left out. A defect raises those
    that it covers and their neighbours: even a smashed part keeps some cells as they are, so the lower ones tell.

    Args:
        maps, own_spread: as for `oddness`.
    """
    dull = maps.flatten(1).double().quantile(DULLEST, dim=1).clamp_min(torch.finfo(torch.float32).tiny).log()
    k = len(dull)
    others = torch.stack([torch.cat([dull[:j], dull[j + 1 :]]).median() for j in range(k)])
    return (dull - others) / max(own_spread, 1e-9)


def spread_and_offset(calibration: Features, reference: Features) -> tuple[float, float]:
    """The normals' variance about their mean, and the squared offset of that mean from the training mean.

    Both are in units of the training parts' variance, averaged over cells: without a shift they are about 1 and
    1 / k + 1 / n.
    """
    lot, train = calibration.levels[0], reference.levels[0]
    own = _variance(train)
    gap = mean_of_images(lot) - mean_of_images(train)
    return _variance(lot) / own, float(gap.square().sum(dim=-1).mean()) / own


def alignment(parts: Features, reference: Features) -> Tensor:
    """(n,): mean cosine, over cells, of each part's features with the training mean.

    Features are taken less their mean over all cells, so that the pattern of the part counts and not what all cells
    share.
    """
    mean = _pattern(reference.levels[0].mean(dim=0, keepdim=True))
    return torch.stack([cosine_similarity(_pattern(x[None]), mean, dim=-1).mean() for x in parts.levels[0]])


def displacement(parts: Features, reference: Features) -> tuple[int, int]:
    """By how many cells (down, right) the parts lie off the training mean, as far as that aligns them clearly better."""
    lot, mean = _pattern(parts.levels[0].mean(dim=0)[None]), _pattern(reference.levels[0].mean(dim=0)[None])
    h, w = lot.shape[1:3]
    reach = min(REACH, (h - 1) // 3, (w - 1) // 3)
    inside = lot[:, reach : h - reach, reach : w - reach]

    def cosine(down: int, right: int) -> float:
        moved = torch.roll(mean, (down, right), dims=(1, 2))[:, reach : h - reach, reach : w - reach]
        return float(cosine_similarity(inside, moved, dim=-1).mean())

    steps = range(-reach, reach + 1)
    best = max(((down, right) for down in steps for right in steps), key=lambda move: cosine(*move))
    return best if cosine(*best) > cosine(0, 0) + 0.02 else (0, 0)


def part_distances(first: Features, second: Features, typical: float) -> Tensor:
    """(n, m): squared distance between parts, 1 between two typical training parts, 0 between equals.

    Args:
        typical: what `typical_distance` says of the training parts.
    """
    a, b = first.levels[0], second.levels[0]
    # Part by part: all differences at once would need n times the memory of `second`.
    rows = [torch.stack([(x - y).square_().sum() for y in b]) for x in a]
    return torch.stack(rows).double() / typical


def typical_distance(reference: Features) -> float:
    """The mean squared distance between two training parts, summed over cells."""
    x = reference.levels[0]
    return 2 * x.shape[1] * x.shape[2] * _variance(x)


def distances_among(parts: Features) -> Tensor:
    """(n, n): as `part_distances` of the parts to each other, by matrix products, a row of cells at a time."""
    x = parts.levels[0]
    n, h, w, _ = x.shape
    products = torch.zeros(n, n, dtype=torch.float64, device=x.device)
    for row in range(h):
        cells = (x[:, row] - x[:, row].mean(dim=0)).flatten(1)  # less their mean, so that no difference is rounded away
        products += (cells @ cells.mT).double()
    squares = products.diagonal()
    distances = (squares[:, None] + squares - 2 * products).clamp_min(0)
    typical = 2 * h * w * max(float(squares.sum()) / (max(n - 1, 1) * h * w), 1e-12)
    return distances / typical


def _variance(x: Tensor) -> float:
    """Squared deviation from the mean at each cell, summed over channels, averaged over cells; never quite 0."""
    mean = mean_of_images(x)
    total = sum(float((part.double() - mean).square().sum()) for part in x)
    return max(total / (max(len(x) - 1, 1) * x.shape[1] * x.shape[2]), 1e-12)


def log_spread(scores: Tensor) -> float:
    """Standard deviation of the logarithm of scores; of the scores themselves where some are not positive."""
    values = scores.double()
    return float((values.log() if bool((values > 0).all()) else values).std())


def _pattern(x: Tensor) -> Tensor:
    return x - x.mean(dim=(1, 2), keepdim=True)
