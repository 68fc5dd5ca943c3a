"""The decoder layers of common models, computed in place.

Between the matrix products of a small model, a tenth of a forward pass on a CPU goes into writing intermediate
tensors. Here they are changed in place where transformers allocates new ones; the numbers are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from multiform.models.torch.attention import Attend
from multiform.models.torch.device import device_of
from multiform.models.torch.trial.structure import LIBRARIES, is_library_class, sliding_window

#: Models that embed tokens, run layers and normalise, and do nothing else.
MODELS = ("LlamaModel", "MistralModel", "Qwen2Model")
PARTS = {"embed_tokens", "layers", "norm", "rotary_emb"}
#: Layers that normalise, attend with rotary positions, add, normalise, gate and add, and do nothing else.
LAYERS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer")
LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
#: What these consist of, beside torch's own modules and the adapters that stand for them.
LAYER_CLASSES = ("Attention", "MLP", "RMSNorm", "RotaryEmbedding", "SiLUActivation")


def has_standard_layers(model: PreTrainedModel) -> bool:
    """Whether `run_layers` can run a model: one of the common kinds, unmodified, in float32 on a CPU."""
    base = model.base_model
    return (
        type(base).__name__ in MODELS
        and dict(base.named_children()).keys() == PARTS
        and len(base.layers) == base.config.num_hidden_layers
        and sliding_window(base.config) is None
        and model.dtype == torch.float32
        and device_of(model).type == "cpu"
        and all(_is_standard(layer) for layer in base.layers)
        and all(_is_unmodified(part) and _is_standard_class(part) for part in base.modules())
    )


def _is_standard(layer: Any) -> bool:
    return (
        type(layer).__name__ in LAYERS
        and dict(layer.named_children()).keys() == LAYER_PARTS
        and isinstance(layer.mlp.act_fn, (nn.SiLU, SiLUActivation))
    )


def _is_standard_class(part: nn.Module) -> bool:
    """Whether a module is of the very class of transformers: custom code may have one of the same name."""
    name = type(part).__name__
    is_standard = name in (*MODELS, *LAYERS) or name.endswith(LAYER_CLASSES)
    return is_library_class(part) if is_standard else type(part).__module__.partition(".")[0] in LIBRARIES


def _is_unmodified(part: nn.Module) -> bool:
    """Whether a module has neither hooks nor a forward of its own, as modules with offloaded weights have."""
    hooks = part._forward_hooks or part._forward_pre_hooks
    # Linear and embedding modules are called by `run_layers`, with their hooks.
    return "forward" not in vars(part) and (not hooks or isinstance(part, (nn.Linear, nn.Embedding)))


def run_layers(model: PreTrainedModel, ids: Tensor, positions: Tensor, attend: Attend, needed: Tensor | None) -> Tensor:
    """The last hidden states of tokens (row, token) in a model with standard layers.

    With `needed`, there is one row, and only the hidden states at these of its tokens are returned.
    """
    base: Any = model.base_model
    states = base.embed_tokens(ids)
    layers = _Layers(attend, *base.rotary_emb(states, positions))
    for layer in base.layers[:-1]:
        states = layers.run(layer, states)
    return layers.normalise(layers.run(base.layers[-1], states, needed), base.norm)


class _Layers:
    """The layers in one forward pass, with the cosines and sines of its positions."""

    def __init__(self, attend: Attend, cosine: Tensor, sine: Tensor) -> None:
        self.attend = attend
        half = sine.shape[-1] // 2
        self.cosine = cosine[:, :, None]
        self.sine = torch.cat([-sine[..., :half], sine[..., half:]], -1)[:, :, None]
        #: The buffer of normalised states, of which one is needed at once: recently used memory is fastest.
        self.normalised = torch.empty(0)

    def run(self, layer: Any, states: Tensor, needed: Tensor | None = None) -> Tensor:
        """A layer's output for hidden states (row, token, dimension), which are overwritten; or for some of them."""
        part = layer.self_attn
        normalised = self.normalise(states, layer.input_layernorm)
        query, key, value = (
            project(normalised).unflatten(-1, (-1, part.head_dim))
            for project in (part.q_proj, part.k_proj, part.v_proj)
        )
        query, key, value = (projected.transpose(1, 2) for projected in (self._rotate(query), self._rotate(key), value))
        attended = self.attend(part.layer_idx, query, key, value, part.scaling, None).transpose(1, 2).flatten(2)
        if needed is not None:
            states, attended = states[:, needed], attended[:, needed]
        states.add_(part.o_proj(attended))
        normalised = self.normalise(states, layer.post_attention_layernorm)
        gate = silu(layer.mlp.gate_proj(normalised), inplace=True).mul_(layer.mlp.up_proj(normalised))
        return states.add_(layer.mlp.down_proj(gate))

    def normalise(self, states: Tensor, norm: Any) -> Tensor:
        """The states divided by their root mean square (RMSNorm)."""
        if self.normalised.shape != states.shape:
            self.normalised = torch.empty_like(states)
        scale = torch.square(states, out=self.normalised).mean(-1, keepdim=True).add_(norm.variance_epsilon).rsqrt_()
        return torch.mul(states, scale, out=self.normalised).mul_(norm.weight)

    def _rotate(self, states: Tensor) -> Tensor:
        """Queries or keys (row, token, head, dimension) with rotary positions applied."""
        return states.roll(states.shape[-1] // 2, -1).mul_(self.sine).add_(states * self.cosine)
