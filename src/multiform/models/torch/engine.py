"""The engine: scores continuations and generates completions in the way that the planner chose.

Scoring is by plan where the model can share prefixes, from copied states, or in batches. Completions are decoded by
continuous batching: a sequence leaves the batch when it is finished, and the next takes its place.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from multiform.models.model import Counters
from multiform.models.torch.cache import KeptPrefixes
from multiform.models.torch.decode_batch import DecodeBatch, PaddedBatch, SharedPrefixBatch, UncachedBatch
from multiform.models.torch.device import PREFILL_TOKENS, halve_limits, run_in_memory
from multiform.models.torch.forward import Forward, ScoringWay
from multiform.models.torch.plan import BatchLimits, Cost, Pair, plan
from multiform.models.torch.planner import Decoding, Planner
from multiform.models.torch.sampling import Generation, end_tokens, has_processors, logits_processors, next_token
from multiform.models.torch.scoring import batch_plan, score_by_plan, score_in_batches, scoring_plan
from multiform.models.torch.transformers_loop import beam_search, generate_alone
from multiform.models.torch.tree import Tokens, build_tree, recurring_prefixes, shared_prefixes
from multiform.requests import Completion, LLOutput, Response
from multiform.stopping import stop_requested


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalEngine:
    """Decoder-only models: context and continuation are one sequence, and shared prefixes are computed once.

    The limits are those of batches; plans have their own.
    """

    planner: Planner
    tokenizer: PreTrainedTokenizerBase
    limits: BatchLimits
    generation_limits: BatchLimits
    counters: Counters

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation, and whether greedy decoding would generate it.

        The log-likelihood of an empty continuation is 0.
        """
        planner, work = self.planner, _distinct_inputs(pairs)
        if not planner.is_worth_trial(_longest_pair(pairs), work):
            planner.computed_alone += work
            yield from score_in_batches(planner.lm, pairs, self.limits, self.counters, ScoringWay.ALONE)
            return
        for part in self._parts(pairs):
            chosen = [pairs[index] for index in part]
            way = planner.scoring(_longest_pair(chosen))
            if way.is_planned:
                forward, size, budget = Forward(planner.lm, way), planner.pass_size, planner.budget
                kept = planner.kept_prefixes
                responses = score_by_plan(forward, chosen, size=size, budget=budget, counters=self.counters, kept=kept)
            else:
                max_kept = planner.state_budget if way.copies_states else 0
                responses = score_in_batches(planner.lm, chosen, self.limits, self.counters, way, max_kept=max_kept)
            for position, output in responses:
                yield part[position], output

    def scoring_cost(self, pairs: Sequence[Pair]) -> Cost:
        """The cost of scoring; in batches, where not all pairs can share prefixes."""
        nonempty = [pair for pair in pairs if pair.inputs]
        planner = self.planner
        if nonempty and planner.is_worth_trial(_longest_pair(pairs), _distinct_inputs(pairs)):
            way = planner.scoring(_longest_pair(pairs))
            if way.is_planned:
                size, budget = planner.pass_size, planner.budget
                return scoring_plan(nonempty, size=size, budget=budget, kept=planner.kept_prefixes).cost
            if way.copies_states:
                return batch_plan(planner.lm, nonempty, self.limits, way, max_kept=planner.state_budget).cost
        return Cost.in_batches(len(nonempty), sum(pair.inputs for pair in pairs))

    def _parts(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """All pairs where they can share prefixes; otherwise those shorter than all windows of the model, and others.

        In one batch, long pairs would change the positions of short ones where these are scaled by the longest row.
        """
        way = self.planner.scoring(_longest_pair(pairs))
        if way.is_planned or way.copies_states:
            return [list(range(len(pairs)))]
        parts: tuple[list[int], list[int]] = [], []
        for index, pair in enumerate(pairs):
            parts[len(pair.tokens) - 1 > self.planner.short_length].append(index)
        return [part for part in parts if part]

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completion of each sequence, as soon as it is finished; those with several beams come last."""
        single = [generation for generation in generations if generation.num_beams == 1]
        if single:
            yield from self._generate_single(single)
        yield from beam_search(self.planner.lm.model, self.tokenizer, generations, self.counters)

    def _generate_single(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """When a stop is requested, the sequences that are running are decoded to their end."""
        planner, counters = self.planner, self.counters
        decoding = self._choose_decoding(generations)
        if decoding in (Decoding.RESUMED, Decoding.ALONE):
            resumes = decoding is Decoding.RESUMED
            ordered = _group_by_prefix(generations, planner.state_budget) if resumes else _longest_first(generations)
            yield from generate_alone(planner.lm.model, self.tokenizer, ordered, counters)
            return
        scheduler = _Scheduler(self, generations, decoding)
        while scheduler.running or (scheduler.waiting and not stop_requested()):
            if not run_in_memory(scheduler.step):
                scheduler.shrink()
            while scheduler.finished:
                generation = scheduler.finished.popleft()
                counters.count_completion(len(generation.tokens))
                yield generation.index, generation.completion(self.tokenizer)

    def prefill_cost(self, generations: Sequence[Generation]) -> Cost:
        """The cost of prefilling the prompts; in batches, where they cannot share prefixes."""
        planner, prompts = self.planner, [array("i", generation.prompt) for generation in generations]
        if generations and self._choose_decoding(generations) is Decoding.SHARED:
            last = [len(prompt) - 1 for prompt in prompts]
            kept = [prefix.tokens for prefix in planner.kept_prefixes.entries()]
            return plan(prompts, last, size=planner.pass_size, budget=planner.budget, kept=kept).cost
        return Cost.in_batches(len(prompts), sum(map(len, prompts)))

    def _choose_decoding(self, generations: Sequence[Generation]) -> Decoding:
        return self.planner.decoding(max(len(generation.prompt) + generation.limit for generation in generations))


def _distinct_inputs(pairs: Sequence[Pair]) -> int:
    """The tokens of the distinct sequences, each computed alone."""
    return sum({pair.tokens[:-1].tobytes(): pair.inputs for pair in pairs if pair.inputs}.values())


def _longest_pair(pairs: Sequence[Pair]) -> int:
    return max((len(pair.tokens) - 1 for pair in pairs), default=0)


def _group_by_prefix(generations: Sequence[Generation], budget: int) -> list[Generation]:
    """The sequences sorted so that those with a common prefix are together, each with the prefix's length."""
    ordered = sorted(generations, key=lambda generation: generation.prompt)
    prefixes = shared_prefixes([array("i", generation.prompt) for generation in ordered])
    return [
        replace(generation, prefix=min(prefix, budget)) for generation, prefix in zip(ordered, prefixes, strict=True)
    ]


def _longest_first(generations: Sequence[Generation]) -> list[Generation]:
    """If memory is short, that shows at once."""
    return sorted(generations, key=lambda generation: (-len(generation.prompt), generation.prompt))


def _recurring_prefixes(generations: Sequence[Generation], kept: KeptPrefixes) -> list[Tokens]:
    """The prefixes of prompts that later calls are likely to have, where such are kept."""
    if not kept.most:
        return []
    prompts = [array("i", generation.prompt) for generation in generations]
    branches = build_tree(prompts, [len(prompt) - 1 for prompt in prompts])
    prefixes = recurring_prefixes(branches, most=kept.most)
    return [branches[number].tokens[:length] for number, length in prefixes.items()]


class _Scheduler:
    """The sequences that are running, those that are waiting and those that are finished."""

    def __init__(self, engine: CausalEngine, generations: Sequence[Generation], decoding: Decoding) -> None:
        planner, limits, counters = engine.planner, engine.generation_limits, engine.counters
        self.model = planner.lm.model
        self.tokenizer = engine.tokenizer
        self.has_processors = has_processors(self.model.generation_config)
        self.end_tokens = end_tokens(self.model.generation_config, self.tokenizer)
        self.running: list[Generation] = []
        self.finished: deque[Generation] = deque()
        self.new_batch: Callable[[], DecodeBatch]
        if decoding is Decoding.SHARED:
            self.limits = replace(limits, tokens=min(limits.tokens, planner.decode_tokens))
            self.waiting = deque(_group_by_prefix(generations, planner.budget))
            kept, size = planner.kept_prefixes, planner.pass_size
            recurring = _recurring_prefixes(generations, kept)
            self.new_batch = partial(
                SharedPrefixBatch, planner.forward, counters, size=size, kept=kept, recurring=recurring
            )
        else:
            self.limits = limits if decoding is Decoding.PADDED else BatchLimits(1, limits.tokens)
            self.waiting = deque(_longest_first(generations))
            self.new_batch = partial(
                PaddedBatch if decoding is Decoding.PADDED else UncachedBatch, planner.lm, counters
            )
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
        self.limits = halve_limits(self.limits, len(self.running), longest)
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
                    if generation.processors is None:
                        generation.processors = logits_processors(self.model, generation.prompt, generation.limit)
                    line = generation.processors(previous[None], line[None])[0]
                    generation.check(float(line.max()))
                if not generation.failed:
                    token = next_token(line, previous, generation.sampling, generation.rng)
            generation.append(token, self.tokenizer, self.end_tokens)
        self._remove_finished()

    def _remove_finished(self) -> None:
        finished = [generation for generation in self.running if generation.finished]
        if finished:
            rows = [row for row, generation in enumerate(self.running) if not generation.finished]
            self.batch.keep(rows)
            self.running = [self.running[row] for row in rows]
            self.finished.extend(finished)
