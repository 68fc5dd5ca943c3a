"""Templates: compiled once, rendered in a sandbox with a document, and their source taken apart.

A template reads plain data, cannot change it or reach anything else, and is charged for every operation (see
`limits`). Other values, such as an image, can be passed through a template, but their attributes cannot be read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Any, TypeVar

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    meta,
    nodes,
    pass_eval_context,
)
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.nodes import EvalContext
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, markup_join, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from multiform.errors import ConfigError, DataError, MissingColumnError, MultiformError, excerpt, nearest, reason
from multiform.limits import (
    STEP,
    AllowanceError,
    TimeLimitError,
    TooMuchError,
    charge,
    charge_call,
    charge_operator,
    check_number,
    metering,
    size_of,
    spend,
    survives,
)
from multiform.prompts.filters import FILTERS

T = TypeVar("T")
Doc = Mapping[str, Any]

#: The most characters of a rendered text.
_MAX_TEXT = 10_000_000
#: Plain data. Of a subclass only what the plain type has can be used: a text or number of another library may write
#: itself to a file.
_PLAIN: tuple[type, ...] = (Markup, str, bytes, bool, int, float, complex, list, tuple, dict, set, frozenset, range,
          date, time, timedelta, Decimal, types.NoneType, type({}.keys()), type({}.values()),
          type({}.items()))  # fmt: skip
_EXACTLY_PLAIN = frozenset(_PLAIN)  # what nearly all values are, and quickly found
#: What Jinja itself gives to a template.
_RUNTIME = (Undefined, LoopContext, Namespace, Macro, BlockReference)
_PLAIN_OR_RUNTIME = (*_PLAIN, *_RUNTIME)
_METHODS = (types.BuiltinMethodType, types.MethodType)
#: What templates may write, beside arrays.
_WRITABLE = (*_PLAIN_OR_RUNTIME, Mapping, Sequence, types.GeneratorType, types.FunctionType, *_METHODS)
_BUILDERS = (dict, str, bytes, int, float)  # classes whose class methods make plain data


class Metered(ImmutableSandboxedEnvironment):
    """An environment in which every operation of a template is charged to the rendering that is going on."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "**", "%"))

    @staticmethod
    def concat(chunks: Iterable[str]) -> str:
        """The parts as one text, each charged before it is put into it."""
        texts: list[str] = []
        for part in chunks:
            spend(len(part))
            texts.append(part)
        return "".join(texts)

    def meter_filters(self) -> None:
        """Have all filters charged, and those that the guards need."""
        self.filters = {name: _charge_filter(name, function) for name, function in self.filters.items()}
        self.filters |= {"_joined": _concatenate, "_sized": _charge_value, "_counted": _charge_loop}

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        guarded = _Guards().visit(source)
        guarded.set_environment(self)
        return super()._generate(guarded, name, filename, defer_init)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        charge_operator(operator, left, right)
        return check_number(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if isinstance(__obj, _RUNTIME):
            spend(STEP)
            return super().call(__context, __obj, *args, **kwargs)
        # In loops and blocks, Jinja hands its own variables on with the arguments.
        passed = {key: kwargs.pop(key) for key in ("_loop_vars", "_block_vars") if key in kwargs}
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja wraps those that write format strings
        if method is not __obj and __self.finalize is not None:
            args = tuple(map(__self.finalize, args))
            kwargs = {key: __self.finalize(value) for key, value in kwargs.items()}
        owner = getattr(method, "__self__", None)
        values, named = charge_call(getattr(method, "__name__", ""), args, kwargs, owner)
        return check_number(super().call(__context, __obj, *values, **named, **passed))


class Sandbox(Metered):
    """An environment whose templates read plain data and build no more than a prompt can need."""

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, finalize=_check_output)
        for name in ("lipsum", "cycler", "joiner"):  # of no use in a prompt, and a way to burn time
            del self.globals[name]
        self._functions = tuple(self.globals.values())
        self.filters.update(FILTERS)
        self.meter_filters()

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) in _EXACTLY_PLAIN or _has_plain(obj, attribute):
            return super().getattr(obj, attribute)
        if isinstance(obj, (*_PLAIN, Mapping)):  # a key may be written like an attribute
            return self._item(obj, attribute)
        return self.unsafe_undefined(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(obj) in _EXACTLY_PLAIN or (isinstance(argument, str) and _has_plain(obj, argument)):
            return super().getitem(obj, argument)
        if isinstance(obj, (*_PLAIN_OR_RUNTIME, Mapping, Sequence)) or _is_array(obj):
            return self._item(obj, argument)
        return self.unsafe_undefined(obj, str(argument))

    def _item(self, obj: Any, key: Any) -> Any:
        try:
            return obj[key]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=key)

    def is_safe_callable(self, obj: Any) -> bool:
        method = getattr(obj, "__wrapped__", obj)
        if not isinstance(method, _METHODS):
            return isinstance(obj, _RUNTIME) or obj in self._functions
        owner = method.__self__
        return isinstance(owner, _PLAIN_OR_RUNTIME) or (isinstance(owner, type) and owner in _BUILDERS)


def meter(template: Template, source: str) -> None:
    """Have a template of another library render `source` with every operation charged, in its own environment."""
    environment: Any = template.environment
    environment.__class__ = type("Metered", (Metered, type(environment)), {})
    environment.finalize = _charge_text
    environment.meter_filters()
    with metering():
        compiled = environment.from_string(source)
    template.root_render_func, template.blocks = compiled.root_render_func, compiled.blocks


class _Guards(NodeTransformer):
    """Puts the checks into a template that Jinja has no hooks for: loops, ``~`` and slices."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = _wrap_in_filter(node.iter, "_counted")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _wrap_in_filter(nodes.List(node.nodes, lineno=node.lineno), "_joined")

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _wrap_in_filter(node, "_sized") if isinstance(node.arg, nodes.Slice) else node


def _wrap_in_filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


@pass_eval_context
def _concatenate(context: EvalContext, values: Sequence[Any]) -> str:
    if context.environment.finalize is not None:
        values = [context.environment.finalize(value) for value in values]
    spend(STEP + size_of(values))
    return markup_join(values) if context.autoescape else str_join(values)


def _charge_value(value: Any) -> Any:
    """A part of a text or list."""
    charge("list", (value,))
    return value


def _charge_loop(items: Any) -> Any:
    """What a loop goes through, whose iterations are charged for threads without a limit of time."""
    if isinstance(items, Undefined):
        return items
    listed = items if hasattr(items, "__len__") else list(items)
    spend(STEP * len(listed))
    return listed


def _charge_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        values, named = charge_call(name, args, kwargs)
        return check_number(function(*values, **named))

    return apply


def _charge_text(value: Any) -> Any:
    """A value that becomes text, charged unless it is text already."""
    if type(value) is not str:
        spend(STEP + size_of(value))
    return value


def _check_output(value: Any) -> Any:
    """A value that becomes text; anything but plain data, numbers and arrays of other libraries is refused."""
    if type(value) in _EXACTLY_PLAIN or isinstance(value, _WRITABLE) or _is_array(value):
        return _charge_text(value)
    hint = "name columns of text here, and those of images and sounds in doc_to_image, doc_to_audio"
    raise DataError(f"a template cannot write a {type(value).__name__}, which is not a text, number or list", hint=hint)


def _has_plain(obj: Any, attribute: str) -> bool:
    """Whether an attribute is one that the plain type of a value has."""
    if isinstance(obj, _RUNTIME):
        return True
    plain_type = next((plain for plain in _PLAIN if isinstance(obj, plain)), None)
    return plain_type is not None and hasattr(plain_type, attribute)


def _is_array(value: Any) -> bool:
    """Whether a value is an array, a tensor, or a number of such a library."""
    return hasattr(value, "tolist") and hasattr(value, "shape") and hasattr(value, "dtype")


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
        render = _ENV.from_string(source).render if expression is None else _value_of(expression)
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
        hint = "templates may read the document's columns only; use !function for code"
        raise ConfigError(f"the template reaches outside its sandbox: {error}", hint=hint) from error
    except MultiformError:
        raise
    except TemplateError as error:
        raise DataError(f"the template failed: {error}", hint=_source_hint(compiled)) from error
    except Exception as error:  # any error that user data causes inside a template
        raise DataError(f"the template failed: {reason(error)}", hint=_source_hint(compiled)) from error


def render_bounded(rendering: Callable[[], T]) -> T:
    """The result of a rendering, which costs a bounded amount of time and memory; a TooMuchError otherwise."""
    try:
        with metering() as meter:
            result = rendering()
        if meter.left >= 0:
            return _check_length(result)
    except AllowanceError:
        pass
    problem = survives(rendering)
    if problem is not None:
        raise TooMuchError(problem)
    return _check_length(rendering())  # what the child did, which is known to be harmless


def _check_length(result: T) -> T:
    if isinstance(result, str) and len(result) > _MAX_TEXT:
        raise TooMuchError(f"it builds a text of {len(result):,} characters, and {_MAX_TEXT:,} are allowed")
    return result


def literal_text(source: str) -> list[str]:
    """The pieces of plain text of a template, in order, with an empty piece where a value stands.

    >>> literal_text("Question: {{q}}\\nAnswer:")
    ['Question: ', '', '\\nAnswer:']
    """
    with _compiling(source):
        outputs = _ENV.parse(source).find_all(nodes.Output)
    texts = [node for output in outputs for node in output.nodes]
    return [node.data if isinstance(node, nodes.TemplateData) else "" for node in texts]


def lex(source: str) -> list[tuple[str, str]]:
    """The tokens of a template, each with its type; what white-space control removes is removed.

    >>> lex("a{{ b }}")[:2]
    [('data', 'a'), ('variable_begin', '{{')]
    """
    with _compiling(source):
        return [(token, value) for _, token, value in _ENV.lex(source)]


@contextmanager
def _compiling(source: str) -> Iterator[None]:
    """A block in which a source is parsed: its errors become a ConfigError that shows them."""
    try:
        with metering():
            yield
    except TemplateSyntaxError as error:
        message = f"template syntax error: {error.message} (line {error.lineno} of {excerpt(source, 60)})"
        raise ConfigError(message, hint="check the braces and quotes of the template") from error
    except (Exception, TimeLimitError) as error:  # too deep for the parser or Python, a number of 5000 digits
        message = f"the template cannot be compiled: {reason(error, 100)} ({excerpt(source, 60)})"
        raise ConfigError(message, hint="make it shorter and less deeply nested") from error


def _single_expression(source: str, tree: nodes.Template) -> str | None:
    output = tree.body[0] if len(tree.body) == 1 else None
    values = output.nodes if isinstance(output, nodes.Output) else []
    is_one_value = len(values) == 1 and not isinstance(values[0], nodes.TemplateData)
    if not (is_one_value and source.startswith("{{") and source.endswith("}}")):
        return None
    # Only what touches the braces is white-space control: "{{ -x }}" is a negative value.
    inner = source[2:-2].removeprefix("-").removeprefix("+").removesuffix("-").strip()
    return f"({inner})" if isinstance(values[0], nodes.Tuple) else inner


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
        return MissingColumnError(f"no column '{missing[0]}'", hint=nearest(missing[0], doc, listed="the columns are"))
    return DataError(f"the template failed: {error.message}", hint=_source_hint(compiled))


def _source_hint(compiled: Compiled) -> str:
    return f"the template is {excerpt(compiled.source, 120)}"
