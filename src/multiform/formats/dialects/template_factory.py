"""Templates by name, and the fields of a task under its `template:`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from multiform.errors import ConfigError, excerpt, nearest
from multiform.fields import Doc, process_field
from multiform.formats.base import FormatConfig, OutputType, dialect_names
from multiform.formats.compile import BoundTemplate, FieldMapping, bind_field, check_raw, compile_format
from multiform.formats.dialects import translators
from multiform.formats.dialects.template import (
    ClozeTemplateConfig,
    FormatTemplate,
    MCQTemplateConfig,
    TemplateConfig,
    templates,
)
from multiform.labels import gold_index, label_list
from multiform.schema import check_keys


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
            raise ConfigError(f"unknown template '{excerpt(name, 40)[1:-1]}'", where="template_type", hint=hint)
        check_keys(f"template '{name}'", [field.name for field in fields(template_class)], values)
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
        return MCQTemplateConfig(choice_labels=label_list(num_choices, "numbers"))

    @staticmethod
    def create_cloze_with_options() -> ClozeTemplateConfig:
        """A blank after the question, the choices with letters in one line below."""
        return ClozeTemplateConfig(choice_labels=label_list(4), choice_delimiter=" ")

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
for _name, _create in {"mcq": TemplateFactory.create_mmlu_style, **_STYLES}.items():
    dialect_names.register(_name)(_create)


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


@dataclass(frozen=True, slots=True, eq=False)
class ScoredChoices(BoundTemplate):
    """What a template scores in a document: by its method, which the Jinja template shows."""

    wrapped: Callable[[Doc], list[str]] = field(kw_only=True)

    def __call__(self, doc: Doc) -> Any:
        return self.wrapped(doc)


def wrap_mapping(
    spec: str | Mapping[str, Any] | TemplateConfig,
    mapping: FieldMapping,
    output_type: OutputType,
    answer_base: int | None = None,
) -> dict[str, Any]:
    """The keys of a task under a template, with the fields of its mapping; `spec` is the value of `template:`."""
    template = template_of(spec)
    format = template.to_format()
    question, choices, answer = mapping.question, mapping.choices, mapping.answer
    named = spec.get("template_type") if isinstance(spec, Mapping) else spec if isinstance(spec, str) else None
    label = str(named or template.template_type or type(template).__name__)
    scored = None if choices is None else template.wrap_doc_to_choice(choices)

    def gold(doc: Doc) -> Any:
        return gold_index(process_field(doc, answer), process_field(doc, choices, []), base=answer_base)

    keys: dict[str, Any] = {"template_config": template, "format": format, "format_label": label}
    if format is None:  # its own methods write the prompt
        return {
            **keys,
            "output_type": "multiple_choice" if scored and output_type == "generate_until" else output_type,
            "doc_to_text": None if question is None else template.wrap_doc_to_text(question, choices),
            "doc_to_choice": scored,
            "doc_to_target": answer if scored is None or answer is None else gold,
        }
    if format.needs_choices and choices is None:
        message = f"template '{label}' needs choices but the task has no doc_to_choice"
        raise ConfigError(message, hint="set doc_to_choice to the column that holds them")
    check_raw(format, mapping)
    complete = replace(
        mapping, question="question" if question is None else question, answer="answer" if answer is None else answer
    )
    written = compile_format(format, complete, answer_base)
    jinja = bind_field(written["doc_to_choice"])
    return {
        **keys,
        "output_type": format.output_type,
        "doc_to_text": None if question is None else bind_field(written["doc_to_text"]),
        "doc_to_choice": scored and ScoredChoices(jinja.source, jinja.fields, wrapped=scored),
        "doc_to_target": None if answer is None else written["doc_to_target"],
    }
