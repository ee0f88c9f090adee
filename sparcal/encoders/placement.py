"""A network on its device and in its precision: pixels go in as its weights are, features come out in full width."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sparcal.devices import AUTO_DEVICE, encoder_device, find_device
from sparcal.encoders.spec import ComputePrecision
from sparcal.errors import DataError
from sparcal.runtimes import AUTO_RUNTIME, TORCH
from sparcal.types import Encoder


def device_for(runtime: str, device: str | torch.device, precision: ComputePrecision | None = None) -> torch.device:
    """Where an encoder computes that a runtime computes: a compiled one in float32 on the processor, which `auto` then means."""
    if runtime in (TORCH, AUTO_RUNTIME):
        return find_device(device)
    found = torch.device("cpu") if device == AUTO_DEVICE else find_device(device)
    if found.type != "cpu":
        raise DataError(
            f"The runtime {runtime} computes on the processor, got the device {found}: leave one of them out."
        )
    if precision not in (None, "float32"):
        raise DataError(
            f"The runtime {runtime} computes in float32, got the precision {precision}: leave one of them out."
        )
    return found


def place(model: nn.Module, device: torch.device, precision: ComputePrecision | None) -> None:
    """Take a network to a device, its weights and its arithmetic to a precision; None leaves float32.

    On a processor the weights of convolutions are laid out channels last, which these then work in: a fifth less time.
    """
    model.to(device=device, dtype=None if precision is None else getattr(torch, precision))
    if device.type == "cpu":
        model.to(memory_format=torch.channels_last)


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
