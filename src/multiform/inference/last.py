"""The last layer, of which little is read: no later layer needs the rest of its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

#: What models call their layers, and the part of a layer that works on each token for itself.
LAYERS = ("layers", "h")
FEED_FORWARD = "mlp"


@contextmanager
def read_at(model: PreTrainedModel, places: Tensor) -> Iterator[None]:
    """Within this context, the last layer's feed-forward part is computed at these places of a row alone."""
    part = _feed_forward(model)
    if part is None:
        yield
        return
    usual = part.forward
    own = vars(part).get("forward")  # weights that are moved for each pass have one that moves them

    def forward(states: Tensor, *arguments: Any, **options: Any) -> Any:
        some = usual(states[:, places], *arguments, **options)
        if not isinstance(some, Tensor):  # such as the weights of a mixture's experts beside the output
            return usual(states, *arguments, **options)
        output = torch.zeros_like(states)
        output[:, places] = some
        return output

    part.forward = forward
    try:
        yield
    finally:
        if own is None:
            del part.forward
        else:
            part.forward = own


def _feed_forward(model: PreTrainedModel) -> nn.Module | None:
    for name in LAYERS:
        layers = getattr(model.base_model, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            part = getattr(layers[-1], FEED_FORWARD, None)
            return part if isinstance(part, nn.Module) else None
    return None
