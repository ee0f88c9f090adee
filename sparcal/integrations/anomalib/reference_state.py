"""The tensors of a model's reference: taken out, and put back."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from sparcal.integrations.anomalib.adapters import Adapter

ReferenceState = dict[str, Any]  # tensors, or lists of them, by their dotted names in the torch model


def reference_state(model: Any, adapter: Adapter | None) -> ReferenceState:
    """What the model judges by now; nothing for a model whose trained side stays as it is."""
    names = () if adapter is None else adapter.state
    return {name: attrgetter(name)(model.model) for name in names}


def put_reference(model: Any, state: ReferenceState) -> None:
    """Let the model judge by `state`, on the device where its weights are."""
    device = next(model.model.parameters()).device
    for name, value in state.items():
        owner, _, attribute = name.rpartition(".")
        moved = [x.to(device) for x in value] if isinstance(value, list) else value.to(device)
        setattr(model.model.get_submodule(owner), attribute, moved)
