"""A package that adds to sparcal: an encoder, a detector, a correction, a host and a dataset, each as short as can be."""

from dataclasses import dataclass, field

import torch
from torch.nn.functional import avg_pool2d

from sparcal import Features, Scores
from sparcal.bench.datasets import Dataset
from sparcal.bench.datasets.mvtec_like import ANY_FOLDER
from sparcal.corrections import CorrectionFacts, MeanOnly
from sparcal.errors import ShapeError
from sparcal.hosts import Host
from sparcal.imaging.maps import MapRule
from sparcal.imaging.preprocess import Preprocess
from sparcal.types import fitted, require_reference


@dataclass
class NearestMean:
    """The distance of each cell to the mean of its training cells."""

    map_rule: MapRule = MapRule(cell_pixels=8)
    family = "reference"
    mean_: torch.Tensor | None = field(default=None, init=False, repr=False)

    def fit(self, reference):
        self.mean_ = require_reference(self, reference).levels[0].float().mean(dim=0)
        return self

    def score(self, features):
        mean = fitted(self, self.mean_)
        if len(features) == 0 or features.grids != (tuple(mean.shape),):
            raise ShapeError(
                f"NearestMean.score needs images on the grid {tuple(mean.shape)}, got {len(features)} on "
                f"{features.grids}: encode them as the reference."
            )
        level = features.levels[0]
        cell = (level - mean).norm(dim=-1).to(torch.promote_types(level.dtype, torch.float32))
        return Scores(cell.flatten(1).amax(dim=1), cell)


@dataclass(frozen=True)
class Edges:
    """Brightness and edges of 8 x 8 pixels."""

    size: int = 64
    cell_pixels: int = 8

    @property
    def id(self):
        return f"tiny:edges?size={self.size}"

    @property
    def preprocess(self):
        return Preprocess(size=self.size, resize="square")

    def __call__(self, pixels):
        values = torch.cat([pixels, (pixels.roll(1, 3) - pixels).abs(), (pixels.roll(1, 2) - pixels).abs()], dim=1)
        return Features((avg_pool2d(values, self.cell_pixels).permute(0, 2, 3, 1).contiguous(),))


def load_edges(spec, *, weights=None, recipe=None):  # noqa: ARG001
    """Brightness and edges of 8 x 8 pixels; tiny:edges?size=64."""
    return Edges(size=spec.size or 64)


half_mean = CorrectionFacts("Mean only, on the test side", MeanOnly, {"on": "test"}, removes="the lot's mean")

host = Host(
    name="nearest-mean", title="Nearest mean", family="reference", detector="nearest-mean", encoder="tiny:edges"
)


def parts(spec: Dataset, home, category):
    return ANY_FOLDER.read(spec, home, category)


dataset = Dataset(
    name="tiny-parts",
    title="Tiny parts",
    remedy="ask us for it",
    read=parts,
    masks=("{category}/ground_truth/**/*",),
    categories=("alpha", "beta"),
)
