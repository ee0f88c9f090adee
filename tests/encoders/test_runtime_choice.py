"""`auto`: what is installed, faster and in agreement, with a sentence that says so."""

from __future__ import annotations

import time

import pytest
import torch

from sparcal.encoders import compiled as compiled_encoders
from sparcal.encoders import load_encoder, runtime_choice
from sparcal.encoders.compiled import CompiledEncoder
from sparcal.encoders.runtime_choice import choose_runtime
from tests.test_runtimes import without

RESNET = "timm:test_resnet.r160_in1k?resize=square&size=64"
IMAGES = list(torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)))


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(RESNET, weights="random:0", device="cpu")


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.fixture
def pretended(monkeypatch):
    """Compiled graphs that take so much processor time, and change features by so much, by runtime."""

    def pretend(**speeds):
        def compile_graph(network, _size, runtime, **_named):
            seconds, change = speeds[runtime]
            own = vars(network.encoder.model)["forward_intermediates"]

            def run(array):
                burn(seconds)
                network.encoder.model.forward_intermediates = quick
                try:
                    return [(x * (1 + change)).numpy() for x in network(torch.from_numpy(array))]
                finally:
                    network.encoder.model.forward_intermediates = own

            return run

        monkeypatch.setattr(compiled_encoders, "compile_graph", compile_graph)

    def slow(*given, **named):
        burn(0.02)
        return quick(*given, **named)

    model = load_encoder(RESNET, weights="random:0", device="cpu")
    quick = model.model.forward_intermediates
    model.model.forward_intermediates = slow
    return model, pretend


def test_the_fastest_that_agrees_is_taken(pretended):
    encoder, pretend = pretended
    pretend(openvino=(0.01, 0.0), onnx=(0.005, 0.0))
    choice = choose_runtime(encoder, IMAGES)
    assert choice.encoder.runtime == "onnx"
    assert choice.encoder.source is encoder
    assert choice.sentence.startswith("The encoder is computed by onnx: ")
    assert "by torch and" in choice.sentence
    assert "by openvino, features within 0 of torch's" in choice.sentence
    assert choice.sentence.count(". ") == 0


def test_what_does_not_agree_is_not_taken_however_fast(pretended):
    encoder, pretend = pretended
    pretend(openvino=(0.012, 0.0), onnx=(0.001, 0.01))
    assert choose_runtime(encoder, IMAGES).encoder.runtime == "openvino"
    pretend(openvino=(0.001, 0.01), onnx=(0.001, 0.01))
    choice = choose_runtime(encoder, IMAGES)
    assert choice.encoder is encoder
    assert choice.sentence.startswith(
        "The encoder is computed by torch: The features of a compiled encoder must be within"
    )


def test_what_is_hardly_faster_is_not_taken(pretended):
    encoder, pretend = pretended
    pretend(openvino=(0.021, 0.0), onnx=(0.05, 0.0))
    choice = choose_runtime(encoder, IMAGES)
    assert choice.encoder is encoder
    assert "ms of processor time per image, openvino 2" in choice.sentence


def test_nothing_installed_leaves_torch(monkeypatch, encoder):
    without(monkeypatch, "openvino", "onnxruntime")
    choice = choose_runtime(encoder, IMAGES)
    assert choice.encoder is encoder
    assert choice.sentence == "The encoder is computed by torch: neither OpenVINO nor onnxruntime is installed."


def test_what_cannot_be_compiled_stays_with_torch():
    half = load_encoder(RESNET, weights="random:0", device="cpu", precision="bfloat16")
    choice = choose_runtime(half, IMAGES)
    assert choice.encoder is half
    assert "a compiled one computes in float32, got the precision bfloat16" in choice.sentence


def test_loading_with_auto_measures_on_noise_of_the_input_size(monkeypatch):
    seen = []

    def first(encoder, images):
        seen.extend(image.shape for image in images)
        return runtime_choice.RuntimeChoice(CompiledEncoder(encoder, "onnx"), "")

    monkeypatch.setattr(runtime_choice, "choose_runtime", first)
    assert load_encoder(RESNET, weights="random:0", runtime="auto").id.endswith("&runtime=onnx")
    follows = load_encoder(
        "timm:test_resnet.r160_in1k?resize=short&size=70&multiple=32", weights="random:0", runtime="auto"
    )
    assert follows.preprocess.output_size is None
    assert seen == [(3, 64, 64), (3, 64, 64)]
