"""Stylers: how the prompts of a Python task are written and scored, and their conversion to formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from typing_extensions import Self

from multiform.calls import accepted_arguments, overridden_methods
from multiform.errors import UsageError
from multiform.formats.base import FormatConfig, overlaid, unsaid, variant
from multiform.formats.compile import FieldMapping, bound, compile_format
from multiform.formats.dialects.metric_classes import metric_specs
from multiform.formats.fewshot_answer import written_answer
from multiform.formats.language import LITERALS, Language, language_of
from multiform.labels import label_list
from multiform.prompts.template import has_markup

#: Stands for the cue in a prompt that is cut off before it.
_CUE = "\0"


class ResponseType(Enum):
    """What a task asks of a model: a generated completion, or the log-likelihoods of given ones."""

    COMPLETION = "completion"
    LOGLIKELIHOODS = "loglikelihoods"


class TaskStyle(Enum):
    """The kind of prompt that a styler writes."""

    MULTIPLE_CHOICE = "multiple_choice"
    CLOZE = "cloze"
    BPB = "bpb"


class MissingIndexError(UsageError, ValueError):
    """`correct_index` is missing for a styler that scores nothing but the correct answer."""


class TaskStyler(ABC):
    """Writes prompts and completions from a question, its choices and the index of the correct one.

    `response_type`, `metrics` and `task_style` say what a task with this styler asks of a model and computes.
    """

    response_type: ResponseType
    metrics: Sequence[Any]
    task_style: TaskStyle
    question_prefix: str

    @abstractmethod
    def get_instruction_text(self, raw_question: str, choices: list[str]) -> str:
        """The prompt up to the cue."""

    @abstractmethod
    def get_ground_truth(self, choices: list[str], correct_index: int) -> str:
        """The correct answer as it is scored."""

    @abstractmethod
    def get_possible_completions(self, choices: list[str], correct_index: int | None = None) -> list[str] | None:
        """The completions that are scored; None where the model generates."""

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
        """The equivalent format, or None where a method of this class writes what no format can."""
        return None

    @classmethod
    def for_language(cls, language: Language | str, **kwargs: Any) -> Self:
        """The styler with the question word, cue, labels and spacing of a language; `kwargs` override them."""
        literals = LITERALS.get(language_of(language))
        if literals is None:
            return cls(**kwargs)
        words = {"question_prefix": literals.question, "cue_text": literals.answer}
        spelled = cls._spelled(literals.labels, literals.space)
        arguments = {**spelled, **words, **kwargs}
        if "format" in spelled and kwargs.get("format"):
            arguments["format"] = {**spelled["format"], **kwargs["format"]}
        # A subclass may have a constructor with fewer arguments.
        unknown = [key for key in spelled if key not in kwargs and key not in accepted_arguments(cls, spelled)]
        styler = cls(**{key: value for key, value in arguments.items() if key not in unknown})
        for key in unknown:
            own = getattr(styler, key, None)
            setattr(styler, key, {**spelled[key], **(own or {})} if key == "format" else spelled[key])
        return styler

    @classmethod
    def _spelled(cls, labels: Any, space: str) -> dict[str, Any]:
        """The constructor arguments for the labels and spacing of a language; none for a class without such ones."""
        return {}


class FormatStyler(TaskStyler):
    """A styler with an equivalent format; `format` has fields of the format that the styler itself lacks."""

    response_type = ResponseType.LOGLIKELIHOODS
    #: The methods that a format replaces: a subclass that overrides one has no equivalent format.
    _METHODS: ClassVar = ("get_instruction_text", "get_ground_truth", "get_possible_completions", "get_cue_text",
                          "get_question_text", "get_fewshot_target_text")  # fmt: skip

    def __init__(self, question_prefix: str, cue_text: str, format: Mapping[str, Any] | None) -> None:
        self.question_prefix = question_prefix
        self._cue_text = cue_text
        self.format = dict(format or {})

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """The fields of the format that follow from this styler's arguments."""

    @classmethod
    @abstractmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        """The constructor arguments for a format, as far as they can express it."""

    def as_format(self) -> FormatConfig:
        """The format of this styler's arguments, whether a subclass overrides methods or not."""
        return overlaid(self._said(), self.format, name=type(self).__name__)

    def _said(self) -> dict[str, Any]:
        measured = metric_specs(self.metrics, where=f"{type(self).__name__}.metrics")
        texts = {"question_prefix": literal(self.question_prefix), "answer_prompt": literal(self._cue_text)}
        return {**texts, "metric_list": measured, **self.own_fields()}

    def to_format(self) -> FormatConfig | None:
        definers = overridden_methods(type(self), FormatStyler, self._METHODS).values()
        return self.as_format() if all(kind.__module__.startswith("multiform.") for kind in definers) else None

    @classmethod
    def from_format(cls, format: FormatConfig) -> tuple[Self, list[str]]:
        """The styler for a format, and messages about what of the format it cannot express."""
        common = {"question_prefix": format.question_prefix, "cue_text": format.answer_prompt or ""}
        words = {**common, **cls.words(format)}
        more, lost = unsaid(format, cls(**words)._said(), name=cls.__name__)
        return cls(**words, format=more), lost

    def get_cue_text(self) -> str:
        return self._cue_text

    def get_instruction_text(self, raw_question: str, choices: list[str]) -> str:
        format = variant(self.as_format(), question_prefix="")
        if format.answer_prompt:
            format = variant(format, answer_prompt=_CUE)
        doc = {"question": self.get_question_text(raw_question), "choices": list(choices)}
        text = str(bound(compile_format(format, FieldMapping("question", "choices", 0)).doc_to_text)(doc))
        return text.removesuffix(_CUE)

    def get_ground_truth(self, choices: list[str], correct_index: int) -> str:
        format = self.as_format()
        bare = self._answers(format, choices)[correct_index]
        return bare if format.scored == "generation" else format.target_delimiter + bare

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
        by_label = format.scored == "labels" or (
            format.scored == "generation" and format.shows_choices and format.answer_as != "text"
        )
        return label_list(len(choices), format.choice_labels) if by_label and format.choice_labels else list(choices)

    def __repr__(self) -> str:
        shown = {key.removeprefix("_"): value for key, value in vars(self).items() if key != "format" or value}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


def literal(text: str) -> str:
    """The template that gives a text as it is, also where that looks like Jinja.

    >>> literal("Answer:"), literal("{{x}}")
    ('Answer:', "{{ '{{x}}' }}")
    """
    return f"{{{{ {text!r} }}}}" if has_markup(text) else text
