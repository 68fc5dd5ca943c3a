"""The templates of `template:`: multiple choice and cloze, and the factory that makes them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from multiform.errors import ConfigError, nearest, shorten
from multiform.formats.base import FormatConfig
from multiform.formats.dialects import dialects
from multiform.formats.template import FormatTemplate, TemplateConfig, label_spec, label_words, templates

#: Fields of a format that one kind of template decides by itself, so that a conversion drops them.
_DECIDED = ("type", "scored", "choice_labels", "show_choices", "question_prefix", "question_suffix",
            "choices_prefix", "answer_prompt")  # fmt: skip
_POSITIONS = ("end", "start", "none", "inline")


@dataclass
class MCQTemplateConfig(FormatTemplate):
    """Choices with labels, of which the labels are scored.

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
    def words(cls, form: FormatConfig) -> dict[str, Any]:
        labels = {} if form.choice_labels is None else {"choice_labels": label_words(form.choice_labels)}
        return {
            **_common_words(form),
            **labels,
            "suffix": form.answer_prompt or "",
            "choice_format": form.choice_format,
            "show_choices_in_prompt": form.shows_choices,
        }

    def to_cloze(self, blank_marker: str = "______") -> ClozeTemplateConfig:
        """The same question with a blank to fill, the choices as options; a cloze has no suffix."""
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
    #: Where the blank stands: "end", "start", or "none" ("inline") where the question has it already.
    blank_position: str = "end"
    choices_prefix: str = "\nOptions: "
    choice_format: str = "{label}. {choice}"

    def __post_init__(self) -> None:
        self.choice_labels = label_words(self.choice_labels)
        if self.blank_position not in _POSITIONS:
            what = f"expected one of {', '.join(_POSITIONS)}, got {shorten(self.blank_position)}"
            raise ConfigError(what, where="blank_position", hint="see docs/templates.md")
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
    def words(cls, form: FormatConfig) -> dict[str, Any]:
        return {
            **_common_words(form),
            **_blank(form),
            "suffix": form.answer_prompt or "",
            "choice_labels": label_words(form.choice_labels),
            "choice_format": form.choice_format,
            "show_choices": form.shows_choices,
            **({"choices_prefix": form.choices_prefix} if form.shows_choices else {}),
        }

    def to_mcq(self, suffix: str = "Answer:") -> MCQTemplateConfig:
        """The same question without a blank, the choices with labels (letters where there were none)."""
        labels = {} if self.choice_labels is None else {"choice_labels": list(self.choice_labels)}
        return MCQTemplateConfig(
            prefix=self.prefix,
            suffix=suffix,
            question_choice_delimiter=self.question_choice_delimiter,
            choice_delimiter=self.choice_delimiter,
            choice_format=self.choice_format,
            format=_carried(self.format),
            **labels,
        )


class TemplateFactory:
    """Makes templates from what `template:` says, and turns one kind into the other."""

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> TemplateConfig:
        """The template of a mapping; `template_type` is ``mcq``, ``cloze``, or one with a style, ``mcq::gpqa``."""
        given = {key: value for key, value in config.items() if key != "template_type"}
        name = config.get("template_type", "mcq")
        if name in _STYLES:
            make = _STYLES[name]
            base = make(given.pop("num_choices")) if "num_choices" in given and name == "mcq::numbered" else make()
            return _made(type(base), {**_without_type(base.to_dict()), **given}, name)
        if not isinstance(name, str) or name not in templates:
            hint = nearest(str(name), [*templates, *_STYLES], listed="templates")
            raise ConfigError(f"unknown template '{shorten(name, 40)[1:-1]}'", where="template_type", hint=hint)
        return _made(templates.get(name), given, name)

    @staticmethod
    def from_name(name: str) -> TemplateConfig:
        """The template that ``template: name`` stands for; the usual style of a type without one."""
        usual = {"mcq": "mcq::mmlu", "cloze": "cloze::with_options"}
        return TemplateFactory.from_dict({"template_type": usual.get(name, name)})

    @staticmethod
    def create_mmlu_style() -> MCQTemplateConfig:
        """Question, choices as ``A. choice`` one below the other, ``Answer:``."""
        return MCQTemplateConfig()

    @staticmethod
    def create_gpqa_style() -> MCQTemplateConfig:
        """As lm-eval asks GPQA: choices as ``(A) choice`` below ``Choices:``, and ``(A)`` is scored."""
        return MCQTemplateConfig(
            prefix="What is the correct answer to this question:",
            choice_labels=["(A)", "(B)", "(C)", "(D)"],
            choice_format="{label} {choice}",
            format={"choices_prefix": "Choices:\n"},
        )

    @staticmethod
    def create_numbered_style(num_choices: int = 4) -> MCQTemplateConfig:
        """Choices as ``1. choice``."""
        return MCQTemplateConfig(choice_labels=[str(number) for number in range(1, num_choices + 1)])

    @staticmethod
    def create_cloze_with_options() -> ClozeTemplateConfig:
        """A blank after the question, the choices with letters in one line below."""
        return ClozeTemplateConfig(choice_labels=["A", "B", "C", "D"], choice_delimiter=" ")

    @staticmethod
    def create_pure_cloze() -> ClozeTemplateConfig:
        """A blank after the question, no choices; their texts are scored."""
        return ClozeTemplateConfig(show_choices=False)

    @staticmethod
    def convert_template(
        template: TemplateConfig, target_type: Literal["mcq", "cloze"], **kwargs: Any
    ) -> TemplateConfig:
        """The template as the other kind, or itself where it is of that kind already."""
        if target_type == template.template_type:
            return template
        if target_type == "cloze" and isinstance(template, MCQTemplateConfig):
            return template.to_cloze(**kwargs)
        if target_type == "mcq" and isinstance(template, ClozeTemplateConfig):
            return template.to_mcq(**kwargs)
        what = f"{type(template).__name__} cannot be converted to '{target_type}'"
        raise ConfigError(what, where="template", hint="convert from and to mcq or cloze")


_STYLES: dict[Any, Callable[..., FormatTemplate]] = {
    "mcq::mmlu": TemplateFactory.create_mmlu_style,
    "mcq::gpqa": TemplateFactory.create_gpqa_style,
    "mcq::numbered": TemplateFactory.create_numbered_style,
    "cloze::with_options": TemplateFactory.create_cloze_with_options,
    "cloze::pure": TemplateFactory.create_pure_cloze,
}


def template_of(spec: str | Mapping[str, Any] | TemplateConfig) -> TemplateConfig:
    """The template that the `template:` of a task says."""
    if isinstance(spec, TemplateConfig):
        return spec
    return TemplateFactory.from_name(spec) if isinstance(spec, str) else TemplateFactory.from_dict(spec)


def template_from(form: FormatConfig) -> tuple[FormatTemplate, list[str]]:
    """The template that says what a format says, and what it has no words for."""
    labelled = form.choice_labels is not None and form.scored in ("labels", "generation")
    kind: type[FormatTemplate] = MCQTemplateConfig if labelled else ClozeTemplateConfig
    return kind.from_format(form)


def _made(kind: type[TemplateConfig], given: Mapping[str, Any], name: str) -> TemplateConfig:
    known = [one.name for one in fields(kind)]
    for key in given:
        if key not in known:
            hint = nearest(str(key), known, listed="its keys are")
            raise ConfigError(f"unknown key '{key}' in template '{name}'", where=str(key), hint=hint)
    return kind(**given)


def _without_type(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "template_type"}


def _carried(format: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in format.items() if key not in _DECIDED}


def _common(template: TemplateConfig) -> dict[str, Any]:
    return {
        "instruction": template.prefix + template.question_choice_delimiter if template.prefix else None,
        "section_separator": template.question_choice_delimiter,
        "choice_delimiter": template.choice_delimiter,
    }


def _common_words(form: FormatConfig) -> dict[str, Any]:
    text, separator = form.instruction or "", form.section_separator
    return {
        "prefix": text.removesuffix(separator) if text.endswith(separator) else "",
        "question_choice_delimiter": separator,
        "choice_delimiter": form.choice_delimiter,
    }


def _blank(form: FormatConfig) -> dict[str, Any]:
    """The blank of a format, which is what stands beside the question and holds no word."""
    before, after = form.question_prefix, form.question_suffix
    if not before and after.startswith(" ") and _is_blank(after[1:]):
        return {"blank_position": "end", "blank_marker": after[1:]}
    if not after and before.endswith(" ") and _is_blank(before[:-1]):
        return {"blank_position": "start", "blank_marker": before[:-1]}
    return {"blank_position": "none"}


def _is_blank(text: str) -> bool:
    return bool(text) and not any(character.isalnum() for character in text)


def _dialect(name: str) -> Callable[[Mapping[str, Any]], FormatConfig]:
    def made(changes: Mapping[str, Any]) -> FormatConfig:
        base = TemplateFactory.from_name(name)
        own = {key: value for key, value in changes.items() if key in {one.name for one in fields(base)}}
        more = {key: value for key, value in changes.items() if key not in own}
        values = {**base.to_dict(), **own}
        values["format"] = {**values.get("format", {}), **more}
        form = TemplateFactory.from_dict(values).to_format()
        assert form is not None
        return form

    made.__doc__ = _STYLES.get(name, TemplateFactory.create_mmlu_style).__doc__
    return made


for _name in ("mcq", *_STYLES):
    dialects.register(str(_name))(_dialect(str(_name)))
