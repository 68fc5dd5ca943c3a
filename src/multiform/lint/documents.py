"""Checks of documents, in one pass over them: answers of mixed types, duplicates, empty questions.

Only columns and templates are checked. A task's own functions are not called, as they may be slow
or draw random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from multiform.errors import MultiformError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.lint.codes import Code
from multiform.lint.finding import Finding
from multiform.prompts.filters import choice_list
from multiform.prompts.template import compile_template, has_markup


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFields:
    """The fields that a task reads from its documents, and their places in its file."""

    task: str
    question: FieldSpec
    choices: FieldSpec
    answer: FieldSpec
    context: FieldSpec = None
    #: The places of the task and of each of the three fields.
    where: str | None = None
    where_question: str | None = None
    where_choices: str | None = None
    where_answer: str | None = None
    #: Whether documents have images or audio, so that equal columns do not mean equal documents.
    has_media: bool = False


def document_findings(fields: DocumentFields, docs: Iterable[tuple[int, Doc]]) -> list[Finding]:
    """The findings about documents, which come with their index.

    >>> fields = DocumentFields(task="t", question="q", choices="c", answer="a")
    >>> docs = [{"q": "Why?", "c": ["x", "x"], "a": 0}, {"q": "How?", "c": ["x", "y"], "a": "1"}]
    >>> [(finding.code, finding.example) for finding in document_findings(fields, enumerate(docs))]
    [('mixed_answers', "a: 0 in doc 0, '1' in doc 1"), ('duplicate_choices', "doc 0: 'x' in ['x', 'x']")]
    """
    checks = _checks(fields)
    for doc_id, doc in docs:
        for check in checks:
            check.see(doc_id, doc)
    return [finding for check in checks for finding in check.findings(fields)]


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


@dataclass(slots=True)
class _MixedAnswers:
    """Answers such as 1 and "1" in one column: the number counts from 0, the text from 1."""

    names: Sequence[str]
    #: For each column, the first document and value of each kind.
    kinds: dict[str, dict[str, tuple[int, Any]]] = field(default_factory=dict)

    def see(self, doc_id: int, doc: Doc) -> None:
        for name in self.names:
            value = doc.get(name)
            kind = _KINDS.get(type(value))
            if kind is not None:
                kinds = self.kinds.setdefault(name, {})
                if kind not in kinds:
                    kinds[kind] = (doc_id, value)

    def findings(self, fields: DocumentFields) -> Iterator[Finding]:
        for name, kinds in self.kinds.items():
            if len(kinds) > 1:
                shown = ", ".join(f"{shorten(value, 30)} in doc {doc_id}" for doc_id, value in kinds.values())
                yield Finding(
                    code="mixed_answers",
                    task=fields.task,
                    where=fields.where_answer,
                    what=f"the answers in column '{name}' are of mixed kinds: {' and '.join(kinds)}",
                    example=f"{name}: {shown}",
                    hint="write all of them in one way: a number counts choices from 0, text of digits from 1",
                )


_KINDS: dict[type, str] = {bool: "true or false", int: "numbers", float: "numbers", str: "text"}


@dataclass(slots=True)
class _Counted:
    """A check that counts documents and keeps the first one as the example."""

    code: ClassVar[Code]
    what: ClassVar[str]
    hint: ClassVar[str]
    #: The attribute of `DocumentFields` that says where such a document is to be mended.
    place: ClassVar[str] = "where"

    count: int = 0
    example: str = ""

    def note(self, example: str) -> None:
        self.count += 1
        self.example = self.example or example

    def findings(self, fields: DocumentFields) -> Iterator[Finding]:
        if self.count:
            yield Finding(
                code=self.code,
                task=fields.task,
                where=getattr(fields, self.place),
                what=f"{self.what}: {self.count}",
                example=self.example,
                hint=self.hint,
                docs=self.count,
            )


@dataclass(slots=True)
class _DuplicateChoices(_Counted):
    """Documents with two equal choices, of which only one is counted as correct."""

    code = "duplicate_choices"
    what = "documents with the same choice twice"
    hint = "remove them, or give all that are right as a list of answers"
    place = "where_choices"

    read: Field | None = None

    def see(self, doc_id: int, doc: Doc) -> None:
        assert self.read is not None
        try:
            read = choice_list(self.read.read(doc))
            choices = [choice.strip() if isinstance(choice, str) else choice for choice in read]
            alike = isinstance(read, list | tuple) and len(set(choices)) < len(choices)
        except (MultiformError, TypeError):  # choices that cannot be read are an error when they are rendered
            return
        if alike:
            twice = next(choice for choice in choices if choices.count(choice) > 1)
            self.note(f"doc {doc_id}: {shorten(twice, 40)} in {shorten(list(choices), 80)}")


@dataclass(slots=True)
class _DuplicateRows(_Counted):
    """Documents that are equal in all columns that the task reads."""

    code = "duplicate_rows"
    what = "documents that repeat another in every column that the task reads"
    hint = "each of them counts; remove them from the data, or in process_docs"

    #: None for all columns.
    names: Sequence[str] | None = None
    first: dict[int, int] = field(default_factory=dict)

    def see(self, doc_id: int, doc: Doc) -> None:
        key = hash(repr(doc if self.names is None else [doc.get(name) for name in self.names]))
        first = self.first.setdefault(key, doc_id)
        if first != doc_id:
            self.note(f"docs {first} and {doc_id}")


@dataclass(slots=True)
class _EmptyQuestion(_Counted):
    """Documents with a question whose columns are all empty."""

    code = "empty_question"
    what = "documents with an empty question"
    hint = "fill them in, drop them in process_docs, or name another column"
    place = "where_question"

    names: Sequence[str] = ()

    def see(self, doc_id: int, doc: Doc) -> None:
        if all(_is_blank(doc.get(name, "missing")) for name in self.names):
            self.note(f"doc {doc_id}")


@dataclass(slots=True)
class _Placeholder(_Counted):
    """Documents with a placeholder where the question or the context should be."""

    code = "placeholder"
    what = "documents with a placeholder in place of a text"
    hint = "leave them out with drop_docs"
    place = "where_question"

    names: Sequence[str] = ()

    def see(self, doc_id: int, doc: Doc) -> None:
        for name in self.names:
            if isinstance(value := doc.get(name), str) and value.strip().lower() in _PLACEHOLDERS:
                self.note(f"doc {doc_id}: {name} is {value!r}")
                return


@dataclass(slots=True)
class _ListAsText(_Counted):
    """Documents in which a text of the prompt spells out a list or mapping."""

    code = "list_as_text"
    what = "documents in which a column spells out a list"
    hint = "read it with the filter literal, as in {{(column|literal)[0]}}"
    place = "where_question"

    names: Sequence[str] = ()

    def see(self, doc_id: int, doc: Doc) -> None:
        for name in self.names:
            if isinstance(value := doc.get(name), str) and value[:2] in ("['", '["', "[{", "{'"):
                self.note(f"doc {doc_id}: {name} is {shorten(value, 40)}")
                return


@dataclass(slots=True)
class _FillerChoices(_Counted):
    """Documents with choices that are no answers."""

    code = "filler_choices"
    what = "documents with choices that are null, empty or N/A"
    hint = "leave these out: {{choices|reject('in', [none, '', 'N/A'])|list}}"
    place = "where_choices"

    read: Field | None = None

    def see(self, doc_id: int, doc: Doc) -> None:
        assert self.read is not None
        try:
            choices = choice_list(self.read.read(doc))
        except MultiformError:  # choices that cannot be read are an error when they are rendered
            return
        read = choices if isinstance(choices, list | tuple) else ()
        if any(choice is None or str(choice).strip().lower() in ("", "n/a", "nan") for choice in read):
            self.note(f"doc {doc_id}: {shorten(list(choices), 80)}")


@dataclass(slots=True)
class _Unlabelled(_Counted):
    """Documents without an answer, where that is most of them."""

    code = "unlabelled"
    what = "documents without an answer"
    hint = "name a split with answers, or leave them out with drop_docs"
    place = "where_answer"

    names: Sequence[str] = ()
    total: int = 0

    def see(self, doc_id: int, doc: Doc) -> None:
        self.total += 1
        values = [doc[name] for name in self.names if name in doc]
        if values and all(_is_blank(value) or value in (-1, "-1") for value in values):
            self.note(f"doc {doc_id}: {shorten(dict(zip(self.names, values, strict=False)), 40)}")

    def findings(self, fields: DocumentFields) -> Iterator[Finding]:
        if self.count * 2 > self.total:
            yield from _Counted.findings(self, fields)


#: What datasets write where a text is missing: PAWS-X has "NS" for sentences that could not be translated.
_PLACEHOLDERS = frozenset({"ns", "n/a", "null", "nan", "none", "todo", "tbd"})

_Check = (
    _Placeholder
    | _ListAsText
    | _FillerChoices
    | _Unlabelled
    | _MixedAnswers
    | _DuplicateChoices
    | _DuplicateRows
    | _EmptyQuestion
)


def _checks(fields: DocumentFields) -> list[_Check]:
    """The checks that apply to a task with these fields."""
    question, choices, answer = columns(fields.question), columns(fields.choices), columns(fields.answer)
    checks: list[_Check] = []
    if answer and fields.choices is not None:
        checks.append(_MixedAnswers(sorted(answer)))
    if choices:
        checks.append(_DuplicateChoices(read=Field.of(fields.choices)))
        checks.append(_FillerChoices(read=Field.of(fields.choices)))
    if not fields.has_media:
        read = (question, choices, answer, columns(fields.context))
        known = None if None in read else sorted(frozenset().union(*(names for names in read if names)))
        checks.append(_DuplicateRows(names=known or None))
    if question and not fields.has_media:
        checks.append(_EmptyQuestion(names=sorted(question)))
    if answer:
        checks.append(_Unlabelled(names=sorted(answer)))
    texts = sorted(_shown(fields.question) | _shown(fields.context))
    return [*checks, _Placeholder(names=texts), _ListAsText(names=texts)] if texts else checks


def _shown(spec: FieldSpec) -> frozenset[str]:
    """The columns that a prompt shows as they are: a bare name, or a name in braces of its own."""
    if not isinstance(spec, str):
        return frozenset()
    return frozenset(_BRACES.findall(spec)) if has_markup(spec) else frozenset({spec})


_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
