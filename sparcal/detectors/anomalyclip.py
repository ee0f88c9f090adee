"""AnomalyCLIP: patches of CLIP's local stream against two learned prompts (Zhou et al., ICLR 2024).

The prompts mean "object" and "damaged object" for any object. An image scores by its class token alone, so that no
correction of patch features changes its score; a cell scores by its patch. There is no reference: a correction acts on
the test side only, on patch vectors after ln_post and projection and before they are brought to unit length.

`sparcal.detectors.prompts` reads the prompts and says which of the two published sets is which in the SPARC paper.

Where this differs from the authors' code (zqhang/AnomalyCLIP):
* One layer, the last: their released prompts were learned on it, because an aliasing error made all four of their
  layers equal to it until April 2025. `layers=4` sums four maps, for prompts learned on four.
* Maps are smoothed at the input size and then taken to native pixels; they evaluate at the input size.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from sparcal.detectors.levels import allow_reference, at_least_float32, require_channels, require_images
from sparcal.detectors.prompts import TextEncoder, anomalous_share, learned_prototypes, read_prompts, two_texts
from sparcal.errors import NotFittedError, ShapeError
from sparcal.imaging.maps import MapRule
from sparcal.settings import finite_number, instance_of, parameters, text, whole_number
from sparcal.types import Family, Features, Scores

MAP_RULE = MapRule(cell_pixels=14)


@dataclass
class AnomalyCLIP:
    """Likeness of the class token and of each patch to a prompt that means damage.

    Args:
        prompts: name of the prompt set, for the record; `with_prompts` sets it.
        layers: levels of the features, whose maps are summed.
        temperature: of the softmax over the two prompts.

    Set by `with_text` or `with_prompts`: `text_`, (2, c).
    """

    prompts: str = ""
    layers: int = 1
    temperature: float = 0.07
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="cls", init=False)
    text_: Tensor | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        text(self.prompts, "AnomalyCLIP.prompts")
        whole_number(self.layers, "AnomalyCLIP.layers", least=1)
        finite_number(self.temperature, "AnomalyCLIP.temperature", above=0)
        instance_of(self.map_rule, "AnomalyCLIP.map_rule", MapRule)

    def with_text(self, text: Tensor) -> Self:
        """A copy with the vectors of its two prompts, (2, c), normal first."""
        informed = copy.copy(self)
        informed.text_ = two_texts(text, "AnomalyCLIP", "learned_prototypes(encoder, prompts)")
        return informed

    def with_prompts(self, encoder: TextEncoder, path: str | Path) -> Self:
        """A copy with the prompts of a file, named after the file's folder.

        Args:
            path: an authors' `epoch_15.pth`, or a safetensors file with the same tensors.
        """
        prompts = read_prompts(path)
        informed = self.with_text(learned_prototypes(encoder, prompts))
        informed.prompts = prompts.name
        return informed

    def fit(self, reference: Features | None) -> Self:
        """Nothing is learned from images: the prompts are the reference."""
        allow_reference(self, reference)
        self._text()
        return self

    def score(self, features: Features) -> Scores:
        """Likeness to the prompt of damage: of `cls` per image, of each patch per cell."""
        text = self._text()
        levels = require_images("AnomalyCLIP", features).levels
        shapes = {tuple(x.shape[1:3]) for x in levels}
        if len(levels) != self.layers or len(shapes) != 1:
            raise ShapeError(
                f"AnomalyCLIP(layers={self.layers}) works on {self.layers} level(s) of one grid, got "
                f"{len(levels)} on {' + '.join(f'{h}x{w}' for h, w in sorted(shapes))}: set the encoder's layers to match."
            )
        if features.cls is None or features.cls.shape[1] != text.shape[1]:
            got = "none" if features.cls is None else f"{features.cls.shape[1]} columns"
            raise ShapeError(
                f"AnomalyCLIP scores images by Features.cls of {text.shape[1]} columns, got {got}: use an encoder with "
                "path=vv and cls=1, and the prompts of that encoder."
            )
        maps = [self._share(require_channels("AnomalyCLIP", x, text.shape[1]), text) for x in levels]
        return Scores(self._share(features.cls, text), torch.stack(maps).sum(dim=0))

    def _share(self, vectors: Tensor, text: Tensor) -> Tensor:
        return anomalous_share(at_least_float32(vectors), text, self.temperature)

    def _text(self) -> Tensor:
        if self.text_ is None:
            raise NotFittedError(
                "AnomalyCLIP needs the vectors of its two prompts before use, got none: "
                "call with_prompts(encoder, path) first."
            )
        return self.text_
