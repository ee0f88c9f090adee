"""Where numbers are computed: this machine's processor, or a graphics card by name.

`auto` is the first NVIDIA (or ROCm) card that PyTorch can use, else the processor. Apple's cards are taken by name only:
they have no float64, so the encoder alone runs on them, and features return to the processor for the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sparcal.errors import DataError

if TYPE_CHECKING:
    import torch

AUTO_DEVICE = "auto"
CARD_BATCH = 16  # images that a graphics card encodes at a time

_settings = threading.Lock()


def find_device(name: str | torch.device = AUTO_DEVICE) -> torch.device:
    """The device that a name means, or a DataError where this machine has none such.

    Args:
        name: auto, cpu, cuda, cuda:1 or mps; a `torch.device` is taken as it is.
    """
    import torch

    if isinstance(name, torch.device):
        return name
    if not isinstance(name, str):
        raise DataError(
            f"A device must be a name or a torch.device, got a {type(name).__name__}: leave it out for auto."
        )
    if name == AUTO_DEVICE:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    kind, colon, number = name.partition(":")
    if name not in ("mps", "cpu") and (kind != "cuda" or bool(colon) != number.isdecimal()):
        raise DataError(f"There is no device {name!r}; choose from {AUTO_DEVICE}, cpu, cuda, cuda:NUMBER, mps.")
    if name == "mps" and not torch.backends.mps.is_available():
        raise _not_here(name, "an Apple processor whose graphics PyTorch can use, got a machine without one")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(number or 0) >= count:
            got = f"cuda:0 to cuda:{count - 1} only" if count else "none on this machine"
            raise _not_here(name, f"a graphics card that PyTorch can use, got {got}")
        return torch.device("cuda", int(number or 0))
    return torch.device(name)


def encoder_device(encoder: object) -> torch.device:
    """Where an encoder computes; the processor for one that does not say."""
    import torch

    device = getattr(encoder, "device", None)
    return device if isinstance(device, torch.device) else torch.device("cpu")


def float64_device(device: torch.device) -> torch.device:
    """Where features that were computed on `device` are corrected and searched: there, unless it has no float64."""
    import torch

    return torch.device("cpu") if device.type == "mps" else device


@contextmanager
def full_float32(device: torch.device) -> Iterator[None]:
    """Let convolutions on a card keep all digits of float32, and give the same digits every time.

    cuDNN otherwise rounds to 10 bits of mantissa. Its settings hold for the whole process, so one thread at a time has them.
    """
    if device.type != "cuda":
        yield
        return
    import torch

    with _settings, torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


def _not_here(name: str, expected: str) -> DataError:
    return DataError(f"The device {name} needs {expected}: choose cpu, or auto for what there is.")
