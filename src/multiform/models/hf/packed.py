"""Attention within a pass of a plan, without the products of tokens that do not see each other.

What all tokens of the pass see is one part, and what each block of them sees beside it another;
the parts are joined by the sums of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from multiform.plan import Pass

#: Tokens in a block, about: fewer means fewer products in vain, and more calls.
BLOCK = 64
#: A shorter common part is not worth a part of its own.
COMMON = 32


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens `start` to `stop` of a pass, and the columns that they see: of all, or of those that were put together."""

    start: int
    stop: int
    columns: slice
    together: bool
    mask: Tensor


def is_available(device: torch.device) -> bool:
    """Whether torch gives the sums of weights on that device."""
    return device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


class PackedAttention:
    """The attention of one pass, on `base` columns that all its tokens see beside those of the plan.

    `mask` is that of the whole pass.
    """

    def __init__(self, step: Pass, mask: Tensor, base: int) -> None:
        first = base + step.kept
        whole = min((piece.behind[0].stop if _begins(piece.behind) else 0) for piece in step.pieces)
        common = base + min(whole, step.kept)
        self.common = common if common >= COMMON else 0
        self.blocks: list[Block] = []
        together: list[Tensor] = []
        width = 0
        for start, stop, kept, later in _blocks(step):
            columns = slice(first + later, first + stop)
            seen = mask[start:stop, columns]
            split = base + kept > self.common
            if split:  # some of the kept columns, and some later ones
                some = torch.cat([torch.arange(self.common, base + kept), torch.arange(columns.start, columns.stop)])
                together.append(some)
                columns, seen = slice(width, width + len(some)), mask[start:stop, some]
                width += len(some)
            self.blocks.append(Block(start, stop, columns, split, seen))
        self.together = torch.cat(together) if together else None
        self.masks: dict[int, list[Tensor]] = {}

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        rows, heads, tokens, size = query.shape
        few, repeats = key.shape[1], heads // key.shape[1]
        # Queries that have one head of keys, such as those of one token, are rows of one matrix.
        query = query.reshape(rows, few, repeats, tokens, size).transpose(2, 3).contiguous()
        output = query.new_empty(rows, tokens, few, repeats, value.shape[-1])
        weights: list[Tensor] = []
        parts = key, value
        split = parts if self.together is None else tuple(part.index_select(2, self.together) for part in parts)
        for block, mask in zip(self.blocks, self._masks_for(repeats), strict=True):
            keys, values = (part[:, :, block.columns] for part in (split if block.together else parts))
            part, weight = _attention(query[:, :, block.start : block.stop], keys, values, scale, mask)
            output[:, block.start : block.stop] = part
            weights.append(weight)
        if self.common:
            before, weight = _attention(query, key[:, :, : self.common], value[:, :, : self.common], scale, None)
            output.lerp_(before, torch.sigmoid(weight - torch.cat(weights, 1))[..., None].to(output.dtype))
        return output.flatten(2, 3).transpose(1, 2)

    def _masks_for(self, repeats: int) -> list[Tensor]:
        """The blocks' masks for so many queries of each key, made once for all layers, which are mostly alike."""
        if repeats not in self.masks:
            self.masks[repeats] = [block.mask.repeat_interleave(repeats, 0)[None, None] for block in self.blocks]
        return self.masks[repeats]


def _attention(query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of the sum of weights, of queries by row, head of keys, token and query.

    Both come by row, token, head of keys and query, as the next product wants them.
    """
    output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.flatten(2, 3), key, value, attn_mask=mask, scale=scale
    )
    shape = query.shape[2:4]
    return output.unflatten(2, shape).transpose(1, 2), weight.unflatten(2, shape).transpose(1, 2)


def _begins(spans: tuple[tuple[int, int], ...]) -> bool:
    return bool(spans) and spans[0][0] == 0


def _blocks(step: Pass) -> Iterator[tuple[int, int, int, int]]:
    """Rows from and to, how many of the kept columns they see, and the first later one."""
    start = row = kept = later = 0
    for piece in step.pieces:
        length = piece.stop - piece.start
        seen = max((min(span.stop, step.kept) for span in piece.behind), default=0)
        columns = (max(span.start - step.kept, 0) for span in piece.behind if span.stop > step.kept)
        first = min(columns, default=row)
        if row > start and row + length - start > BLOCK:
            yield start, row, kept, later
            start, kept, later = row, seen, first
        kept, later = (max(kept, seen), min(later, first)) if row > start else (seen, first)
        row += length
        while row - start > 2 * BLOCK:  # a long piece, of which the first tokens do not see the last
            yield start, start + BLOCK, kept, later
            start += BLOCK
    if row > start:
        yield start, row, kept, later
