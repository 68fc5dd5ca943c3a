"""Trials of scoring: log-likelihoods by plan and in batches, against the plain forward pass of each sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from multiform.models.torch.attention import is_available
from multiform.models.torch.batching import is_out_of_memory
from multiform.models.torch.device import device_of
from multiform.models.torch.forward import Forward, Mode
from multiform.models.torch.limits import PREFILL_TOKENS, Limits
from multiform.models.torch.lm_head import LMHead
from multiform.models.torch.plain import plain_logits
from multiform.models.torch.scoring.by_batch import Grouping, score_by_batch
from multiform.models.torch.scoring.by_plan import score_by_plan
from multiform.models.torch.scoring.by_state import Resume, score_by_state
from multiform.models.torch.scoring.loglikelihood import token_logprobs
from multiform.models.torch.sequences import Pair
from multiform.models.torch.trial.sequences import state_pairs, trial_pairs, trial_tokens
from multiform.models.torch.trial.structure import judge_each
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response

#: What a model raises that does not accept the inputs of a plan or of a batch.
TRIAL_ERRORS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError, RuntimeError)
#: Forward passes into which the sequences of a trial are cut, at least.
PASSES = 3


Result = TypeVar("Result")


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

    def allows_mode(self, mode: Mode, pass_size: int) -> bool:
        """Whether scoring by plan in that mode gives the model's own numbers."""
        longest = max(len(pair.tokens) for pair in self.pairs)
        size = max(1, min(pass_size, longest // PASSES))
        forward = Forward(self.head, mode)
        return self._agrees(score_by_plan(forward, self.pairs, size=size, budget=2**31, counters=Counters()))

    def allows_grouping(self, grouping: Grouping) -> bool:
        """Whether batches of rows that are grouped in that way give the model's own numbers."""
        limits = Limits(len(self.pairs), max(PREFILL_TOKENS, sum(len(pair.tokens) for pair in self.pairs)))
        return self._agrees(score_by_batch(self.head, self.pairs, limits, Counters(), grouping))

    def allows_states(self, resume: Resume) -> bool:
        """Whether sequences that go on from copies of a state, in that way, get the model's own numbers."""
        limits = Limits(len(self.pairs), max(PREFILL_TOKENS, sum(len(pair.tokens) for pair in self.pairs)))
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
    return _judged(head, trial_pairs(length, trial_tokens(head.model.config.get_text_config())))


def state_trial(head: LMHead, length: int) -> ScoringTrial | None:
    """The trial of sequences of up to `length` inputs that go on from copied states."""
    return _judged(head, state_pairs(length, trial_tokens(head.model.config.get_text_config())))


def _judged(head: LMHead, pairs: list[Pair]) -> ScoringTrial | None:
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


def tolerance(model: PreTrainedModel) -> float:
    """How far two computations of the same number may be apart, for a number of about 1."""
    return 1e-4 if is_exact(model) else 3e-2


def is_exact(model: PreTrainedModel) -> bool:
    """Whether a model computes with at least 32 bits."""
    return model.dtype in (torch.float32, torch.float64)
