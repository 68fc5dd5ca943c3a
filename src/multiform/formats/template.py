"""`template:`: a format in the words of multiple-choice and cloze templates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

from multiform.answers import label_list
from multiform.errors import ConfigError, DataError
from multiform.fields import Doc, FieldSpec, process_field
from multiform.formats.base import FormatConfig, variant
from multiform.formats.dialects import overlaid, unsaid
from multiform.formats.jinja import BoundTemplate, FieldMapping, bound, compile_format
from multiform.registry import Registry

#: Templates by the first part of their `template_type`.
templates: Registry[type[TemplateConfig]] = Registry("template")
#: Lists of labels that go on by themselves where a document has more choices.
_ENDLESS = {"letters": ["A", "B", "C", "D"], "numbers": ["1", "2", "3", "4"]}


@dataclass
class TemplateConfig(ABC):
    """How a prompt is put together from a question and its choices.

    A subclass with a `template_type` of its own is what ``template: {template_type: ...}`` finds; its
    `format_prompt` writes the prompts.
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
        """The template as `template:` has it."""

    def to_format(self) -> FormatConfig | None:
        """The format that says the same, or None where only this class's code can say it."""
        return None

    def wrap_doc_to_text(self, doc_to_text: FieldSpec, doc_to_choice: FieldSpec = None) -> Callable[[Doc], str]:
        """A function that reads question and choices from a document and gives the prompt."""

        def wrapped(doc: Doc) -> str:
            choices = process_field(doc, doc_to_choice)
            return self.format_prompt(str(process_field(doc, doc_to_text, "")), choices)

        return wrapped

    def wrap_doc_to_choice(self, doc_to_choice: FieldSpec) -> Callable[[Doc], list[str]]:
        """A function that gives what is scored of a document: the labels, or the choices where there are none."""

        def wrapped(doc: Doc) -> list[str]:
            choices = process_field(doc, doc_to_choice, [])
            labels = getattr(self, "choice_labels", None)
            return label_list(len(choices), label_spec(labels)) if labels else [str(choice) for choice in choices]

        return wrapped


@dataclass
class FormatTemplate(TemplateConfig):
    """A template that a format can say as well; `format` holds what only a format can say."""

    format: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """The fields of the format that this template's words say."""

    @classmethod
    @abstractmethod
    def words(cls, form: FormatConfig) -> dict[str, Any]:
        """This template's words for a format, as far as they go."""

    def __post_init__(self) -> None:
        self.to_format()

    def to_format(self) -> FormatConfig | None:
        """The same prompts as a format; None where a subclass writes them itself."""
        if _writes_itself(type(self)):
            return None
        return self.as_format()

    def as_format(self) -> FormatConfig:
        """What the fields say, as a format."""
        return overlaid(self.own_fields(), self.format, name=f"template '{self.template_type}'")

    def format_prompt(self, question: str, choices: list[str] | None = None) -> str:
        """The prompt of one question; without choices, the prompt without them."""
        form = self.as_format() if choices else variant(self.as_format(), show_choices=False)
        prompt = compile_format(form, FieldMapping("question", "choices", "answer")).doc_to_text
        return str(bound(prompt)({"question": question, "choices": list(choices or ())}))

    def wrap_doc_to_text(self, doc_to_text: FieldSpec, doc_to_choice: FieldSpec = None) -> Callable[[Doc], str]:
        if _writes_itself(type(self)):
            return super().wrap_doc_to_text(doc_to_text, doc_to_choice)
        return wrapped_text(self.as_format(), doc_to_text, doc_to_choice)

    def wrap_doc_to_choice(self, doc_to_choice: FieldSpec) -> Callable[[Doc], list[str]]:
        form = self.as_format()
        made = compile_format(form, FieldMapping("", doc_to_choice, None if doc_to_choice is None else 0)).doc_to_choice
        return bound(made)

    def to_dict(self) -> dict[str, Any]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"template_type": self.template_type, **{k: v for k, v in values.items() if k != "format" or v}}

    def brief(self) -> dict[str, Any]:
        """The template as `template:` has it, without what is the default anyway."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        changed = {one.name: values[one.name] for one in fields(self) if values[one.name] != _default(one)}
        return {"template_type": self.template_type, **changed}

    @classmethod
    def from_format(cls, form: FormatConfig) -> tuple[FormatTemplate, list[str]]:
        """The template that says what a format says, and what it cannot say."""
        words = cls.words(form)
        more, lost = unsaid(form, cls(**words).own_fields(), name=f"template '{cls.template_type}'")
        return cls(**words, format=more), lost


def wrapped_text(form: FormatConfig, doc_to_text: FieldSpec, doc_to_choice: FieldSpec) -> BoundTemplate:
    """The prompt of a document under a format, as a function; without choices where none are given."""
    if doc_to_choice is None:
        form = variant(form, show_choices=False)
    made = compile_format(form, FieldMapping(doc_to_text, [] if doc_to_choice is None else doc_to_choice, 0))
    return bound(made.doc_to_text)


def label_spec(labels: Any) -> Any:
    """A list of labels as a format has it: the usual lists go on by themselves."""
    return next((name for name, usual in _ENDLESS.items() if list(labels or ()) == usual), labels)


def label_words(labels: Any) -> Any:
    """The labels of a format as a list."""
    return list(_ENDLESS.get(labels, ())) if isinstance(labels, str) else None if labels is None else list(labels)


def instruction_of(prefix: str, delimiter: str) -> str | None:
    """A prefix as the instruction of a format: it stands before the question, set off by the delimiter."""
    return prefix + delimiter if prefix else None


def prefix_of(form: FormatConfig) -> str:
    """The prefix that gives a format's instruction, or none."""
    text = form.instruction or ""
    return text.removesuffix(form.section_separator) if text.endswith(form.section_separator) else ""


def check_labels(labels: Any, name: str) -> None:
    """Refuse labels that are not a list of texts."""
    if labels is not None and (not isinstance(labels, list | tuple) or not all(isinstance(x, str) for x in labels)):
        raise ConfigError("expected a list of labels", where="choice_labels", hint=f"write e.g. {name}: [A, B, C, D]")


def _default(one: Any) -> Any:
    return one.default_factory() if one.default is MISSING else one.default


def _writes_itself(cls: type[FormatTemplate]) -> bool:
    """Whether a subclass has a `format_prompt` of its own, later than what makes its format."""
    order = list(cls.__mro__)
    prompt = next(i for i, kind in enumerate(order) if "format_prompt" in kind.__dict__)
    made = next(i for i, kind in enumerate(order) if "own_fields" in kind.__dict__)
    return prompt < made


__all__ = ["DataError", "FormatTemplate", "Mapping", "TemplateConfig", "templates"]
