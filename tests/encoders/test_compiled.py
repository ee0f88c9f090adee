"""Encoders that OpenVINO and onnxruntime compute: PyTorch's features under another id, without PyTorch's network."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch

from sparcal.encoders import compiled as compiled_encoders
from sparcal.encoders import load_encoder
from sparcal.encoders.batchnorm import adapt_batchnorm
from sparcal.encoders.compiled import FEATURE_TOLERANCE, SIZES_KEPT, CompiledEncoder, largest_gap, torch_encoder
from sparcal.encoders.runtime_choice import compiled_by
from sparcal.encoders.timm import TimmEncoder
from sparcal.encoders.traced_graph import compile_graph
from sparcal.errors import DataError
from sparcal.testing import EncoderCase, encoder_checks
from sparcal.types import Features
from tests.support.tiny_clip import tiny_encoder

RUNTIMES = ("openvino", "onnx")
RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64&layers=8,16&aggregate=pool"
ENCODERS = {
    "bundled": "bundled?size=64",
    "convolutional": RESNET,
    "transformer": "timm:test_vit.r160_in1k?resize=square&size=64&cls=1",
}


def load(text, runtime=None):
    return load_encoder(text, weights=None if text.startswith("bundled") else "random:0", device="cpu", runtime=runtime)


@cache
def compiled(name, runtime):
    return load(ENCODERS[name], runtime)


def pixels(n=3, size=(64, 64), seed=0):
    return torch.randn(n, 3, *size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ENCODERS)
def test_features_are_those_of_torch_under_an_id_of_their_own(name, runtime):
    own, other = load(ENCODERS[name]), compiled(name, runtime)
    got, expected = other(pixels()), own(pixels())
    assert got.grids == expected.grids
    assert (got.cls is None) == (expected.cls is None)
    assert largest_gap(got, expected) < FEATURE_TOLERANCE / 4
    assert other.id == f"{own.id}&runtime={runtime}"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_clip_with_its_local_stream_is_compiled_too(runtime):
    encoder = tiny_encoder("resize=square&size=64&path=vv&layers=3&aggregate=levels&cls=1")
    other = CompiledEncoder(encoder, runtime)
    assert largest_gap(other(pixels()), encoder(pixels())) < FEATURE_TOLERANCE / 4


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_once_compiled_torch_computes_no_image(monkeypatch, runtime):
    encoder = compiled("convolutional", runtime)
    expected = encoder(pixels())
    monkeypatch.setattr(TimmEncoder, "__call__", lambda *_: pytest.fail("PyTorch's network was called"))
    assert torch.equal(encoder(pixels()).levels[0], expected.levels[0])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_threads_share_a_graph_and_get_the_same_bytes(runtime):
    encoder, images = compiled("convolutional", runtime), pixels(12).split(1)
    expected = [encoder(image).levels[0] for image in images]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda image: encoder(image).levels[0], images))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


CONTRACT = EncoderCase("compiled", lambda: compiled("transformer", "onnx"))


@pytest.mark.parametrize("check", [pytest.param(x, id=name) for name, x in encoder_checks(CONTRACT).items()])
def test_contract(check):
    check()


@pytest.fixture
def counted(monkeypatch):
    """Graphs that are the network itself, and the sizes that were compiled."""
    sizes = []

    def pretend(network, size, *_given, **_named):
        sizes.append(size)
        return lambda array: [out.numpy() for out in network(torch.from_numpy(array))]

    monkeypatch.setattr(compiled_encoders, "compile_graph", pretend)
    return sizes


def test_each_input_size_is_compiled_once_whoever_asks(counted):
    encoder = CompiledEncoder(load(RESNET), "onnx")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(encoder, [pixels(size=size) for size in [(64, 64), (64, 96)] * 4]))
    assert sorted(counted) == [(64, 64), (64, 96)]


@pytest.mark.usefixtures("counted")
def test_graphs_of_many_sizes_do_not_pile_up():
    encoder = CompiledEncoder(load(RESNET), "onnx")
    for side in range(SIZES_KEPT + 1):
        encoder(pixels(1, (32 + 32 * side, 32)))
    assert len(encoder._graphs) == SIZES_KEPT
    assert (32, 32) not in encoder._graphs


def test_a_graph_whose_features_are_not_those_of_torch_is_refused(monkeypatch):
    def rounded(network, *_given, **_named):
        return lambda array: [x.bfloat16().float().numpy() for x in network(torch.from_numpy(array))]

    monkeypatch.setattr(compiled_encoders, "compile_graph", rounded)
    with pytest.raises(
        DataError, match=r"must be within 0.0001 of PyTorch's, .*, got 0.0\d+ from .*: compute it with torch"
    ):
        CompiledEncoder(load(RESNET), "onnx")(pixels())


def test_the_gap_is_relative_to_the_scale_and_sees_the_image_vector():
    level, vector = pixels().permute(0, 2, 3, 1), torch.ones(3, 4)
    assert largest_gap(Features((100 * level + 1,), vector), Features((100 * level,), vector)) == pytest.approx(
        0.01, rel=0.02
    )
    assert largest_gap(Features((level,), vector + 1), Features((level,), vector)) == pytest.approx(1)


class Stubborn(torch.nn.Module):
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_network_that_cannot_be_traced_is_refused_in_one_sentence(runtime):
    with pytest.raises(DataError, match="The network cannot be exported: ") as refused:
        compile_graph(Stubborn(), (8, 8), runtime, of="The network")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_other_precisions_and_devices_are_refused(runtime):
    with pytest.raises(DataError, match=f"The runtime {runtime} computes in float32, got the precision bfloat16"):
        load_encoder(f"{RESNET}&precision=bfloat16", weights="random:0", runtime=runtime)
    with pytest.raises(DataError, match=rf"The runtime {runtime} computes on the processor, got the device meta"):
        load_encoder(RESNET, weights="random:0", runtime=runtime, device=torch.device("meta"))


def test_an_encoder_without_a_network_is_refused():
    class Plain:
        id = "plain"

    with pytest.raises(
        DataError, match="must have its network in `model`, got none there in plain with the runtime onnx"
    ):
        compiled_by(Plain(), "onnx")


def test_batch_norm_adaptation_needs_the_network_itself():
    with pytest.raises(DataError, match="adapt_batchnorm needs a timm encoder that torch computes, got .*runtime=onnx"):
        adapt_batchnorm(CompiledEncoder(load(RESNET), "onnx"), pixels())


def test_the_name_may_say_the_runtime_and_the_argument_goes_first():
    assert load(f"{RESNET}&runtime=onnx").id == load(RESNET, "onnx").id
    assert load(f"{RESNET}&runtime=onnx", "torch").id == load(RESNET).id == load(f"{RESNET}&runtime=torch").id
    with pytest.raises(DataError, match="There is no runtime 'tensorrt'"):
        load(RESNET, "tensorrt")
    with pytest.raises(DataError, match="The encoder setting runtime must be torch or openvino or onnx, got 'auto'"):
        load(f"{RESNET}&runtime=auto")


def test_the_encoder_in_torch_is_at_hand_for_exports():
    own = load(RESNET)
    assert torch_encoder(CompiledEncoder(own, "onnx")) is own
    assert torch_encoder(own) is own
