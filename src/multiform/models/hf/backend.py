"""Backends: how a kind of model, decoder-only or encoder-decoder, tokenizes, scores and generates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from transformers import PreTrainedModel

from multiform.models.model import Counters
from multiform.models.tokenizer import (
    Encoder,
    after_prefix,
    encode_texts,
    move_whitespace,
    prefix_tokens,
)
from multiform.models.torch.device import device_of
from multiform.models.torch.engine import generate, prefill_cost, score, scoring_cost
from multiform.models.torch.plan import BatchLimits, Cost, Pair
from multiform.models.torch.planner import Planner, TrialRecords
from multiform.models.torch.sampling import Generation
from multiform.models.torch.seq2seq import (
    ALONE,
    PLAIN,
    TOGETHER,
    UNCACHED,
    decodes_together,
    generate_seq2seq,
    restore_attention,
    score_seq2seq,
    scores_together,
)
from multiform.models.torch.transformers_loop import beam_search
from multiform.models.torch.tree import Tokens
from multiform.models.torch.trial import trial_length
from multiform.requests import Completion, LLOutput, Response

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBackend:
    """Decoder-only models: context and continuation are one sequence, and shared prefixes are computed once."""

    planner: Planner
    encoder: Encoder
    max_length: int
    limits: BatchLimits
    generation_limits: BatchLimits
    counters: Counters

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation."""
        return score(self.planner, pairs, self.limits, self.counters)

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completion of each sequence."""
        model, tokenizer = self.planner.head.model, self.encoder.tokenizer
        single, with_beams = _split_beams(generations)
        yield from generate(self.planner, tokenizer, single, self.generation_limits, self.counters)
        yield from beam_search(model, tokenizer, with_beams, self.counters)

    def keep_verdicts(self, identity: str) -> None:
        """Keep the verdicts of trials for later runs of the model with this identity."""
        self.planner.keep_verdicts(identity)

    def keep_prefixes(self, keep: bool) -> None:
        """Whether prefixes that recur stay in memory for later calls."""
        self.planner.keep_prefixes(keep)

    def scoring_cost(self, pairs: Sequence[Pair]) -> Cost:
        """The cost of scoring the pairs."""
        return scoring_cost(self.planner, pairs, self.limits)

    def prefill_cost(self, generations: Sequence[Generation]) -> Cost:
        """The cost of prefilling the prompts."""
        return prefill_cost(self.planner, generations)


class Seq2SeqEncoder(Encoder):
    """Tokenizes for an encoder-decoder: what the encoder gets, and what the decoder writes."""

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The pair of each (context, continuation), which are tokenized separately.

        The context has the tokenizer's special tokens and the continuation has none. White space between them
        belongs to the continuation, as with decoder-only models.
        """
        prefix = self.prefix_token_id
        moved = [move_whitespace(*pair) for pair in texts]
        nonempty = (context for (original, _), (context, _) in zip(texts, moved, strict=True) if original)
        contexts = self.encode(nonempty)
        distinct = dict.fromkeys(continuation for _, continuation in moved)
        continuations = encode_texts(self.tokenizer, distinct, special=False)
        for (original, _), (context, continuation) in zip(texts, moved, strict=True):
            if not original:
                yield after_prefix(continuations[continuation], prefix)
                continue
            encoder_tokens = contexts[context] or prefix_tokens(prefix)
            yield Pair(encoder_tokens + continuations[continuation], len(encoder_tokens))

    def prompts(self, texts: Iterable[str], *, truncation: bool = False) -> dict[str, Tokens]:
        """The tokens of each text with the tokenizer's default special tokens, whatever `add_bos_token` says."""
        encoded = encode_texts(self.tokenizer, dict.fromkeys(texts), special=None, truncation=truncation)
        return {text: tokens or prefix_tokens(self.prefix_token_id) for text, tokens in encoded.items()}


@dataclass(slots=True, kw_only=True)
class Seq2SeqBackend:
    """Encoder-decoder models: a context is encoded as a whole, so contexts with a common prefix share nothing."""

    model: PreTrainedModel
    encoder: Encoder
    max_length: int
    limits: BatchLimits
    generation_limits: BatchLimits
    counters: Counters
    records: TrialRecords = field(default_factory=TrialRecords, init=False)
    _warned: set[str] = field(default_factory=set, init=False)
    _has_noted_limit: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        restore_attention(self.model.get_encoder())

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        self._warn("the model is an encoder-decoder")
        longest = max((pair.start for pair in pairs), default=0)
        verdict = self.verdict("scoring", longest, scores_together) if pairs else TOGETHER
        if verdict != TOGETHER:
            self._warn("its log-likelihoods change in a batch, so that each sequence is computed alone")
        return score_seq2seq(
            self.model,
            pairs,
            _limits(self.limits, verdict),
            self.counters,
            encodes_once=verdict in (TOGETHER, ALONE),
        )

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        single, with_beams = _split_beams(generations)
        yield from self._generate_single(single)
        yield from beam_search(self.model, self.encoder.tokenizer, with_beams, self.counters)

    def _generate_single(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completions without beam search."""
        if not generations:
            return iter(())
        self._warn("the model is an encoder-decoder")
        if not self._has_noted_limit:
            logger.info(
                "max_gen_toks limits the completion; lm-eval adds the prompt's tokens to it for encoder-decoders"
            )
            self._has_noted_limit = True
        longest = max(len(generation.prompt) for generation in generations)
        verdict = self.verdict("decoding", longest, decodes_together)
        if verdict != TOGETHER:
            self._warn("its completions change in a batch, so that each is generated alone")
        return generate_seq2seq(
            self.model,
            self.encoder.tokenizer,
            generations,
            _limits(self.generation_limits, verdict),
            self.counters,
            use_cache=verdict != UNCACHED,
        )

    def keep_verdicts(self, identity: str) -> None:
        self.records = TrialRecords(f"{identity} {device_of(self.model).type}")

    def keep_prefixes(self, keep: bool) -> None:
        """A context is encoded as a whole, so there is nothing to keep."""

    def verdict(self, question: str, longest: int, ask: Callable[[PreTrainedModel, int], str]) -> str:
        """How sequences with contexts of up to that many tokens are computed, by a trial of that length."""
        length = trial_length(longest, self.max_length)
        otherwise = PLAIN if question == "scoring" else ALONE
        return self.records.verdict(f"{question} {length}", lambda: ask(self.model, length), otherwise=otherwise)

    def scoring_cost(self, pairs: Sequence[Pair]) -> Cost:
        return Cost.in_batches(len(pairs), sum(len(pair.tokens) for pair in pairs))

    def prefill_cost(self, generations: Sequence[Generation]) -> Cost:
        return Cost.in_batches(len(generations), sum(len(generation.prompt) for generation in generations))

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            logger.warning("prefixes are not shared, which takes longer: %s", reason)
            self._warned.add(reason)


def _split_beams(generations: Sequence[Generation]) -> tuple[list[Generation], list[Generation]]:
    """The completions without beam search, and those with it."""
    single = [generation for generation in generations if generation.num_beams == 1]
    return single, [generation for generation in generations if generation.num_beams > 1]


def _limits(limits: BatchLimits, verdict: str) -> BatchLimits:
    """The limits of a batch: one row, where rows change each other's numbers."""
    return limits if verdict == TOGETHER else replace(limits, rows=1)


Backend: TypeAlias = CausalBackend | Seq2SeqBackend
