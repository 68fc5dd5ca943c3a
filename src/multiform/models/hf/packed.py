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
    """Tokens `start` to `stop` of a pass, and the columns that they see: some of the kept ones and some later ones."""

    start: int
    stop: int
    kept: slice
    later: slice
    mask: Tensor

    def columns(self, tensor: Tensor) -> Tensor:
        later = tensor[:, :, self.later]
        return torch.cat([tensor[:, :, self.kept], later], 2) if self.kept.start < self.kept.stop else later


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
        for start, stop, kept, later in _blocks(step):
            kept_columns = slice(self.common, max(self.common, base + kept))
            later_columns = slice(first + later, first + stop)
            lines = mask[start:stop]
            seen = torch.cat([lines[:, kept_columns], lines[:, later_columns]], 1)
            self.blocks.append(Block(start, stop, kept_columns, later_columns, seen))
        self.masks: dict[int, list[Tensor]] = {}

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        rows, heads, tokens, _ = query.shape
        few = key.shape[1]
        # Several heads of queries have one of keys. A token's outputs lie together, as the next product wants them.
        output = query.new_empty(rows, tokens, few, heads // few, value.shape[-1])
        weights: list[Tensor] = []
        for block, mask in zip(self.blocks, self._masks_for(heads // few), strict=True):
            asked = query[:, :, block.start : block.stop]
            part, weight = _attention(asked, block.columns(key), block.columns(value), scale, mask)
            output[:, block.start : block.stop] = part
            weights.append(weight)
        if self.common:
            before, weight = _attention(query, key[:, :, : self.common], value[:, :, : self.common], scale, None)
            output.lerp_(before, torch.sigmoid(weight - torch.cat(weights, 1))[..., None].to(output.dtype))
        return output.flatten(2, 3).transpose(1, 2)

    def _masks_for(self, repeats: int) -> list[Tensor]:
        """The blocks' masks for so many queries of each key, made once for all layers, which are mostly alike."""
        if repeats not in self.masks:
            self.masks[repeats] = [block.mask.repeat(repeats, 1)[None, None] for block in self.blocks]
        return self.masks[repeats]


def _attention(query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of the sum of weights; both by row, token, head of keys and query of that head."""
    rows, _, tokens, size = query.shape
    few = key.shape[1]
    # Heads of queries with the same keys become rows of one matrix.
    output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.reshape(rows, few, -1, size), key, value, attn_mask=mask, scale=scale
    )
    shape = (rows, few, -1, tokens)
    return output.view(*shape, output.shape[-1]).permute(0, 3, 1, 2, 4), weight.view(shape).permute(0, 3, 1, 2)


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
