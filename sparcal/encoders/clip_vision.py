"""The vision tower of an open_clip model, taken apart into functions: embedding, positions, tokens, windows.

Tokens are (n, 1 + h * w, d), the class token first. open_clip's transformer takes them in this order since 3.0; ports
that put the tokens on the first axis, as older versions wanted, let different windows attend to each other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparcal.encoders.positions import resize_positions
from sparcal.encoders.spec import Positions, Tokens
from sparcal.errors import ShapeError

# Windows go through the transformer in one call per size, up to this many tokens, which bounds its activations.
TOKENS_AT_ONCE = 32_768


def embed(visual: Any, pixels: Tensor, positions: Positions) -> tuple[Tensor, tuple[int, int]]:
    """Tokens with their position embeddings, before ln_pre, and the grid (h, w) they stand on.

    Args:
        pixels: (n, 3, H, W), H and W multiples of the patch size.
    """
    side = visual.patch_size[0]
    if pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.shape[2] % side or pixels.shape[3] % side:
        raise ShapeError(
            f"A CLIP encoder needs pixels (n, 3, H, W) with H and W multiples of its patch size {side}, "
            f"got {tuple(pixels.shape)}: preprocess images with encoder.preprocess."
        )
    patches = visual.conv1(pixels)  # (n, d, h, w)
    grid = (patches.shape[2], patches.shape[3])
    first = visual.class_embedding.to(patches.dtype).expand(pixels.shape[0], 1, -1)
    tokens = torch.cat([first, patches.flatten(2).mT], dim=1)
    table = resize_positions(visual.positional_embedding, visual.grid_size, grid, positions)
    return tokens + table.to(tokens.dtype), grid


def standard_stream(visual: Any, tokens: Tensor, blocks: tuple[int, ...], *, last: bool) -> tuple[list[Tensor], Tensor]:
    """Tokens after each of `blocks` as CLIP itself computes them, and the tokens that the transformer ends on.

    Args:
        tokens: before ln_pre.
        last: run to the end; else stop after the last of `blocks`.
    """
    run: Any = visual.transformer.forward_intermediates
    end, layers = run(visual.ln_pre(tokens), indices=list(blocks), stop_early=not last)
    return layers, end


def read_tokens(visual: Any, x: Tensor, tokens: Tokens) -> Tensor:
    """`x` as the transformer left it, normalised by ln_post, or projected into the space of texts as well."""
    if tokens == "raw":
        return x
    normalised: Tensor = visual.ln_post(x)
    return normalised if tokens == "ln_post" else normalised @ visual.proj


def window_embeddings(visual: Any, tokens: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """The image embedding of each window of side x side cells on its own, (n, h - side + 1, w - side + 1, c).

    The class token and the window's patches, each with the position embedding of its place in the whole image, go
    through all of the transformer; the class token's output is normalised and projected (WinCLIP, section 4.1).

    Args:
        tokens: before ln_pre.
    """
    h, w = grid
    if not 1 <= side <= min(h, w):
        raise ShapeError(
            f"Windows of {side} x {side} cells must fit the grid, got one of {h} x {w}: use smaller windows or a larger size."
        )
    members = window_members(grid, side)
    per_image = members.numel()
    step = max(1, TOKENS_AT_ONCE // per_image)
    parts = [_embed_windows(visual, part[:, members.to(part.device)]) for part in torch.split(tokens, step)]
    return torch.unflatten(torch.cat(parts), 1, (h - side + 1, w - side + 1))


def window_members(grid: tuple[int, int], side: int) -> Tensor:
    """Token numbers of each window, row by row: (windows, 1 + side * side), the class token first."""
    h, w = grid
    cells = torch.arange(1, 1 + h * w).view(h, w)
    windows = cells.unfold(0, side, 1).unfold(1, side, 1).flatten(2).flatten(0, 1)
    return torch.cat([torch.zeros(len(windows), 1, dtype=torch.long), windows], dim=1)


def _embed_windows(visual: Any, windows: Tensor) -> Tensor:
    n = windows.shape[0]
    end = visual.transformer(visual.ln_pre(windows.flatten(0, 1)))  # (n * windows, 1 + side * side, d)
    return torch.unflatten(read_tokens(visual, end[:, 0], "projected"), 0, (n, -1))
