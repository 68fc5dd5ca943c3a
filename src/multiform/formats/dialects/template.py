"""`template:`: the base classes of templates, with their conversion to formats, and the built-in templates."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from multiform.arguments import overridden_methods
from multiform.errors import ConfigError, DataError, excerpt
from multiform.fields import Doc, FieldSpec, process_field
from multiform.formats.base import FormatConfig
from multiform.formats.compile import FieldMapping, bind_field, compile_format
from multiform.formats.dialects import FormatDialect
from multiform.labels import LABEL_KINDS, choice_list, label_list
from multiform.registry import Registry
from multiform.schema import check_values

#: Templates by the first part of their `template_type`.
templates: Registry[type[TemplateConfig]] = Registry("template")
#: The methods that turn the fields of a task into functions: a subclass that overrides one has no equivalent format.
_WRAPPERS = ("wrap_doc_to_text", "wrap_doc_to_choice")
_HINT = "see multiform docs templates"
#: Lists of four labels that are continued if a document has more choices: letters in brackets up to Z.
_CONTINUED: dict[Any, list[str]] = {
    "letters": label_list(4),
    "numbers": label_list(4, "numbers"),
    tuple(f"({letter})" for letter in label_list(26)): [f"({letter})" for letter in label_list(4)],
}


@dataclass
class TemplateConfig(ABC):
    """Base class of templates, which write a prompt from a question and its choices.

    A subclass with a `template_type` registers itself for ``template: {template_type: ...}``; its `format_prompt`
    writes the prompts.
    """

    template_type: ClassVar[str] = ""

    prefix: str = ""
    suffix: str = "Answer:"
    question_choice_delimiter: str = "\n"
    choice_delimiter: str = "\n"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("template_type"):
            templates.register(cls.template_type)(cls)

    @abstractmethod
    def format_prompt(self, question: str, choices: list[str] | None = None) -> str:
        """The prompt of one question."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The template as the mapping of `template:`."""

    def to_format(self) -> FormatConfig | None:
        """The equivalent format, or None if a method of this class writes what no format can."""
        return None

    def wrap_doc_to_text(
        self, original_doc_to_text: FieldSpec, original_doc_to_choice: FieldSpec = None
    ) -> Callable[[Doc], str]:
        """A function from a document to its prompt, given the fields of the question and the choices."""

        def prompt(doc: Doc) -> str:
            shown = process_field(doc, original_doc_to_choice) if self._should_show_choices() else None
            return self.format_prompt(process_field(doc, original_doc_to_text, ""), shown)

        return prompt

    def _should_show_choices(self) -> bool:
        """Whether `format_prompt` gets the choices; override it to leave them out of prompts."""
        return True

    def wrap_doc_to_choice(self, original_doc_to_choice: FieldSpec) -> Callable[[Doc], list[str]]:
        """A function from a document to what is scored: the labels, or the choices if there are no labels.

        If a document's choices are not a list, all labels are scored.
        """
        labels = self._scored_labels()

        def scored_choices(doc: Doc) -> list[str]:
            try:
                choices = choice_list(process_field(doc, original_doc_to_choice, []))
            except DataError:  # a text
                if not labels:
                    raise
                return list(labels)
            if not labels:
                return [str(choice) for choice in choices]
            return label_list(len(choices), label_spec(labels)) if isinstance(choices, list | tuple) else list(labels)

        return scored_choices

    def _scored_labels(self) -> list[str] | None:
        """The labels that are scored; None if texts are."""
        return getattr(self, "choice_labels", None)


class _Labelled:
    """What both built-in templates have, each at its own place among its arguments."""

    choice_labels: Any
    choice_format: str


@dataclass
class FormatTemplate(TemplateConfig, FormatDialect, _Labelled):
    """A template with an equivalent format."""

    _task_key = ("template", "template_type")

    format: dict[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        self.choice_labels = label_words(self.choice_labels)
        built_in = next(cls for cls in type(self).__mro__ if cls.__module__ == __name__)
        check_values(built_in, vars(self), hint=_HINT)
        self.as_format()

    @classmethod
    def _class_label(cls) -> str:
        return cls.template_type

    def own_fields(self) -> dict[str, Any]:
        return {
            "instruction": self.prefix + self.question_choice_delimiter if self.prefix else None,
            "section_separator": self.question_choice_delimiter,
            "choice_delimiter": self.choice_delimiter,
            "choice_labels": label_spec(self.choice_labels),
            "choice_format": self.choice_format,
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        text, separator = format.instruction or "", format.section_separator
        return {
            "prefix": text.removesuffix(separator) if text.endswith(separator) else "",
            "suffix": format.answer_prompt or "",
            "question_choice_delimiter": separator,
            "choice_delimiter": format.choice_delimiter,
            "choice_labels": label_words(format.choice_labels),
            "choice_format": format.choice_format,
        }

    def to_format(self) -> FormatConfig | None:
        """The equivalent format; None if a subclass writes the prompts or choices itself."""
        has_code = _writes_itself(type(self)) or overridden_methods(type(self), FormatTemplate, _WRAPPERS)
        return None if has_code else self._shown(self._should_show_choices())

    def _shown(self, choices: bool) -> FormatConfig:
        """The format with or without choices in its prompts."""
        format = self.as_format()
        return format if format.shows_choices == choices else replace(format, show_choices=choices)

    def _should_show_choices(self) -> bool:
        return self.as_format().shows_choices

    def _scored_labels(self) -> list[str] | None:
        return self.choice_labels if self.as_format().scored == "labels" else None

    def format_prompt(self, question: str, choices: list[str] | None = None) -> str:
        """The prompt of one question, with or without choices."""
        prompt = self._prompt("question", "choices" if choices else None)
        return str(prompt({"question": question, "choices": list(choices or ())}))

    def wrap_doc_to_text(
        self, original_doc_to_text: FieldSpec, original_doc_to_choice: FieldSpec = None
    ) -> Callable[[Doc], str]:
        if _writes_itself(type(self)):
            return super().wrap_doc_to_text(original_doc_to_text, original_doc_to_choice)
        return self._prompt(original_doc_to_text, original_doc_to_choice)

    def _prompt(self, question: FieldSpec, choices: FieldSpec) -> Callable[[Doc], str]:
        format = self._shown(choices is not None and self._should_show_choices())
        mapping = FieldMapping("" if question is None else question, [] if choices is None else choices, 0)
        return bind_field(compile_format(format, mapping)["doc_to_text"])

    def to_dict(self) -> dict[str, Any]:
        values = {template_field.name: getattr(self, template_field.name) for template_field in fields(self)}
        return {"template_type": self.template_type, **{k: v for k, v in values.items() if k != "format" or v}}


def label_spec(labels: list[str] | None) -> Any:
    """A list of labels as `choice_labels` of a format, in which the usual lists are continued as needed."""
    return next((spec for spec, usual in _CONTINUED.items() if usual == labels), labels)


def label_words(labels: Any) -> Any:
    """`choice_labels` of a format as the list of a template."""
    if isinstance(labels, str | tuple) and labels in _CONTINUED:
        return list(_CONTINUED[labels])
    if isinstance(labels, str):
        return label_list(26, labels) if labels in LABEL_KINDS else labels
    return [str(label) for label in labels] if isinstance(labels, list | tuple) else labels


def _writes_itself(cls: type) -> bool:
    """Whether a subclass overrides `format_prompt` without also overriding `own_fields`."""
    order = list(cls.__mro__)
    prompt_at = next(i for i, base in enumerate(order) if "format_prompt" in base.__dict__)
    fields_at = next(i for i, base in enumerate(order) if "own_fields" in base.__dict__)
    return prompt_at < fields_at


#: Fields of a format that mcq and cloze templates set each for itself, so that a conversion drops them.
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

    choice_labels: list[str] = field(default_factory=lambda: label_list(4))
    choice_format: str = "{label}. {choice}"
    show_choices_in_prompt: bool = True

    def own_fields(self) -> dict[str, Any]:
        return {
            **super().own_fields(),
            "question_prefix": "",
            "show_choices": None if self.show_choices_in_prompt else False,
            "answer_prompt": self.suffix,
            "scored": "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        words = {**super().words(format), "show_choices_in_prompt": format.shows_choices}
        return {key: value for key, value in words.items() if value is not None}

    def to_cloze(self, blank_marker: str = "______") -> ClozeTemplateConfig:
        """The same template as a cloze, with a blank after the question and without a suffix."""
        return ClozeTemplateConfig(**_shared_arguments(self), blank_marker=blank_marker)


@dataclass
class ClozeTemplateConfig(FormatTemplate):
    """A blank to fill in. Labels are scored if the choices have labels, their texts otherwise.

    >>> print(ClozeTemplateConfig(choices_prefix="Options: ", choice_delimiter=", ").format_prompt("It is", ["a", "b"]))
    It is ______
    Options: a, b
    """

    template_type = "cloze"

    suffix: str = ""
    blank_marker: str = "______"
    show_choices: bool = True
    choice_labels: list[str] | None = None
    #: Where the blank is: "end", "start", or "none" ("inline") if the question has one already.
    blank_position: str = "end"
    choices_prefix: str = "\nOptions: "
    choice_format: str = "{label}. {choice}"

    def __post_init__(self) -> None:
        if self.blank_position not in _POSITIONS:
            message = f"expected one of {', '.join(_POSITIONS)}, got {excerpt(self.blank_position)}"
            raise ConfigError(message, where="blank_position", hint=_HINT)
        super().__post_init__()

    def own_fields(self) -> dict[str, Any]:
        unlabelled = self.choice_labels is None
        bare = self.show_choices and unlabelled and "{label}" in self.choice_format
        return {
            **super().own_fields(),
            **({"choice_format": "{choice}"} if bare else {}),
            "question_prefix": f"{self.blank_marker} " if self.blank_position == "start" else "",
            "question_suffix": f" {self.blank_marker}" if self.blank_position == "end" else "",
            "choices_prefix": self.choices_prefix if self.show_choices else "",
            "show_choices": self.show_choices if self.show_choices is unlabelled else None,
            "answer_prompt": self.suffix or None,
            "scored": "texts" if unlabelled else "labels",
        }

    @classmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        return {
            **super().words(format),
            **_blank(format),
            "show_choices": format.shows_choices,
            **({"choices_prefix": format.choices_prefix} if format.shows_choices else {}),
        }

    def to_mcq(self, suffix: str = "Answer:") -> MCQTemplateConfig:
        """The same template as multiple choice, without a blank; choices without labels get letters."""
        arguments = _shared_arguments(self)
        return MCQTemplateConfig(**{**arguments, "choice_labels": self.choice_labels or "letters"}, suffix=suffix)


def _shared_arguments(template: FormatTemplate) -> dict[str, Any]:
    """The arguments that a template keeps when it is converted to the other type."""
    names = ("prefix", "question_choice_delimiter", "choice_delimiter", "choice_labels", "choice_format")
    format = {key: value for key, value in template.format.items() if key not in _DECIDED}
    return {**{name: getattr(template, name) for name in names}, "format": format}


def _blank(format: FormatConfig) -> dict[str, Any]:
    """The blank of a format: the text beside the question, if it has no letters or digits."""
    before, after = format.question_prefix, format.question_suffix
    if not before and re.fullmatch(r"(?s) (?:\W|_)+", after):
        return {"blank_position": "end", "blank_marker": after[1:]}
    if not after and re.fullmatch(r"(?s)(?:\W|_)+ ", before):
        return {"blank_position": "start", "blank_marker": before[:-1]}
    return {"blank_position": "none"}
