"""A CLIP small enough for tests, and its attention written as loops.

Every parameter is random: biases and scales that were left at 0 or 1 would hide errors.
"""

from __future__ import annotations

import math
from typing import Any

import open_clip
import torch
from torch import Tensor

from sparcal.encoders import parse_spec
from sparcal.encoders.openclip import OpenClipEncoder, from_openclip_model

WIDTH, CHANNELS, DEPTH, PATCH, SIZE, GRID = 32, 24, 4, 16, 64, 4
TEXT_WIDTH, TEXT_DEPTH = 16, 4

CONFIG: dict[str, Any] = {
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


def slow_attention(attention, x, *, values_only):
    """Multi-head attention over one (tokens, d) sequence, head by head and token by token."""
    d, heads = attention.embed_dim, attention.num_heads
    width = d // heads
    projected = x @ attention.in_proj_weight.T + attention.in_proj_bias
    q, k, v = projected[:, :d], projected[:, d : 2 * d], projected[:, 2 * d :]
    if values_only:
        q = k = v
    out = torch.zeros_like(x)
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for i in range(len(x)):
            logits = [float(q[i, part] @ k[j, part]) / math.sqrt(width) for j in range(len(x))]
            weights = torch.tensor(logits).softmax(dim=0)
            out[i, part] = sum(weights[j] * v[j, part] for j in range(len(x)))
    return out @ attention.out_proj.weight.T + attention.out_proj.bias


def slow_two_streams(visual, image, start):
    """Local tokens after each block from `start` on, and the original class token after the last."""
    patches = visual.conv1(image[None])[0].flatten(1).T
    tokens = torch.cat([visual.class_embedding[None], patches]) + visual.positional_embedding
    original = visual.ln_pre(tokens)
    local, after = None, {}
    for number, block in enumerate(visual.transformer.resblocks):
        if number == start:
            local = original.clone()
        if number >= start:
            local = local + slow_attention(block.attn, block.ln_1(original), values_only=True)
            after[number] = local
        original = original + slow_attention(block.attn, block.ln_1(original), values_only=False)
        original = original + block.mlp(block.ln_2(original))
    return after, original[0]
