"""Recover the raw mapping of a task whose `doc_to_text` is a finished prompt, where that is certain."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from multiform.errors import DataError
from multiform.fields import ComputedField, Doc, Field, FieldSpec, shown
from multiform.formats.compile import FieldMapping
from multiform.formats.dialects.styler import shuffle_correct_with_distractors
from multiform.formats.infer.document import answer_field, prompt_fields
from multiform.formats.infer.layout import (
    ADD_CHOICES,
    Options,
    UnclearPromptError,
    indexed_list,
    no_question,
    read_layout,
)
from multiform.formats.infer.skeleton import MARK, Value, read_skeleton
from multiform.labels import bare_labels, choice_list, label_list
from multiform.prompts.template import has_markup

How = Literal["raw", "template", "documents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The raw mapping behind a prompt, and how it was recovered."""

    mapping: FieldMapping
    #: "raw" where the fields were raw already, "template" or "documents" for what they were recovered from.
    how: How
    #: Texts of the prompt that are not part of the mapping.
    left_out: tuple[str, ...] = ()
    #: The mapping before its choices are shuffled in each document, if they are.
    in_order: FieldMapping | None = None

    def description(self) -> str:
        """A sentence for the log."""
        if self.how == "documents":
            return "question and choices are read back out of each document's prompt"
        raw = self.in_order or self.mapping
        fields = {"question": raw.question, "choices": raw.choices, "answer": raw.answer}
        written = {name: shown(spec).replace("\n", "\\n") for name, spec in fields.items() if spec is not None}
        recovered = ", ".join(f"{name} {text}" for name, text in written.items())
        note = f"; left out {', '.join(map(repr, self.left_out))}" if self.left_out else ""
        if self.in_order is not None:
            note += "; the right choice always had the same place, so each document has an order of its own"
        return f"doc_to_text is a prompt; recovered {recovered}{note}"

    def spread_out(self) -> Recovered:
        """The same mapping with choices shuffled in each document, where the gold choice always has the same index.

        Without that, a format that shows the choices would let a model find the gold one by its label alone.
        """
        index, choices, question = self.mapping.answer, self.mapping.choices, self.mapping.question
        if not isinstance(index, int) or choices is None:
            return self
        shuffled, answer = (
            ComputedField(partial(_spread, index=index, part=part), (question, choices), f"{name}({choices}, {index})")
            for part, name in enumerate(("SpreadChoices", "SpreadAnswer"))
        )
        return replace(self, mapping=FieldMapping(question, shuffled, answer), in_order=self.mapping)


def _spread(doc: Doc, question: Any, choices: Any, *, index: int, part: int) -> Any:
    """The choices in an order that depends on the question, or the index that the gold choice has in it."""
    texts = [str(choice) for choice in choice_list(choices)]
    if not 0 <= index < len(texts):
        raise DataError(f"doc_to_target is {index}, and there are {len(texts)} choices", hint="check doc_to_target")
    others = [text for place, text in enumerate(texts) if place != index]
    return shuffle_correct_with_distractors(texts[index], others, str(question))[part]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFields:
    """The fields of a task that was written without formats, and settings that decide what they mean."""

    text: FieldSpec
    choices: FieldSpec
    target: FieldSpec
    #: Whether the task ranks its choices, so that digits in a target are an index.
    ranks: bool = False
    #: Whether `process_docs` changes the documents, so that a column may hold anything.
    processed: bool = False
    #: Whether choices are needed, so that they are looked for in prompts that are written by code.
    needs_choices: bool = False
    #: The number from which the target counts choices, where the task says it.
    answer_base: int | None = None


def infer(prompt: TaskFields) -> Recovered:
    r"""The raw mapping behind a prompt; an UnclearPromptError says why there is none.

    >>> text = "{{q}}\nA. {{a}}\nB. {{b}}\nAnswer:"
    >>> found = infer(TaskFields(text=text, choices=["A", "B"], target="key", ranks=True))
    >>> found.mapping.question, found.mapping.choices, found.mapping.answer
    ('{{q}}', ['{{a}}', '{{b}}'], "{{ (key)|index_among(['A', 'B']) }}")
    >>> found.left_out
    ('A. B.', 'Answer:')
    >>> infer(TaskFields(text="", choices="{{[good, bad]}}", target=0))
    Traceback (most recent call last):
    multiform.formats.infer.layout.UnclearPromptError: there is no question: the task compares whole texts; run it ...
    """
    text = "question" if prompt.text is None else prompt.text
    if isinstance(text, int | float | list | dict):
        message = "doc_to_text gives several inputs or an index, not a question"
        raise UnclearPromptError(message, reason="several inputs", hint=f"run it without a format, or {ADD_CHOICES}")
    if not isinstance(text, str):
        return _from_documents(replace(prompt, text=text))
    if not has_markup(text):
        # A sentence is the same for all documents; anything else is the name of a column.
        is_sentence = "\n" in text or text.strip().endswith((":", "?", ".")) or len(text.split()) > 3
        if is_sentence or not text.strip():
            raise no_question()
        return _bare(replace(prompt, text=text))
    skeleton = read_skeleton(text)
    if MARK.fullmatch(skeleton.text.strip()) and isinstance(skeleton.parts[0], Value):
        return _bare(replace(prompt, text=text))
    return _from_template(text, prompt)


def _bare(prompt: TaskFields) -> Recovered:
    """The mapping of a task whose question is a single column."""
    if (prompt.processed and prompt.choices is not None) or names_labels(prompt.choices) is not None:
        return _from_documents(prompt)
    answer = prompt.target
    if prompt.ranks and isinstance(answer, str) and has_markup(answer):
        answer = _index(answer, prompt.choices, digits=True, base=prompt.answer_base)
    return Recovered(mapping=FieldMapping(prompt.text, prompt.choices, answer), how="raw")


def _from_documents(prompt: TaskFields) -> Recovered:
    """The mapping of a task whose prompt is written by code: fields that take each document's prompt apart.

    Without choices the whole prompt is the question.
    """
    if prompt.choices is None and not prompt.needs_choices:
        return Recovered(mapping=FieldMapping(prompt.text, None, prompt.target), how="documents")
    question, choices = prompt_fields(prompt.text, prompt.choices)
    digits = has_markup(str(prompt.target)) if prompt.ranks else None
    answer = answer_field(prompt.target, prompt.choices, digits, prompt.answer_base)
    return Recovered(mapping=FieldMapping(question, choices, answer), how="documents")


def _from_template(text: str, prompt: TaskFields) -> Recovered:
    labels = names_labels(prompt.choices)
    number = len(prompt.choices) if isinstance(prompt.choices, list) else len(labels or ())
    question, options, left_out = read_layout(text, number)
    if options is None and labels is not None:
        return _from_documents(prompt)  # a column may hold the choices beside the question
    mapping = FieldMapping(question, _choices(prompt, options, labels), _answer(prompt, options, labels))
    return Recovered(mapping=mapping, how="template" if left_out else "raw", left_out=left_out)


def _choices(prompt: TaskFields, options: Options | None, labels: list[str] | None) -> FieldSpec:
    """The field of the choices' texts: those that the prompt shows, or those that the task scores."""
    scored = prompt.choices
    if options is None:
        return scored
    shown = f"{{{{ {options.whole} }}}}" if options.whole else list(options.items)
    if scored is None:
        return shown
    if labels is not None:
        if isinstance(shown, list) and len(labels) not in (0, len(shown)):
            message = f"the prompt shows {len(shown)} choices, and doc_to_choice holds {len(labels)} labels"
            raise UnclearPromptError(message, reason="choices and labels differ", key="doc_to_choice", hint=ADD_CHOICES)
        order = label_list(len(labels))
        if labels and isinstance(shown, list) and sorted(labels) == order:  # they may have an order of their own
            return [shown[order.index(label)] for label in labels]
        return shown
    if _same(scored, shown) or _same(scored, f"{{{{ {indexed_list(options.items) or 'none'} }}}}"):
        return scored
    message = "the prompt shows choices, and doc_to_choice gives others"
    reason = "choices and doc_to_choice differ"
    raise UnclearPromptError(message, reason=reason, key="doc_to_choice", hint=ADD_CHOICES)


def _same(scored: FieldSpec, shown: FieldSpec) -> bool:
    """Whether two fields read the same choices."""
    expressions = [Field.of(spec).expression() for spec in (scored, shown)]
    first, second = (None if each is None else re.sub(r"\|string|[() ]", "", each) for each in expressions)
    return first is not None and first == second


def _answer(prompt: TaskFields, options: Options | None, labels: list[str] | None) -> FieldSpec:
    target, names = prompt.target, prompt.choices
    if names is None and options is not None and options.labels:
        names = list(options.labels)
    if labels and isinstance(names, list):
        names = [str(choice) for choice in names]
    if isinstance(target, int | float) or target is None or names is None:
        return target
    if not prompt.ranks:
        return _index(target, names, digits=None, base=prompt.answer_base) if options else target
    digits = isinstance(target, str) and has_markup(target)
    return _index(target, names, digits=digits, base=prompt.answer_base) if digits or labels or options else target


_DIGITS = {True: ", digits=true", False: "", None: ", digits=none"}


def _index(target: FieldSpec, names: FieldSpec, *, digits: bool | None, base: int | None) -> FieldSpec:
    """The field of the index of the target among the choices that the task scores."""
    is_literal = isinstance(names, list) and not any(isinstance(name, str) and has_markup(name) for name in names)
    among = repr(names) if is_literal else Field.of(names).expression()
    expression = Field.of(target.strip() if isinstance(target, str) else target).expression()
    if among is None or expression is None:
        return answer_field(target, names, digits, base)
    counted = "" if base is None else f", base={base}"
    return f"{{{{ ({expression})|index_among({among}{_DIGITS[digits]}{counted}) }}}}"


def names_labels(choices: FieldSpec) -> list[str] | None:
    """The labels that a task scores instead of texts: A, B, ...; empty where a column has them, None for texts.

    >>> names_labels(["(A)", "(B)"]), names_labels("{{choices.label}}"), names_labels(["no", "yes"])
    (['A', 'B'], [], None)
    """
    listed = choices
    if isinstance(choices, str) and has_markup(choices):
        expression = Field.of(choices.strip()).expression() or ""
        if expression.endswith((".label", "['label']", '["label"]', ".labels")):
            return []
        try:
            listed = ast.literal_eval(expression)
        except (SyntaxError, ValueError, MemoryError):
            return None
    return bare_labels(listed) if isinstance(listed, list) else None
