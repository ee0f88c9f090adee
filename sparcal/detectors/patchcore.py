"""PatchCore: distance to the nearest vector of a thinned memory bank (Roth et al., CVPR 2022).

All patch features of the normal images form a bank, a greedy coreset keeps a tenth of it, and a cell scores its
distance to the nearest kept vector; the image scores its worst cell.

The defaults are the authors' code (patchcore-inspection), which differs from their paper: squared distances, and no
re-weighting of the image score. `PatchCore.anomalib()` is anomalib's form, which has the paper's re-weighting.

Where this differs from the authors' code:
* The features come in ready: neighbourhood pooling and the reduction to 1024 channels belong to the encoder, so that
  a correction acts between the two.
* The projection and the anchors come from one generator seeded by `seed`, not from global state, so that a base run
  and a corrected run share them.
* Features of no more channels than the projection are not projected: it would only add noise.
* `neighbours` takes effect; the authors' command line drops it on its way to the scorer.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from sparcal.detectors.export_rule import GraphTensors
from sparcal.detectors.levels import only_level, scored_level
from sparcal.detectors.nearest_rule import NearestRule
from sparcal.errors import DataError
from sparcal.imaging.maps import MapRule
from sparcal.neighbours import Bank, greedy_coreset, nearest
from sparcal.settings import instance_of, one_of, parameters, seed_number, share, switch, whole_number
from sparcal.types import Family, Features, Grids, Scores, fitted, require_reference

Projection = Literal["uniform", "sparse"]

MAP_RULE = MapRule(cell_pixels=8)


@dataclass
class PatchCore:
    """Distance of each cell to the nearest vector of a coreset of all normal features.

    Args:
        coreset: share of the features kept, in (0, 1]; 1 keeps all, with no selection.
        projection: the random map under which the coreset is chosen: "uniform" on +-1/sqrt(d) into `dimension`, as
            the authors; "sparse" into the Johnson-Lindenstrauss dimension for an error of 0.9, as anomalib.
        dimension: length of the projected vectors of the "uniform" projection.
        anchors: random features whose mean distance starts the greedy selection, without being members, as the
            authors; 0 starts from one random member, as anomalib.
        neighbours: bank vectors whose distances are averaged.
        squared: score the squared distance.
        reweight: neighbours b of the paper's re-weighting of the image score; None leaves the maximum as it is.

    After `fit`: `bank_`, (m, d); `rows_`, (m,), which of the n h w reference features these are.
    """

    coreset: float = 0.1
    projection: Projection = "uniform"
    dimension: int = 128
    anchors: int = 10
    neighbours: int = 1
    squared: bool = True
    reweight: int | None = None
    seed: int = 0
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    bank_: Tensor | None = field(default=None, init=False, repr=False)
    rows_: Tensor | None = field(default=None, init=False, repr=False)
    _search: Bank | None = field(default=None, init=False, repr=False, compare=False)  # follows bank_

    get_params = parameters

    def __post_init__(self) -> None:
        share(self.coreset, "PatchCore.coreset", hint="it is the share of features kept")
        one_of(self.projection, "PatchCore.projection", get_args(Projection))
        whole_number(self.dimension, "PatchCore.dimension", least=1)
        whole_number(self.anchors, "PatchCore.anchors", least=0, hint="0 starts from one random member")
        whole_number(self.neighbours, "PatchCore.neighbours", least=1)
        switch(self.squared, "PatchCore.squared")
        whole_number(
            self.reweight, "PatchCore.reweight", least=1, optional=True, hint="None leaves the maximum as it is"
        )
        seed_number(self.seed, "PatchCore.seed")
        instance_of(self.map_rule, "PatchCore.map_rule", MapRule)

    @classmethod
    def anomalib(cls, *, cell_pixels: int = 8, seed: int = 0) -> Self:
        """anomalib's form: sparse projection, one start that is a member, plain distance, b = 9, nearest upsampling."""
        rule = MapRule(cell_pixels=cell_pixels, upsample="nearest")
        return cls(projection="sparse", anchors=0, squared=False, reweight=9, seed=seed, map_rule=rule)

    def fit(self, reference: Features | None) -> Self:
        """Keep a coreset of the reference features."""
        points = only_level("PatchCore", require_reference(self, reference)).flatten(0, 2)
        self._search = None
        self.rows_ = torch.arange(len(points)) if self.coreset == 1 else self._select(points)
        self.bank_ = points if self.coreset == 1 else points[self.rows_]
        return self

    def reference_bytes(self, grids: Grids, images: int) -> int:
        """What `fit` will keep of so many images: the coreset in float32, and its row numbers."""
        h, w, d = grids[0]
        return max(1, int(self.coreset * images * h * w)) * (4 * d + 8)

    def score(self, features: Features) -> Scores:
        """Distance of each cell to the bank, and its largest value per image."""
        bank = fitted(self, self.bank_)
        level = scored_level("PatchCore", features, bank.shape[1])
        k = min(self.neighbours, len(bank))
        self._search = Bank.again(self._search, bank)
        distances, indices = nearest(level.flatten(0, 2), self._search, k=k, squared=self.squared)
        cell = distances.mean(dim=1).reshape(level.shape[:3])
        image, worst = cell.flatten(1).max(dim=1)
        if self.reweight is not None:
            images = torch.arange(len(level), device=level.device)
            matched = indices[:, 0].reshape(len(level), -1)[images, worst]
            image = image * novelty(level.flatten(1, 2)[images, worst], matched, self._search, self.reweight)
        return Scores(image, cell)

    def rescore(self, features: Features, like: Features, known: Scores) -> Scores:
        """Scores of images that differ little from one already scored; image scores are exact, most cells are not searched.

        The distance to the bank changes by no more than a feature does. Only cells whose distance could now be the
        highest of their image are searched for; the others keep the score they had.

        Args:
            like: the one image that all of `features` resemble.
            known: its scores.
        """
        if self.reweight is not None:  # needs the neighbours of the worst cell, whichever that is
            return self.score(features)
        bank = fitted(self, self.bank_)
        level = scored_level("PatchCore", features, bank.shape[1])
        reach = known.cell.sqrt() if self.squared else known.cell
        change = torch.linalg.vector_norm(level - like.levels[0], dim=-1)  # (n, h, w)
        surely = (reach - change).flatten(1).amax(dim=1)[:, None, None]
        moved = (change > 0) & (reach + change >= surely)
        cell = known.cell.expand(level.shape[:3]).clone()
        if bool(moved.any()):
            self._search = Bank.again(self._search, bank)
            k = min(self.neighbours, len(bank))
            cell[moved] = nearest(level[moved], self._search, k=k, squared=self.squared)[0].mean(dim=1)
        return Scores(cell.flatten(1).amax(dim=1), cell)

    @property
    def thins(self) -> bool:
        """Whether the bank is a coreset, whose choice costs more than all the rest of `fit`."""
        return self.coreset < 1

    @property
    def rows(self) -> Tensor:
        """(m,): which of the n h w reference features the bank holds."""
        return fitted(self, self.rows_)

    def restricted_to(self, reference: Features, rows: Tensor) -> Self:
        """A copy whose bank is these rows of another reference, with no selection."""
        points = only_level("PatchCore", require_reference(self, reference)).flatten(0, 2)
        if len(rows) == 0 or int(rows.min()) < 0 or int(rows.max()) >= len(points):
            got = "none" if len(rows) == 0 else f"{int(rows.min())} to {int(rows.max())}"
            raise DataError(
                f"PatchCore.restricted_to needs rows among the {len(points)} of the reference, got {got}: "
                "take them from a fit on as many images."
            )
        thinned = copy.copy(self)
        thinned.rows_, thinned.bank_, thinned._search = rows, points[rows], None
        if self.bank_ is not None and self.rows_ is not None and torch.equal(rows, self.rows_):
            # The same rows under another correction lie much the same, so most of what a search prepares is known.
            thinned._search = self._search = Bank.again(self._search, self.bank_)
        return thinned

    def export_rule(self) -> NearestRule:
        """How an exported graph scores as this detector does."""
        return NearestRule(self.neighbours, self.squared, reweight=self.reweight)

    def export_state(self) -> GraphTensors:
        """The bank, by the names that the exported graph reads."""
        return self.export_rule().tensors(fitted(self, self.bank_), "PatchCore")

    def _select(self, points: Tensor) -> Tensor:
        random = torch.Generator().manual_seed(self.seed)
        projected = self._project(points, random)
        size = max(1, int(self.coreset * len(points)))
        if self.anchors == 0:
            start = int(torch.randint(len(points), (1,), generator=random))
            return greedy_coreset(projected, size, start=start)
        anchors = torch.randperm(len(points), generator=random)[: self.anchors].to(points.device)
        return greedy_coreset(projected, size, initial=mean_distance(projected, projected[anchors]))

    def _project(self, points: Tensor, random: torch.Generator) -> Tensor:
        count, channels = points.shape
        dimension = self.dimension if self.projection == "uniform" else johnson_lindenstrauss_dimension(count)
        if channels <= dimension:
            return points
        draw = uniform_projection if self.projection == "uniform" else sparse_projection
        return points @ draw(channels, dimension, random).to(points)


def uniform_projection(channels: int, dimension: int, random: torch.Generator) -> Tensor:
    """(channels, dimension) of independent entries, uniform within +-1/sqrt(channels)."""
    return torch.empty(channels, dimension).uniform_(-1, 1, generator=random) / math.sqrt(channels)


def sparse_projection(channels: int, dimension: int, random: torch.Generator) -> Tensor:
    """(channels, dimension) with a share 1/sqrt(channels) of entries non-zero, of either sign, unit expected gain."""
    density = 1 / math.sqrt(channels)
    draw = torch.rand(channels, dimension, generator=random)
    signs = (draw < density / 2).float() - (draw > 1 - density / 2).float()
    return signs / math.sqrt(density * dimension)


def johnson_lindenstrauss_dimension(count: int, error: float = 0.9) -> int:
    """The dimension that keeps all distances among `count` points within a factor 1 +- error."""
    return max(1, int(4 * math.log(count) / (error**2 / 2 - error**3 / 3)))


def mean_distance(points: Tensor, anchors: Tensor) -> Tensor:
    """(m,): mean distance of each point to the anchors, by differences so that equal points are at exactly zero."""
    return torch.cdist(points, anchors, compute_mode="donot_use_mm_for_euclid_dist").mean(dim=1)


def novelty(worst: Tensor, matched: Tensor, bank: Bank, b: int) -> Tensor:
    """1 - softmax of the distances from the worst patch to the b neighbours of its match, at the match; paper Eq. 7.

    Args:
        worst: (n, d), each image's most anomalous feature.
        matched: (n,), the bank row nearest to it.
    """
    rows = bank.rows
    _, support = nearest(rows[matched], bank, k=min(b, len(rows)))
    others = torch.linalg.vector_norm(worst[:, None] - rows[support], dim=-1)  # (n, b)
    own = torch.linalg.vector_norm(worst - rows[matched], dim=-1)  # (n,)
    return 1 - torch.exp(own - torch.logsumexp(others, dim=1))
