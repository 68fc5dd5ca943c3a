"""The one place that compiles Jinja: an immutable sandbox in which a missing name is an error."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from multiform.errors import ConfigError, DataError, MissingColumnError, MultiformError, nearest, reason, shorten
from multiform.labels import gold_index, gold_label, gold_text, index_among, join_words, label_list

Doc = Mapping[str, Any]

_MAX_EXPONENT = 1000
_MAX_LENGTH = 10_000_000


def _regex_replace(text: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, text, count=count)


def _answer_key_to_index(key: object, labels: Sequence[str] | None = None) -> int:
    """The 0-based index of a key: its place in `labels`, or of a letter or 1-based digit."""
    text = str(key).strip()
    if labels is not None:
        return list(map(str, labels)).index(text)
    return int(text) - 1 if text.isdigit() else ord(text.upper()) - ord("A")


def choice_list(choices: Any) -> Any:
    """Choices as a list: the values of a mapping, or the items of a list that is spelled out as text."""
    if isinstance(choices, Mapping):
        return list(choices.values())
    listed = parse_literal_list(choices) if isinstance(choices, str) else choices
    if listed is None:
        raise DataError(f"expected a list of choices, got {shorten(choices)}", hint="check doc_to_choice")
    return listed


def _over_choices(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda answer, choices, *labels: function(answer, choice_list(choices), *labels)


def _index_among(answer: Any, choices: Any, digits: bool | None = False) -> int | list[int]:
    listed = parse_literal_list(answer) if isinstance(answer, str) else None
    return index_among(answer if listed is None else listed, choice_list(choices), digits=digits)


def _lead(text: str, separator: str) -> str:
    """A text with the separator after it, unless it is empty or ends in white space."""
    return text if not text or text[-1].isspace() or text.endswith(separator) else text + separator


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox in which no product or power grows beyond what a prompt can need."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and abs(right) > _MAX_EXPONENT:
            raise SecurityError(f"{left} ** {right} is too large")
        sized, number = (left, right) if hasattr(left, "__len__") else (right, left)
        if operator == "*" and hasattr(sized, "__len__") and len(sized) * number > _MAX_LENGTH:
            raise SecurityError(f"a text or list of {len(sized) * number} items is too long")
        return super().call_binop(context, operator, left, right)


def environment() -> ImmutableSandboxedEnvironment:
    """A new environment with our filters; templates are shared through `compile_template`."""
    env = _Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    for name in ("lipsum", "cycler", "joiner"):  # of no use in a prompt, and a way to burn time
        del env.globals[name]
    env.filters["regex_replace"] = _regex_replace
    env.filters["answer_key_to_index"] = _answer_key_to_index
    env.filters["choice_list"] = choice_list
    env.filters["gold_index"] = _over_choices(gold_index)
    env.filters["gold_label"] = _over_choices(gold_label)
    env.filters["gold_text"] = _over_choices(gold_text)
    env.filters["index_among"] = _index_among
    env.filters["labels"] = label_list
    env.filters["join_words"] = join_words
    env.filters["lead"] = _lead
    return env


_ENV = environment()


def has_markup(text: str) -> bool:
    """Whether the text holds Jinja markup at all."""
    return "{{" in text or "{%" in text or "{#" in text


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled template; `expression` is the source of its only expression, if it is just that."""

    source: str
    expression: str | None
    names: frozenset[str]
    render: Callable[[Doc], Any]


@lru_cache(maxsize=4096)
def compile_template(source: str) -> Compiled:
    """Compile once per process. A template that is one expression keeps the value's type.

    >>> compile_template("{{ xs }}").render({"xs": [1, 2]})
    [1, 2]
    >>> compile_template("{{ xs }}!").render({"xs": [1, 2]})
    '[1, 2]!'
    """
    try:
        tree = _ENV.parse(source)
        expression = _single_expression(source, tree)
        if expression is None:
            template = _ENV.from_string(source)
            render: Callable[[Doc], Any] = template.render
        else:
            render = _value_of(expression)
    except TemplateSyntaxError as error:
        what = f"template syntax error: {error.message} (line {error.lineno} of {shorten(source, 60)})"
        raise ConfigError(what, hint="check the braces and quotes of the template") from error
    return Compiled(source, expression, frozenset(meta.find_undeclared_variables(tree)), render)


def render(compiled: Compiled, doc: Doc) -> Any:
    """Render with a document; a missing column, a sandbox breach or a type error is a DataError."""
    try:
        return compiled.render(doc)
    except UndefinedError as error:
        raise _missing_name(compiled, doc, error) from error
    except SecurityError as error:
        raise ConfigError(
            f"the template reaches outside its sandbox: {error}",
            hint="templates may read the document's columns only; use !function for code",
        ) from error
    except MultiformError:
        raise
    except TemplateError as error:
        raise DataError(f"the template failed: {error}", hint=_source_hint(compiled)) from error
    except Exception as error:  # any error that user data causes inside a template
        what = f"the template failed: {reason(error)}"
        raise DataError(what, hint=_source_hint(compiled)) from error


def parse_literal_list(text: str) -> list[Any] | None:
    """The list that a rendered template spells out, or None when it is not one.

    >>> parse_literal_list("['a', 'b']")
    ['a', 'b']
    >>> parse_literal_list("a, b") is None
    True
    """
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        return None
    try:
        value = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def literal_text(source: str) -> list[str]:
    """The pieces of plain text of a template, in order, with an empty piece where a value stands.

    >>> literal_text("Question: {{q}}\\nAnswer:")
    ['Question: ', '', '\\nAnswer:']
    """
    pieces: list[str] = []
    for output in _ENV.parse(source).find_all(nodes.Output):
        for node in output.nodes:
            pieces.append(node.data if isinstance(node, nodes.TemplateData) else "")
    return pieces


def lex(source: str) -> Iterator[tuple[str, str]]:
    """The tokens of a template, each with its kind; what white-space control removes is removed.

    >>> list(lex("a{{ b }}"))[:2]
    [('data', 'a'), ('variable_begin', '{{')]
    """
    try:
        for _, kind, value in _ENV.lex(source):
            yield kind, value
    except TemplateSyntaxError as error:
        what = f"template syntax error: {error.message} (line {error.lineno} of {shorten(source, 60)})"
        raise ConfigError(what, hint="check the braces and quotes of the template") from error


def _single_expression(source: str, tree: nodes.Template) -> str | None:
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    if len(tree.body[0].nodes) != 1 or isinstance(tree.body[0].nodes[0], nodes.TemplateData):
        return None
    stripped = source.strip()
    if stripped != source or not (stripped.startswith("{{") and stripped.endswith("}}")):
        return None
    # Only what touches the braces is white-space control: "{{ -x }}" is a negative value.
    inner = stripped[2:-2].removeprefix("-").removeprefix("+").removesuffix("-").strip()
    return f"({inner})" if isinstance(tree.body[0].nodes[0], nodes.Tuple) else inner


def _value_of(expression: str) -> Callable[[Doc], Any]:
    compiled = _ENV.compile_expression(expression, undefined_to_none=False)

    def value(doc: Doc) -> Any:
        result = compiled(doc)
        if isinstance(result, StrictUndefined):
            result._fail_with_undefined_error()
        return "" if isinstance(result, Undefined) else result  # "{{ x if y }}" without else is empty, as in Jinja

    return value


def _missing_name(compiled: Compiled, doc: Doc, error: UndefinedError) -> DataError:
    missing = sorted(compiled.names - set(doc) - set(_ENV.globals))
    if missing:
        hint = nearest(missing[0], doc, listed="the columns are")
        return MissingColumnError(f"no column '{missing[0]}'", hint=hint)
    return DataError(f"the template failed: {error.message}", hint=_source_hint(compiled))


def _source_hint(compiled: Compiled) -> str:
    return f"the template is {shorten(compiled.source, 120)}"
