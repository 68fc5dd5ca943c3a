"""Forward passes of a plan: tokens of many sequences at once, each of which sees its own prefix only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from multiform.models.torch.attention import Attend, TreeAttention, attention, empty_mask
from multiform.models.torch.cache import KVCache, TransformersCache
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.logits import STABLE_ROWS, LMHead
from multiform.models.torch.plan import Branch, Pass
from multiform.models.torch.structure import sliding_window

#: Attributes in which models have their list of layers, and the feed-forward part of a layer.
LAYERS = ("layers", "h")
FEED_FORWARD = "mlp"


class Mode(Enum):
    """How forward passes are computed, from the fastest mode to the one that every model supports."""

    #: The model's layers with tree attention.
    TREE_ATTENTION = auto()
    #: The model's layers and attention, with a mask.
    MASKED = auto()


@dataclass(frozen=True, slots=True)
class Forward:
    """Runs forward passes on a model, in one mode."""

    head: LMHead
    mode: Mode

    def run(
        self,
        branches: Sequence[Branch],
        step: Pass,
        cache: KVCache,
        needed: NDArray[np.int64],
        base: int = 0,
    ) -> Tensor:
        """Run a pass; its keys and values are written to the cache, and the states at `needed` tokens are returned.

        The first `base` tokens of the cache are a prefix of all sequences, which the plan does not count.
        The states are what `LMHead.logits` takes.
        """
        model, device = self.head.model, device_of(self.head.model)
        tokens = np.concatenate(
            [np.frombuffer(branches[chunk.branch].tokens, np.int32)[chunk.start : chunk.stop] for chunk in step.chunks]
        )
        depths = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in step.chunks]) + base
        ids, positions = (to_device(torch.from_numpy(values).long()[None], device) for values in (tokens, depths))
        mask, padded = to_device(attention_mask(step, model.dtype, base), device), torch.from_numpy(_repeat_few(needed))
        longest = int(depths.max()) + 1
        if self.mode is Mode.MASKED:
            masks = self._model_masks(mask, positions[0], longest)
            inputs = {"attention_mask": masks, "past_key_values": TransformersCache(cache), "use_cache": True}
            with last_layer_at(model, padded):
                rows = torch.zeros_like(padded)
                states = self.head.hidden_states(rows, padded, input_ids=ids, position_ids=positions, **inputs)
            return states[: len(needed)]
        lengths = [chunk.stop - chunk.start for chunk in step.chunks]
        complete = [chunk.stop == len(branches[chunk.branch].tokens) for chunk in step.chunks]
        by_window: dict[int | None, TreeAttention] = {}

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
            if window not in by_window:
                by_window[window] = TreeAttention(
                    apply_window(mask, positions[0], window, longest)[0, 0], lengths, complete
                )
            return by_window[window](query, *cache.update(layer, key, value), scale)

        return self.run_with_attention(ids, positions, attend, padded)[: len(needed)]

    def _model_masks(self, mask: Tensor, depths: Tensor, longest: int) -> Tensor | dict[str, Tensor]:
        """The mask as a model's layers take it: one for each kind of layer where it has several."""
        config = self.head.model.config.get_text_config()
        window = sliding_window(config)
        if window is None:
            return mask
        masks = {"full_attention": mask, "sliding_attention": apply_window(mask, depths, window, longest)}
        return masks if getattr(config, "layer_types", None) else masks["sliding_attention"]

    def run_with_attention(
        self, ids: Tensor, positions: Tensor, attend: Attend, needed: Tensor | None = None
    ) -> Tensor:
        """Run a pass whose layers call `attend`; return the states at `needed` tokens of its one row.

        Without `needed`, every row has one token, and the states of all rows are returned.
        """
        model = self.head.model
        inputs = {"attention_mask": empty_mask(model), "use_cache": False}
        with attention(model, attend), last_layer_at(model, needed) if needed is not None else nullcontext():
            tokens = torch.zeros(len(ids), dtype=torch.long) if needed is None else needed
            rows = torch.arange(len(ids)) if needed is None else torch.zeros_like(needed)
            return self.head.hidden_states(rows, tokens, input_ids=ids, position_ids=positions, **inputs)


@contextmanager
def last_layer_at(model: PreTrainedModel, needed: Tensor) -> Iterator[None]:
    """Within this context, the last layer's feed-forward part is computed only at these tokens of a row.

    No later layer needs the rest of its output.
    """
    part = _last_feed_forward(model)
    if part is None:
        yield
        return
    original = part.forward
    instance_forward = vars(part).get("forward")  # set where weights are offloaded and moved for each pass

    def forward(states: Tensor, *arguments: Any, **options: Any) -> Any:
        computed = original(states[:, needed], *arguments, **options)
        if not isinstance(computed, Tensor):  # such as a mixture of experts, which returns router weights, too
            return original(states, *arguments, **options)
        output = torch.zeros_like(states)
        output[:, needed] = computed
        return output

    part.forward = forward
    try:
        yield
    finally:
        if instance_forward is None:
            del part.forward
        else:
            part.forward = instance_forward


def attention_mask(step: Pass, dtype: torch.dtype, base: int = 0) -> Tensor:
    """0 where a token of the pass sees a cache position, and minus infinity elsewhere; in four dimensions."""
    size = step.computed_tokens
    mask = torch.full((size, base + step.cached + size), float("-inf"), dtype=dtype)
    mask[:, :base] = 0
    causal = torch.full((size, size), float("-inf"), dtype=dtype).triu_(1)
    row = 0
    for chunk in step.chunks:
        length = chunk.stop - chunk.start
        lines = mask[row : row + length, base:]
        for span in chunk.prefix:
            lines[:, span.start : span.stop] = 0
        lines[:, step.cached + row : step.cached + row + length] = causal[:length, :length]
        row += length
    return mask[None, None]


def apply_window(mask: Tensor, depths: Tensor, window: int | None, longest: int) -> Tensor:
    """A mask in which a token of a pass, at its depth, sees the last `window` tokens of its sequence only.

    `longest` is the length of the longest sequence, which the host knows: asking the device for it would mean waiting.
    The positions of the cache before those of the pass hold one path, in the order of its depths.
    """
    cached = mask.shape[-1] - mask.shape[-2]
    if window is None or longest <= window:
        return mask
    key_depths = torch.cat([torch.arange(cached, device=depths.device), depths])
    return mask.masked_fill(key_depths <= depths[:, None] - window, float("-inf"))


def _repeat_few(needed: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices, repeated where they are few, so that matrix products round them as they round many."""
    return np.resize(needed, max(len(needed), STABLE_ROWS)) if len(needed) else needed


def _last_feed_forward(model: PreTrainedModel) -> nn.Module | None:
    for name in LAYERS:
        layers = getattr(model.base_model, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            part = getattr(layers[-1], FEED_FORWARD, None)
            return part if isinstance(part, nn.Module) else None
    return None
