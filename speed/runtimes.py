"""Compiled encoders against torch: time to encode one image, from pixels to features, each on one thread.

The bundled EfficientNet-Lite0 at 256 x 256 and WideResNet-50-2 with random weights at 224 x 224, by torch, OpenVINO and
onnxruntime. Compiling is not timed; the note says what it takes. A goal stands where the encoder is the bundled one.
"""

from __future__ import annotations

import time

import numpy as np

from speed.measure import Cost, Goal, Row, Work, measure

IMAGES = 4
BUNDLED = ("bundled?size={size}", None, 256)
WIDE_RESNET = (
    "timm:wide_resnet50_2.tv_in1k?layers=8,16&aggregate=patchcore&resize=square&size={size}",
    "random:0",
    224,
)
QUICK_SIZE = 64
NAMES = {"openvino": "OpenVINO", "onnx": "onnxruntime"}


def encode_images(text: str, weights: str | None, runtime: str) -> Work:
    """Encode the same images one by one; the outcome is their features, and the CPU seconds before the first were there."""
    import torch

    from sparcal import load_encoder

    encoder = load_encoder(text, weights=weights, device="cpu", runtime=runtime)
    size = encoder.preprocess.output_size
    assert size is not None
    pixels = torch.randn(IMAGES, 3, *size, generator=torch.Generator().manual_seed(0))

    def run() -> np.ndarray:
        with torch.inference_mode():
            return np.concatenate([encoder(image[None]).levels[0].numpy().ravel() for image in pixels])

    started = time.process_time()
    run()
    first = time.process_time() - started
    return Work(run, lambda features: np.append(features, first))


def compare(title: str, text: str, weights: str | None, *, repeats: int, goal: Goal | None) -> list[Row]:
    from sparcal.encoders.compiled import FEATURE_TOLERANCE

    torch_cost, expected = measure(encode_images, text, weights, "torch", repeats=repeats)
    found = []
    for runtime, name in NAMES.items():
        cost, out = measure(encode_images, text, weights, runtime, repeats=repeats)
        gap = float(np.abs(out[:-1] - expected[:-1]).max() / np.sqrt(np.square(expected[:-1]).mean()))
        compiling = out[-1] - cost.cpu_s
        found.append(
            Row(
                path=f"encode one image, {title}, {name}",
                peer="torch",
                ours=cost.times(1 / IMAGES),
                theirs=torch_cost.times(1 / IMAGES),
                measured=torch_cost.cpu_s / cost.cpu_s,
                goal=goal,
                agree=gap <= FEATURE_TOLERANCE,
                agreement=f"features differ by {gap:.0e} of their root mean square",
                note=f"{_milliseconds(cost):.1f} ms against {_milliseconds(torch_cost):.1f} ms of CPU per image; "
                f"{compiling:.1f} s to compile, once per process.",
            )
        )
    return found


def rows(*, quick: bool = False) -> list[Row]:
    """The rows of the speed table."""
    repeats = 2 if quick else 5
    goals = {BUNDLED: None if quick else Goal(2, "faster"), WIDE_RESNET: None}
    found = []
    for title, side in (("EfficientNet-Lite0", BUNDLED), ("WideResNet-50-2", WIDE_RESNET)):
        text, weights, size = side
        chosen = QUICK_SIZE if quick else size
        found += compare(
            f"{title}, {chosen} x {chosen}", text.format(size=chosen), weights, repeats=repeats, goal=goals[side]
        )
    return found


def _milliseconds(cost: Cost) -> float:
    return 1e3 * cost.cpu_s / IMAGES
