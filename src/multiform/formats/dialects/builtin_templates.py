"""The built-in templates of `template:`: multiple choice and cloze."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.formats.base import FormatConfig
from multiform.formats.dialects.template import FormatTemplate, TemplateConfig, label_spec, label_words

#: Fields of a format that the kind of template sets, so that a conversion to the other kind drops them.
_DECIDED = ("type", "scored", "choice_labels", "show_choices", "question_prefix", "question_suffix",
            "choices_prefix", "answer_prompt")  # fmt: skip
_POSITIONS = ("end", "start", "none", "inline")


@dataclass
class MCQTemplateConfig(FormatTemplate):
    """Choices with labels; the labels are scored.

    >>> print(MCQTemplateConfig().format_prompt("2 + 2?", ["3", "4"]))
    2 + 2?
    A. 3
    B. 4
    Answer:
    """

    template_type = "mcq"

    choice_labels: list[str] = field(default_factory=lambda: ["A", "B", "C", "D"])
    choice_format: str = "{label}. {choice}"
    show_choices_in_prompt: bool = True

    def __post_init__(self) -> None:
        self.choice_labels = label_words(self.choice_labels)
        super().__post_init__()

    def own_fields(self) -> dict[str, Any]:
        return {
            **_common(self),
            "question_prefix": "",
            "choice_labels": label_spec(self.choice_labels),
            "choice_format": self.choice_format,
            "show_choices": None if self.show_choices_in_prompt else False,
            "answer_prompt": self.suffix,
            "scored": "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        labels = {} if format.choice_labels is None else {"choice_labels": label_words(format.choice_labels)}
        return {
            **_common_words(format),
            **labels,
            "suffix": format.answer_prompt or "",
            "choice_format": format.choice_format,
            "show_choices_in_prompt": format.shows_choices,
        }

    def to_cloze(self, blank_marker: str = "______") -> ClozeTemplateConfig:
        """The same template as a cloze, with a blank after the question and without a suffix."""
        return ClozeTemplateConfig(
            prefix=self.prefix,
            question_choice_delimiter=self.question_choice_delimiter,
            choice_delimiter=self.choice_delimiter,
            blank_marker=blank_marker,
            choice_labels=list(self.choice_labels),
            choice_format=self.choice_format,
            format=_carried(self.format),
        )


@dataclass
class ClozeTemplateConfig(FormatTemplate):
    """A blank to fill in. Labels are scored where the choices have labels, their texts otherwise.

    >>> print(ClozeTemplateConfig(choices_prefix="Options: ", choice_delimiter=", ").format_prompt("It is", ["a", "b"]))
    It is ______
    Options: a, b
    """

    template_type = "cloze"

    suffix: str = ""
    blank_marker: str = "______"
    show_choices: bool = True
    choice_labels: list[str] | None = None
    #: Where the blank is: "end", "start", or "none" ("inline") where the question has one already.
    blank_position: str = "end"
    choices_prefix: str = "\nOptions: "
    choice_format: str = "{label}. {choice}"

    def __post_init__(self) -> None:
        self.choice_labels = label_words(self.choice_labels)
        if self.blank_position not in _POSITIONS:
            message = f"expected one of {', '.join(_POSITIONS)}, got {shorten(self.blank_position)}"
            raise ConfigError(message, where="blank_position", hint="see docs/templates.md")
        super().__post_init__()

    def own_fields(self) -> dict[str, Any]:
        labels = label_spec(self.choice_labels)
        plain = self.show_choices and labels is None
        return {
            **_common(self),
            "question_prefix": f"{self.blank_marker} " if self.blank_position == "start" else "",
            "question_suffix": f" {self.blank_marker}" if self.blank_position == "end" else "",
            "choices_prefix": self.choices_prefix if self.show_choices else "",
            "choice_labels": labels,
            "choice_format": "{choice}" if plain and "{label}" in self.choice_format else self.choice_format,
            "show_choices": self.show_choices if self.show_choices is (labels is None) else None,
            "answer_prompt": self.suffix or None,
            "scored": "texts" if labels is None else "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {
            **_common_words(format),
            **_blank(format),
            "suffix": format.answer_prompt or "",
            "choice_labels": label_words(format.choice_labels),
            "choice_format": format.choice_format,
            "show_choices": format.shows_choices,
            **({"choices_prefix": format.choices_prefix} if format.shows_choices else {}),
        }

    def to_mcq(self, suffix: str = "Answer:") -> MCQTemplateConfig:
        """The same template as multiple choice, without a blank; choices without labels get letters."""
        return MCQTemplateConfig(
            prefix=self.prefix,
            suffix=suffix,
            question_choice_delimiter=self.question_choice_delimiter,
            choice_delimiter=self.choice_delimiter,
            choice_labels=label_words("letters" if self.choice_labels is None else self.choice_labels),
            choice_format=self.choice_format,
            format=_carried(self.format),
        )


def _carried(format: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in format.items() if key not in _DECIDED}


def _common(template: TemplateConfig) -> dict[str, Any]:
    return {
        "instruction": template.prefix + template.question_choice_delimiter if template.prefix else None,
        "section_separator": template.question_choice_delimiter,
        "choice_delimiter": template.choice_delimiter,
    }


def _common_words(format: FormatConfig) -> dict[str, Any]:
    text, separator = format.instruction or "", format.section_separator
    return {
        "prefix": text.removesuffix(separator) if text.endswith(separator) else "",
        "question_choice_delimiter": separator,
        "choice_delimiter": format.choice_delimiter,
    }


def _blank(format: FormatConfig) -> dict[str, Any]:
    """The blank of a format: the text beside the question, if it has no letters or digits."""
    before, after = format.question_prefix, format.question_suffix
    if not before and after.startswith(" ") and _is_blank(after[1:]):
        return {"blank_position": "end", "blank_marker": after[1:]}
    if not after and before.endswith(" ") and _is_blank(before[:-1]):
        return {"blank_position": "start", "blank_marker": before[:-1]}
    return {"blank_position": "none"}


def _is_blank(text: str) -> bool:
    return bool(text) and not any(character.isalnum() for character in text)
