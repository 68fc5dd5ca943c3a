"""Trials: whether what the engine does to be faster gives a model's own numbers, tried before it is relied on.

Scoring by plan, from states and in batches is judged by the plain forward pass of each sequence, and decoding in
batches by the model's own `generate`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from multiform.models.model import Counters
from multiform.models.torch.attention import ModelState, is_available
from multiform.models.torch.decode_batch import DecodeBatch, PaddedBatch, SharedPrefixBatch
from multiform.models.torch.device import PREFILL_TOKENS, device_of, is_out_of_memory
from multiform.models.torch.forward import (
    Forward,
    LMHead,
    Mode,
    plain_logits,
    reset_positions,
    right_padded,
    token_logprobs,
)
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.scoring import Grouping, Resume, score_by_batch, score_by_plan, score_by_state
from multiform.models.torch.structure import accepted_options, bytes_per_token, in_float32, is_known, judge_each
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
    """Sequences of up to `length` inputs that branch early, late and at the end, scored at their ends, and a short one.

    In the order of a prefix tree, one branch comes before the rest of the longest sequence and the others come after
    it: so tokens are at other positions of a forward pass than they would be alone, on either side.
    """
    numbers = random.Random(length)
    lowest, *middle, highest = tokens

    def words(count: int) -> list[int]:
        return numbers.choices(middle, k=count)

    suffix_length = max(1, min(SUFFIX, length // 4))
    longest = words(length + 1)
    branches = [(length // 3, lowest), (2 * length // 3, highest), (length - suffix_length, highest)]
    sequences = [longest, *([*longest[:depth], first, *words(suffix_length)] for depth, first in branches), words(FEW)]
    return [Pair(array("i", sequence), max(1, len(sequence) - min(SCORED, suffix_length))) for sequence in sequences]


def state_pairs(length: int, tokens: Sequence[int]) -> list[Pair]:
    """Sequences of up to `length` inputs for a trial of copied states, scored at their ends, and a short one.

    Two branches of one length leave a common trunk, so that their states are computed in one batch, and sequences of
    several lengths come from them, so that copies of both, and two of the first, go on in one batch.
    """
    numbers = random.Random(length)
    lowest, *middle, highest = tokens

    def words(count: int) -> list[int]:
        return numbers.choices(middle, k=max(1, count))

    suffix_length = max(3, min(SUFFIX, length // 4))
    trunk = words(length // 2)
    branches = [[*trunk, first, *words(length - suffix_length - len(trunk))] for first in (lowest, highest)]
    suffixes = ((0, suffix_length), (0, 2), (1, suffix_length // 2 + 1))
    sequences = [[*branches[number], *words(count)] for number, count in suffixes]
    short = words(FEW)
    return [
        Pair(array("i", sequence), max(1, len(sequence) - min(SCORED, suffix_length)))
        for sequence in (*sequences, trunk, short)
    ]


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


#: What a model raises that does not accept the inputs of a plan or of a batch.
TRIAL_ERRORS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError, RuntimeError)
#: Forward passes into which the sequences of a trial are cut, at least.
PASSES = 3
Result = TypeVar("Result")
#: Tokens that each sequence of a trial gets.
STEPS = 4


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
    """Pairs and the log-likelihoods that the model itself gives each of them alone.

    `selects_tokens` says that it selects tokens in sequences of these lengths. Numbers that agree prove nothing then:
    the rounding of a batch changes the selection in other sequences.
    """

    head: LMHead
    pairs: list[Pair]
    expected: list[float]
    selects_tokens: bool

    def allows_mode(self, mode: Mode, pass_size: int, passes: int = PASSES) -> bool:
        """Whether scoring by plan in that mode gives the model's own numbers, with the longest sequence in `passes`."""
        longest = max(len(pair.tokens) for pair in self.pairs)
        size = max(1, min(pass_size, longest // passes))
        forward = Forward(self.head, mode)
        return self._agrees(score_by_plan(forward, self.pairs, size=size, budget=2**31, counters=Counters()))

    def allows_grouping(self, grouping: Grouping) -> bool:
        """Whether batches of rows that are grouped in that way give the model's own numbers."""
        limits = BatchLimits(len(self.pairs), max(PREFILL_TOKENS, sum(len(pair.tokens) for pair in self.pairs)))
        return self._agrees(score_by_batch(self.head, self.pairs, limits, Counters(), grouping))

    def allows_states(self, resume: Resume) -> bool:
        """Whether sequences that go on from copies of a state, in that way, get the model's own numbers."""
        limits = BatchLimits(len(self.pairs), max(PREFILL_TOKENS, sum(len(pair.tokens) for pair in self.pairs)))
        return self._agrees(score_by_state(self.head, self.pairs, limits, Counters(), resume, least=1))

    def _agrees(self, responses: Iterable[Response[LLOutput]]) -> bool:
        outputs = None if self.selects_tokens else attempt(lambda: dict(responses))
        return outputs is not None and all(
            self._is_close(outputs[index], expected) for index, expected in enumerate(self.expected)
        )

    def _is_close(self, output: LLOutput, expected: float) -> bool:
        """Whether a log-likelihood is the expected one, up to what rounding changes for each token."""
        tokens = output.tokens or 1
        scale = 1.0 if is_exact(self.head.model) else max(1.0, abs(expected) / tokens)
        return abs(output.loglikelihood - expected) <= tolerance(self.head.model) * tokens * scale


def scoring_trial(head: LMHead, length: int) -> ScoringTrial | None:
    """The trial of sequences of up to `length` inputs; None where the model itself cannot compute them."""
    return _judge_pairs(head, trial_pairs(length, trial_tokens(head.model.config.get_text_config())))


@torch.inference_mode()
def brief_trial(head: LMHead) -> tuple[ScoringTrial, int]:
    """A trial of a few tokens, judged by one padded forward pass of the model, and the memory of a token in its cache.

    Only for models that are known to leave padding out of account.
    """
    model, cache = head.model, DynamicCache()
    pairs = trial_pairs(BRIEF, trial_tokens(model.config.get_text_config()))[:3]
    ids = right_padded([pair.tokens for pair in pairs])
    logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits.float()
    sums = []
    for line, pair in zip(logits, pairs, strict=True):
        logprobs, _ = token_logprobs([(0, line)], np.arange(pair.start - 1, len(pair.tokens) - 1), pair.continuation)
        sums.append(float(logprobs.sum()))
    return ScoringTrial(head, pairs, sums, selects_tokens=False), bytes_per_token(cache, ids.numel())


def state_trial(head: LMHead, length: int) -> ScoringTrial | None:
    """The trial of sequences of up to `length` inputs that go on from copied states."""
    return _judge_pairs(head, state_pairs(length, trial_tokens(head.model.config.get_text_config())))


def _judge_pairs(head: LMHead, pairs: list[Pair]) -> ScoringTrial | None:
    judged = attempt(lambda: judge_each(lambda pair: loglikelihood_alone(head, pair), pairs))
    return None if judged is None else ScoringTrial(head, pairs, *judged)


def loglikelihood_alone(head: LMHead, pair: Pair) -> float:
    """The log-likelihood of a pair by the plain forward pass of the model."""
    scored = len(pair.tokens) - pair.start
    logits = plain_logits(head.model, pair.tokens[:-1], last=scored)
    logprobs, _ = token_logprobs([(0, logits)], np.arange(scored), pair.tokens[pair.start :])
    return float(logprobs.sum())


def candidate_modes(head: LMHead) -> Iterator[Mode]:
    """The modes that are worth a trial, fastest first."""
    model = head.model
    if model._supports_attention_backend and is_available(device_of(model)):
        yield Mode.TREE_ATTENTION
    yield Mode.MASKED


def trial_precision(model: PreTrainedModel) -> AbstractContextManager[None]:
    """The context of a trial: in float32, unless the model is known not to depend on more than its tokens."""
    return nullcontext() if is_known(model) else in_float32(model)


def first_mode(head: LMHead, length: int, modes: Iterable[Mode], pass_size: int) -> Mode | None:
    """The first of the modes in which sequences of that length get the model's own numbers; None where none does."""
    with trial_precision(head.model):
        trial = scoring_trial(head, length)
        return next((mode for mode in modes if trial and trial.allows_mode(mode, pass_size)), None)


def first_grouping(head: LMHead, length: int) -> Grouping:
    """The fastest grouping in which sequences of that length get the model's own numbers."""
    with trial_precision(head.model):
        trial = scoring_trial(head, length)
        groupings = (grouping for grouping in Grouping if trial and trial.allows_grouping(grouping))
        return next(groupings, Grouping.ALONE)


def first_resume(head: LMHead, length: int) -> Resume | None:
    """The fastest way in which sequences of that length can resume from a state; None where there is none."""
    with trial_precision(head.model):
        resumes = _allowed_resumes(head, Resume, SHORTEST_TRIAL) if length > SHORTEST_TRIAL else iter(Resume)
        # Most ways are wrong at every length, so that they need no long trial.
        return next(_allowed_resumes(head, resumes, length), None)


def _allowed_resumes(head: LMHead, resumes: Iterable[Resume], length: int) -> Iterator[Resume]:
    """Those of the ways in which sequences of that length can resume from a state, tried one by one."""
    trial: ScoringTrial | None = None
    for resume in resumes:
        if resume.is_positioned and not head.takes("position_ids"):
            continue  # the same as without
        if trial is None and (trial := state_trial(head, length)) is None:
            return
        if trial.allows_states(resume):
            yield resume


@torch.inference_mode()
def measure_token_bytes(head: LMHead) -> int:
    """The memory of a token's keys and values; 0 where the model does not put them into the cache."""
    model, cache = head.model, DynamicCache()
    tokens = trial_tokens(model.config.get_text_config())[:4]
    ids = torch.tensor([tokens], device=device_of(model))
    options = accepted_options(model.forward, past_key_values=cache, use_cache=True, logits_to_keep=1)
    attempt(lambda: model(input_ids=ids, **options))
    return bytes_per_token(cache, len(tokens))


@torch.inference_mode()
def measure_state_bytes(head: LMHead, max_length: int) -> int:
    """The memory of the state after a short sequence."""
    tokens = trial_tokens(head.model.config.get_text_config())[: min(SHORT, max_length)]
    _, output = head.run(input_ids=torch.tensor([tokens], device=device_of(head.model)), use_cache=True)
    return ModelState.of(output).nbytes


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

    Where `selects_tokens` is true, logits that agree prove nothing, as in a `ScoringTrial`.
    """

    head: LMHead
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
        return self._agrees(PaddedBatch(self.head.model, Counters()), [0, 0, 0])

    def allows_copied_states(self) -> bool:
        """Whether `generate` gives the same logits after a copy of the state that sequences have in common."""
        if self.selects_tokens:
            return False
        shared = PrefixState(self.head.model, Counters())
        prefixes = [prompt[: self.shared] for prompt in self.prompts[:2]]
        lines = attempt(
            lambda: [
                _generate_logits(self.head.model, prompt, shared.inputs(prefix))[1]
                for prompt, prefix in zip(self.prompts, prefixes, strict=False)
            ]
        )
        return lines is not None and all(map(self._is_close, lines, self.expected))

    def is_plain(self) -> bool:
        """Whether the numbers of `generate` are those of the plain forward pass: custom code may misuse its cache."""
        return all(
            self._is_close(plain_logits(self.head.model, [*prompt, *tokens[:-1]], last=STEPS), expected)
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
        reset_positions(self.head.model)
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
        return is_close(self.head.model, actual, expected)


def decoding_trial(head: LMHead, length: int, *, by_generate: bool) -> DecodingTrial | None:
    """The trial of sequences of up to `length` tokens, judged by the model's `generate` or its plain forward pass.

    The two agree for most models. Where they do not, as with caches that forget, `generate` is right by definition.
    None where the judge fails.
    """
    tokens = trial_tokens(head.model.config.get_text_config())
    prompts, shared = trial_prompts(max(8, length - STEPS), tokens)
    judge = _generate_logits if by_generate else _plain_steps
    outcome = attempt(lambda: judge_each(lambda prompt: judge(head.model, prompt), prompts))
    if outcome is None:
        return None
    judged, selects_tokens = outcome
    expected = [logits for _, logits in judged]
    return DecodingTrial(head, prompts, shared, [row for row, _ in judged], expected, selects_tokens)


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
