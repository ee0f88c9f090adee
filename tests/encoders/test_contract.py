"""Every kind of encoder against the one list of contract checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparcal.encoders import load_encoder
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.testing import EncoderCase, encoder_checks
from sparcal.types import Encoder
from tests.support.tiny_clip import tiny_encoder

RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64"


def timm(text: str) -> Callable[[], Encoder]:
    return lambda: load_encoder(text, weights="random:0")


def adapted() -> Encoder:
    encoder = timm(RESNET)()
    return adapt_batchnorm(encoder, EncoderCase("", timm(RESNET)).pixels(4, seed=9), source_weight=16)


CASES = (
    EncoderCase("bundled", lambda: load_encoder("bundled?resize=square&size=64")),
    EncoderCase("convolutional", timm(RESNET)),
    EncoderCase("convolutional-levels", timm(f"{RESNET}&layers=8,16&aggregate=levels&cls=1")),
    EncoderCase("transformer", timm("timm:test_vit.r160_in1k?resize=square&size=64&cls=1")),
    EncoderCase("open-clip", lambda: tiny_encoder("resize=square&size=64&layers=2&aggregate=levels&cls=1")),
    EncoderCase("batch-norm-adapted", adapted),
)


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, id=f"{case.name}-{name}") for case in CASES for name, check in encoder_checks(case).items()],
)
def test_contract(check: Callable[[], None]) -> None:
    check()
