"""Decoder layers of the common kind, computed with fewer trips to memory than transformers makes.

Between the matrix products of a small model, a tenth of a pass on a CPU goes into reading and writing what lies
between them. Here that is changed in place where transformers writes it anew; the numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from multiform.models.hf.attention import Attend
from multiform.models.hf.device import device_of

#: Layers that normalise, attend at rotated positions, add, normalise, gate and add, and do nothing else.
KINDS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer")
PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}


def are_common(model: PreTrainedModel) -> bool:
    """Whether a model's layers are of the common kind, as they were made, in float32 on a CPU."""
    layers = getattr(model.base_model, "layers", None)
    return (
        isinstance(layers, nn.ModuleList)
        and model.dtype == torch.float32
        and device_of(model).type == "cpu"
        and all(_is_common(layer) for layer in layers)
    )


def _is_common(layer: Any) -> bool:
    return (
        type(layer).__name__ in KINDS
        and dict(layer.named_children()).keys() == PARTS
        and isinstance(layer.mlp.act_fn, (nn.SiLU, SiLUActivation))
        # Weights that wait on a disk are brought by a forward of their own.
        and not any("forward" in vars(part) for part in layer.modules())
    )


@contextmanager
def lean_layers(model: PreTrainedModel, attend: Attend, places: Tensor | None = None) -> Iterator[None]:
    """Within this context the layers, which are of the common kind, are computed here.

    Where `places` are given, the last layer's output is right at these of the only row, and nowhere else.
    """
    layers: list[nn.Module] = list(model.base_model.layers)
    lean = _Lean(attend)
    for layer in layers:
        layer.forward = partial(lean.forward, layer, places if layer is layers[-1] else None)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class _Lean:
    """The layers of one pass."""

    def __init__(self, attend: Attend) -> None:
        self.attend = attend
        #: Cosines and sines of the positions, the same in every layer.
        self.angles: tuple[Tensor, Tensor] | None = None
        #: Normalised states, of which no two are needed at a time: memory that was just used is written fastest.
        self.normal = torch.empty(0)

    def forward(
        self, layer: Any, places: Tensor | None, states: Tensor, *, position_embeddings: Any, **_: Any
    ) -> Tensor:
        """What a layer makes of the states (row, token, dimension), which are changed."""
        part = layer.self_attn
        normal = self._normalised(states, layer.input_layernorm)
        query, key, value = (
            project(normal).unflatten(-1, (-1, part.head_dim)) for project in (part.q_proj, part.k_proj, part.v_proj)
        )
        query, key = self._turned(query, *position_embeddings), self._turned(key, *position_embeddings)
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        seen = self.attend(part.layer_idx, query, key, value, part.scaling)
        states.add_(part.o_proj(seen.transpose(1, 2).flatten(2)))
        if places is None:
            return self._fed_forward(states, layer)
        states[:, places] = self._fed_forward(states[:, places], layer)
        return states

    def _turned(self, states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Queries or keys (row, token, head, dimension), turned by their positions."""
        half = states.shape[-1] // 2
        if self.angles is None:
            signed = torch.cat([-sine[..., :half], sine[..., half:]], -1)
            self.angles = cosine[:, :, None], signed[:, :, None]
        cosine, signed = self.angles
        return states.roll(half, -1).mul_(signed).add_(states * cosine)

    def _fed_forward(self, states: Tensor, layer: Any) -> Tensor:
        """The states with the layer's feed-forward part added."""
        normal = self._normalised(states, layer.post_attention_layernorm)
        gate = silu(layer.mlp.gate_proj(normal), inplace=True).mul_(layer.mlp.up_proj(normal))
        return states.add_(layer.mlp.down_proj(gate))

    def _normalised(self, states: Tensor, norm: Any) -> Tensor:
        """The states divided by their root mean square."""
        if self.normal.shape != states.shape:
            self.normal = torch.empty_like(states)
        scale = torch.square(states, out=self.normal).mean(-1, keepdim=True).add_(norm.variance_epsilon).rsqrt_()
        return torch.mul(states, scale, out=self.normal).mul_(norm.weight)
