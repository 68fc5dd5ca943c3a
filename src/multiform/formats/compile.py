"""Compile a format and a field mapping to the Jinja templates of the prompt, the choices and the target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from multiform.errors import ConfigError
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.base import TEMPLATES, FormatConfig
from multiform.labels import bare_labels, gold_index, gold_label, gold_text, label_list
from multiform.prompts.template import Compiled, compile_template, has_markup, literal_text, render

#: The variables for the labels of choices that instructions may use.
_LABEL_NAMES = ("_choice_labels", "_choice_list_and", "_choice_list_or")


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """Where a task's question, choices and answer are in a document, before any format."""

    question: FieldSpec
    choices: FieldSpec
    answer: FieldSpec
    #: What the question is about, such as a passage: a column or a template.
    context: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BoundTemplate:
    """A template with variables for fields that cannot be written in Jinja, such as functions."""

    source: str
    fields: Mapping[str, Field] = field(default_factory=dict)

    def __call__(self, doc: Doc) -> Any:
        values = {name: part.value(doc) for name, part in self.fields.items()}
        return render(compile_template(self.source), {**doc, **values})

    def __str__(self) -> str:
        return self.source


def bind_field(spec: FieldSpec) -> BoundTemplate:
    """A field as a function of a document.

    >>> bind_field("{{ choices.text }}")({"choices": {"text": ["a", "b"]}}), bind_field("{{q}}?")({"q": "Why"})
    (['a', 'b'], 'Why?')
    """
    if isinstance(spec, BoundTemplate):
        return spec
    if isinstance(spec, str) and has_markup(spec):
        return BoundTemplate(spec)
    part = Field.of(spec)
    expression = part.expression()
    if expression is None:
        return BoundTemplate("{{ _field }}", {"_field": part})
    return BoundTemplate(f"{{{{ {expression} }}}}")


def compile_format(format: FormatConfig, mapping: FieldMapping, answer_base: int | None = None) -> dict[str, FieldSpec]:
    """The fields of a task under a format: each a template, a bound template, or the task's own field.

    Numbers of choices count from `answer_base` if it is given.

    >>> from multiform.formats.builtin import MCQAFormat
    >>> mapping = FieldMapping("question", "choices", "answer")
    >>> templates = compile_format(MCQAFormat(), mapping)
    >>> from multiform.fields import process_field
    >>> doc = {"question": "2 + 2?", "choices": ["3", "4"], "answer": "B"}
    >>> print(process_field(doc, templates["doc_to_text"]))
    Question: 2 + 2?
    A. 3
    B. 4
    Answer:
    >>> process_field(doc, templates["doc_to_choice"]), process_field(doc, templates["doc_to_target"])
    (['A', 'B'], 1)
    """
    if format.needs_choices and mapping.choices is None:
        raise ConfigError(
            f"format '{format.format_name or type(format).__name__}' needs choices but the task has no doc_to_choice",
            hint="set doc_to_choice to the column that holds them, or to a list of columns such as "
            '["{{A}}", "{{B}}"], or use a format without choices (cot, bpb)',
        )
    _check_label_names(format)
    writer = _Writer(format, mapping)
    fields = (writer.bind(writer.text()), writer.choice(), writer.target(answer_base))
    return dict(zip(("doc_to_text", "doc_to_choice", "doc_to_target"), fields, strict=True))


def _check_label_names(format: FormatConfig) -> None:
    """Refuse texts that use the labels of choices which have none."""
    if format.choice_labels is not None:
        return
    for name in TEMPLATES:
        text = getattr(format, name) or ""
        used = next((label for label in _LABEL_NAMES if label in text), None)
        if used is not None:
            message = f"{name} uses {used}, and the choices have no labels"
            raise ConfigError(message, where="choice_labels", hint=f"set choice_labels, or write another {name}")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledFormat:
    """A format over a mapping, ready to render documents whose fields have been read.

    It renders the same as the templates of `compile_format`, but takes the values of the question, the choices and
    the answer, so that each field of a document is evaluated only once.

    >>> from multiform.formats.builtin import MCQAFormat
    >>> compiled = CompiledFormat.of(MCQAFormat(), FieldMapping("question", "choices", "answer"))
    >>> compiled.prompt({}, question="2 + 2?", choices=["3", "4"])
    'Question: 2 + 2?\\nA. 3\\nB. 4\\nAnswer:'
    >>> compiled.choices(["3", "4"]), compiled.target("B", ["3", "4"])
    (['A', 'B'], 1)
    """

    format: FormatConfig
    mapping: FieldMapping
    template: Compiled
    #: The instruction alone, with which the template begins.
    lead: Compiled

    @classmethod
    def of(cls, format: FormatConfig, mapping: FieldMapping) -> CompiledFormat:
        """Compile a format over a mapping."""
        # White space around a single expression, as a YAML block leaves it, would turn its value into text.
        values = replace(mapping, choices=_strip_expression(mapping.choices), answer=_strip_expression(mapping.answer))
        writer = _Writer(format, mapping, values=True)
        return cls(format, values, compile_template(writer.text()), compile_template(writer.lead()))

    @property
    def needs_question(self) -> bool:
        """Whether `prompt` needs the value of the question; a longer template is rendered as part of the prompt."""
        return "_question" in self.template.names

    def prompt(self, doc: Doc, *, question: Any = None, choices: Sequence[str] = ()) -> str:
        """The prompt of a document without few-shot examples."""
        return str(render(self.template, {**doc, "_question": question, "_choices": choices}))

    def instruction(self, doc: Doc, *, choices: Sequence[str] = ()) -> str:
        """The instruction with which the prompt of a document begins, and what separates it from the rest."""
        return str(render(self.lead, {**doc, "_choices": choices}))

    def choices(self, choices: Sequence[str]) -> list[str]:
        """What is ranked: the labels of the choices, or the choices themselves."""
        if self.format.scored == "labels":
            return label_list(len(choices), self.format.choice_labels or "letters")
        return list(choices)

    def target(self, answer: Any, choices: Sequence[str] | None) -> Any:
        """The gold answer as the format scores it: an index, a label or a text."""
        if choices is None:
            return answer
        if self.format.output_type == "multiple_choice":
            return gold_index(answer, choices, self.format.choice_labels or "letters")
        if answers_with_label(self.format):
            return gold_label(answer, choices, self.format.choice_labels or "letters")
        return gold_text(answer, choices)


class _Writer:
    """Writes the templates of one format over one mapping.

    With `values`, the templates have the variables `_question`, `_choices` and `_answer` in place of the fields.
    """

    def __init__(self, format: FormatConfig, mapping: FieldMapping, *, values: bool = False) -> None:
        self.format = format
        self.mapping = mapping
        self.values = values
        self.bound: dict[str, Field] = {}
        self.choices = self._expression("_choices", mapping.choices)
        self.answer = self._expression("_answer", mapping.answer)

    def text(self) -> str:
        body = self._body()
        return self._preamble(body) + body

    def lead(self) -> str:
        """The instruction, after the variables that it and the rest of the prompt use."""
        return self._preamble(self._body()) + self._lead(self.format.instruction)

    def _body(self) -> str:
        format = self.format
        asked = _close_braces(format.question_prefix) + self._question() + _close_braces(format.question_suffix)
        sections = [asked] if format.shows_question else []
        if format.shows_choices and self.choices:
            sections.append(_close_braces(format.choices_prefix) + self._choice_lines())
        if format.answer_prompt:
            sections.append(self._lead(format.answer_instruction) + format.answer_prompt)
        elif format.answer_instruction is not None or format.answer_prompt is not None:
            sections.append(_close_braces(format.answer_instruction or ""))
        joined = _close_braces(format.section_separator).join(sections)
        return self._lead(format.instruction) + self._context() + joined

    def _lead(self, text: str | None) -> str:
        """A text, followed by the section separator unless it ends in white space."""
        separator = self.format.section_separator
        if not text or not separator or text[-1].isspace() or text.endswith(separator):
            return _close_braces(text or "")
        if text.endswith(("}}", "%}", "#}")):  # only its value shows how it ends
            return f"{{% filter lead({separator!r}) %}}{text}{{% endfilter %}}"
        return _close_braces(text) + _close_braces(separator)

    def choice(self) -> FieldSpec:
        if self.format.scored == "labels":
            return self.bind(f"{{{{ {self._labels()} }}}}")
        return self.mapping.choices

    def target(self, answer_base: int | None) -> FieldSpec:
        format = self.format
        if not self.choices:
            return self.mapping.answer
        base = "" if answer_base is None else f", base={answer_base}"
        labels = f", {_label_argument(format)}" if format.choice_labels is not None else ""
        call = f"gold_text({self.choices}{base})"
        if format.output_type == "multiple_choice":
            call = f"gold_index({self.choices}{labels}{base})"
        elif answers_with_label(format):
            call = f"gold_label({self.choices}{labels}{base})"
        return self.bind(f"{{{{ {_operand(self.answer)}|{call} }}}}")

    def bind(self, source: str) -> FieldSpec:
        """The template, bound to the fields that it uses and that cannot be written in Jinja."""
        names = compile_template(source).names
        used = {name: part for name, part in self.bound.items() if name in names}
        return BoundTemplate(source, used) if used else source

    def _context(self) -> str:
        """What the question is about, followed by the section separator unless it is empty."""
        context = self.mapping.context
        if context is None or not self.format.shows_question:
            return ""
        text = context if has_markup(context) else f"{{{{ {context} }}}}"
        return f"{{% filter lead({self.format.section_separator!r}) %}}{text}{{% endfilter %}}"

    def _question(self) -> str:
        spec = self.mapping.question
        if isinstance(spec, str) and has_markup(spec):
            # A column, or what is in one, may be null; other expressions fail on null.
            is_path = re.fullmatch(r"[\w.]+", compile_template(spec).expression or "") is not None
            if not (self.values and is_path):
                return spec
        return f"{{{{{self._expression('_question', spec)}}}}}"

    def _choice_lines(self) -> str:
        values = {"{choice}": "{{ choice }}", "{label}": "{{ _choice_labels[loop.index0] }}"}
        bare = self.format.choice_labels is None and "{label}" in self.format.choice_format
        segments = re.split(r"(\{choice\}|\{label\})", "{choice}" if bare else self.format.choice_format)
        line = "".join(values.get(segment) or _close_braces(segment) for segment in segments)
        between = f"{{% if not loop.last %}}{_close_braces(self.format.choice_delimiter)}{{% endif %}}"
        return f"{{% for choice in {_operand(self.choices)}|choice_list %}}{line}{between}{{% endfor %}}"

    def _preamble(self, body: str) -> str:
        """Jinja statements that set the variables which the body uses."""
        if not self.choices:
            return ""
        sets = {"_num_choices": f"{_operand(self.choices)}|choice_list|length"}
        if self.format.choice_labels is not None:
            sets["_choice_labels"] = self._labels()
            sets["_choice_list_and"] = "_choice_labels|join_words('and')"
            sets["_choice_list_or"] = "_choice_labels|join_words('or')"
        used = {name for name in sets if name in body}
        if any(name.startswith("_choice_list") for name in used):
            used.add("_choice_labels")
        return "".join(f"{{% set {name} = {value} %}}" for name, value in sets.items() if name in used)

    def _labels(self) -> str:
        argument = _label_argument(self.format)
        return f"{_operand(self.choices)}|choice_list|length|labels" + (
            "" if argument == "'letters'" else f"({argument})"
        )

    def _expression(self, name: str, spec: FieldSpec) -> str:
        if spec is None:
            return ""
        part = Field.of(_strip_expression(spec))
        expression = None if self.values else part.expression()
        if expression is None:
            self.bound[name] = part
            return name
        return expression


def _strip_expression(spec: FieldSpec) -> FieldSpec:
    return spec.strip() if isinstance(spec, str) and has_markup(spec) else spec


def _close_braces(text: str) -> str:
    """The text, with a brace at its end escaped so that it does not become markup with what follows."""
    return text[:-1] + "{{ '{' }}" if text.endswith("{") and not has_markup(text) else text


def answers_with_label(format: FormatConfig) -> bool:
    """Whether the model writes the label of its choice."""
    with_label = format.shows_choices if format.answer_as is None else format.answer_as == "label"
    return format.scored == "generation" and format.choice_labels is not None and with_label


def _label_argument(format: FormatConfig) -> str:
    labels = format.choice_labels
    return repr(labels if isinstance(labels, str) else list(labels or ()))


def _operand(expression: str) -> str:
    return expression if expression.isidentifier() else f"({expression})"


_OPENING = re.compile(r"^\s*(question|q|problem)\s*:", re.IGNORECASE)
_CUE = re.compile(r"(^|\n)\s*(the\s+)?(best\s+|final\s+|correct\s+)?(answer|a|response|output)(\s+is)?\s*:?\s*$", re.I)
_LABEL = re.compile(r"(^|\n)\s*[\[(]?([A-Ja-j]|[1-9])[\].):]+\s*$")


def check_raw(format: FormatConfig, mapping: FieldMapping) -> None:
    """Raise a ConfigError for a mapping whose question is a whole prompt, or whose choices are bare labels."""
    question, reason = mapping.question, None
    literals = literal_text(question) if isinstance(question, str) and has_markup(question) else []
    if literals and literals[-1].strip() and _CUE.search(literals[-1]):
        reason = f"it ends in {literals[-1].strip()!r}"
    elif any(_LABEL.search(literal) for literal in literals[:-1]):
        reason = "it enumerates choices"
    elif literals and format.question_prefix.strip() and _OPENING.match(literals[0]):
        reason = f"it begins with {literals[0].strip()!r}"
    if reason is not None:
        hint = 'give the bare question, e.g. doc_to_text: question or "{{question}}", and let the format do the rest'
        raise ConfigError(f"doc_to_text is a prompt already ({reason}); a format would wrap it twice", hint=hint)
    if format.needs_choices and isinstance(mapping.choices, list) and bare_labels(mapping.choices):
        raise ConfigError(
            "doc_to_choice holds the labels of the choices, not the choices",
            hint='give the texts, e.g. doc_to_choice: choices, or ["{{A}}", "{{B}}"] if they are in columns A and B; '
            "the format adds the labels",
        )
