"""Attention within a pass of a plan, without the products of tokens that do not see each other.

What all tokens of the pass see is one part, and what each block of them sees beside it another;
the parts are joined by the sums of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

#: Tokens in a block of a long piece, about: fewer means fewer products in vain, and more calls.
BLOCK = 64
#: Pieces of so many tokens together are one block.
SHORT = 32
#: Columns whose weights torch adds at a time. Those of the last few it adds one by one, which is another sum.
STRIDE = 16
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
    """The attention of pieces, as a mask (token, column) has it, whose last columns are theirs.

    `lengths` tells how many tokens the pieces have, and `ended` whether their sequences end with them: where
    a sequence goes on, its weights are added as they would be with the rest of it.
    """

    def __init__(self, mask: Tensor, lengths: Sequence[int], ended: Sequence[bool]) -> None:
        seen = mask == 0
        earlier = seen[:, : mask.shape[1] - mask.shape[0]]
        common = int(earlier.all(0).long().cumprod(0).sum())
        self.common = common if common >= COMMON else 0
        self.blocks: list[Block] = []
        together: list[Tensor] = []
        width = 0
        for start, stop, last in _blocks(lengths, ended):
            some = self.common + seen[start:stop, self.common :].any(0).nonzero()[:, 0]
            visible, more = mask[start:stop, some], 0 if last else -len(some) % STRIDE
            columns = slice(int(some[0]), int(some[-1]) + 1)
            apart = columns.stop - columns.start > len(some) or more > 0
            if apart:
                together.append(pad(some, (0, more)))
                visible = pad(visible, (0, more), value=float("-inf"))
                columns = slice(width, width + len(some) + more)
                width = columns.stop
            self.blocks.append(Block(start, stop, columns, apart, visible))
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


def _blocks(lengths: Sequence[int], ended: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """Tokens from and to, and whether a sequence ends there.

    Short pieces are put together, and long ones cut, as their first tokens do not see the last.

    >>> list(_blocks([20, 10, 30, 200], [True, True, True, False]))
    [(0, 30, True), (30, 60, True), (60, 124, False), (124, 188, False), (188, 260, False)]
    """
    start = row = 0
    before = True
    for length, last in zip(lengths, ended, strict=True):
        if row > start and row + length - start > SHORT:
            yield start, row, before
            start = row
        row += length
        while row - start > 2 * BLOCK:
            yield start, start + BLOCK, False
            start += BLOCK
        before = last
    if row > start:
        yield start, row, before
