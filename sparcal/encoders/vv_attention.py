"""AnomalyCLIP's local stream: attention of values to values, beside an untouched CLIP (Zhou et al., ICLR 2024).

From some block on two streams run. The original one, o, is CLIP itself. The local one, x, leaves it before that block
and then collects, block by block, what the block's own attention gives when queries and keys are replaced by values:

    x <- x + OutProj(softmax(v v^T / sqrt(d_head)) v),   v = values of LN1(o)

It has no feed-forward part and no normalisation of its own. Values attend to similar values, which keeps a patch
about its own place; the class token takes part in both streams.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention


def two_streams(visual: Any, tokens: Tensor, blocks: tuple[int, ...], *, vv_blocks: int) -> tuple[list[Tensor], Tensor]:
    """Tokens of the local stream after each of `blocks`, and of the original stream after the last block.

    Args:
        tokens: (n, 1 + h * w, d), before ln_pre.
        blocks: zero-based, all among the last `vv_blocks`.
        vv_blocks: the number of last blocks in which the local stream runs.
    """
    stack = list(visual.transformer.resblocks)
    start = len(stack) - vv_blocks
    original = visual.ln_pre(tokens)
    for block in stack[:start]:
        original = block(original)
    local = original
    layers = []
    for number, block in enumerate(stack[start:], start):
        local = local + block.ls_1(value_attention(block.attn, block.ln_1(original)))
        original = block(original)
        if number in blocks:
            layers.append(local)
    return layers, original


def value_attention(attention: Any, x: Tensor) -> Tensor:
    """The output of a multi-head attention whose queries and keys are its values.

    Args:
        attention: a `torch.nn.MultiheadAttention` with one input projection.
        x: (n, tokens, d), normalised.
    """
    d = attention.embed_dim
    values = linear(x, attention.in_proj_weight[2 * d :], attention.in_proj_bias[2 * d :])
    heads = torch.unflatten(values, -1, (attention.num_heads, -1)).transpose(1, 2)  # (n, heads, tokens, d_head)
    mixed = scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)
    out: Tensor = attention.out_proj(mixed)
    return out
