"""Outcomes: what a metric gets for one document, the model's responses and the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOutcome:
    """The log-likelihoods of all choices; `choices` are the bare texts, without the delimiter.

    `gold` are the indexes of the correct choices, empty if the answer is not among the choices.

    `scored` are the continuations with their delimiters, and `texts` the choices' texts if `choices` are their
    labels. `tokens` are the lengths of the continuations, `unconditional` the log-likelihoods without the prompt.
    All four are empty if they are not known.
    """

    loglikelihoods: tuple[float, ...]
    greedy: tuple[bool, ...]
    choices: tuple[str, ...]
    gold: tuple[int, ...]
    tokens: tuple[int, ...] = ()
    unconditional: tuple[float, ...] = ()
    scored: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelihoodOutcome:
    """The log-likelihood of one text, with the numbers of words and bytes that it is normalised by."""

    loglikelihood: float
    is_greedy: bool
    text: str
    words: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOutcome:
    """A completion, or the prediction extracted from it, with the references.

    `prediction` is None if none could be extracted. `choices` and `labels` are those that the prompt shows,
    `primed` is the beginning of the completion that was part of the prompt, and `prompt` is the whole prompt. In a
    conversation, `conversation` are the messages before this reply.
    """

    prediction: Any
    references: tuple[str, ...]
    truncated: bool = False
    choices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    primed: str = ""
    prompt: str = ""
    conversation: tuple[Mapping[str, str], ...] = ()


Outcome: TypeAlias = ChoiceOutcome | LikelihoodOutcome | TextOutcome
