"""Tree attention, installed as the model's attention function.

In a forward pass of a plan, each token sees its own prefix only. Instead of computing all products and
masking most of them, the tokens are attended to in blocks: the positions that all tokens of the pass see are one part,
and the other positions that a block sees are another. The two are combined by the sums of their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import AttentionInterface, PreTrainedModel

from multiform.models.torch.plan import Pass

#: The name under which transformers knows the attention function of this module.
NAME = "multiform"
#: Options that some models pass to their attention, which this one does not support.
UNSUPPORTED = ("softcap", "s_aux", "sinks", "position_bias", "head_mask")

#: Tokens in a block of a long chunk, about: fewer means fewer masked products, and more calls.
BLOCK = 64
#: Chunks of up to that many tokens together are one block.
SHORT = 32
#: Positions whose weights torch sums in one step. It sums the remaining few one by one, which rounds differently.
STRIDE = 16
#: A shorter common prefix is not worth attending to separately.
COMMON = 32

#: An attention function: from the number of a layer, its queries, keys and values (row, head, token, dimension),
#: the scale of their products and the layer's sliding window, if it has one, to the output, with the same dimensions.
Attend: TypeAlias = Callable[[int, Tensor, Tensor, Tensor, float, int | None], Tensor]

_attend: ContextVar[Attend] = ContextVar("attend")


@contextmanager
def attention(model: PreTrainedModel, attend: Attend) -> Iterator[None]:
    """Within this context, the model's layers call `attend`."""
    config = model.config.get_text_config()
    previous = config._attn_implementation
    token = _attend.set(attend)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = previous
        _attend.reset(token)


def _forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any
) -> tuple[Tensor, None]:
    if any(options.get(name) is not None for name in UNSUPPORTED):
        raise NotImplementedError("this kind of attention")
    scaling = options.get("scaling")
    scale = float(scaling) if scaling is not None else query.shape[-1] ** -0.5
    layer: int = module.layer_idx  # type: ignore[assignment]
    output = _attend.get()(layer, query, key, value, scale, options.get("sliding_window"))
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _forward)


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens `start` to `stop` of a pass, and the cache positions that they see.

    `positions` index the whole cache, or, where `is_gathered`, the positions that were copied together.
    """

    start: int
    stop: int
    positions: slice
    is_gathered: bool
    mask: Tensor


class TreeAttention:
    """Attention in one pass of a plan, equal to attention with a mask (token, cache position).

    `lengths` are the lengths of the pass's chunks, and `complete` says whether a chunk ends its sequence: where
    a sequence goes on, its weights are summed as they would be with the rest of it.
    """

    def __init__(self, mask: Tensor, lengths: Sequence[int], complete: Sequence[bool]) -> None:
        is_visible = mask == 0
        cached = is_visible[:, : mask.shape[1] - mask.shape[0]]
        common = int(cached.all(0).long().cumprod(0).sum())
        self.common = common if common >= COMMON else 0
        self.blocks: list[Block] = []
        gathered: list[Tensor] = []
        width = 0
        for start, stop, is_complete in _blocks(lengths, complete):
            visible = self.common + is_visible[start:stop, self.common :].any(0).nonzero()[:, 0]
            block_mask, padding = mask[start:stop, visible], 0 if is_complete else -len(visible) % STRIDE
            positions = slice(int(visible[0]), int(visible[-1]) + 1)
            is_gathered = positions.stop - positions.start > len(visible) or padding > 0
            if is_gathered:
                gathered.append(pad(visible, (0, padding)))
                block_mask = pad(block_mask, (0, padding), value=float("-inf"))
                positions = slice(width, width + len(visible) + padding)
                width = positions.stop
            self.blocks.append(Block(start, stop, positions, is_gathered, block_mask))
        self.gathered = torch.cat(gathered) if gathered else None
        self.masks: dict[int, list[Tensor]] = {}

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        rows, heads, tokens, size = query.shape
        kv_heads, repeats = key.shape[1], heads // key.shape[1]
        # Queries that share a head of keys, such as those of one token, are rows of one matrix.
        query = query.reshape(rows, kv_heads, repeats, tokens, size).transpose(2, 3).contiguous()
        output = query.new_empty(rows, tokens, kv_heads, repeats, value.shape[-1])
        weights: list[Tensor] = []
        keys_values = key, value
        gathered = (
            keys_values if self.gathered is None else tuple(part.index_select(2, self.gathered) for part in keys_values)
        )
        for block, mask in zip(self.blocks, self._masks_for(repeats), strict=True):
            keys, values = (part[:, :, block.positions] for part in (gathered if block.is_gathered else keys_values))
            part, weight = _attention(query[:, :, block.start : block.stop], keys, values, scale, mask)
            output[:, block.start : block.stop] = part
            weights.append(weight)
        if self.common:
            common, weight = _attention(query, key[:, :, : self.common], value[:, :, : self.common], scale, None)
            output.lerp_(common, torch.sigmoid(weight - torch.cat(weights, 1))[..., None].to(output.dtype))
        return output.flatten(2, 3).transpose(1, 2)

    def _masks_for(self, repeats: int) -> list[Tensor]:
        """The blocks' masks for that many queries of each key; made once, as most layers have the same number."""
        if repeats not in self.masks:
            self.masks[repeats] = [block.mask.repeat_interleave(repeats, 0)[None, None] for block in self.blocks]
        return self.masks[repeats]


def _attention(query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of the sum of weights, of queries (row, head of keys, token, query).

    Both are returned as (row, token, head of keys, query), which is how the next product needs them.
    """
    output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.flatten(2, 3), key, value, attn_mask=mask, scale=scale
    )
    shape = query.shape[2:4]
    return output.unflatten(2, shape).transpose(1, 2), weight.unflatten(2, shape).transpose(1, 2)


def _blocks(lengths: Sequence[int], complete: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """The first and last token of each block, and whether a sequence ends there.

    Short chunks are put into one block, and long ones are cut, as their first tokens do not see the last.

    >>> list(_blocks([20, 10, 30, 200], [True, True, True, False]))
    [(0, 30, True), (30, 60, True), (60, 124, False), (124, 188, False), (188, 260, False)]
    """
    start = stop = 0
    was_complete = True
    for length, is_complete in zip(lengths, complete, strict=True):
        if stop > start and stop + length - start > SHORT:
            yield start, stop, was_complete
            start = stop
        stop += length
        while stop - start > 2 * BLOCK:
            yield start, start + BLOCK, False
            start += BLOCK
        was_complete = is_complete
    if stop > start:
        yield start, stop, was_complete


def attention_mask(step: Pass, dtype: torch.dtype) -> Tensor:
    """0 where a token of the pass sees a cache position, and minus infinity elsewhere; in four dimensions."""
    size = step.computed_tokens
    mask = torch.full((size, step.cached + size), float("-inf"), dtype=dtype)
    causal = torch.full((size, size), float("-inf"), dtype=dtype).triu_(1)
    row = 0
    for chunk in step.chunks:
        length = chunk.stop - chunk.start
        lines = mask[row : row + length]
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
