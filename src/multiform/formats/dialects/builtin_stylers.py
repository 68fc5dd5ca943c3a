"""The built-in stylers: multiple choice, cloze, bits per byte, and multiple choice with a generated answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.formats.base import FormatConfig, dialect_names
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BitsPerByteLoglikelihood,
)
from multiform.formats.dialects.styler import FormatStyler, ResponseType, TaskStyle
from multiform.labels import LabelSpec

_LABELLED = {False: "{label}. {choice}", True: " {label}. {choice}"}


class MCStyle(FormatStyler):
    r"""Choices shown with letters; the letters are scored.

    >>> style = MCStyle()
    >>> style.get_instruction_text("What is the capital of France?", ["Berlin", "Paris", "London"])
    'Question: What is the capital of France?\nA. Berlin\nB. Paris\nC. London\n'
    >>> style.get_possible_completions(["Berlin", "Paris", "London"]), style.get_ground_truth(["Berlin", "Paris"], 1)
    ([' A', ' B', ' C'], ' B')
    """

    metrics: Sequence[Any] = [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    task_style = TaskStyle.MULTIPLE_CHOICE

    def __init__(
        self,
        question_prefix: str = "Question: ",
        cue_text: str = "Answer:",
        space_prefixed_labels: bool = False,
        *,
        format: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(question_prefix, cue_text, format)
        self.space_prefixed_labels = space_prefixed_labels
        self.as_format()

    def own_fields(self) -> dict[str, Any]:
        return {
            "choice_labels": "letters",
            "choice_format": _LABELLED[bool(self.space_prefixed_labels)],
            "scored": "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {"space_prefixed_labels": format.choice_format == _LABELLED[True]}

    @classmethod
    def _spelled(cls, labels: LabelSpec, space: str) -> dict[str, Any]:
        more: dict[str, Any] = {} if labels == "letters" else {"choice_labels": list(labels)}
        if not space:
            more["target_delimiter"] = space
        return {"format": more} if more else {}


class MCCompletionStyle(MCStyle):
    """The prompt of MCStyle; the model generates, and the text of the choice that it names is the prediction."""

    metrics: Sequence[Any] = [AccuracyCompletion]
    response_type = ResponseType.COMPLETION

    def own_fields(self) -> dict[str, Any]:
        return {**super().own_fields(), "scored": "generation", "answer_as": "text", "scorer": "choice_text"}


class ClozeStyle(FormatStyler):
    r"""Choices not shown; their texts are scored.

    >>> ClozeStyle().get_instruction_text("What is the capital of France?", ["Berlin", "Paris"])
    'Question: What is the capital of France?\n'
    >>> ClozeStyle().get_possible_completions(["Berlin", "Paris"])
    [' Berlin', ' Paris']
    """

    metrics: Sequence[Any] = [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    task_style = TaskStyle.CLOZE

    def __init__(
        self,
        question_prefix: str = "Question: ",
        cue_text: str = "Answer:",
        trailing_newline: bool = True,
        leading_space_continuations: bool = True,
        *,
        format: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(question_prefix, cue_text, format)
        self.trailing_newline = trailing_newline
        self.leading_space_continuations = leading_space_continuations
        self.as_format()

    def own_fields(self) -> dict[str, Any]:
        return {
            "section_separator": "\n" if self.trailing_newline else "",
            "target_delimiter": " " if self.leading_space_continuations else "",
            "scored": "texts",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {
            "trailing_newline": format.section_separator != "",
            "leading_space_continuations": format.target_delimiter != "",
        }

    @classmethod
    def _spelled(cls, labels: LabelSpec, space: str) -> dict[str, Any]:
        return {} if space else {"leading_space_continuations": False}


class BPBStyle(ClozeStyle):
    """The prompt of ClozeStyle; only the gold answer is scored: one request per document."""

    metrics: Sequence[Any] = [BitsPerByteLoglikelihood]
    task_style = TaskStyle.BPB

    def own_fields(self) -> dict[str, Any]:
        return {**super().own_fields(), "scored": "gold"}


STYLES: tuple[type[FormatStyler], ...] = (MCStyle, ClozeStyle, BPBStyle, MCCompletionStyle)
_BY_SCORED: dict[str, type[FormatStyler]] = {
    "labels": MCStyle,
    "texts": ClozeStyle,
    "gold": BPBStyle,
    "generation": MCCompletionStyle,
}


def style_from(format: FormatConfig) -> tuple[FormatStyler, list[str]]:
    """The styler for a format, and messages about what of the format it cannot express."""
    styler, lost = _BY_SCORED[format.scored].from_format(format)
    return styler, lost


def style_arguments(styler: FormatStyler) -> dict[str, Any]:
    """The arguments that construct a styler, without default values."""
    arguments: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(styler)).parameters.items():
        value = getattr(styler, "_cue_text" if name == "cue_text" else name)
        if value != parameter.default and not (name == "format" and not value):
            arguments[name] = value
    return arguments


def _dialect(kind: type[FormatStyler]) -> Callable[[Mapping[str, Any]], FormatConfig]:
    def build(changes: Mapping[str, Any]) -> FormatConfig:
        parameters = [name for name in inspect.signature(kind).parameters if name != "format"]
        known = [*parameters, "format", "language", *(field.name for field in fields(FormatConfig))]
        for key in changes:
            if key not in known:
                message = f"unknown key '{key}' in style '{kind.__name__}'"
                raise ConfigError(message, where=str(key), hint=nearest(str(key), known))
        arguments = {key: value for key, value in changes.items() if key in parameters}
        more = {key: value for key, value in changes.items() if key not in (*parameters, "format", "language")}
        more = {**(changes.get("format") or {}), **more}
        styler = _in_language(kind, changes.get("language"), arguments)
        styler.format.update(more)
        return styler.as_format()

    build.__doc__ = kind.__doc__
    return build


def _in_language(kind: type[FormatStyler], language: Any, arguments: Mapping[str, Any]) -> FormatStyler:
    return kind(**arguments) if language is None else kind.for_language(language, **arguments)


for _kind in STYLES:
    dialect_names.register(_kind.__name__)(_dialect(_kind))
