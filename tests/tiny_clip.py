"""A CLIP small enough for tests, with every parameter random: biases and scales that were left at 0 or 1 hide errors."""

from __future__ import annotations

import open_clip
import torch
from torch import Tensor

from sparcal.encoders import parse_spec
from sparcal.encoders.openclip import OpenClipEncoder, from_openclip_model

WIDTH, CHANNELS, DEPTH, PATCH, SIZE, GRID = 32, 24, 4, 16, 64, 4
TEXT_WIDTH, TEXT_DEPTH = 16, 4

CONFIG = {
    "embed_dim": CHANNELS,
    "vision_cfg": {"layers": DEPTH, "width": WIDTH, "head_width": 8, "patch_size": PATCH, "image_size": SIZE},
    "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": TEXT_WIDTH, "heads": 2, "layers": TEXT_DEPTH},
}


def tiny_clip(*, quick_gelu: bool = False, size: int = SIZE) -> open_clip.CLIP:
    config = {**CONFIG, "vision_cfg": {**CONFIG["vision_cfg"], "image_size": size}}
    model = open_clip.CLIP(**config, quick_gelu=quick_gelu).eval().requires_grad_(False)
    random = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=random)
        scale = 0.3 if parameter.ndim < 2 else 2 * parameter[0].numel() ** -0.5
        parameter.copy_(noise * scale + (1.0 if "ln_" in name and name.endswith("weight") else 0.0))
    return model


def tiny_encoder(settings: str = "", *, model: open_clip.CLIP | None = None) -> OpenClipEncoder:
    spec = parse_spec(f"openclip:tiny/test{'?' if settings else ''}{settings}")
    return from_openclip_model(model or tiny_clip(), spec, weights_note="test")


def pixels(n: int = 2, size: int = SIZE, *, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(seed))
