"""Completions by continuous batching: a sequence leaves the batch when it is finished, and the next takes its place."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from multiform.models.torch.batching import halved, run_in_memory
from multiform.models.torch.decode.alone import generate_alone
from multiform.models.torch.decode.batch import DecodeBatch, PaddedBatch, UncachedBatch
from multiform.models.torch.decode.shared import SharedPrefixBatch
from multiform.models.torch.generation_config import has_processors, logits_processors
from multiform.models.torch.limits import PREFILL_TOKENS, Limits
from multiform.models.torch.plan import Cost, plan, shared_prefixes
from multiform.models.torch.planner import Decoding, Planner
from multiform.models.torch.sampling import next_token
from multiform.models.torch.sequences import Generation, end_tokens
from multiform.models.usage import Counters
from multiform.requests import Completion, Response
from multiform.stopping import stop_requested


def generate(
    planner: Planner,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    limits: Limits,
    counters: Counters,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence, as soon as it is finished.

    When a stop is requested, those that are running are decoded to their end.
    """
    if not generations:
        return
    decoding = planner.decoding(_longest(generations))
    planner.warn_about_decoding(decoding, _longest(generations))
    if decoding in (Decoding.RESUMED, Decoding.ALONE):
        resumes = decoding is Decoding.RESUMED
        ordered = _grouped_by_prefix(generations, planner.state_budget) if resumes else generations
        yield from generate_alone(planner.head.model, tokenizer, ordered, counters)
        return
    scheduler = _Scheduler(planner, tokenizer, generations, limits, counters, decoding)
    while scheduler.running or (scheduler.waiting and not stop_requested()):
        if not run_in_memory(scheduler.step):
            scheduler.shrink()
        while scheduler.finished:
            generation = scheduler.finished.popleft()
            counters.count_completion(len(generation.tokens))
            yield generation.index, generation.completion(tokenizer)


def prefill_cost(planner: Planner, generations: Sequence[Generation]) -> Cost | None:
    """The cost of prefilling the prompts; None where they cannot share prefixes."""
    decoding = planner.decoding(_longest(generations))
    planner.warn_about_decoding(decoding, _longest(generations))
    if decoding is not Decoding.SHARED:
        return None
    prompts = [array("i", generation.prompt) for generation in generations]
    last = [len(prompt) - 1 for prompt in prompts]
    return plan(prompts, last, size=planner.pass_size, budget=planner.budget).cost


def _grouped_by_prefix(generations: Sequence[Generation], budget: int) -> list[Generation]:
    """The sequences sorted so that those with a common prefix are together, each with the prefix's length."""
    ordered = sorted(generations, key=lambda generation: generation.prompt)
    prefixes = shared_prefixes([array("i", generation.prompt) for generation in ordered])
    return [
        replace(generation, prefix=min(prefix, budget)) for generation, prefix in zip(ordered, prefixes, strict=True)
    ]


class _Scheduler:
    """The sequences that are running, those that are waiting and those that are finished."""

    def __init__(
        self,
        planner: Planner,
        tokenizer: PreTrainedTokenizerBase,
        generations: Sequence[Generation],
        limits: Limits,
        counters: Counters,
        decoding: Decoding,
    ) -> None:
        model = planner.head.model
        self.model = model
        self.tokenizer = tokenizer
        self.has_processors = has_processors(model.generation_config)
        self.end_tokens = end_tokens(model.generation_config, tokenizer)
        self.running: list[Generation] = []
        self.finished: deque[Generation] = deque()
        self.new_batch: Callable[[], DecodeBatch]
        if decoding is Decoding.SHARED:
            self.limits = replace(limits, tokens=min(limits.tokens, planner.decode_tokens))
            self.waiting = deque(_grouped_by_prefix(generations, planner.budget))
            self.new_batch = partial(SharedPrefixBatch, planner.forward, counters, size=planner.pass_size)
        else:
            self.limits = limits if decoding is Decoding.PADDED else Limits(1, limits.tokens)
            # The longest first: if memory is short, that shows at once.
            self.waiting = deque(
                sorted(generations, key=lambda generation: (-len(generation.prompt), generation.prompt))
            )
            self.new_batch = partial(PaddedBatch if decoding is Decoding.PADDED else UncachedBatch, model, counters)
        self.batch: DecodeBatch = self.new_batch()

    @torch.inference_mode()
    def step(self) -> bool:
        """Decode one token of every running sequence, and prefill waiting ones where there is room."""
        if self.running:
            last_tokens = [generation.tokens[-1] for generation in self.running]
            self._append(self.running, self.batch.decode(last_tokens))
        if admitted := self._admit():
            # They are running before they are prefilled: if memory runs out, none is lost.
            self.running += admitted
            prompts = [generation.prompt + generation.tokens for generation in admitted]
            self._append(admitted, self.batch.prefill(prompts, [generation.prefix for generation in admitted]))
        return True

    def shrink(self) -> None:
        """Return all running sequences to the queue with their tokens, to continue with half the batch size."""
        longest = max(generation.max_own_tokens for generation in self.running)
        self.limits = halved(self.limits, len(self.running), longest)
        self.waiting.extendleft(reversed(self.running))
        self.running = []
        self.batch = self.new_batch()

    def _admit(self) -> list[Generation]:
        """Waiting sequences for the free rows, once there are enough of these to be worth a forward pass."""
        if not self.waiting or stop_requested():
            return []
        longest = max(generation.max_own_tokens for generation in [self.waiting[0], *self.running])
        rows = self.limits.fit(longest)
        free = rows - len(self.running)
        if self.running and free < max(1, rows // 4):
            return []
        prefillable = max(1, PREFILL_TOKENS // self.waiting[0].max_own_tokens)
        return [self.waiting.popleft() for _ in range(min(free, prefillable, len(self.waiting)))]

    def _append(self, generations: Sequence[Generation], logits: Tensor) -> None:
        # One copy to the host for all sequences; token ids are exact in float64.
        best = torch.stack([column.double() for column in logits.max(-1)], -1).tolist()
        for generation, line, (logit, likeliest) in zip(generations, logits, best, strict=True):
            token = int(likeliest)
            if not self.has_processors:
                generation.check(logit)
            if self.has_processors or not generation.sampling.is_argmax:
                previous = torch.tensor(generation.prompt + generation.tokens, device=line.device)
                if self.has_processors:
                    line = self._processed(generation, previous, line)
                    generation.check(float(line.max()))
                if not generation.failed:
                    token = next_token(line, previous, generation.sampling, generation.rng)
            generation.append(token, self.tokenizer, self.end_tokens)
        self._remove_finished()

    def _processed(self, generation: Generation, previous: Tensor, logits: Tensor) -> Tensor:
        """The logits after the processors that the model's generation config asks for."""
        if generation.processors is None:
            generation.processors = logits_processors(self.model, generation.prompt, generation.limit)
        processed: Tensor = generation.processors(previous[None], logits[None])[0]
        return processed

    def _remove_finished(self) -> None:
        finished = [generation for generation in self.running if generation.finished]
        if finished:
            rows = [row for row, generation in enumerate(self.running) if not generation.finished]
            self.batch.keep(rows)
            self.running = [self.running[row] for row in rows]
            self.finished.extend(finished)


def _longest(generations: Sequence[Generation]) -> int:
    return max((len(generation.prompt) + generation.limit for generation in generations), default=0)
