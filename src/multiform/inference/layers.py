"""Models with layers of the common kind, run with less work than transformers does.

Between the matrix products of a small model, a tenth of a pass on a CPU goes into reading and writing what lies
between them. Here that is changed in place where transformers writes it anew; the numbers are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation

from multiform.inference.attention import Attend
from multiform.inference.device import device_of

#: Models that embed tokens, run layers and normalise, and do nothing else.
MODELS = ("LlamaModel", "MistralModel", "Qwen2Model")
PARTS = {"embed_tokens", "layers", "norm", "rotary_emb"}
#: Layers that normalise, attend at rotated positions, add, normalise, gate and add, and do nothing else.
LAYERS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer")
LAYER_PARTS = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}


def are_common(model: PreTrainedModel) -> bool:
    """Whether a model's layers are of the common kind, as they were made, in float32 on a CPU."""
    base = model.base_model
    return (
        type(base).__name__ in MODELS
        and dict(base.named_children()).keys() == PARTS
        and len(base.layers) == base.config.num_hidden_layers
        and model.dtype == torch.float32
        and device_of(model).type == "cpu"
        and all(_is_common(layer) for layer in base.layers)
        and all(_is_untouched(part) for part in base.modules())
    )


def _is_common(layer: Any) -> bool:
    return (
        type(layer).__name__ in LAYERS
        and dict(layer.named_children()).keys() == LAYER_PARTS
        and isinstance(layer.mlp.act_fn, (nn.SiLU, SiLUActivation))
    )


def _is_untouched(part: nn.Module) -> bool:
    """Whether nobody has given a part a forward of its own, as weights have that wait on a disk, or hooks."""
    hooks = part._forward_hooks or part._forward_pre_hooks
    # Those of products and embeddings are called here as well.
    return "forward" not in vars(part) and (not hooks or isinstance(part, (nn.Linear, nn.Embedding)))


def run_layers(model: PreTrainedModel, ids: Tensor, positions: Tensor, attend: Attend, places: Tensor | None) -> Tensor:
    """What a model of the common kind makes of tokens (row, token), before the projection onto the vocabulary.

    Where places are given, there is one row, and these of its tokens alone are given back.
    """
    base: Any = model.base_model
    states = base.embed_tokens(ids)
    layers = _Layers(attend, *base.rotary_emb(states, positions))
    for layer in base.layers[:-1]:
        states = layers.run(layer, states)
    return layers.normalised(layers.run(base.layers[-1], states, places), base.norm)


class _Layers:
    """The layers of one pass, whose positions have these cosines and sines."""

    def __init__(self, attend: Attend, cosine: Tensor, sine: Tensor) -> None:
        self.attend = attend
        half = sine.shape[-1] // 2
        self.cosine = cosine[:, :, None]
        self.sine = torch.cat([-sine[..., :half], sine[..., half:]], -1)[:, :, None]
        #: Normalised states, of which no two are needed at a time: memory that was just used is written fastest.
        self.normal = torch.empty(0)

    def run(self, layer: Any, states: Tensor, places: Tensor | None = None) -> Tensor:
        """What a layer makes of the states (row, token, dimension), which are changed, or of some of them."""
        part = layer.self_attn
        normal = self.normalised(states, layer.input_layernorm)
        query, key, value = (
            project(normal).unflatten(-1, (-1, part.head_dim)) for project in (part.q_proj, part.k_proj, part.v_proj)
        )
        query, key, value = (one.transpose(1, 2) for one in (self._turned(query), self._turned(key), value))
        seen = self.attend(part.layer_idx, query, key, value, part.scaling).transpose(1, 2).flatten(2)
        if places is not None:
            states, seen = states[:, places], seen[:, places]
        states.add_(part.o_proj(seen))
        normal = self.normalised(states, layer.post_attention_layernorm)
        gate = silu(layer.mlp.gate_proj(normal), inplace=True).mul_(layer.mlp.up_proj(normal))
        return states.add_(layer.mlp.down_proj(gate))

    def normalised(self, states: Tensor, norm: Any) -> Tensor:
        """The states divided by their root mean square."""
        if self.normal.shape != states.shape:
            self.normal = torch.empty_like(states)
        scale = torch.square(states, out=self.normal).mean(-1, keepdim=True).add_(norm.variance_epsilon).rsqrt_()
        return torch.mul(states, scale, out=self.normal).mul_(norm.weight)

    def _turned(self, states: Tensor) -> Tensor:
        """Queries or keys (row, token, head, dimension), turned by their positions."""
        return states.roll(states.shape[-1] // 2, -1).mul_(self.sine).add_(states * self.cosine)
