"""Models with code of their own, as checkpoints on the hub have it (`trust_remote_code`); each is odd in one way.

`CustomForCausalLM` is a small decoder whose `kind` says what is odd about it:

positions   counts positions by columns and ignores `position_ids`
alibi       biases attention by the distance of columns
window      sees the last 24 columns only, which no setting says
nocache     accepts a cache and never fills it
recurrent   passes a state of its own from token to token

`WindowedLlamaForCausalLM` has layers with the names of Llama's and a window of its own.
This file is copied into model folders, so it imports nothing from this package.
"""

# mypy: disable-error-code="misc, no-any-return, operator"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, LlamaConfig, LlamaForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicCache
from transformers.modeling_outputs import ModelOutput
from transformers.models.llama import modeling_llama

KINDS = ("positions", "alibi", "window", "nocache", "recurrent")
WINDOW = 24


class CustomConfig(PretrainedConfig):
    model_type = "zoo-custom"

    def __init__(self, kind: str = "positions", vocab_size: int = 400, hidden_size: int = 32, **options: Any) -> None:
        self.kind = kind
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = 2
        self.num_attention_heads = 4
        self.max_position_embeddings = 160
        self.use_cache = kind != "nocache"
        super().__init__(**options)


@dataclass
class CustomOutput(ModelOutput):
    logits: Tensor | None = None
    past_key_values: Any = None
    state: Tensor | None = None
    last_hidden_state: Tensor | None = None


class CustomLayer(nn.Module):
    def __init__(self, config: CustomConfig, number: int) -> None:
        super().__init__()
        self.config, self.number = config, number
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.up = nn.Linear(config.hidden_size, 2 * config.hidden_size, bias=False)
        self.down = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, states: Tensor, mask: Tensor | None, cache: DynamicCache | None) -> Tensor:
        heads = self.config.num_attention_heads
        parts = self.qkv(self.norm(states)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if cache is not None:
            key, value = cache.update(key, value, self.number)
        columns = torch.arange(key.shape[2])
        distance = columns[-query.shape[2] :, None] - columns
        hidden = (distance < 0)[None, None]
        if mask is not None:
            hidden = mask < 0 if mask.ndim == 4 else hidden | (mask[:, None, None] == 0)
        if self.config.kind == "window":
            hidden = hidden | (distance >= WINDOW)
        scores = query @ key.transpose(-1, -2) * key.shape[-1] ** -0.5
        if self.config.kind == "alibi":
            scores = scores - distance.abs() * torch.tensor([0.5, 0.1, 0.02, 0.004])[:, None, None]
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
        states = states + self.out((weights @ value).transpose(1, 2).flatten(2))
        return states + self.down(self.up(self.norm(states)).relu())


class CustomForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = CustomConfig
    main_input_name = "input_ids"
    _no_split_modules: ClassVar[list[str]] = ["CustomLayer"]

    def __init__(self, config: CustomConfig) -> None:
        super().__init__(config)
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList(CustomLayer(config, number) for number in range(config.num_hidden_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.tokens

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: DynamicCache | None = None,
        use_cache: bool | None = None,
        state: Tensor | None = None,
        **kwargs: Any,
    ) -> CustomOutput:
        if self.config.kind == "recurrent":
            return self._recurrent(input_ids, state)
        keeps = self.config.kind != "nocache" and (use_cache or past_key_values is not None)
        cache = (past_key_values if past_key_values is not None else DynamicCache()) if keeps else None
        start = cache.get_seq_length() if cache is not None else 0
        columns = torch.arange(start, start + input_ids.shape[1])
        if position_ids is None or self.config.kind == "positions":
            position_ids = columns[None]
        states = self.tokens(input_ids)
        if self.config.kind != "alibi":
            states = states + self.positions(position_ids)
        for layer in self.layers:
            states = layer(states, attention_mask, cache)
        return CustomOutput(logits=self.head(states), past_key_values=cache)

    def _recurrent(self, input_ids: Tensor, state: Tensor | None) -> CustomOutput:
        state = torch.zeros(len(input_ids), self.config.hidden_size) if state is None else state
        outputs = []
        for token in self.tokens(input_ids).unbind(1):
            state = 0.5 * state + torch.tanh(0.3 * self.layers[0].out(state) + token)
            outputs.append(state)
        return CustomOutput(logits=self.head(torch.stack(outputs, 1)), state=state)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, state: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        if self.config.kind == "recurrent":
            return {"input_ids": input_ids if state is None else input_ids[:, -1:], "state": state}
        inputs: dict[str, Any] = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return inputs

    def _update_model_kwargs_for_generation(self, outputs: Any, model_kwargs: Any, *others: Any, **options: Any) -> Any:
        model_kwargs["state"] = outputs.state
        return super()._update_model_kwargs_for_generation(outputs, model_kwargs, *others, **options)


class LlamaAttention(modeling_llama.LlamaAttention):
    def forward(
        self, hidden_states: Tensor, position_embeddings: Any, *_: Any, past_key_values: Any = None, **__: Any
    ) -> Any:
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = (
            project(hidden_states).view(shape).transpose(1, 2) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = modeling_llama.apply_rotary_pos_emb(query, key, *position_embeddings)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        key, value = (part.repeat_interleave(self.num_key_value_groups, 1) for part in (key, value))
        columns = torch.arange(key.shape[2])
        distance = columns[-query.shape[2] :, None] - columns
        hidden = (distance < 0) | (distance >= WINDOW)
        weights = (query @ key.transpose(-1, -2) * self.scaling).masked_fill(hidden, float("-inf")).softmax(-1)
        return self.o_proj((weights @ value).transpose(1, 2).flatten(2)), None


class LlamaDecoderLayer(modeling_llama.LlamaDecoderLayer):
    def __init__(self, config: LlamaConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.self_attn = LlamaAttention(config, layer_idx)


class LlamaModel(modeling_llama.LlamaModel):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, index) for index in range(config.num_hidden_layers))


class WindowedLlamaForCausalLM(LlamaForCausalLM):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.model = LlamaModel(config)
