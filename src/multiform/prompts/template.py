"""Templates: compiled once, rendered with a document, and their source taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError, TemplateError

from multiform.deadline import TimeLimitError
from multiform.errors import ConfigError, DataError, MissingColumnError, MultiformError, nearest, reason, shorten
from multiform.prompts.limits import TooMuchError, metering, render_bounded
from multiform.prompts.sandbox import Sandbox

Doc = Mapping[str, Any]

_ENV = Sandbox()


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
    with _compiling(source):
        tree = _ENV.parse(source)
        expression = _single_expression(source, tree)
        if expression is None:
            template = _ENV.from_string(source)
            render: Callable[[Doc], Any] = template.render
        else:
            render = _value_of(expression)
        names = frozenset(meta.find_undeclared_variables(tree))
    return Compiled(source, expression, names, render)


def render(compiled: Compiled, doc: Doc) -> Any:
    """Render with a document; a missing column, a sandbox breach or a type error is a DataError."""
    try:
        return render_bounded(lambda: compiled.render(doc))
    except UndefinedError as error:
        raise _missing_name(compiled, doc, error) from error
    except (TooMuchError, TimeLimitError, MemoryError) as error:
        message = f"the template asks for too much: {error or 'memory'}"
        raise ConfigError(message, hint=f"make it shorter; {_source_hint(compiled)}") from error
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
        message = f"the template failed: {reason(error)}"
        raise DataError(message, hint=_source_hint(compiled)) from error


def literal_text(source: str) -> list[str]:
    """The pieces of plain text of a template, in order, with an empty piece where a value stands.

    >>> literal_text("Question: {{q}}\\nAnswer:")
    ['Question: ', '', '\\nAnswer:']
    """
    literals: list[str] = []
    with _compiling(source):
        tree = _ENV.parse(source)
    for output in tree.find_all(nodes.Output):
        for node in output.nodes:
            literals.append(node.data if isinstance(node, nodes.TemplateData) else "")
    return literals


def lex(source: str) -> Iterator[tuple[str, str]]:
    """The tokens of a template, each with its kind; what white-space control removes is removed.

    >>> list(lex("a{{ b }}"))[:2]
    [('data', 'a'), ('variable_begin', '{{')]
    """
    with _compiling(source):
        tokens = [(kind, value) for _, kind, value in _ENV.lex(source)]
    yield from tokens


@contextmanager
def _compiling(source: str) -> Iterator[None]:
    """A block in which a source is parsed: its errors become a ConfigError that shows them."""
    try:
        with metering():
            yield
    except TemplateSyntaxError as error:
        message = f"template syntax error: {error.message} (line {error.lineno} of {shorten(source, 60)})"
        raise ConfigError(message, hint="check the braces and quotes of the template") from error
    except (Exception, TimeLimitError) as error:  # too deep for the parser or Python, a number of 5000 digits
        message = f"the template cannot be compiled: {reason(error, 100)} ({shorten(source, 60)})"
        raise ConfigError(message, hint="make it shorter and less deeply nested") from error


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
        result = list(result) if isinstance(result, Iterator) else result  # its items are part of the rendering
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
