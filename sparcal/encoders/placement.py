"""A network on its device and in its precision: pixels go in as its weights are, features come out in full width."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.devices import encoder_device
from sparcal.encoders.spec import ComputePrecision
from sparcal.types import Encoder


def place(model: nn.Module, device: torch.device, precision: ComputePrecision | None) -> None:
    """Take a network to a device, its weights and its arithmetic to a precision; None leaves float32."""
    model.to(device=device, dtype=None if precision is None else getattr(torch, precision))


def as_weights(model: nn.Module, pixels: Tensor) -> Tensor:
    """`pixels` on the device and in the precision of the network's weights."""
    weight = next(model.parameters())
    return pixels.to(weight.device, weight.dtype, non_blocking=True)


def widened(x: Tensor) -> Tensor:
    """`x` in float32 at least: what is fitted on features needs the digits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def on_processor(encoder: Encoder) -> Encoder:
    """The encoder, or a copy of it whose network is on the processor, where graphs are traced."""
    if encoder_device(encoder).type == "cpu":
        return encoder
    placed: Any = encoder  # one of ours: a dataclass around its network
    moved: Encoder = replace(placed, model=copy.deepcopy(placed.model).to("cpu"))
    return moved
