"""Task styles: a format in the words of the stylers that Python tasks carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from typing_extensions import Self

from multiform.errors import UsageError
from multiform.formats.base import FormatConfig, variant
from multiform.formats.compile import FieldMapping, bound, compile_format
from multiform.formats.dialects.metric_classes import metric_specs
from multiform.formats.fewshot_answer import written_answer
from multiform.formats.language import LITERALS, Language, language_of
from multiform.formats.names import overlaid, unsaid
from multiform.labels import label_list

#: Stands for the cue in a prompt that is cut off before it.
_CUE = "\0"


class ResponseType(Enum):
    """What is asked of a model."""

    COMPLETION = "completion"
    LOGLIKELIHOODS = "loglikelihoods"


class TaskStyle(Enum):
    """What kind of question a styler makes."""

    MULTIPLE_CHOICE = "multiple_choice"
    CLOZE = "cloze"
    BPB = "bpb"


class MissingIndexError(UsageError, ValueError):
    """The right answer is not known, and nothing else is scored."""


class TaskStyler(ABC):
    """How prompts are written and scored, given a question, its choices and the index of the right one.

    `response_type`, `metrics` and `task_style` say what a task with this styler asks and computes.
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
        """The right answer as it is scored."""

    @abstractmethod
    def get_possible_completions(self, choices: list[str], correct_index: int | None = None) -> list[str] | None:
        """The completions that are scored; None where the model writes."""

    @abstractmethod
    def get_cue_text(self) -> str:
        """What follows the prompt and asks for the answer, such as ``Answer:``."""

    def get_question_text(self, raw_question: str) -> str:
        """The question with its prefix; override it where a question is more than that."""
        return f"{self.question_prefix}{raw_question}"

    def get_fewshot_target_text(self, choices: list[str], correct_index: int) -> str:
        """What an example says after its prompt: cue and answer."""
        return f"{self.get_cue_text()}{self.get_ground_truth(choices, correct_index)}"

    def get_extra_metadata(self) -> dict[str, Any]:
        """What the styler adds to the metadata of its task."""
        return {"task_style": self.task_style.value}

    def to_format(self) -> FormatConfig | None:
        """The format that says the same, or None where only this class's code can say it."""
        return None

    @classmethod
    def for_language(cls, language: Language | str, **kwargs: Any) -> Self:
        """The styler with the question word, cue, labels and spacing of a language; what is given goes first."""
        literals = LITERALS.get(language_of(language))
        if literals is None:
            return cls(**kwargs)
        words = {"question_prefix": literals.question, "cue_text": literals.answer}
        spelled = cls._spelled(literals.labels, literals.space)
        arguments = {**words, **spelled, **kwargs}
        if "format" in spelled and kwargs.get("format"):
            arguments["format"] = {**spelled["format"], **kwargs["format"]}
        return cls(**arguments)

    @classmethod
    def _spelled(cls, labels: Any, space: str) -> dict[str, Any]:
        """The arguments that stand for a language's labels and spacing; a class without such words has none."""
        return {}


class FormatStyler(TaskStyler):
    """A styler that a format can say as well; `format` holds what only a format has words for."""

    response_type = ResponseType.LOGLIKELIHOODS
    #: The methods whose code a format stands for: a subclass that overrides one is no format any more.
    _METHODS: ClassVar = ("get_instruction_text", "get_ground_truth", "get_possible_completions", "get_cue_text",
                          "get_question_text", "get_fewshot_target_text")  # fmt: skip

    def __init__(self, question_prefix: str, cue_text: str, format: Mapping[str, Any] | None) -> None:
        self.question_prefix = question_prefix
        self._cue_text = cue_text
        self.format = dict(format or {})

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """The fields of the format that this styler's arguments say."""

    @classmethod
    @abstractmethod
    def words(cls, form: FormatConfig) -> dict[str, Any]:
        """The arguments that say a format, as far as they go."""

    def as_format(self) -> FormatConfig:
        """What the arguments say, as a format."""
        return overlaid(self._said(), self.format, name=type(self).__name__)

    def _said(self) -> dict[str, Any]:
        measured = metric_specs(self.metrics, where=f"{type(self).__name__}.metrics")
        common = {"question_prefix": self.question_prefix, "answer_prompt": self._cue_text, "metric_list": measured}
        return {**common, **self.own_fields()}

    def to_format(self) -> FormatConfig | None:
        own = (_definer(type(self), name) for name in self._METHODS)
        return self.as_format() if all(kind.__module__.startswith("multiform.") for kind in own) else None

    @classmethod
    def from_format(cls, form: FormatConfig) -> tuple[Self, list[str]]:
        """The styler that says what a format says, and what it has no words for."""
        common = {"question_prefix": form.question_prefix, "cue_text": form.answer_prompt or ""}
        words = {**common, **cls.words(form)}
        more, lost = unsaid(form, cls(**words)._said(), name=cls.__name__)
        return cls(**words, format=more), lost

    def get_cue_text(self) -> str:
        return self._cue_text

    def get_instruction_text(self, raw_question: str, choices: list[str]) -> str:
        form = variant(self.as_format(), question_prefix="")
        if form.answer_prompt:
            form = variant(form, answer_prompt=_CUE)
        doc = {"question": self.get_question_text(raw_question), "choices": list(choices)}
        text = str(bound(compile_format(form, FieldMapping("question", "choices", 0)).doc_to_text)(doc))
        return text.removesuffix(_CUE)

    def get_ground_truth(self, choices: list[str], correct_index: int) -> str:
        form = self.as_format()
        bare = self._answers(form, choices)[correct_index]
        return bare if form.scored == "generation" else form.target_delimiter + bare

    def get_possible_completions(self, choices: list[str], correct_index: int | None = None) -> list[str] | None:
        form = self.as_format()
        if form.scored == "generation":
            return None
        every = [form.target_delimiter + text for text in self._answers(form, choices)]
        if form.scored != "gold":
            return every
        if correct_index is None:
            what = f"{type(self).__name__} scores the right answer alone and was not told which one that is"
            raise MissingIndexError(what, hint="give correct_index")
        return [every[correct_index]]

    def get_fewshot_target_text(self, choices: list[str], correct_index: int) -> str:
        form = self.as_format()
        answer = written_answer(form.shot_answer(), self._answers(form, choices)[correct_index])
        return self.get_cue_text() + form.target_delimiter + answer

    def _answers(self, form: FormatConfig, choices: Sequence[str]) -> list[str]:
        """What stands for each choice in an answer: its label or its text."""
        by_label = form.scored == "labels" or (
            form.scored == "generation" and form.shows_choices and form.answer_as != "text"
        )
        return label_list(len(choices), form.choice_labels) if by_label and form.choice_labels else list(choices)

    def __repr__(self) -> str:
        shown = {key.removeprefix("_"): value for key, value in vars(self).items() if key != "format" or value}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


def _definer(cls: type, name: str) -> type:
    """The class that a method comes from."""
    return next(kind for kind in cls.__mro__ if name in kind.__dict__)
