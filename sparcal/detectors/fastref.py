"""FastRef: prototypes refined by the query, then held back by optimal transport (Li et al., CVPR 2026).

The reference is the support: the k calibration normals of the lot. A coreset M of n support patches reconstructs the
m patches f of a query. Least squares would also reconstruct defects, so the reconstruction W M is drawn towards M as
a whole by a transport plan T between the two sets. Algorithm 1, Euclidean form, with W_0 = f M^T (M M^T)^-1:

    repeat L times:    T <- Sinkhorn on C_ij = |W_i M - M_j|^2, row sums 1/m, column sums 1/n
                       W <- (f M^T + lambda T M M^T) (M M^T)^-1, row i divided by 1 + lambda (row sum i of T)

and a cell scores |f_i - W_i M|. Only R = W M is needed: R_0 projects f onto the span of M, and the update is
R <- (R_0 + lambda T M) / (1 + lambda (row sum of T)), with no inverse.

The authors' code is not published; this follows the algorithm, and settles what it leaves open:
* `transport`. Taken literally, a row of T weighs 1/m of a row of f and the update stays inside the span of M, at right
  angles to the residual, which it lengthens by parts in ten million: transport does nothing that could be seen. The
  authors report that it matters, so the default weighs a row of T as a row of f ("unit-mass", m T in place of T).
  "literal" is there for comparison.
* `epsilon` is not given. Here it is in units of the mean cost, so that it means the same for every encoder, and small:
  a plan blurred over many prototypes draws every patch to their common mean.
* Sinkhorn runs in the log domain, fewer than 10 times as they say, and ends on the rows.
* The coreset is the greedy one, on unprojected features, from the first patch on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from sparcal.detectors.fastrecon import row_space, support_coreset
from sparcal.detectors.levels import only_level, scored_level
from sparcal.imaging.maps import MapRule
from sparcal.settings import finite_number, instance_of, one_of, parameters, share, whole_number
from sparcal.types import Family, Features, Scores, fitted, require_reference

MAP_RULE = MapRule(cell_pixels=8)

# Shares of a plan below exp of this count as this: nothing to float32 sums, but exponentials below about -87 are
# denormal numbers, which processors handle ten times slower.
SMALLEST_LOG = -80.0

Transport = Literal["unit-mass", "literal"]


@dataclass
class FastRef:
    """Distance of each cell to its reconstruction from prototypes of the support, held back by optimal transport.

    Images are scored one by one, each with one h w x n table of costs at a time.

    Args:
        coreset: alpha, share of the support's patches that are prototypes, in (0, 1]. Keep them fewer than the
            channels: as many span every query, and transport alone is left to tell normal from not.
        weight: lambda, of the transport; 0 is plain least squares.
        rounds: L, how often plan and reconstruction take turns.
        iterations: Sinkhorn sweeps per round.
        epsilon: entropy of the plan, in units of the mean cost.
        transport: whether a row of the plan weighs as much as a row of the query, or, literally, 1/m of it.

    After `fit`: `prototypes_`, (n, d); `basis_`, (s, d), orthonormal rows that span them.
    """

    coreset: float = 0.05
    weight: float = 0.3
    rounds: int = 2
    iterations: int = 9
    epsilon: float = 0.01
    transport: Transport = "unit-mass"
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    prototypes_: Tensor | None = field(default=None, init=False, repr=False)
    basis_: Tensor | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        share(self.coreset, "FastRef.coreset", hint="it is the share of support patches kept")
        finite_number(self.weight, "FastRef.weight", least=0, hint="0 is plain least squares")
        whole_number(self.rounds, "FastRef.rounds", least=0, hint="the authors use 2")
        whole_number(self.iterations, "FastRef.iterations", least=1, hint="the authors use fewer than 10")
        finite_number(self.epsilon, "FastRef.epsilon", above=0, hint="it is in units of the mean cost")
        one_of(self.transport, "FastRef.transport", get_args(Transport), hint="leave it at unit-mass")
        instance_of(self.map_rule, "FastRef.map_rule", MapRule)

    def fit(self, reference: Features | None) -> Self:
        """Keep a coreset of the support, which is what `reference` holds, and its span."""
        level = only_level("FastRef", require_reference(self, reference))
        self.prototypes_ = support_coreset(level, self.coreset)
        self.basis_ = row_space(self.prototypes_)
        return self

    def score(self, features: Features) -> Scores:
        """Length of each cell's residual after refinement, and its largest value per image."""
        prototypes = fitted(self, self.prototypes_)
        level = scored_level("FastRef", features, prototypes.shape[1])
        cell = torch.stack([self._residual(x.flatten(0, 1).to(prototypes.dtype)) for x in level])
        cell = cell.view(level.shape[:3]).to(level.dtype)
        return Scores(cell.flatten(1).amax(dim=1), cell)

    def _residual(self, query: Tensor) -> Tensor:
        prototypes, basis = fitted(self, self.prototypes_), fitted(self, self.basis_)
        least_squares = query @ basis.mT @ basis  # (m, d)
        mass = self.weight * (len(query) if self.transport == "unit-mass" else 1)
        refined = least_squares
        for _ in range(self.rounds):
            costs = squared_costs(refined, prototypes)
            plan = transport_plan(costs, epsilon=self.epsilon, iterations=self.iterations)
            drawn = least_squares + mass * plan @ prototypes
            refined = drawn / (1 + mass * plan.sum(dim=1, keepdim=True))
        residual: Tensor = torch.linalg.vector_norm(query - refined, dim=1)
        return residual


def squared_costs(points: Tensor, prototypes: Tensor) -> Tensor:
    """(m, n): squared distance of every point to every prototype."""
    lengths = points.square().sum(dim=1)[:, None] + prototypes.square().sum(dim=1)
    return torch.addmm(lengths, points, prototypes.mT, alpha=-2).clamp_min_(0)


def transport_plan(cost: Tensor, *, epsilon: float, iterations: int) -> Tensor:
    """(m, n): the entropic plan between uniform weights after some Sinkhorn sweeps; rows sum to 1/m exactly.

    Args:
        cost: (m, n), not negative.
        epsilon: entropy, in units of the mean cost.
    """
    m, n = cost.shape
    kernel = cost / -(epsilon * cost.mean().clamp_min(torch.finfo(cost.dtype).tiny))
    row = cost.new_zeros(m, 1)
    for _ in range(iterations):
        column = -math.log(n) - log_sum_exp(kernel + row, dim=0)
        row = -math.log(m) - log_sum_exp(kernel + column, dim=1)
    return (kernel + row + column).clamp_min_(SMALLEST_LOG).exp_()


def log_sum_exp(x: Tensor, *, dim: int) -> Tensor:
    """log of the sum of exp(x) over `dim`, which is kept; `x` is overwritten."""
    high = x.amax(dim=dim, keepdim=True)
    return x.sub_(high).clamp_min_(SMALLEST_LOG).exp_().sum(dim=dim, keepdim=True).log_().add_(high)
