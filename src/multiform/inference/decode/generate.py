"""Text after a prompt: batched decoding in which every row ends on its own."""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.inference.counters import Counters
from multiform.inference.decode.batch import DecodeState, decode_state, has_plain_cache
from multiform.inference.decode.shared import SharedState
from multiform.inference.limits import READ_TOKENS, Limits, attempt, halved
from multiform.inference.plan import Cost, families, plan
from multiform.inference.planner import Planner
from multiform.inference.sampling import Sampling, choose
from multiform.requests import Completion, Response


@dataclass(slots=True, kw_only=True)
class Row:
    """One text in the making: what was asked for, and the tokens so far.

    The first `prefix` tokens of the prompt are those of other rows as well.
    """

    index: int
    prompt: list[int]
    limit: int
    stops: tuple[str, ...]
    sampling: Sampling
    numbers: random.Random
    prefix: int = 0
    tokens: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def room(self) -> int:
        """How many tokens the row has for itself when it is as long as it may be."""
        return len(self.prompt) - self.prefix + self.limit

    @property
    def stop_width(self) -> int:
        """How many last tokens can hold a stop string that ends in the newest one.

        A token has at least one byte; a few more make up for characters cut at the window's edge.
        """
        return max((len(stop.encode()) for stop in self.stops), default=0) + 4


def generate(
    planner: Planner,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    limits: Limits,
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each row, as soon as it is there.

    A row leaves the batch at its own stop string, end token or limit, and another takes its
    place.
    """
    run = Run(planner, tokenizer, rows, limits, counters)
    while run.waiting or run.rows:
        if not attempt(run.advance):
            run.shrink()
        while run.finished:
            row = run.finished.popleft()
            yield row.index, completion(tokenizer, row)


def read_cost(planner: Planner, rows: Sequence[Row]) -> Cost | None:
    """What reading the prompts costs; None where they cannot share prefixes."""
    if not planner.can_write(_longest(rows)):
        return None
    prompts = [array("i", row.prompt) for row in rows]
    return plan(prompts, [len(prompt) - 1 for prompt in prompts], size=planner.size, budget=planner.budget).cost


def in_families(rows: Sequence[Row], budget: int) -> list[Row]:
    """The rows in an order that has those with a common prefix together, each with the prefix's length."""
    ordered = sorted(rows, key=lambda row: row.prompt)
    prefixes = families([array("i", row.prompt) for row in ordered])
    return [replace(row, prefix=min(prefix, budget)) for row, prefix in zip(ordered, prefixes, strict=True)]


class Run:
    """The rows that are decoded, those that wait and those that are done."""

    def __init__(
        self,
        planner: Planner,
        tokenizer: PreTrainedTokenizerBase,
        rows: Sequence[Row],
        limits: Limits,
        counters: Counters,
    ) -> None:
        model = planner.head.model
        self.tokenizer = tokenizer
        self.end_tokens = end_tokens(model, tokenizer)
        self.rows: list[Row] = []
        self.finished: deque[Row] = deque()
        self.new_state: Callable[[], DecodeState]
        if planner.can_write(_longest(rows)):
            self.limits = replace(limits, tokens=min(limits.tokens, planner.room))
            self.waiting = deque(in_families(rows, planner.budget))
            self.new_state = partial(SharedState, planner.passes, counters, size=planner.size)
        else:
            self.limits = limits if has_plain_cache(model) else Limits(1, limits.tokens)
            # The longest first: if memory is short, that shows at once.
            self.waiting = deque(sorted(rows, key=lambda row: (-len(row.prompt), row.prompt)))
            self.new_state = partial(decode_state, model, counters)
        self.state = self.new_state()

    @torch.inference_mode()
    def advance(self) -> bool:
        """Give every row its next token, set aside those that are done, and take in waiting ones."""
        if self.rows:
            self._extend(self.rows, self.state.step([row.tokens[-1] for row in self.rows]))
        if newcomers := self._newcomers():
            # The rows are in the batch before the model reads them: running out of memory loses none.
            self.rows += newcomers
            prompts = [row.prompt + row.tokens for row in newcomers]
            self._extend(newcomers, self.state.admit(prompts, [row.prefix for row in newcomers]))
        return True

    def shrink(self) -> None:
        """Put all rows back with the tokens they have, to go on with half as many at a time."""
        longest = max(row.room for row in self.rows)
        self.limits = halved(self.limits, len(self.rows), longest)
        self.waiting.extendleft(reversed(self.rows))
        self.rows = []
        self.state = self.new_state()

    def _newcomers(self) -> list[Row]:
        """Waiting rows for the free places, once there are enough of these to be worth a pass."""
        if not self.waiting:
            return []
        longest = max(row.room for row in [self.waiting[0], *self.rows])
        places = self.limits.fit(longest)
        free = places - len(self.rows)
        if self.rows and free < max(1, places // 4):
            return []
        readable = max(1, READ_TOKENS // self.waiting[0].room)
        return [self.waiting.popleft() for _ in range(min(free, readable, len(self.waiting)))]

    def _extend(self, rows: Sequence[Row], logits: Tensor) -> None:
        best = logits.argmax(-1).tolist()
        for row, line, likeliest in zip(rows, logits, best, strict=True):
            token = likeliest
            if row.sampling.temperature or row.sampling.repetition_penalty != 1.0:
                seen = torch.tensor(row.prompt + row.tokens, device=line.device)
                token = choose(line, seen, row.sampling, row.numbers)
            if token in self.end_tokens:
                row.ended = True
                continue
            row.tokens.append(token)
            row.ended = len(row.tokens) >= row.limit or self._has_stop(row)
        self._set_aside()

    def _has_stop(self, row: Row) -> bool:
        if not row.stops:
            return False
        tail = str(self.tokenizer.decode(row.tokens[-row.stop_width :]))
        return any(stop in tail for stop in row.stops)

    def _set_aside(self) -> None:
        ended = [row for row in self.rows if row.ended]
        if ended:
            self.state.keep([index for index, row in enumerate(self.rows) if not row.ended])
            self.rows = [row for row in self.rows if not row.ended]
            self.finished.extend(ended)


def _longest(rows: Sequence[Row]) -> int:
    return max((len(row.prompt) + row.limit for row in rows), default=0)


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's, and those of the model's generation config."""
    own = getattr(model.generation_config, "eos_token_id", None)
    listed = own if isinstance(own, list) else [own]
    return frozenset(token for token in [tokenizer.eos_token_id, *listed] if isinstance(token, int))


def completion(tokenizer: PreTrainedTokenizerBase, row: Row) -> Completion:
    """A finished row's text up to its first stop string."""
    text = str(tokenizer.decode(row.tokens, skip_special_tokens=True))
    whole = str(tokenizer.decode(row.tokens))
    stopped = any(stop in whole or stop in text for stop in row.stops)
    ends = [text.find(stop) for stop in row.stops if stop in text]
    full = len(row.tokens) >= row.limit
    return Completion(text[: min(ends)] if ends else text, truncated=full and not stopped)
