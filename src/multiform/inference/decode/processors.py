"""What is ours where transformers decodes: which token a row gets next, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from multiform.inference.decode.generate import Row
from multiform.inference.sampling import choose


class Choosing:
    """Leaves of each row's scores the token that its request's sampling chooses.

    Tokens that were there before are those of the text, after those of its prompt where the model
    reads both as one: with an encoder, the prompt is not among them, but the decoder's first token is.
    """

    def __init__(self, rows: Sequence[Row], *, prompts: bool = True) -> None:
        self.rows = rows
        self.prompts = prompts

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        for ids, line, row in zip(input_ids, scores, self.rows, strict=True):
            if row.ended or (not row.sampling.temperature and row.sampling.repetition_penalty == 1.0):
                continue
            seen = torch.tensor(row.prompt + row.tokens, device=line.device) if self.prompts else ids
            token = choose(line.float(), seen, row.sampling, row.numbers)
            line.fill_(-torch.inf)
            line[token] = 0
        return scores


class Stopping:
    """Takes in each row's newest token, and says which rows have ended."""

    def __init__(self, rows: Sequence[Row], tokenizer: Any, ends: frozenset[int]) -> None:
        self.rows = rows
        self.tokenizer = tokenizer
        self.ends = ends

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        for row, token in zip(self.rows, input_ids[:, -1].tolist(), strict=True):
            if row.ended:
                continue
            if token in self.ends:
                row.ended = True
                continue
            row.tokens.append(token)
            row.ended = len(row.tokens) >= row.limit or self._has_stop(row)
        return torch.tensor([row.ended for row in self.rows], device=input_ids.device)

    def _has_stop(self, row: Row) -> bool:
        tail = str(self.tokenizer.decode(row.tokens[-row.stop_width :])) if row.stops else ""
        return any(stop in tail for stop in row.stops)
