"""What a metric sees of one document: the model's answers beside what was right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOutcome:
    """Log-likelihoods of all choices; `choices` are the bare texts, without the delimiter.

    `gold` are the indexes of the right ones, none where the answer is not among the choices.

    `scored` are the texts as they were asked for, delimiter and all, and `texts` what the choices say where
    `choices` are their labels. `tokens` are the lengths of what was scored, `unconditional` the log-likelihoods
    without the prompt. All four are empty where they are not known.
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
    """The log-likelihood of one text, exactly as it was asked for, and how long the task says it is."""

    loglikelihood: float
    is_greedy: bool
    text: str
    words: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOutcome:
    """What the model wrote; where choices were shown, what they were and how they were labelled.

    `prediction` is None when no answer could be read. `primed` is the beginning of the answer that
    the prompt put into the model's mouth, `prompt` all that the model was shown.
    """

    prediction: Any
    references: tuple[str, ...]
    truncated: bool = False
    choices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    primed: str = ""
    prompt: str = ""


Outcome: TypeAlias = ChoiceOutcome | LikelihoodOutcome | TextOutcome
