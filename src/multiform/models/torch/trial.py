"""Trials: whether what the engine does to be faster gives a model's own numbers, tried before it is relied on.

Scoring by plan, from states and in batches is judged by the plain forward pass of each sequence, and decoding in
batches by the model's own `generate`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.model import Counters
from multiform.models.torch.cache import ModelState
from multiform.models.torch.decode_batch import DecodeBatch, PaddedBatch, SharedPrefixBatch
from multiform.models.torch.device import PREFILL_TOKENS, device_of, is_out_of_memory
from multiform.models.torch.forward import (
    CausalLM,
    Forward,
    ScoringWay,
    plain_logits,
    reset_positions,
    token_logprobs,
)
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.scoring import score_by_plan, score_in_batches
from multiform.models.torch.structure import in_float32, judge_each
from multiform.models.torch.transformers_loop import PrefixState, greedy_config, prompt_inputs
from multiform.requests import LLOutput, Response

#: The inputs of the longest sequence, for a model that is the same at every length: enough for attention in two parts.
SHORT = 128
#: The inputs of a trial that only rules out what is wrong at every length: it costs next to nothing.
SHORTEST_TRIAL = 24
#: The inputs of a brief trial, and its forward passes: it is for models whose class the zoo has verified.
BRIEF = 12
BRIEF_PASSES = 1
#: Tokens of a sequence after the shared prefix, and those of them that are scored.
SUFFIX = 16
SCORED = 8
#: The tokens of a short sequence, fewer than any window has.
FEW = 5
#: The number of different tokens in a trial.
TOKENS = 1000
#: What a model raises that does not accept the inputs of a plan or of a batch.
TRIAL_ERRORS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError, RuntimeError)
#: Forward passes into which the sequences of a trial are cut, at least.
PASSES = 3
#: Tokens that each sequence of a trial gets.
STEPS = 4
Result = TypeVar("Result")


def trial_tokens(config: Any) -> list[int]:
    """Ordinary tokens of a vocabulary: the special ones mean something else to some models."""
    names = [name for name in config.to_dict() if name.endswith("token_id")]
    special = {getattr(config, name) for name in names if isinstance(getattr(config, name, None), int)}
    return [token for token in range(min(int(config.vocab_size), TOKENS)) if token not in special]


def trial_length(longest: int, max_length: int) -> int:
    """The length at which a model is tried before a run whose longest sequence has `longest` tokens.

    Lengths are rounded up, so that one trial serves many runs, but not beyond the model's own.

    >>> trial_length(300, 2048), trial_length(300, 310), trial_length(400, 310)
    (320, 310, 400)
    """
    step = max(SHORT, 1 << longest.bit_length()) // 8
    rounded = max(SHORT, -(-longest // step) * step)
    return max(longest, min(rounded, max_length))


def trial_pairs(length: int, tokens: Sequence[int]) -> list[Pair]:
    """Sequences of up to `length` inputs that branch early, in the middle and late, scored at their ends, a short one,
    and one that is the beginning of others.

    In the order of a prefix tree, one branch comes before the rest of the longest sequence and others come after it: so
    tokens are at other positions of a forward pass than they would be alone, on either side. The two branches from the
    middle have one length, so that their states are computed in one batch; copies of both, and two of the first, go on
    in another.
    """
    numbers = random.Random(length)
    lowest, *middle, highest = tokens

    def words(count: int) -> list[int]:
        return numbers.choices(middle, k=max(0, count))

    suffix_length = max(1, min(SUFFIX, length // 4))
    half, late = length // 2, length - suffix_length
    longest = words(length + 1)
    sequences = [
        longest,
        [*longest[: length // 3], lowest, *words(suffix_length)],
        [*longest[:late], highest, *words(1)],
        [*longest[:half], highest, *words(late - half - 1), *words(suffix_length // 2 + 1)],
        longest[: half + 1],
        words(FEW),
    ]
    return [Pair(array("i", sequence), max(1, len(sequence) - min(SCORED, suffix_length))) for sequence in sequences]


def trial_prompts(length: int, tokens: Sequence[int]) -> tuple[list[list[int]], int]:
    """Prompts of several lengths up to `length`, and the length of the prefix that the first two share.

    The last is short: beside the others, nearly all of its row is padding.
    """
    numbers = random.Random(length)
    shared = numbers.choices(tokens, k=max(1, length // 2))
    first, second, third = (
        numbers.choices(tokens, k=max(1, count)) for count in (length - len(shared), length // 4, FEW)
    )
    return [[*shared, *first], [*shared, *second], third], len(shared)


def attempt(run: Callable[[], Result]) -> Result | None:
    """The result of a part of a trial, or None where the model does not take such inputs.

    That memory runs out says nothing about the model, so it is raised.
    """
    try:
        return run()
    except TRIAL_ERRORS as error:
        if is_out_of_memory(error):
            raise
        return None


@dataclass(frozen=True, slots=True)
class ScoringTrial:
    """Pairs and the log-likelihoods that the model itself gives each of them alone."""

    lm: CausalLM
    pairs: list[Pair]
    expected: list[float]

    def allows(self, way: ScoringWay, pass_size: int, passes: int = PASSES) -> bool:
        """Whether scoring in that way gives the model's own numbers; a plan has the longest sequence in `passes`."""
        if way.is_planned:
            size = max(1, min(pass_size, max(len(pair.tokens) for pair in self.pairs) // passes))
            forward = Forward(self.lm, way)
            return self._agrees(score_by_plan(forward, self.pairs, size=size, budget=2**31, counters=Counters()))
        limits = BatchLimits(len(self.pairs), max(PREFILL_TOKENS, sum(len(pair.tokens) for pair in self.pairs)))
        return self._agrees(score_in_batches(self.lm, self.pairs, limits, Counters(), way, least=1))

    def _agrees(self, responses: Iterable[Response[LLOutput]]) -> bool:
        outputs = attempt(lambda: dict(responses))
        return outputs is not None and all(
            self._is_close(outputs[index], expected) for index, expected in enumerate(self.expected)
        )

    def _is_close(self, output: LLOutput, expected: float) -> bool:
        """Whether a log-likelihood is the expected one, up to what rounding changes for each token."""
        tokens = output.tokens or 1
        scale = 1.0 if is_exact(self.lm.model) else max(1.0, abs(expected) / tokens)
        return abs(output.loglikelihood - expected) <= tolerance(self.lm.model) * tokens * scale


def scoring_trial(lm: CausalLM, length: int) -> ScoringTrial | None:
    """The trial of sequences of up to `length` inputs; None where the model itself cannot compute them.

    None also where it selects tokens in sequences of these lengths. Numbers that agree prove nothing then: the rounding
    of a batch changes the selection in other sequences.
    """
    pairs = trial_pairs(length, trial_tokens(lm.model.config.get_text_config()))
    judged = attempt(lambda: judge_each(lambda pair: loglikelihood_alone(lm, pair), pairs))
    if judged is None:
        return None
    expected, selects_tokens = judged
    return None if selects_tokens else ScoringTrial(lm, pairs, expected)


def brief_trial(lm: CausalLM) -> ScoringTrial:
    """A trial of a few tokens, judged by one padded forward pass of the model.

    Only for models that are known to leave padding out of account.
    """
    pairs = trial_pairs(BRIEF, trial_tokens(lm.model.config.get_text_config()))[:3]
    outputs = dict(score_in_batches(lm, pairs, BatchLimits(len(pairs), PREFILL_TOKENS), Counters()))
    return ScoringTrial(lm, pairs, [outputs[index].loglikelihood for index in range(len(pairs))])


def loglikelihood_alone(lm: CausalLM, pair: Pair) -> float:
    """The log-likelihood of a pair by the plain forward pass of the model."""
    scored = pair.continuation_length
    logits = plain_logits(lm.model, pair.tokens[:-1], last=scored)
    logprobs, _ = token_logprobs(logits, np.arange(scored), pair.tokens[pair.start :])
    return float(logprobs.sum())


def first_allowed(lm: CausalLM, ways: Sequence[ScoringWay], length: int, pass_size: int) -> ScoringWay:
    """The first of the ways in which sequences of that length get the model's own numbers.

    Most ways that are wrong are wrong at every length, so that long sequences come after a short trial.
    """
    if not ways:
        return ScoringWay.ALONE
    with in_float32(lm.model):
        trials = [scoring_trial(lm, size) for size in ((SHORTEST_TRIAL, length) if length > SHORT else (length,))]
        allowed = (way for way in ways if all(trial and trial.allows(way, pass_size) for trial in trials))
        return next(allowed, ScoringWay.ALONE)


@torch.inference_mode()
def measure_token_bytes(lm: CausalLM, length: int) -> int:
    """The memory of each token in the state after a sequence of that length; 0 where the model returns no state."""
    tokens = trial_tokens(lm.model.config.get_text_config())[:length]
    ids = torch.tensor([tokens], device=device_of(lm.model))
    state = attempt(lambda: ModelState.of(lm.run(torch.tensor([0]), input_ids=ids, use_cache=True)[1]))
    return 0 if state is None else state.nbytes // length


def tolerance(model: PreTrainedModel) -> float:
    """How far two computations of the same number may be apart, for a number of about 1."""
    return 1e-4 if is_exact(model) else 3e-2


def is_close(model: PreTrainedModel, actual: Tensor, expected: Tensor) -> bool:
    """Whether logits are the expected ones, up to what rounding changes."""
    scale = expected.abs().max().clamp(min=1.0)
    return bool((actual - expected.to(actual.device)).abs().max() <= tolerance(model) * scale)


def is_exact(model: PreTrainedModel) -> bool:
    """Whether a model computes with at least 32 bits."""
    return model.dtype in (torch.float32, torch.float64)


@dataclass(frozen=True, slots=True)
class DecodingTrial:
    """Prompts, the tokens that follow each, and the logits (step, vocabulary) that the model itself gives there.

    Where `selects_tokens` is true, logits that agree prove nothing, as in scoring.
    """

    lm: CausalLM
    prompts: list[list[int]]
    shared: int
    tokens: list[list[int]]
    expected: list[Tensor]
    selects_tokens: bool

    def allows_shared_prefixes(self, forward: Forward, size: int, passes: int = PASSES) -> bool:
        """Whether sequences that share the cache of a common prefix get their own logits."""
        batch = SharedPrefixBatch(forward, Counters(), size=min(size, max(1, len(self.prompts[0]) // passes)))
        return self._agrees(batch, [self.shared, self.shared, 0])

    def allows_padded_batches(self) -> bool:
        """Whether sequences in one cache, padded at the left, get their own logits."""
        return self._agrees(PaddedBatch(self.lm, Counters()), [0, 0, 0])

    def allows_copied_states(self) -> bool:
        """Whether `generate` gives the same logits after a copy of the state that sequences have in common."""
        if self.selects_tokens:
            return False
        shared = PrefixState(self.lm.model, Counters())
        prefixes = [prompt[: self.shared] for prompt in self.prompts[:2]]
        lines = attempt(
            lambda: [
                _generate_logits(self.lm.model, prompt, shared.inputs(prefix))[1]
                for prompt, prefix in zip(self.prompts, prefixes, strict=False)
            ]
        )
        return lines is not None and all(map(self._is_close, lines, self.expected))

    def is_plain(self) -> bool:
        """Whether the numbers of `generate` are those of the plain forward pass: custom code may misuse its cache."""
        return all(
            self._is_close(plain_logits(self.lm.model, [*prompt, *tokens[:-1]], last=STEPS), expected)
            for prompt, tokens, expected in zip(self.prompts, self.tokens, self.expected, strict=True)
        )

    def _agrees(self, batch: DecodeBatch, prefixes: Sequence[int]) -> bool:
        logits = None if self.selects_tokens else attempt(lambda: self._decode_together(batch, prefixes))
        if logits is None:
            return False
        pairs = zip(logits, self.expected, strict=True)
        return all(self._is_close(torch.stack(lines), expected[: len(lines)]) for lines, expected in pairs)

    @torch.inference_mode()
    def _decode_together(self, batch: DecodeBatch, prefixes: Sequence[int]) -> list[list[Tensor]]:
        """Decode all sequences together: the last joins when the others are under way, and the first leaves."""
        rows = [0, 1]
        reset_positions(self.lm.model)
        logits = [[line] for line in batch.prefill(self.prompts[:2], prefixes[:2])]
        for step in range(STEPS - 1):
            if step == 1:
                rows.append(2)
                logits.append([batch.prefill(self.prompts[2:], prefixes[2:])[0]])
            if step == 2:
                rows = [1, 2]
                batch.keep(rows)
            last_tokens = [self.tokens[row][len(logits[row]) - 1] for row in rows]
            for row, line in zip(rows, batch.decode(last_tokens), strict=True):
                logits[row].append(line)
        return logits

    def _is_close(self, actual: Tensor, expected: Tensor) -> bool:
        return is_close(self.lm.model, actual, expected)


def decoding_trial(lm: CausalLM, length: int, *, by_generate: bool) -> DecodingTrial | None:
    """The trial of sequences of up to `length` tokens, judged by the model's `generate` or its plain forward pass.

    The two agree for most models. Where they do not, as with caches that forget, `generate` is right by definition.
    None where the judge fails.
    """
    tokens = trial_tokens(lm.model.config.get_text_config())
    prompts, shared = trial_prompts(max(8, length - STEPS), tokens)
    judge = _generate_logits if by_generate else _plain_steps
    outcome = attempt(lambda: judge_each(lambda prompt: judge(lm.model, prompt), prompts))
    if outcome is None:
        return None
    judged, selects_tokens = outcome
    expected = [logits for _, logits in judged]
    return DecodingTrial(lm, prompts, shared, [row for row, _ in judged], expected, selects_tokens)


def _generate_logits(
    model: PreTrainedModel, prompt: Sequence[int], state: Mapping[str, Any] | None = None
) -> tuple[list[int], Tensor]:
    """The tokens that `generate` chooses after a prompt, and the logits; a part of the prompt may be in a state."""
    reset_positions(model)
    ids = torch.tensor([list(prompt)], device=device_of(model))
    output = generate_steps(model, {**prompt_inputs(model, ids), **(state or {})})
    return output.sequences[0, len(prompt) :].tolist(), torch.cat(output.logits).float()


@torch.inference_mode()
def generate_steps(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """What `generate` of transformers returns for the first tokens of a trial, with their logits."""
    config = greedy_config(model, STEPS, pad_token_id=0)
    config.update(min_new_tokens=STEPS, return_dict_in_generate=True, output_logits=True)
    return model.generate(**inputs, generation_config=config)


def _plain_steps(model: PreTrainedModel, prompt: Sequence[int]) -> tuple[list[int], Tensor]:
    """Some tokens after a prompt, and the logits by the plain forward pass."""
    tokens = list(prompt[:STEPS])
    return tokens, plain_logits(model, [*prompt, *tokens[:-1]], last=STEPS)
