"""What `template:` makes of a task: fields that are functions, and the format behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multiform.errors import ConfigError
from multiform.fields import Doc, FieldSpec, process_field
from multiform.formats import FieldMapping, FormatConfig, OutputType, TemplateConfig, bound, compile_format, template_of
from multiform.formats.raw import check_raw
from multiform.labels import gold_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A task's fields under a template; fields that the task does not have stay None."""

    template: TemplateConfig
    label: str
    format: FormatConfig | None
    output_type: OutputType
    doc_to_text: Callable[[Doc], Any] | None
    doc_to_choice: Callable[[Doc], Any] | None
    doc_to_target: Any


def wrapped(spec: str | Mapping[str, Any] | TemplateConfig, mapping: FieldMapping, output_type: OutputType) -> Wrapped:
    """The fields of a mapping under the template that a task names."""
    template = template_of(spec)
    form = template.to_format()
    label = spec if isinstance(spec, str) else _label(spec, template)
    if form is None:
        return _by_code(template, label, mapping, output_type)
    if form.needs_choices and mapping.choices is None:
        what = f"template '{label}' needs choices but the task has no doc_to_choice"
        raise ConfigError(what, hint="set doc_to_choice to the column that holds them")
    check_raw(form, mapping)
    question, answer = mapping.question, mapping.answer
    asked = FieldMapping(
        "question" if question is None else question, mapping.choices, "answer" if answer is None else answer
    )
    made = compile_format(form, asked)
    return Wrapped(
        template=template,
        label=label,
        format=form,
        output_type=form.output_type,
        doc_to_text=None if question is None else bound(made.doc_to_text),
        doc_to_choice=None if mapping.choices is None else bound(made.doc_to_choice),
        doc_to_target=None if answer is None else made.doc_to_target,
    )


def _by_code(template: TemplateConfig, label: str, mapping: FieldMapping, output_type: OutputType) -> Wrapped:
    """A template of the user's own writes the prompt itself; without a format there is no other way to say it."""
    choices = mapping.choices
    ranked = choices is not None and output_type == "generate_until"
    return Wrapped(
        template=template,
        label=label,
        format=None,
        output_type="multiple_choice" if ranked else output_type,
        doc_to_text=None if mapping.question is None else template.wrap_doc_to_text(mapping.question, choices),
        doc_to_choice=None if choices is None else template.wrap_doc_to_choice(choices),
        doc_to_target=mapping.answer if choices is None or mapping.answer is None else _gold(mapping.answer, choices),
    )


def _gold(answer: FieldSpec, choices: FieldSpec) -> Callable[[Doc], Any]:
    """The index of the right choice, however the document writes it down."""
    return lambda doc: gold_index(process_field(doc, answer), process_field(doc, choices, []))


def _label(spec: Mapping[str, Any] | TemplateConfig, template: TemplateConfig) -> str:
    named = spec.get("template_type") if isinstance(spec, Mapping) else None
    return str(named or template.template_type or type(template).__name__)
