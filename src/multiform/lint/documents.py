"""Checks of documents, in one pass over them: answers of mixed types, duplicates, empty questions.

Only columns and templates are checked. A task's own functions are not called, as they may be slow
or draw random numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeAlias

from multiform.errors import MultiformError, excerpt
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.compile import FieldMapping
from multiform.forms import Form
from multiform.labels import choice_list
from multiform.lint.findings import Finding, Level
from multiform.prompts.template import compile_template, has_markup


def stated_fields(form: Form) -> FieldMapping:
    """The fields that a task reads from its documents, before any format or perturbation."""
    config = form.config
    raw = config.stated_mapping if config.recovered is None else config.recovered.mapping
    if form.format is None:
        return raw
    question = "question" if raw.question is None else raw.question
    return replace(raw, question=question, answer="answer" if raw.answer is None else raw.answer)


class DocumentChecks:
    """The checks of documents, which come one by one.

    >>> from multiform import TaskConfig
    >>> checks = DocumentChecks(Form(TaskConfig(task="t", doc_to_text="q", doc_to_choice="c", doc_to_target="a")))
    >>> checks.see(0, {"q": "Why?", "c": ["x", "x"], "a": 0})
    >>> checks.see(1, {"q": "How?", "c": ["x", "y"], "a": "1"})
    >>> [(finding.code, finding.example) for finding in checks.findings()]
    [('mixed_answers', "a: 0 in doc 0, '1' in doc 1"), ('duplicate_choices', "doc 0: 'x' in ['x', 'x']")]
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self._checks = list(_checks(form, stated_fields(form)))

    def see(self, doc_id: int, doc: Doc) -> None:
        for check in self._checks:
            check.see(doc_id, doc)

    def findings(self) -> list[Finding]:
        """The findings about the documents so far."""
        return [finding for check in self._checks for finding in check.findings(self.form)]


def columns(spec: FieldSpec) -> frozenset[str] | None:
    """The columns that a field reads; None for a function, whose columns are not known.

    >>> sorted(columns("{{passage}} {{question}}")), columns("question"), columns(len)
    (['passage', 'question'], frozenset({'question'}), None)
    """
    if callable(spec):
        return None
    if isinstance(spec, str):
        return compile_template(spec).names if has_markup(spec) else frozenset({spec})
    specs = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    return frozenset().union(*(columns(part) or () for part in specs if isinstance(part, str) and has_markup(part)))


class _MixedAnswers:
    """Answers such as 1 and "1" in one column: the number counts from 0, the text from 1."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        #: For each column, the first document and value of each kind.
        self.kinds: dict[str, dict[str, tuple[int, Any]]] = {}

    def see(self, doc_id: int, doc: Doc) -> None:
        for name in self.names:
            kind = _KINDS.get(type(doc.get(name)))
            if kind is not None:
                self.kinds.setdefault(name, {}).setdefault(kind, (doc_id, doc[name]))

    def findings(self, form: Form) -> Iterator[Finding]:
        for name, kinds in self.kinds.items():
            if len(kinds) > 1:
                shown = ", ".join(f"{excerpt(value, 30)} in doc {doc_id}" for doc_id, value in kinds.values())
                what = f"the answers in column '{name}' are of mixed kinds: {' and '.join(kinds)}"
                yield _finding(form, "mixed_answers", "doc_to_target", what, f"{name}: {shown}")


_KINDS: dict[type, str] = {bool: "true or false", int: "numbers", float: "numbers", str: "text"}


class _LabelNames:
    """A column that spells out the labels, in which they have another order than among the choices of all documents."""

    def __init__(self, choices: Sequence[str], answer: str) -> None:
        self.choices = [choice.strip().lower() for choice in choices]
        self.answer = answer
        #: For each column of such texts, the label that each answer has there; None where it has several.
        self.labels: dict[str, dict[int, str | None]] = {}

    def see(self, doc_id: int, doc: Doc) -> None:
        answer = doc.get(self.answer)
        if not isinstance(answer, int) or not 0 <= answer < len(self.choices):
            return
        for name, value in doc.items():
            if isinstance(value, str) and value.strip().lower() in self.choices:
                label = value.strip().lower()
                known = self.labels.setdefault(name, {}).setdefault(answer, label)
                self.labels[name][answer] = label if known == label else None

    def findings(self, form: Form) -> Iterator[Finding]:
        for name, labels in self.labels.items():
            wrong = [answer for answer, label in labels.items() if label != self.choices[answer]]
            if wrong and None not in labels.values() and len({*labels.values()}) == len(labels) > 1:
                what = f"column '{name}' has the labels in another order than doc_to_choice"
                shown = f"{self.answer} {wrong[0]} is {labels[wrong[0]]!r} there, and {self.choices[wrong[0]]!r} here"
                advice = f"write doc_to_choice: {[labels.get(answer, '?') for answer in range(len(self.choices))]}"
                yield _finding(form, "label_order", "doc_to_choice", what, shown, advice=advice)


#: Gets the index of a document and the document; returns what is shown of it, or None if it is right.
_Problem: TypeAlias = Callable[[int, Doc], str | None]


@dataclass(slots=True)
class _DocumentCheck:
    """A check that counts documents and keeps the first one as the example."""

    code: str
    #: The key of the task file to change; None if that depends.
    key: str | None
    what: str
    problem: _Problem
    _: KW_ONLY
    #: Whether only a problem of most documents counts.
    of_most: bool = False
    level: Level = "warning"

    total: int = 0
    count: int = 0
    example: str = ""

    def see(self, doc_id: int, doc: Doc) -> None:
        self.total += 1
        problem = self.problem(doc_id, doc)
        if problem is not None:
            self.count += 1
            self.example = self.example or problem

    def findings(self, form: Form) -> Iterator[Finding]:
        if self.count * 2 > self.total if self.of_most else self.count:
            what, details = f"{self.what}: {self.count}", {"docs": self.count, "level": self.level}
            yield _finding(form, self.code, self.key, what, self.example, **details)


def _finding(form: Form, code: str, key: str | None, what: str, example: str, **details: Any) -> Finding:
    """A finding about the documents, at a key of the task's file."""
    return Finding.of_task(form, code, form.where(*filter(None, [key])), what, example=example, **details)


def _checks(form: Form, fields: FieldMapping) -> Iterator[_MixedAnswers | _LabelNames | _DocumentCheck]:
    """The checks that apply to the documents of a task with these fields."""
    answer = columns(fields.answer)
    if answer and fields.choices is not None:
        yield _MixedAnswers(sorted(answer))
        what, problem = "documents with several right choices", _bad_value(sorted(answer), _is_several)
        yield _DocumentCheck("several_right", "doc_to_target", what, problem, level="info")
    listed = isinstance(fields.choices, list) and all(isinstance(choice, str) for choice in fields.choices)
    if isinstance(fields.choices, list) and listed and fields.answer in (answer or ()):
        yield _LabelNames(fields.choices, str(fields.answer))
    what = "documents that a column marks as part of a smaller set"
    yield _DocumentCheck("marked_subset", "test_split", what, _bad_value(_SUBSETS, _is_mark), level="info")
    if columns(fields.choices):
        texts = Field.of(fields.choices)
        what = "documents with the same choice twice"
        yield _DocumentCheck("duplicate_choices", "doc_to_choice", what, _duplicate_choices(texts))
        what = "documents with choices that are null, empty or N/A"
        yield _DocumentCheck("filler_choices", "doc_to_choice", what, _filler_choices(texts))
    if not form.has_media:  # images and audio would have to be compared
        specs = (fields.question, fields.choices, fields.answer, fields.context, form.config.doc_to_turns)
        read = [columns(spec) for spec in specs]
        known = None if None in read else sorted(frozenset().union(*(names for names in read if names)))
        what = "documents that repeat another in every column that the task reads"
        yield _DocumentCheck("duplicate_rows", None, what, _duplicate_rows(known or None))
        if question := columns(fields.question):
            problem = _empty_question(sorted(question))
            yield _DocumentCheck("empty_question", "doc_to_text", "documents with an empty question", problem)
    if answer and (form.output_type != "generate_until" or not form.compares or form.needs_references):
        problem = _missing_answer(sorted(answer))
        yield _DocumentCheck("unlabelled", "doc_to_target", "documents without an answer", problem, of_most=True)
    shown = sorted(_shown(fields.question) | _shown(fields.context))
    if shown:
        what, problem = "documents with a placeholder in place of a text", _bad_value(shown, _is_placeholder)
        yield _DocumentCheck("placeholder", "doc_to_text", what, problem)
        what, problem = "documents in which a column spells out a list", _bad_value(shown, _spells_list)
        yield _DocumentCheck("list_as_text", "doc_to_text", what, problem)


#: What datasets write where a text is missing: PAWS-X has "NS" for sentences that could not be translated.
_PLACEHOLDERS = frozenset({"ns", "n/a", "null", "nan", "none", "todo", "tbd"})
#: Columns by which datasets mark the rows of a smaller edition.
_SUBSETS = ("mini", "is_mini", "lite", "is_lite", "in_mini", "hard_subset")


def _read_choices(field: Field, doc: Doc) -> list[Any]:
    """The choices of a document; none if they cannot be read, which is an error when they are rendered."""
    try:
        choices = choice_list(field.value(doc))
    except MultiformError:
        return []
    return list(choices) if isinstance(choices, list | tuple) else []


def _duplicate_choices(field: Field) -> _Problem:
    def problem(doc_id: int, doc: Doc) -> str | None:
        choices = [choice.strip() if isinstance(choice, str) else choice for choice in _read_choices(field, doc)]
        try:
            counts = Counter(choices)
        except TypeError:  # choices that cannot be compared are an error when they are rendered
            return None
        twice = [choice for choice, count in counts.items() if count > 1]
        return f"doc {doc_id}: {excerpt(twice[0], 40)} in {excerpt(choices, 80)}" if twice else None

    return problem


def _filler_choices(field: Field) -> _Problem:
    def problem(doc_id: int, doc: Doc) -> str | None:
        choices = _read_choices(field, doc)
        filler = any(choice is None or str(choice).strip().lower() in ("", "n/a", "nan") for choice in choices)
        return f"doc {doc_id}: {excerpt(choices, 80)}" if filler else None

    return problem


def _duplicate_rows(names: Sequence[str] | None) -> _Problem:
    """Documents that are equal in some columns; None for all columns."""
    first_ids: dict[int, int] = {}

    def problem(doc_id: int, doc: Doc) -> str | None:
        key = hash(repr(doc if names is None else [doc.get(name) for name in names]))
        first = first_ids.setdefault(key, doc_id)
        return None if first == doc_id else f"docs {first} and {doc_id}"

    return problem


def _empty_question(names: Sequence[str]) -> _Problem:
    def problem(doc_id: int, doc: Doc) -> str | None:
        return f"doc {doc_id}" if all(_is_blank(doc.get(name, "missing")) for name in names) else None

    return problem


def _missing_answer(names: Sequence[str]) -> _Problem:
    def problem(doc_id: int, doc: Doc) -> str | None:
        values = [doc[name] for name in names if name in doc]
        if not values or not all(_is_blank(value) or value in (-1, "-1") for value in values):
            return None
        return f"doc {doc_id}: {excerpt(dict(zip(names, values, strict=False)), 40)}"

    return problem


def _bad_value(names: Sequence[str], is_bad: Callable[[Any], bool]) -> _Problem:
    """Documents with a bad value in one of the columns."""

    def problem(doc_id: int, doc: Doc) -> str | None:
        name = next((name for name in names if is_bad(doc.get(name))), None)
        return None if name is None else f"doc {doc_id}: {name} is {excerpt(doc[name], 40)}"

    return problem


def _is_several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1


def _is_mark(value: Any) -> bool:
    return value in (1, True)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in _PLACEHOLDERS


def _spells_list(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("['", '["', "[{", "{'"))


def _shown(spec: FieldSpec) -> frozenset[str]:
    """The columns that a prompt shows as they are: a bare name, or a name in braces of its own."""
    if not isinstance(spec, str):
        return frozenset()
    return frozenset(_BRACES.findall(spec)) if has_markup(spec) else frozenset({spec})


_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
