"""AnomalyDINO: cosine distance to the nearest patch token of the normal images (Damm et al., WACV 2025).

Every token of the reference is kept, at unit length; a cell scores 1 - cosine to the nearest; the image scores the
mean of its highest 1 % of cells.

Where this differs from the authors' code, whose defaults depend on the dataset and the object:
* The foreground mask is off by default. `mask="tokens"` is the authors': from the features that are scored. Its
  threshold is in units of raw tokens, which a correction changes; `mask="cls"` therefore reads a mask that
  `with_foreground` took from the uncorrected tokens and put where no correction reaches. An experiment turns it on
  with `setting=mask:cls`.
* The mask is dilated and closed in two dimensions. The authors' code flattens it first, so that it grows along rows
  only and wraps at their ends.
* The principal component is exact and its sign fixed, where theirs comes from an unseeded solver.
* Rotated copies of the reference images are left out: a rotated part does not lie on the cells of the upright one, so
  no correction fitted per cell could be compared with its base.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, normalize

from sparcal.detectors.export_rule import GraphTensors
from sparcal.detectors.levels import only_level, scored_level
from sparcal.detectors.nearest_rule import NearestRule
from sparcal.errors import DataError, ShapeError
from sparcal.feature_checks import check_finite
from sparcal.imaging.maps import MapRule, top_mean
from sparcal.neighbours.search import Bank, nearest
from sparcal.settings import finite_number, instance_of, one_of, parameters, whole_number
from sparcal.types import Family, Features, Grids, Scores, fitted, require_reference

ForegroundMask = Literal["off", "tokens", "cls"]

MAP_RULE = MapRule(cell_pixels=14, at="native")


@dataclass
class AnomalyDINO:
    """1 - cosine of each cell to the nearest token of the normal images.

    Args:
        neighbours: bank tokens whose distances are averaged.
        top: share of the cells, the highest, whose mean scores the image.
        mask: "off" scores every cell; "tokens" and "cls" score cells outside the foreground 0, with the foreground
            found in the features scored, or read from their `cls` as `with_foreground` left it.
        threshold: on the first principal component, in units of the tokens; 10 suits DINOv2 ViT-S/14 only.

    After `fit`: `bank_`, (m, d), unit rows.
    """

    neighbours: int = 1
    top: float = 0.01
    mask: ForegroundMask = "off"
    threshold: float = 10.0
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    bank_: Tensor | None = field(default=None, init=False, repr=False)
    _search: Bank | None = field(default=None, init=False, repr=False, compare=False)  # follows bank_

    get_params = parameters

    def __post_init__(self) -> None:
        whole_number(self.neighbours, "AnomalyDINO.neighbours", least=1)
        finite_number(self.top, "AnomalyDINO.top", least=0, most=1, hint="it is a share of the cells")
        one_of(self.mask, "AnomalyDINO.mask", get_args(ForegroundMask))
        finite_number(self.threshold, "AnomalyDINO.threshold")
        instance_of(self.map_rule, "AnomalyDINO.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """Keep every reference token at unit length."""
        level = only_level("AnomalyDINO", require_reference(self, reference))
        check_finite(Features((level,)), "AnomalyDINO's reference features")
        self.bank_ = normalize(level.flatten(0, 2), dim=1)
        return self

    def reference_bytes(self, grids: Grids, images: int) -> int:
        """What `fit` will keep of so many images: every token in float32."""
        h, w, d = grids[0]
        return 4 * images * h * w * d

    def score(self, features: Features) -> Scores:
        """Cosine distance of each cell to the bank, and the mean of the highest per image."""
        bank = fitted(self, self.bank_)
        level = scored_level("AnomalyDINO", features, bank.shape[1])
        unit = normalize(level.flatten(0, 2), dim=1)
        # Half the squared distance of unit vectors is 1 - cosine.
        self._search = Bank.again(self._search, bank)
        distances, _ = nearest(unit, self._search, k=min(self.neighbours, len(bank)), squared=True)
        cell = (distances / 2).mean(dim=1).reshape(level.shape[:3])
        if self.mask != "off":
            cell = torch.where(self._foreground(features), cell, 0.0)
        return Scores(top_mean(cell.flatten(1), self.top), cell)

    def export_rule(self) -> NearestRule:
        """How an exported graph scores as this detector does, which it can without a foreground mask."""
        if self.mask != "off":
            raise DataError(
                f"AnomalyDINO can be exported with mask='off', got mask={self.mask!r}: "
                "its foreground needs a principal component per image, which no exported graph has."
            )
        return NearestRule(self.neighbours, squared=True, unit=True, top=self.top)

    def export_state(self) -> GraphTensors:
        """The bank, by the names that the exported graph reads."""
        return self.export_rule().tensors(fitted(self, self.bank_), "AnomalyDINO")

    def _foreground(self, features: Features) -> Tensor:
        level = features.levels[0]
        if self.mask == "tokens":
            return foreground(level, self.threshold)
        h, w = level.shape[1:3]
        if features.cls is None or features.cls.shape[1] != h * w:
            got = "none" if features.cls is None else f"{features.cls.shape[1]} columns"
            raise ShapeError(
                f"AnomalyDINO(mask='cls') reads one value per cell, {h * w}, from Features.cls, got {got}: "
                "pass the uncorrected features through with_foreground."
            )
        return features.cls.reshape(-1, h, w) > 0.5


def with_foreground(features: Features, threshold: float = 10.0) -> Features:
    """The same features with each image's foreground in `cls`, 1 or 0 per cell, for AnomalyDINO(mask="cls")."""
    level = only_level("with_foreground", features)
    return Features(features.levels, foreground(level, threshold).flatten(1).to(level.dtype))


def foreground(tokens: Tensor, threshold: float) -> Tensor:
    """(n, h, w) of bool: cells whose first principal component exceeds `threshold`, dilated and closed.

    The component has no sign of its own. If it marks no more than 35 % of the image's centre, its negative is used.

    Args:
        tokens: (n, h, w, d).
    """
    h, w = tokens.shape[1:3]
    component = torch.stack([first_component(x) for x in tokens])
    marked = component > threshold
    centre = marked[:, int(0.2 * h) : int(0.8 * h), int(0.2 * w) : int(0.8 * w)]
    flip = centre.flatten(1).sum(dim=1) <= 0.35 * centre[0].numel()
    marked = torch.where(flip[:, None, None], -component > threshold, marked)
    return erode(dilate(dilate(marked)))


def first_component(x: Tensor) -> Tensor:
    """(h, w): each vector of `x` (h, w, d) along the image's first principal direction, in float64.

    The direction's largest entry is positive.
    """
    centred = x.double() - x.mean(dim=(0, 1), dtype=torch.float64)
    flat = centred.flatten(0, 1)
    direction: Tensor = torch.linalg.eigh(flat.mT @ flat).eigenvectors[:, -1]
    return centred @ (direction * direction[direction.abs().argmax()].sign())


def dilate(marked: Tensor) -> Tensor:
    """(n, h, w) of bool grown by one cell in all eight directions."""
    return max_pool2d(marked.float()[:, None], 3, stride=1, padding=1)[:, 0] > 0.5


def erode(marked: Tensor) -> Tensor:
    """(n, h, w) of bool shrunk by one cell in all eight directions; what lies outside the image does not shrink it."""
    return ~dilate(~marked)
