"""A device that computes on the processor but behaves like a graphics card, for machines without one.

Its tensors hold numbers, so that everything runs to its end and can be compared with the processor's result. As on a
card, tensors of two devices in one operation are refused (an index may lie on the processor), and numpy sees nothing of
it. What returns to the processor is noted in `returned`, so that a test can say what may.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map_only

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("torch cannot have a device written in Python yet", allow_module_level=True)

SPY = "spy"
COPIES = {torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default}
TAKE_AN_INDEX = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default, torch.ops.aten.index_put.default}

FEW = 64  # numbers that may be looked at to decide what to compute next

returned: list[int] = []  # numbers in each tensor that left the device


class SpyTensor(torch.Tensor):
    """A tensor on the spy device; `inner` has its numbers."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{SPY}:0",
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"SpyTensor({self.inner})"

    def tolist(self):
        assert self.numel() <= FEW, "a list of so many numbers is work done on the processor"
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        _refuse_two_devices(operation, args, kwargs)
        to_cpu = "device" in kwargs and kwargs["device"] is not None and torch.device(kwargs["device"]).type == "cpu"
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        plain_args, plain_kwargs = tree_map_only(SpyTensor, lambda x: x.inner, (args, kwargs))
        out = operation(*plain_args, **plain_kwargs)
        if any(isinstance(x, SpyTensor) and x.shape != x.inner.shape for x in tree_leaves((args, kwargs))):
            raise NotImplementedError(f"{operation} resizes a tensor, which the spy device cannot do")
        if operation is torch.ops.aten.copy_.default:
            if not isinstance(args[0], SpyTensor):
                returned.append(args[0].numel())
            return args[0]
        if to_cpu:
            returned.append(out.numel())
            return out
        return tree_map_only(torch.Tensor, SpyTensor, out)


def _refuse_two_devices(operation, args, kwargs):
    if operation in COPIES:
        return
    looked_at = (args[0], args[2:], kwargs) if operation in TAKE_AN_INDEX else (args, kwargs)
    elsewhere = [x for x in tree_leaves(looked_at) if isinstance(x, torch.Tensor) and not isinstance(x, SpyTensor)]
    if any(x.ndim > 0 for x in elsewhere):
        raise RuntimeError(f"{operation} needs all tensors on one device, got {SPY}:0 and cpu")


def _empty_strided(size, stride, *, dtype=None, **_):
    return SpyTensor(torch.empty_strided(size, stride, dtype=dtype))


def _empty(size, *, dtype=None, memory_format=None, **_):
    return SpyTensor(torch.empty(size, dtype=dtype, memory_format=memory_format or torch.contiguous_format))


def _copy_from(source, target, *_):
    source = source.inner if isinstance(source, SpyTensor) else source
    (target.inner if isinstance(target, SpyTensor) else target).copy_(source)
    return target


def _made_by(factory):
    """A factory whose own way, filling an empty tensor and resizing it, does not suit a tensor with numbers inside."""

    def make(*args, dtype=None, **_):
        return SpyTensor(factory(*args, dtype=dtype))

    return make


backend_registration._setup_privateuseone_for_python_backend(rename=SPY)
LIBRARY = torch.library.Library("aten", "IMPL")  # what is registered lives as long as this
LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
LIBRARY.impl("empty.memory_format", _empty, "PrivateUse1")
LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")
LIBRARY.impl(
    "tril_indices", _made_by(lambda *args, dtype: torch.tril_indices(*args, dtype=dtype or torch.long)), "PrivateUse1"
)
for overload in ("arange", "arange.start", "arange.start_step"):
    LIBRARY.impl(overload, _made_by(torch.arange), "PrivateUse1")
for overload in ("eye", "eye.m"):
    LIBRARY.impl(overload, _made_by(torch.eye), "PrivateUse1")
LIBRARY.impl("linspace", _made_by(torch.linspace), "PrivateUse1")

SPY_DEVICE = torch.device(SPY, 0)
