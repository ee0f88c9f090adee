"""What must hold for every encoder: one list of checks, run over a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from sparcal.imaging.preprocess import Preprocess
from sparcal.testing.expectations import equal_features, must_hold, tensors_of
from sparcal.types import Encoder, Features


@dataclass(frozen=True)
class EncoderCase:
    """One encoder under test.

    Args:
        encoder: loads it.
        size: (H, W) of its input.
    """

    name: str
    encoder: Callable[[], Encoder]
    size: tuple[int, int] = (64, 64)

    def pixels(self, n: int = 3, seed: int = 0) -> Tensor:
        """Preprocessed images, (n, 3, H, W)."""
        return torch.randn(n, 3, *self.size, generator=torch.Generator().manual_seed(seed))

    def features(self) -> Features:
        """Features of three images by a newly loaded encoder."""
        return self.encoder()(self.pixels())


def encoder_checks(case: EncoderCase) -> dict[str, Callable[[], None]]:
    """The checks by name, each ready to be called."""
    return {check.__name__.removeprefix("_"): partial(check, case) for check in _CHECKS}


def _keeps_the_protocol(case: EncoderCase) -> None:
    encoder = case.encoder()
    must_hold(isinstance(encoder, Encoder), "it has id, preprocess and cell_pixels, and can be called")
    must_hold(isinstance(encoder.preprocess, Preprocess), "its preprocess is a Preprocess")
    size = encoder.preprocess.output_size
    must_hold(size in (None, case.size), f"its preprocessing gives images of {case.size}, got {size}")


def _the_id_is_stable_and_one_line(case: EncoderCase) -> None:
    first, second = case.encoder().id, case.encoder().id
    must_hold(first == second, f"loading it twice gives the same id, got {first!r} and {second!r}")
    must_hold(bool(first) and "\n" not in first, f"its id is one line, got {first!r}")


def _grids_are_channels_last_and_finite(case: EncoderCase) -> None:
    encoder = case.encoder()
    features = encoder(case.pixels())
    must_hold(len(features) == 3, "three images give features of three images")
    finite = all(x.is_floating_point() and bool(torch.isfinite(x).all()) for x in tensors_of(features))
    must_hold(finite, "features are finite floating numbers")
    h, w, _ = features.grids[0]
    covered = (h * encoder.cell_pixels, w * encoder.cell_pixels)
    must_hold(covered == case.size, f"the cells of its first level cover the input {case.size}, got {covered}")


def _features_carry_no_gradient(case: EncoderCase) -> None:
    must_hold(not any(x.requires_grad for x in tensors_of(case.features())), "features carry no gradient")


def _pixels_stay_unchanged(case: EncoderCase) -> None:
    pixels = case.pixels()
    before = pixels.clone()
    case.encoder()(pixels)
    must_hold(torch.equal(pixels, before), "encoding leaves the pixels as they were")


def _same_pixels_same_bytes(case: EncoderCase) -> None:
    encoder = case.encoder()
    must_hold(equal_features(encoder(case.pixels()), encoder(case.pixels())), "the same pixels give the same features")


def _loading_again_changes_nothing(case: EncoderCase) -> None:
    must_hold(equal_features(case.features(), case.features()), "loading it again gives the same features")


def _one_image_is_encoded_as_in_a_batch(case: EncoderCase) -> None:
    encoder, pixels = case.encoder(), case.pixels()
    together = encoder(pixels)
    for i in range(len(pixels)):
        for got, expected in zip(tensors_of(encoder(pixels[i : i + 1])), tensors_of(together[i]), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def _other_pixels_other_features(case: EncoderCase) -> None:
    encoder = case.encoder()
    same = torch.equal(encoder(case.pixels(seed=1)).levels[0], encoder(case.pixels()).levels[0])
    must_hold(not same, "other pixels give other features")


_CHECKS: tuple[Callable[[EncoderCase], None], ...] = (
    _keeps_the_protocol,
    _the_id_is_stable_and_one_line,
    _grids_are_channels_last_and_finite,
    _features_carry_no_gradient,
    _pixels_stay_unchanged,
    _same_pixels_same_bytes,
    _loading_again_changes_nothing,
    _one_image_is_encoded_as_in_a_batch,
    _other_pixels_other_features,
)
