"""Stylers: how the prompts of a Python task are written and scored, and their conversion to formats; helpers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from typing_extensions import Self

from multiform.arguments import overridden_methods
from multiform.errors import UsageError
from multiform.formats.base import FormatConfig, dialect_names, written_answer
from multiform.formats.compile import FieldMapping, answers_with_label, bind_field, compile_format
from multiform.formats.dialects import FormatDialect, translators
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BitsPerByteLoglikelihood,
    metric_specs,
)
from multiform.formats.localization import Language, LocalWords, language_of, language_words
from multiform.hashing import sha256
from multiform.labels import label_list
from multiform.prompts.template import has_markup

#: Stands for the cue in a prompt that is cut off before it.
_CUE = "\0"


class ResponseType(Enum):
    """What a task asks of a model: a generated completion, or the log-likelihoods of given ones."""

    COMPLETION = "completion"
    LOGLIKELIHOODS = "loglikelihoods"


class TaskStyle(Enum):
    """The prompt that a styler writes."""

    MULTIPLE_CHOICE = "multiple_choice"
    CLOZE = "cloze"
    BPB = "bpb"


class MissingIndexError(UsageError, ValueError):
    """`correct_index` is missing for a styler that scores nothing but the correct answer."""


class TaskStyler(ABC):
    """Writes prompts and completions from a question, its choices and the index of the correct one.

    `response_type`, `metrics` and `task_style` say what a task with this styler asks of a model and computes.
    """

    response_type: ClassVar[ResponseType]
    metrics: ClassVar[Sequence[Any]]
    task_style: ClassVar[TaskStyle]
    question_prefix: str

    @abstractmethod
    def get_instruction_text(self, raw_question: str, choices: list[str]) -> str:
        """The prompt up to the cue."""

    @abstractmethod
    def get_ground_truth(self, choices: list[str], correct_index: int) -> str:
        """The correct answer as it is scored."""

    @abstractmethod
    def get_possible_completions(self, choices: list[str], correct_index: int | None = None) -> list[str] | None:
        """The completions that are scored; None if the model generates."""

    @abstractmethod
    def get_cue_text(self) -> str:
        """The text after the prompt that asks for the answer, such as ``Answer:``."""

    def get_question_text(self, raw_question: str) -> str:
        """The question with its prefix."""
        return f"{self.question_prefix}{raw_question}"

    def get_fewshot_target_text(self, choices: list[str], correct_index: int) -> str:
        """The text of a few-shot example after its prompt: cue and answer."""
        return f"{self.get_cue_text()}{self.get_ground_truth(choices, correct_index)}"

    def get_extra_metadata(self) -> dict[str, Any]:
        """Entries that the styler adds to the metadata of its task."""
        return {"task_style": self.task_style.value}

    def to_format(self) -> FormatConfig | None:
        """The equivalent format, or None if a method of this class writes what no format can."""
        return None

    @classmethod
    def for_language(cls, language: Language | str, **kwargs: Any) -> Self:
        """The styler with the question word, cue, labels and spacing of a language; `kwargs` override them."""
        words = language_words(language_of(language))
        if words is None:
            return cls(**kwargs)
        cues = {"question_prefix": words.cue("question") + words.punctuation["space"], "cue_text": words.cue("answer")}
        styler = cls(**{**cues, **kwargs})
        return styler._written_in(words, kwargs)

    def _written_in(self, words: LocalWords, arguments: Mapping[str, Any]) -> Self:
        """The styler, which uses the labels and spacing of a language where the arguments say nothing else."""
        return self


@dataclass(eq=False)
class FormatStyler(TaskStyler, FormatDialect):
    """A styler with an equivalent format."""

    response_type = ResponseType.LOGLIKELIHOODS
    _task_key = ("formats", "type")
    #: The methods that a format replaces: a subclass that overrides one has no equivalent format.
    _METHODS: ClassVar = ("get_instruction_text", "get_ground_truth", "get_possible_completions", "get_cue_text",
                          "get_question_text", "get_fewshot_target_text")  # fmt: skip

    question_prefix: str = "Question: "
    cue_text: str = "Answer:"
    format: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        self.format = dict(self.format or {})
        self.as_format()

    def own_fields(self) -> dict[str, Any]:
        return {
            "question_prefix": literal(self.question_prefix),
            "answer_prompt": literal(self.cue_text),
            "metric_list": metric_specs(self.metrics, where=f"{type(self).__name__}.metrics"),
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {"question_prefix": format.question_prefix, "cue_text": format.answer_prompt or ""}

    def format_with(self, changes: Mapping[str, Any]) -> FormatConfig:
        """The format with other arguments, or other fields of the format; `language` has the words of a language."""
        styler = self if changes.get("language") is None else self.for_language(changes["language"])
        return super(FormatStyler, styler).format_with({k: v for k, v in changes.items() if k != "language"})

    def to_format(self) -> FormatConfig | None:
        definers = overridden_methods(type(self), FormatStyler, self._METHODS).values()
        return self.as_format() if all(definer.__module__.startswith("multiform.") for definer in definers) else None

    def get_cue_text(self) -> str:
        return self.cue_text

    def get_instruction_text(self, raw_question: str, choices: list[str]) -> str:
        format = replace(self.as_format(), question_prefix="")
        if format.answer_prompt:
            format = replace(format, answer_prompt=_CUE)
        doc = {"question": self.get_question_text(raw_question), "choices": list(choices)}
        text = str(bind_field(compile_format(format, FieldMapping("question", "choices", 0))["doc_to_text"])(doc))
        return text.removesuffix(_CUE)

    def get_ground_truth(self, choices: list[str], correct_index: int) -> str:
        format = self.as_format()
        delimiter = "" if format.scored == "generation" else format.target_delimiter
        return delimiter + self._answers(format, choices)[correct_index]

    def get_possible_completions(self, choices: list[str], correct_index: int | None = None) -> list[str] | None:
        format = self.as_format()
        if format.scored == "generation":
            return None
        completions = [format.target_delimiter + text for text in self._answers(format, choices)]
        if format.scored != "gold":
            return completions
        if correct_index is None:
            message = f"{type(self).__name__} scores the right answer alone and was not told which one that is"
            raise MissingIndexError(message, hint="give correct_index")
        return [completions[correct_index]]

    def get_fewshot_target_text(self, choices: list[str], correct_index: int) -> str:
        format = self.as_format()
        answer = written_answer(format.shot_answer(), self._answers(format, choices)[correct_index])
        return self.get_cue_text() + format.target_delimiter + answer

    def _answers(self, format: FormatConfig, choices: Sequence[str]) -> list[str]:
        """The answer for each choice: its label or its text."""
        by_label = format.scored == "labels" or answers_with_label(format)
        return label_list(len(choices), format.choice_labels or "letters") if by_label else list(choices)


def literal(text: str) -> str:
    """The template that gives a text as it is, also if that looks like Jinja.

    >>> literal("Answer:"), literal("{{x}}")
    ('Answer:', "{{ '{{x}}' }}")
    """
    return f"{{{{ {text!r} }}}}" if has_markup(text) else text


_LABELLED = {False: "{label}. {choice}", True: " {label}. {choice}"}


@dataclass(eq=False)
class MCStyle(FormatStyler):
    r"""Choices shown with letters; the letters are scored.

    >>> style = MCStyle()
    >>> style.get_instruction_text("What is the capital of France?", ["Berlin", "Paris", "London"])
    'Question: What is the capital of France?\nA. Berlin\nB. Paris\nC. London\n'
    >>> style.get_possible_completions(["Berlin", "Paris", "London"]), style.get_ground_truth(["Berlin", "Paris"], 1)
    ([' A', ' B', ' C'], ' B')
    """

    metrics: ClassVar[Sequence[Any]] = [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    task_style = TaskStyle.MULTIPLE_CHOICE

    space_prefixed_labels: bool = False

    def own_fields(self) -> dict[str, Any]:
        return {
            **super().own_fields(),
            "choice_labels": "letters",
            "choice_format": _LABELLED[bool(self.space_prefixed_labels)],
            "scored": "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {**super().words(format), "space_prefixed_labels": format.choice_format == _LABELLED[True]}

    def _written_in(self, words: LocalWords, arguments: Mapping[str, Any]) -> Self:
        labels = {"choice_labels": list(words.labels)} if words.labels else {}
        spacing = {} if words.punctuation["space"] else {"target_delimiter": ""}
        self.format = {**labels, **spacing, **self.format}
        return self


class MCCompletionStyle(MCStyle):
    """The prompt of MCStyle; the model generates, and the text of the choice that it names is the prediction."""

    metrics: ClassVar[Sequence[Any]] = [AccuracyCompletion]
    response_type = ResponseType.COMPLETION

    def own_fields(self) -> dict[str, Any]:
        return {**super().own_fields(), "scored": "generation", "answer_as": "text", "scorer": "choice_text"}


@dataclass(eq=False)
class ClozeStyle(FormatStyler):
    r"""Choices not shown; their texts are scored.

    >>> ClozeStyle().get_instruction_text("What is the capital of France?", ["Berlin", "Paris"])
    'Question: What is the capital of France?\n'
    >>> ClozeStyle().get_possible_completions(["Berlin", "Paris"])
    [' Berlin', ' Paris']
    """

    metrics: ClassVar[Sequence[Any]] = [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    task_style = TaskStyle.CLOZE

    trailing_newline: bool = True
    leading_space_continuations: bool = True

    def own_fields(self) -> dict[str, Any]:
        return {
            **super().own_fields(),
            "section_separator": "\n" if self.trailing_newline else "",
            "target_delimiter": " " if self.leading_space_continuations else "",
            "scored": "texts",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {
            **super().words(format),
            "trailing_newline": format.section_separator != "",
            "leading_space_continuations": format.target_delimiter != "",
        }

    def _written_in(self, words: LocalWords, arguments: Mapping[str, Any]) -> Self:
        if not words.punctuation["space"] and "leading_space_continuations" not in arguments:
            self.leading_space_continuations = False
        return self


class BPBStyle(ClozeStyle):
    """The prompt of ClozeStyle; only the gold answer is scored: one request per document."""

    metrics: ClassVar[Sequence[Any]] = [BitsPerByteLoglikelihood]
    task_style = TaskStyle.BPB

    def own_fields(self) -> dict[str, Any]:
        return {**super().own_fields(), "scored": "gold"}


_BY_SCORED: dict[str, type[FormatStyler]] = {
    "labels": MCStyle,
    "texts": ClozeStyle,
    "gold": BPBStyle,
    "generation": MCCompletionStyle,
}
for _style in _BY_SCORED.values():
    dialect_names.register(_style.__name__)(_style)


def style_from(format: FormatConfig) -> tuple[FormatStyler, list[str]]:
    """The styler for a format, and messages about what of the format it cannot express."""
    return _BY_SCORED[format.scored].from_format(format)


translators["style"] = style_from


def format_mc_prompt(question_text: str, choices: list[str], *, space_prefixed_labels: bool = False) -> str:
    r"""A question and its choices with letters, each on a line of its own.

    >>> format_mc_prompt("Question: What is 1+1?", ["1", "2", "3"])
    'Question: What is 1+1?\nA. 1\nB. 2\nC. 3\n'
    >>> format_mc_prompt("Question: What is 1+1?", ["1", "2"], space_prefixed_labels=True)
    'Question: What is 1+1?\n A. 1\n B. 2\n'
    """
    style = MCStyle(question_prefix="", space_prefixed_labels=space_prefixed_labels)
    return style.get_instruction_text(question_text, choices)


def shuffle_correct_with_distractors(correct: str, distractors: Sequence[str], seed_text: str) -> tuple[list[str], int]:
    """The correct answer and the distractors in an order that depends on `seed_text`, and the correct one's index.

    >>> shuffle_correct_with_distractors("Paris", ["Berlin", "Rome"], "France?")
    (['Rome', 'Berlin', 'Paris'], 2)
    """
    choices = [*distractors, correct]
    order = list(range(len(choices)))
    random.Random(int(sha256(seed_text), 16)).shuffle(order)
    return [choices[index] for index in order], order.index(len(distractors))
