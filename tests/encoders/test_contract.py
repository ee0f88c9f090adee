"""Every kind of encoder against the one list of contract checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparcal.encoders import load_encoder
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.types import Encoder
from tests.support.encoder_checks import ENCODER_CHECKS, EncoderCase
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
    ("case", "check"),
    [pytest.param(case, check, id=f"{case.name}-{check.__name__}") for case in CASES for check in ENCODER_CHECKS],
)
def test_contract(case: EncoderCase, check: Callable[[EncoderCase], None]) -> None:
    check(case)
