"""What must hold for every encoder: one list of checks, run over a list of cases.

A new encoder joins by one more `EncoderCase` in tests/encoders/test_contract.py; a new truth by one more function in
`ENCODER_CHECKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sparcal.imaging.preprocess import Preprocess
from sparcal.types import Encoder, Features
from tests.support.contracts import tensors


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
        return torch.randn(n, 3, *self.size, generator=torch.Generator().manual_seed(seed))

    def features(self) -> Features:
        return self.encoder()(self.pixels())


def keeps_the_protocol(case: EncoderCase) -> None:
    encoder = case.encoder()
    assert isinstance(encoder, Encoder)
    assert isinstance(encoder.preprocess, Preprocess)
    assert encoder.preprocess.output_size in (None, case.size)


def the_id_is_stable_and_one_line(case: EncoderCase) -> None:
    first, second = case.encoder().id, case.encoder().id
    assert first == second
    assert first
    assert "\n" not in first


def grids_are_channels_last_and_finite(case: EncoderCase) -> None:
    encoder = case.encoder()
    features = encoder(case.pixels())
    assert len(features) == 3
    assert all(torch.isfinite(x).all() and x.is_floating_point() for x in tensors(features))
    h, w, _ = features.grids[0]
    assert (h * encoder.cell_pixels, w * encoder.cell_pixels) == case.size


def features_carry_no_gradient(case: EncoderCase) -> None:
    assert not any(x.requires_grad for x in tensors(case.features()))


def pixels_stay_unchanged(case: EncoderCase) -> None:
    pixels = case.pixels()
    before = pixels.clone()
    case.encoder()(pixels)
    assert torch.equal(pixels, before)


def same_pixels_same_bytes(case: EncoderCase) -> None:
    encoder = case.encoder()
    first, second = encoder(case.pixels()), encoder(case.pixels())
    assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))


def loading_again_changes_nothing(case: EncoderCase) -> None:
    for a, b in zip(tensors(case.features()), tensors(case.features()), strict=True):
        assert torch.equal(a, b)


def one_image_is_encoded_as_in_a_batch(case: EncoderCase) -> None:
    encoder, pixels = case.encoder(), case.pixels()
    together = encoder(pixels)
    for i in range(len(pixels)):
        for got, expected in zip(tensors(encoder(pixels[i : i + 1])), tensors(together[i]), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def other_pixels_other_features(case: EncoderCase) -> None:
    encoder = case.encoder()
    assert not torch.equal(encoder(case.pixels(seed=1)).levels[0], encoder(case.pixels()).levels[0])


ENCODER_CHECKS: tuple[Callable[[EncoderCase], None], ...] = (
    keeps_the_protocol,
    the_id_is_stable_and_one_line,
    grids_are_channels_last_and_finite,
    features_carry_no_gradient,
    pixels_stay_unchanged,
    same_pixels_same_bytes,
    loading_again_changes_nothing,
    one_image_is_encoded_as_in_a_batch,
    other_pixels_other_features,
)
