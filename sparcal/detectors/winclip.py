"""WinCLIP: patches and windows of an image against texts and against normal images (Jeong et al., CVPR 2023).

Without references, every window of 2 x 2 and 3 x 3 cells is embedded by CLIP on its own and compared with sentences
that describe a normal and a damaged part. With references (WinCLIP+), windows and patches are also compared with those
of normal images, wherever they were. Cells take the harmonic mean over the windows that cover them.

Four modes, because the SPARC paper does not say which one its numbers are from:

    patch_only             a cell scores its patch's distance to the references, an image its worst cell; needs neither
                           texts nor windows, so any encoder will do
    winclip_plus           the CVPR paper's few-shot form; windows and image vector travel in `cls`, so that a correction
                           changes the patch scale alone
    winclip_plus_windows   the same with one level per window size, each corrected on its own grid; texts then see
                           corrected windows too
    zero_shot              texts alone, no references; no correction reaches it

The default is patch_only; docs/reference/hosts.md has the argument. In short: the paper reports +16.4 points of image AUROC on
MVTec AD 2 from correcting patch features, and in WinCLIP+ these are a third of a map whose maximum is half of the image
score, which leaves no room for that; and its base on VisA falls where texts do well and rises where they do badly.

The authors published no code. Where this differs from the public ports (Accurate-WinCLIP, anomalib):
* The reference is all of the training images unless `shots` says otherwise; the ports take 1 to 8.
* The pixel map is the mean of the text map and the reference map, not their sum: the order of pixels is the same.
* Spreading windows over cells is two box filters instead of a loop over cells.
* Category names have spaces for underscores.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, normalize, pad

from sparcal.detectors.levels import allow_reference, at_least_float32, require_channels, require_images
from sparcal.detectors.prompts import anomalous_share, two_texts
from sparcal.errors import DataError, NotFittedError, ShapeError
from sparcal.imaging.maps import MapRule
from sparcal.neighbours.search import nearest
from sparcal.settings import finite_number, instance_of, one_of, parameters, seed_number, whole_number, whole_numbers
from sparcal.types import Family, Features, Scores, fitted, require_reference

Mode = Literal["patch_only", "winclip_plus", "winclip_plus_windows", "zero_shot"]
ImageScore = Literal["max", "mean", "text"]

MAP_RULE = MapRule(cell_pixels=16, sigma=0)


@dataclass
class WinCLIP:
    """Distance of patches and windows to normal images, and their likeness to texts about damage.

    Args:
        mode: what is scored; see the module's first lines.
        image_score: "max" is the largest reference distance of a cell; "text" the image vector's likeness to texts;
            "mean" the mean of both. None is the mode's own: "max" for patch_only, "text" for zero_shot, else "mean".
        windows: sides of the windows in cells, in the order in which the encoder gives them.
        temperature: of the softmax over the two texts.
        shots: reference images that are kept, drawn by `seed`; None keeps all.

    Set by `with_text`: `text_`, (2, c). After `fit`: `memory_`, unit vectors (m, d) of the patches, then of each window
    size where the mode has windows; empty for zero_shot.
    """

    mode: Mode = "patch_only"
    image_score: ImageScore | None = None
    windows: tuple[int, ...] = (2, 3)
    temperature: float = 0.07
    shots: int | None = None
    seed: int = 0
    map_rule: MapRule = MAP_RULE
    family: Family = field(default="reference", init=False)
    text_: Tensor | None = field(default=None, init=False, repr=False)
    memory_: tuple[Tensor, ...] | None = field(default=None, init=False, repr=False)

    get_params = parameters

    def __post_init__(self) -> None:
        one_of(self.mode, "WinCLIP.mode", get_args(Mode))
        one_of(self.image_score, "WinCLIP.image_score", get_args(ImageScore), optional=True)
        whole_numbers(
            self.windows, "WinCLIP.windows", least=1, some=self.mode != "patch_only", hint="the authors' are (2, 3)"
        )
        finite_number(self.temperature, "WinCLIP.temperature", above=0)
        whole_number(self.shots, "WinCLIP.shots", least=1, optional=True, hint="None keeps all reference images")
        seed_number(self.seed, "WinCLIP.seed")
        instance_of(self.map_rule, "WinCLIP.map_rule", MapRule)
        if self.mode == "zero_shot" and self._image_rule != "text":
            raise DataError(
                f"WinCLIP(mode='zero_shot') scores images by text, got image_score={self.image_score!r}: leave it out."
            )

    def with_text(self, text: Tensor) -> Self:
        """A copy that knows what normal and anomalous look like in words.

        Args:
            text: (2, c), normal first, from `sparcal.detectors.prompts.text_prototypes`.
        """
        informed = copy.copy(self)
        informed.text_ = two_texts(text, "WinCLIP", "text_prototypes(encoder, category)")
        return informed

    def fit(self, reference: Features | None) -> Self:
        """Keep every patch, and every window where the mode has windows, of the reference images."""
        allow_reference(self, reference)
        if self.needs_text:
            self._texts()
        if self.mode == "zero_shot":
            self.memory_ = ()
            return self
        images = self._draw(require_reference(self, reference))
        patches, windows, _ = self._parts(images)
        self.memory_ = tuple(normalize(x.flatten(0, 2), dim=-1) for x in (patches, *windows))
        return self

    def score(self, features: Features) -> Scores:
        """Cell and image scores of the mode."""
        memories = fitted(self, self.memory_)
        patches, windows, vector = self._parts(require_images("WinCLIP", features))
        for x, memory in zip((patches, *windows), memories, strict=False):  # zero_shot has no memory
            require_channels("WinCLIP", x, memory.shape[1])
        text = None if vector is None else self._text_score(vector)
        if self.mode == "zero_shot" and text is not None:
            return Scores(text, self._text_map(windows, text))
        distances = [association(x, memory) for x, memory in zip((patches, *windows), memories, strict=True)]
        spread = [spread_windows(x, side) for x, side in zip(distances[1:], self.windows, strict=False)]
        few_shot = torch.stack([distances[0], *spread]).mean(dim=0)
        image = self._image(few_shot.flatten(1).amax(dim=1), text)
        if self.mode == "patch_only" or text is None:  # only patch_only goes without texts
            return Scores(image, few_shot)
        return Scores(image, (few_shot + self._text_map(windows, text)) / 2)

    @property
    def needs_text(self) -> bool:
        """Whether the mode, or the image score, compares with texts."""
        return not (self.mode == "patch_only" and self._image_rule == "max")

    @property
    def encoder_words(self) -> str:
        """What the mode asks of an open_clip encoder, in the words after its question mark."""
        if self.mode == "patch_only":
            return "cls=1" if self.needs_text else ""
        sides = ",".join(map(str, self.windows))
        return f"cls=1&windows={sides}&windows_in={'levels' if self.mode == 'winclip_plus_windows' else 'cls'}"

    @property
    def _image_rule(self) -> ImageScore:
        own: dict[str, ImageScore] = {"patch_only": "max", "zero_shot": "text"}
        return self.image_score or own.get(self.mode, "mean")

    def _image(self, worst: Tensor, text: Tensor | None) -> Tensor:
        if self._image_rule == "max" or text is None:  # only "max" goes without texts
            return worst
        return text if self._image_rule == "text" else (worst + text) / 2

    def _text_score(self, vectors: Tensor) -> Tensor:
        return anomalous_share(vectors, self._texts(), self.temperature)

    def _text_map(self, windows: Sequence[Tensor], image: Tensor) -> Tensor:
        """Harmonic mean of each scale's map and of the image's own score."""
        maps = [spread_windows(self._text_score(x), side) for x, side in zip(windows, self.windows, strict=True)]
        return harmonic_mean([*maps, image[:, None, None].expand_as(maps[0])])

    def _texts(self) -> Tensor:
        if self.text_ is None:
            raise NotFittedError(
                f"WinCLIP(mode={self.mode!r}, image_score={self._image_rule!r}) compares with texts, got none: call "
                "with_text(text_prototypes(encoder, category)) first."
            )
        return self.text_

    def _draw(self, reference: Features) -> Features:
        if self.shots is None or self.shots >= len(reference):
            return reference
        order = torch.randperm(len(reference), generator=torch.Generator().manual_seed(self.seed))
        return reference[order[: self.shots].sort().values]

    def _parts(self, features: Features) -> tuple[Tensor, tuple[Tensor, ...], Tensor | None]:
        """Patches, windows and image vector from where the mode has them; the last two only where they are used."""
        expected = 1 + (len(self.windows) if self.mode == "winclip_plus_windows" else 0)
        if len(features.levels) != expected:
            raise ShapeError(
                f"WinCLIP(mode={self.mode!r}) works on {expected} level(s), patches first, got {len(features.levels)}: "
                "set windows and windows_in of the encoder to match the mode."
            )
        patches, *windows = (at_least_float32(x) for x in features.levels)
        if self.text_ is None or not self.needs_text:
            return patches, (), None
        c, (h, w) = self.text_.shape[1], patches.shape[1:3]
        grids = [(h - side + 1, w - side + 1) for side in self.windows]
        wrong = [tuple(x.shape[1:]) for x, grid in zip(windows, grids, strict=False) if x.shape[1:] != (*grid, c)]
        if wrong:
            raise ShapeError(
                f"WinCLIP expects window levels {' and '.join(str((*grid, c)) for grid in grids)} beside patches on "
                f"{h} x {w}, got {wrong[0]}: set the encoder's windows to {','.join(map(str, self.windows))}."
            )
        packed = grids if self.mode in ("winclip_plus", "zero_shot") else []
        cls = None if features.cls is None else features.cls.to(patches.dtype)
        vector, unpacked = unpack(cls, c, packed, f"WinCLIP(mode={self.mode!r})")
        return patches, (*windows, *unpacked), vector


def unpack(cls: Tensor | None, c: int, grids: Sequence[tuple[int, int]], who: str) -> tuple[Tensor, list[Tensor]]:
    """The image vector (n, c) and the windows (n, rows, columns, c) on each of `grids` that `Features.cls` holds."""
    lengths = [c, *(c * rows * columns for rows, columns in grids)]
    if cls is None or cls.shape[1] != sum(lengths):
        got = "none" if cls is None else f"{cls.shape[1]} columns"
        raise ShapeError(
            f"{who} reads {sum(lengths)} columns from Features.cls (an image vector of {c}"
            f"{' and all windows' if grids else ''}), got {got}: use an encoder with "
            f"{'windows_in=cls' if grids else 'cls=1'}, and texts of that encoder."
        )
    vector, *flat = torch.split(cls, lengths, dim=1)
    return vector, [x.reshape(-1, rows, columns, c) for x, (rows, columns) in zip(flat, grids, strict=True)]


def association(x: Tensor, memory: Tensor) -> Tensor:
    """(1 - cosine) / 2 of each cell to the nearest vector of the memory.

    Args:
        x: (n, h, w, d).
        memory: (m, d), unit vectors.
    """
    unit = normalize(x.flatten(0, 2), dim=-1)
    squares, _ = nearest(unit, memory.to(unit), squared=True)  # of unit vectors: 2 - 2 cosine
    return (squares / 4).reshape(x.shape[:3])


def spread_windows(scores: Tensor, side: int) -> Tensor:
    """Harmonic mean, at each cell, of the scores of all side x side windows that cover it.

    Args:
        scores: (n, h - side + 1, w - side + 1), at least 0.

    Returns:
        (n, h, w).
    """

    def box_sum(x: Tensor) -> Tensor:
        padded = pad(x[:, None], [side - 1] * 4)
        return avg_pool2d(padded, side, stride=1, divisor_override=1)[:, 0]

    return box_sum(torch.ones_like(scores[:1])) / box_sum(1 / scores)


def harmonic_mean(maps: Sequence[Tensor]) -> Tensor:
    """Elementwise; 0 where any map is 0."""
    return len(maps) / torch.stack([1 / x for x in maps]).sum(dim=0)
