"""Templates by name, and the fields of a task under its `template:`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from multiform.errors import ConfigError, check_keys, nearest, shorten
from multiform.fields import Doc, process_field
from multiform.formats.base import FormatConfig, OutputType, dialect_names
from multiform.formats.compile import FieldMapping, bind_field, check_raw, compile_format
from multiform.formats.dialects import translators
from multiform.formats.dialects.template import (
    ClozeTemplateConfig,
    FormatTemplate,
    MCQTemplateConfig,
    TemplateConfig,
    templates,
)
from multiform.labels import gold_index


class TemplateFactory:
    """Creates templates from the value of `template:`, and converts between kinds of templates."""

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> TemplateConfig:
        """The template of a mapping; `template_type` is ``mcq``, ``cloze``, or a style of these, like ``mcq::gpqa``."""
        values = dict(config)
        name = values.pop("template_type", "mcq")
        if name in _STYLES:
            numbered = {key: values.pop(key) for key in ("num_choices",) if key in values and name == "mcq::numbered"}
            values = {**_STYLES[name](**numbered).to_dict(), **values}
            template_class = templates.get(values.pop("template_type"))
        elif isinstance(name, str) and name in templates:
            template_class = templates.get(name)
        else:
            hint = nearest(str(name), [*templates, *_STYLES], listed="templates")
            raise ConfigError(f"unknown template '{shorten(name, 40)[1:-1]}'", where="template_type", hint=hint)
        known = [field.name for field in fields(template_class)]
        check_keys(values, known, f" in template '{name}'", listed="its keys are")
        return template_class(**values)

    @staticmethod
    def from_name(name: str) -> TemplateConfig:
        """The template of ``template: name``; a type without a style has its usual one."""
        usual = {"mcq": "mcq::mmlu", "cloze": "cloze::with_options"}
        return TemplateFactory.from_dict({"template_type": usual.get(name, name)})

    @staticmethod
    def create_mmlu_style() -> MCQTemplateConfig:
        """Question, choices as ``A. choice`` one below the other, ``Answer:``."""
        return MCQTemplateConfig()

    @staticmethod
    def create_gpqa_style() -> MCQTemplateConfig:
        """The prompt of GPQA in lm-eval: choices as ``(A) choice`` below ``Choices:``; ``(A)`` is scored."""
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
        """Convert a template to the target type; `kwargs` are those of `to_cloze` or `to_mcq`."""
        if target_type == template.template_type:
            return template
        if target_type == "cloze" and isinstance(template, MCQTemplateConfig):
            return template.to_cloze(**kwargs)
        if target_type == "mcq" and isinstance(template, ClozeTemplateConfig):
            return template.to_mcq(**kwargs)
        message = f"{type(template).__name__} cannot be converted to '{target_type}'"
        raise ConfigError(message, where="template", hint="convert from and to mcq or cloze")


_STYLES: dict[Any, Callable[..., FormatTemplate]] = {
    "mcq::mmlu": TemplateFactory.create_mmlu_style,
    "mcq::gpqa": TemplateFactory.create_gpqa_style,
    "mcq::numbered": TemplateFactory.create_numbered_style,
    "cloze::with_options": TemplateFactory.create_cloze_with_options,
    "cloze::pure": TemplateFactory.create_pure_cloze,
}


def template_of(spec: str | Mapping[str, Any] | TemplateConfig) -> TemplateConfig:
    """The template for the value of a task's `template:`."""
    if isinstance(spec, TemplateConfig):
        return spec
    return TemplateFactory.from_name(spec) if isinstance(spec, str) else TemplateFactory.from_dict(spec)


def template_from(format: FormatConfig) -> tuple[FormatTemplate, list[str]]:
    """The template for a format, and messages about what of the format it cannot express."""
    labelled = format.choice_labels is not None and format.scored in ("labels", "generation")
    template_class: type[FormatTemplate] = MCQTemplateConfig if labelled else ClozeTemplateConfig
    return template_class.from_format(format)


translators["template"] = template_from


def _dialect(name: str) -> Callable[[Mapping[str, Any]], FormatConfig]:
    def build(changes: Mapping[str, Any]) -> FormatConfig:
        base = TemplateFactory.from_name(name)
        own = {key: value for key, value in changes.items() if key in vars(base)}
        values = {**base.to_dict(), **own}
        values["format"] = {**values.get("format", {}), **{k: v for k, v in changes.items() if k not in own}}
        format = TemplateFactory.from_dict(values).to_format()
        assert format is not None
        return format

    build.__doc__ = _STYLES.get(name, TemplateFactory.create_mmlu_style).__doc__
    return build


for _name in ("mcq", *_STYLES):
    dialect_names.register(str(_name))(_dialect(str(_name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedMapping:
    """The fields of a task under a template; fields that the task does not have are None."""

    template: TemplateConfig
    label: str
    format: FormatConfig | None
    output_type: OutputType
    doc_to_text: Callable[[Doc], Any] | None
    doc_to_choice: Callable[[Doc], Any] | None
    doc_to_target: Any


def wrap_mapping(
    spec: str | Mapping[str, Any] | TemplateConfig,
    mapping: FieldMapping,
    output_type: OutputType,
    answer_base: int | None = None,
) -> WrappedMapping:
    """The fields of a mapping under a template; `spec` is the value of `template:`."""
    template = template_of(spec)
    format = template.to_format()
    named = spec.get("template_type") if isinstance(spec, Mapping) else spec if isinstance(spec, str) else None
    label = str(named or template.template_type or type(template).__name__)
    if format is None:
        return _by_code(template, label, mapping, output_type, answer_base)
    if format.needs_choices and mapping.choices is None:
        message = f"template '{label}' needs choices but the task has no doc_to_choice"
        raise ConfigError(message, hint="set doc_to_choice to the column that holds them")
    check_raw(format, mapping)
    question, answer = mapping.question, mapping.answer
    complete = FieldMapping(
        "question" if question is None else question,
        mapping.choices,
        "answer" if answer is None else answer,
        mapping.context,
    )
    templates = compile_format(format, complete, answer_base)
    return WrappedMapping(
        template=template,
        label=label,
        format=format,
        output_type=format.output_type,
        doc_to_text=None if question is None else bind_field(templates.doc_to_text),
        doc_to_choice=None if mapping.choices is None else template.wrap_doc_to_choice(mapping.choices),
        doc_to_target=None if answer is None else templates.doc_to_target,
    )


def _by_code(
    template: TemplateConfig, label: str, mapping: FieldMapping, output_type: OutputType, answer_base: int | None
) -> WrappedMapping:
    """The fields under a template without an equivalent format, whose own methods write the prompt."""
    choices, answer = mapping.choices, mapping.answer

    def gold(doc: Doc) -> Any:
        return gold_index(process_field(doc, answer), process_field(doc, choices, []), base=answer_base)

    ranked = choices is not None and output_type == "generate_until"
    return WrappedMapping(
        template=template,
        label=label,
        format=None,
        output_type="multiple_choice" if ranked else output_type,
        doc_to_text=None if mapping.question is None else template.wrap_doc_to_text(mapping.question, choices),
        doc_to_choice=None if choices is None else template.wrap_doc_to_choice(choices),
        doc_to_target=answer if choices is None or answer is None else gold,
    )
