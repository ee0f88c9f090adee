"""What happens to an image before an encoder sees it, recorded so that score maps can go back to native pixels.

Rectangles are (top, left, bottom, right) in pixel edges: pixel y spans y to y + 1, the whole image is (0, 0, H, W).
Native means the image as a person sees it, after its EXIF orientation has been applied.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparcal.errors import DataError
from sparcal.imaging.decode import MAX_PIXELS, open_image
from sparcal.settings import finite_number, finite_numbers, one_of, whole_number, whole_numbers

if TYPE_CHECKING:
    from torch import Tensor

Resize = Literal["short", "square", "pad"]
Resample = Literal["bilinear", "bicubic", "lanczos"]
Order = Literal["rgb", "bgr"]
Triple = tuple[float, float, float]

_RESAMPLE = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@dataclass(frozen=True)
class Geometry:
    """Where the pixels of a preprocessed image lie in the native one.

    Args:
        native: (H, W) of the native image.
        input: (H, W) of the tensor the encoder sees.
        covered: the native rectangle that the valid part of the input shows.
        valid: the part of the input that shows the image; the rest is padding.
    """

    native: tuple[int, int]
    input: tuple[int, int]
    covered: tuple[float, float, float, float]
    valid: tuple[int, int, int, int]

    def __post_init__(self) -> None:
        for name, count, least in (("native", 2, 1), ("input", 2, 1), ("valid", 4, 0)):
            whole_numbers(getattr(self, name), f"Geometry.{name}", count=count, least=least)
        # A transform that pads shows more than the image: what is covered may begin outside it.
        finite_numbers(self.covered, "Geometry.covered", count=4)
        for name in ("covered", "valid"):
            top, left, bottom, right = getattr(self, name)
            if not (top < bottom and left < right):
                raise DataError(
                    f"Geometry.{name} must be (top, left, bottom, right) around some pixels, got {getattr(self, name)}: "
                    "take it from what preprocessing returns."
                )

    def to_json(self) -> dict[str, list[float]]:
        """Plain lists of numbers; `from_json` gives the same geometry back."""
        return {name: list(values) for name, values in asdict(self).items()}

    @classmethod
    def from_json(cls, data: dict[str, list[float]]) -> Geometry:
        """The geometry that `to_json` wrote."""
        try:
            h, w = data["native"]
            input_h, input_w = data["input"]
            top, left, bottom, right = data["covered"]
            valid_top, valid_left, valid_bottom, valid_right = data["valid"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "Geometry.from_json needs native (2), input (2), covered (4) and valid (4) as lists of numbers, "
                f"got {data}: pass what to_json wrote."
            ) from error
        return cls(
            (int(h), int(w)),
            (int(input_h), int(input_w)),
            (float(top), float(left), float(bottom), float(right)),
            (int(valid_top), int(valid_left), int(valid_bottom), int(valid_right)),
        )


@dataclass(frozen=True)
class Preprocess:
    """How an image becomes the tensor an encoder expects: resize, pad, centre crop, multiple, scale, normalise.

    Args:
        resize: "short" takes the shorter side to `size` and "pad" the longer one, both keeping the aspect ratio;
            "square" squashes. "pad" centres the image in `size` x `size`; padding is 0 after normalisation.
        crop: side of a centre crop, placed with torchvision's rounding.
        multiple: cut the right and bottom edge to a multiple of this.
        mean: subtracted after dividing by `scale`, one value per channel in the order of the output.
        std: divides last, one value per channel in the order of the output.
    """

    size: int = 256
    resize: Resize = "short"
    crop: int | None = None
    multiple: int = 1
    resample: Resample = "bilinear"
    mean: Triple = (0.485, 0.456, 0.406)
    std: Triple = (0.229, 0.224, 0.225)
    scale: float = 255.0
    order: Order = "rgb"

    def __post_init__(self) -> None:
        for name, choices in (("resize", Resize), ("resample", Resample), ("order", Order)):
            one_of(getattr(self, name), f"Preprocess.{name}", get_args(choices))
        whole_number(self.size, "Preprocess.size", least=1)
        whole_number(self.crop, "Preprocess.crop", least=1, optional=True)
        whole_number(self.multiple, "Preprocess.multiple", least=1)
        if self.crop is not None and self.crop > self.size:
            raise DataError(
                f"Preprocess.crop must be at most size, got crop {self.crop} of size {self.size}: raise size."
            )
        if self.multiple > (self.crop or self.size):
            raise DataError(
                f"Preprocess.multiple must be at most the input size {self.crop or self.size}, got {self.multiple}."
            )
        finite_numbers(self.mean, "Preprocess.mean", count=3, hint="give one per channel")
        finite_numbers(self.std, "Preprocess.std", count=3, above=0, hint="give one per channel")
        finite_number(self.scale, "Preprocess.scale", above=0)

    @property
    def output_size(self) -> tuple[int, int] | None:
        """(H, W) of every output, or None when it depends on the image."""
        if self.resize == "short" and self.crop is None:
            return None
        side = (self.crop or self.size) // self.multiple * self.multiple
        return side, side

    def __call__(self, image: Image.Image) -> tuple[Tensor, Geometry]:
        """The (3, H, W) float32 tensor of an image, and where its pixels come from."""
        import torch

        pixels, geometry = self.array(image)
        return torch.from_numpy(pixels), geometry

    def array(self, image: Image.Image) -> tuple[NDArray[np.float32], Geometry]:
        """The same as a call, as a numpy array: exported models run without torch."""
        image = open_image(image)
        resized_h, resized_w = _resized_size(image.height, image.width, self)
        y, x = _span(image.height, resized_h, self), _span(image.width, resized_w, self)
        geometry = Geometry(
            native=(image.height, image.width),
            input=(y.input, x.input),
            covered=(y.covered[0], x.covered[0], y.covered[1], x.covered[1]),
            valid=(y.valid[0], x.valid[0], y.valid[1], x.valid[1]),
        )
        pixels = np.asarray(image.resize((resized_w, resized_h), _RESAMPLE[self.resample]))
        return self._normalise(pixels[y.kept, x.kept], geometry), geometry

    def _normalise(self, pixels: NDArray[np.uint8], geometry: Geometry) -> NDArray[np.float32]:
        # numpy, not torch: this runs in reader threads, where torch would start a thread team for each of them.
        channels = pixels[..., ::-1] if self.order == "bgr" else pixels
        values = np.ascontiguousarray(channels.transpose(2, 0, 1), dtype=np.float32)
        values /= np.float32(self.scale)
        values -= np.array(self.mean, dtype=np.float32)[:, None, None]
        values /= np.array(self.std, dtype=np.float32)[:, None, None]
        if values.shape[1:] != geometry.input:
            top, left, bottom, right = geometry.valid
            padded = np.zeros((3, *geometry.input), dtype=np.float32)
            padded[:, top:bottom, left:right] = values
            values = padded
        return values


def _resized_size(native_h: int, native_w: int, rule: Preprocess) -> tuple[int, int]:
    if rule.resize == "square":
        return rule.size, rule.size
    anchor = min(native_h, native_w) if rule.resize == "short" else max(native_h, native_w)
    # torchvision truncates the free side; a sliver must keep one pixel.
    h = rule.size if native_h == anchor else max(int(rule.size * native_h / anchor), 1)
    w = rule.size if native_w == anchor else max(int(rule.size * native_w / anchor), 1)
    if h * w > MAX_PIXELS:
        raise DataError(
            f"An image resized to shorter side {rule.size} must have at most {MAX_PIXELS} pixels, "
            f"got {native_h} x {native_w} growing to {h} x {w}: use resize='pad' or cut the image."
        )
    return h, w


@dataclass(frozen=True)
class _Span:
    """One axis on its way: which pixels of the resized image stay, where they lie in the input and in the native one."""

    input: int
    kept: slice
    valid: tuple[int, int]
    covered: tuple[float, float]


def _span(native: int, resized: int, rule: Preprocess) -> _Span:
    frame = rule.size if rule.resize == "pad" else resized
    offset = (frame - resized) // 2
    # Python's round, halves to even, is what torchvision places its centre crop with.
    start = 0 if rule.crop is None else round((frame - rule.crop) / 2.0)
    side = (rule.crop or frame) // rule.multiple * rule.multiple
    first, last = max(start - offset, 0), min(start + side - offset, resized)
    if first >= last:
        raise DataError(
            f"An image must be more than a line of pixels after resizing, got {native} pixels shrinking to {resized}, "
            "which crop and multiple cut away: use resize='square' or cut the image."
        )
    return _Span(
        input=side,
        kept=slice(first, last),
        valid=(first + offset - start, last + offset - start),
        covered=(first * native / resized, last * native / resized),
    )
