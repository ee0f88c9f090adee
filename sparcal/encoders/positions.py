"""Position embeddings on another grid than the one they were learned on: each host's authors resize them their own way."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from sparcal.encoders.spec import Positions
from sparcal.errors import EncoderNameError

# DINOv2's own network divides grids that are this much too large; its authors keep it because the weights know it.
DINOV2_OFFSET = 0.1


def resize_positions(table: Tensor, old: tuple[int, int], new: tuple[int, int], how: Positions) -> Tensor:
    """Position embeddings (1 + h * w, d) on another grid; the class token's stays.

    The ways are those of open_clip and timm, of MuSc, of AnomalyCLIP and of DINOv2, in the order of `Positions`.
    """
    if tuple(old) == tuple(new):
        return table
    cells = torch.unflatten(table[1:], 0, tuple(old)).permute(2, 0, 1)[None]  # (1, d, h, w)
    if how == "bicubic-offset":
        scale = ((new[0] + DINOV2_OFFSET) / old[0], (new[1] + DINOV2_OFFSET) / old[1])
        resized = interpolate(cells, scale_factor=scale, mode="bicubic", align_corners=False)
    else:
        mode = "bilinear" if how == "bilinear" else "bicubic"
        resized = interpolate(cells, size=new, mode=mode, align_corners=False, antialias=how == "bicubic-antialias")
    return torch.cat([table[:1], resized[0].flatten(1).mT])


def use_positions(model: nn.Module, how: Positions) -> None:
    """Let a timm vision transformer resize its position embeddings in another way than timm's own."""
    network: Any = model
    table = getattr(network, "pos_embed", None)
    plain = (
        isinstance(table, Tensor)
        and getattr(network, "dynamic_img_size", False)
        and getattr(network, "num_prefix_tokens", 0) == 1
        and not getattr(network, "no_embed_class", True)
    )
    if not plain:
        raise EncoderNameError(
            f"The encoder setting positions needs a timm vision transformer whose position table begins with a class "
            f"token, as DINOv2 without registers, got {type(model).__name__}: leave it out."
        )

    def embed(self: Any, x: Tensor) -> Tensor:
        n, h, w, d = x.shape
        resized = resize_positions(self.pos_embed[0], self.patch_embed.grid_size, (h, w), how)
        tokens = torch.cat([self.cls_token.expand(n, -1, -1), x.reshape(n, h * w, d)], dim=1)
        out: Tensor = self.pos_drop(tokens + resized)
        return out

    network._pos_embed = MethodType(embed, network)
