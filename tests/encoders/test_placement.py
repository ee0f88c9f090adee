"""A network on its device and in its precision."""

from __future__ import annotations

import pytest
import torch

from sparcal.encoders import load_encoder
from sparcal.encoders.placement import as_weights, on_processor, place, widened
from sparcal.errors import DataError
from sparcal.testing import EncoderCase
from tests.support.spy_device import SPY_DEVICE
from tests.support.tiny_clip import tiny_encoder

RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64"
PIXELS = EncoderCase("", lambda: load_encoder(RESNET)).pixels()


def load(precision=None, text=RESNET):
    return load_encoder(text, weights="random:0", device="cpu", precision=precision)


def test_half_precision_is_part_of_the_id_and_features_leave_in_full_width():
    full, half = load(), load("bfloat16")
    assert half.id == full.id.replace("&weights=", "&precision=bfloat16&weights=")
    assert next(half.model.parameters()).dtype == torch.bfloat16
    got, expected = half(PIXELS).levels[0], full(PIXELS).levels[0]
    assert got.dtype == torch.float32
    gap = (got - expected).norm() / expected.norm()
    assert 0 < gap < 0.05


def test_the_text_may_name_the_precision_and_the_argument_goes_first():
    assert load(text=f"{RESNET}&precision=bfloat16").id == load("bfloat16").id
    assert load("float32", text=f"{RESNET}&precision=bfloat16").id == load().id


def test_float32_goes_unsaid_so_that_it_has_one_id():
    assert load("float32").id == load().id == load(text=f"{RESNET}&precision=float32").id
    assert "precision" not in load().id


def test_an_unknown_precision_is_refused():
    with pytest.raises(DataError, match=r"precision must be one of float32, bfloat16, float16.*got 'half'"):
        load("half")


def test_clip_computes_in_half_precision_too():
    encoder = tiny_encoder("resize=square&size=64&layers=2&aggregate=levels&cls=1")
    expected = encoder(PIXELS)
    place(encoder.model, torch.device("cpu"), "bfloat16")
    got = encoder(PIXELS)
    assert got.levels[0].dtype == got.cls.dtype == torch.float32
    assert (got.levels[0] - expected.levels[0]).norm() < 0.05 * expected.levels[0].norm()
    assert encoder.encode_text(["a part"]).dtype == torch.float32


def test_pixels_follow_the_weights():
    network = torch.nn.Linear(2, 2).to(torch.float16)
    assert as_weights(network, torch.ones(1, 2)).dtype == torch.float16


def test_nothing_wide_is_narrowed():
    assert widened(torch.ones(1, dtype=torch.float64)).dtype == torch.float64
    assert widened(torch.ones(1, dtype=torch.bfloat16)).dtype == torch.float32


def test_a_graph_is_traced_from_a_copy_on_the_processor():
    encoder = load()
    assert on_processor(encoder) is encoder
    expected = encoder(PIXELS).levels[0]
    encoder.model.to(SPY_DEVICE)
    copied = on_processor(encoder)
    assert encoder.device == SPY_DEVICE
    assert torch.equal(copied(PIXELS).levels[0], expected)
