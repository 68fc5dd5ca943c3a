"""A field of a document: where the question, the choices or the answer come from.

A field is given as a column name, a Jinja expression or template, a callable, or a literal list
or number. It is compiled once and then read from any number of documents.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

from multiform.errors import MissingColumnError, nearest, running
from multiform.prompts.template import compile_template, has_markup, render

Doc: TypeAlias = Mapping[str, Any]
FieldSpec: TypeAlias = str | int | float | list[Any] | dict[str, Any] | Callable[[Any], Any] | None

#: Words that mean something else to Jinja than a column of that name.
_RESERVED = frozenset({"and", "else", "false", "if", "in", "is", "none", "not", "or", "self", "true"})
_WORD = re.compile(r"[^\W\d][\w.-]*")


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A compiled field; `value(doc)` gives its value.

    >>> Field.of("question").value({"question": "Why?"})
    'Why?'
    >>> Field.of("{{choices.text}}").value({"choices": {"text": ["a", "b"]}})
    ['a', 'b']
    >>> Field.of(["{{a}} it is", "no"]).value({"a": "yes"})
    ['yes it is', 'no']
    """

    spec: FieldSpec
    value: Callable[[Doc], Any]

    @classmethod
    def of(cls, spec: FieldSpec) -> Field:
        """Compile a specification; a template that does not parse is a ConfigError."""
        return _text_field(spec) if isinstance(spec, str) else cls(spec, _reader(spec))

    @classmethod
    def text(cls, spec: FieldSpec) -> Field:
        """Compile a text, in which a word that is not a column stands for itself."""
        if isinstance(spec, str) and not has_markup(spec):
            return cls(spec, lambda doc: doc.get(spec, spec))
        return cls.of(spec)

    def expression(self) -> str | None:
        """A Jinja expression that gives the same value, if there is one.

        >>> Field.of("choices").expression(), Field.of("{{choices.text}}").expression()
        ('choices', 'choices.text')
        >>> Field.of(["{{a}}", "no"]).expression()
        "[(a)|string, 'no']"
        """
        spec = self.spec
        if isinstance(spec, str):
            if has_markup(spec):
                return compile_template(spec).expression
            return spec if spec.isidentifier() and spec.lower() not in _RESERVED else None
        if isinstance(spec, list):
            items = [_item_expression(item) for item in spec]
            return None if None in items else f"[{', '.join(map(str, items))}]"
        return repr(spec) if isinstance(spec, int | float) and not isinstance(spec, bool) else None


@lru_cache(maxsize=4096)
def _text_field(spec: str) -> Field:
    """The field of a column or template, compiled once per process."""
    return Field(spec, _reader(spec))


def shown(spec: FieldSpec) -> str:
    """A field as it would be written in a task file, the same in every run."""
    inner = spec.func if isinstance(spec, partial) else spec
    return getattr(inner, "__qualname__", None) or (
        str(spec) if isinstance(spec, str) or callable(spec) else repr(spec)
    )


@dataclass(frozen=True, slots=True)
class ComputedField:
    """A specification of a field that a function computes from a document and its values of other fields."""

    compute: Callable[..., Any]
    fields: tuple[FieldSpec, ...]
    #: What it is, the same in every run.
    name: str

    def __call__(self, doc: Doc) -> Any:
        return self.compute(doc, *(None if spec is None else Field.of(spec).value(doc) for spec in self.fields))

    def __str__(self) -> str:
        return self.name


def process_field(doc: Doc, field_spec: FieldSpec, default: Any = None) -> Any:
    """The value of a field in a document; the default if no field is given or the column is missing.

    >>> doc = {"a": 1, "xs": ["p", "q"]}
    >>> process_field(doc, "{{xs}}"), process_field(doc, "{{a}}: {{xs[0]}}"), process_field(doc, "no", "-")
    (['p', 'q'], '1: p', '-')
    """
    if field_spec is None:
        return default
    if isinstance(field_spec, str) and not has_markup(field_spec):
        return doc.get(field_spec, default)
    if isinstance(field_spec, str) and compile_template(field_spec.strip()).expression:
        field_spec = field_spec.strip()  # white space around a single expression does not make it text
    return Field.of(field_spec).value(doc)


def _reader(spec: FieldSpec) -> Callable[[Doc], Any]:
    if callable(spec):
        return _calling(spec)
    if isinstance(spec, list):
        readers = [_reader(item) if _is_template(item) else _constant(item) for item in spec]
        return lambda doc: [read(doc) for read in readers]
    if isinstance(spec, dict):
        read_values = _reader(list(spec.values()))
        return lambda doc: dict(zip(spec, read_values(doc), strict=True))
    if not isinstance(spec, str):
        return _constant(spec)
    if has_markup(spec):
        compiled = compile_template(spec)
        name = compiled.expression
        if name is not None and name.isidentifier():  # a column, which needs no template
            return lambda doc: doc[name] if name in doc else render(compiled, doc)
        return lambda doc: render(compiled, doc)
    return _column_or_text(spec)


def other_separator(doc: Doc) -> str | None:
    """What separates the columns of a CSV file that was read as one column; None if it was read as it should be.

    >>> other_separator({"question;A;B": "Two plus two?;3;4"}), other_separator({"question": "a; b"})
    (';', None)
    """
    [name] = doc if len(doc) == 1 else [""]
    return next((separator for separator in (";", "\t", "|") if separator in str(name)), None)


def _column_hint(name: str, doc: Doc) -> str:
    """The nearest column; for choices, those that are in a column each (A, B, ... or choice1, choice2, ...)."""
    if separator := other_separator(doc):
        return f"columns are separated by {separator!r} here: write dataset_kwargs: {{sep: {json.dumps(separator)}}}"
    hint = nearest(name, doc, listed="the columns are")
    if not name.lower().startswith(("choice", "option", "answers")):
        return hint
    for first in ("A", "a", "option_a", "choice1", "choice_1", "option1", "option_1"):
        columns = [f"{first[:-1]}{chr(ord(first[-1]) + step)}" for step in range(8)]
        columns = list(itertools.takewhile(lambda column: column in doc, columns))
        if len(columns) > 1:
            listed = ", ".join(f'"{{{{{column}}}}}"' for column in columns)
            return f"for choices in columns of their own, write [{listed}]"
    return hint


def _column_or_text(name: str) -> Callable[[Doc], Any]:
    is_word = _WORD.fullmatch(name) is not None

    def value(doc: Doc) -> Any:
        if name in doc:
            return doc[name]
        if is_word:
            raise MissingColumnError(f"no column '{name}'", hint=_column_hint(name, doc))
        return name

    return value


def _calling(function: Callable[[Any], Any]) -> Callable[[Doc], Any]:
    name = getattr(function, "__qualname__", repr(function))
    errors_name_it = running(f"function {name}", hint="call it on this document to debug it")

    def value(doc: Doc) -> Any:
        with errors_name_it:
            return function(doc)

    return value


def _constant(value: Any) -> Callable[[Doc], Any]:
    return lambda doc: value


def _is_template(item: Any) -> bool:
    return isinstance(item, str) and has_markup(item)


def _item_expression(item: Any) -> str | None:
    if _is_template(item):
        expression = compile_template(item).expression
        return f"({expression})|string" if expression else None
    return repr(item) if isinstance(item, str | int | float) else None
