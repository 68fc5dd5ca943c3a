"""The sandbox that templates run in: plain data alone, nothing that changes or reaches anything, all of it metered.

Values that are not plain data, such as an image, can be passed through a template but not looked into.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, Template, Undefined, nodes, pass_eval_context
from jinja2.environment import Environment
from jinja2.nodes import EvalContext
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, markup_join, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from multiform.errors import DataError
from multiform.prompts.filters import FILTERS
from multiform.prompts.limits import (
    STEP,
    bounded_text,
    charge,
    charge_call,
    charge_operator,
    check_number,
    largest_number,
    metering,
    size_of,
    spend,
)

#: Plain data. Of a subclass only what the plain type has can be used: a text or number of another library may write
#: itself to a file.
_PLAIN: tuple[type, ...] = (Markup, str, bytes, bool, int, float, complex, list, tuple, dict, set, frozenset, range,
          date, time, timedelta, Decimal, types.NoneType, type({}.keys()), type({}.values()),
          type({}.items()))  # fmt: skip
_EXACTLY_PLAIN = frozenset(_PLAIN)  # what nearly all values are, and quickly found
#: What Jinja itself gives to a template.
_RUNTIME = (Undefined, LoopContext, Namespace, Macro, BlockReference)
_METHODS = (types.BuiltinMethodType, types.MethodType)
_BUILDERS = (dict, str, bytes, int, float)  # classes whose class methods make plain data


class Metered(ImmutableSandboxedEnvironment):
    """An environment in which every operation of a template is charged to the rendering that is going on."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "**", "%"))
    concat = staticmethod(bounded_text)

    def meter_filters(self) -> None:
        """Have all filters charged, and those that the guards need."""
        self.filters = {name: _charge_filter(name, function) for name, function in self.filters.items()}
        self.filters |= {"_joined": _concatenate, "_sized": _charge_value, "_counted": _charge_rounds}

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
        name, owner = getattr(__obj, "__name__", ""), getattr(__obj, "__self__", None)
        values, named = charge_call(name, args, kwargs, owner)
        return check_number(super().call(__context, __obj, *values, **named, **passed))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        return None if wrapped is None else _Formatting(self, value.__self__, value.__name__)


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
        if isinstance(obj, (*_PLAIN, Mapping, Sequence, *_RUNTIME)) or _is_array(obj):
            return self._item(obj, argument)
        return self.unsafe_undefined(obj, str(argument))

    def _item(self, obj: Any, key: Any) -> Any:
        try:
            return obj[key]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=key)

    def is_safe_callable(self, obj: Any) -> bool:
        if not isinstance(obj, _METHODS):
            return isinstance(obj, _RUNTIME) or obj in self._functions or isinstance(obj, _Formatting)
        owner = obj.__self__
        return (
            type(owner) in _EXACTLY_PLAIN
            or isinstance(owner, (*_PLAIN, *_RUNTIME))
            or (isinstance(owner, type) and owner in _BUILDERS)
        )


def meter(template: Template, source: str) -> None:
    """Have a template of another library render `source` with every operation charged, in its own environment."""
    environment: Any = template.environment
    environment.__class__ = type("Metered", (Metered, type(environment)), {})
    environment.finalize = _charge_text
    environment.meter_filters()
    with metering():
        compiled = environment.from_string(source)
    template.root_render_func, template.blocks = compiled.root_render_func, compiled.blocks


def is_metered(template: Template) -> bool:
    """Whether a rendering of the template is charged."""
    return isinstance(template.environment, Metered)


class _Formatting:
    """The method `format` or `format_map` of a text, in the sandbox."""

    def __init__(self, environment: Environment, text: str, method: str) -> None:
        self._text, self._method = text, method
        self._formatter = _Formatter(environment)

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        if self._method == "format_map":
            if kwargs or len(args) != 1:
                raise TypeError("format_map() takes one argument")
            return self._formatter.vformat(self._text, (), args[0])
        return self._formatter.vformat(self._text, args, kwargs)


class _Formatter(SandboxedFormatter):
    """Writes the fields of a format string, each of them charged."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._finalize: Callable[[Any], Any] = environment.finalize or _charge_text

    def format_field(self, value: Any, format_spec: str) -> str:
        spend(STEP + largest_number(format_spec) + size_of(self._finalize(value)))
        text: str = super().format_field(value, format_spec)
        return text


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


def _charge_rounds(items: Any) -> Any:
    """What a loop goes through, whose rounds are charged for threads without a limit of time."""
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
    if (
        type(value) in _EXACTLY_PLAIN
        or isinstance(value, (*_PLAIN, *_RUNTIME, Mapping, Sequence, types.GeneratorType, _Formatting, *_METHODS))
        or _is_array(value)
    ):
        return _charge_text(value)
    message = f"a template cannot write a {type(value).__name__}, which is not a text, number or list"
    raise DataError(
        message, hint="name columns of text here, and those of images and sounds in doc_to_image, doc_to_audio"
    )


def _has_plain(obj: Any, attribute: str) -> bool:
    """Whether an attribute is one that the plain type of a value has."""
    if isinstance(obj, _RUNTIME):
        return True
    kind = next((plain for plain in _PLAIN if isinstance(obj, plain)), None)
    return kind is not None and hasattr(kind, attribute)


def _is_array(value: Any) -> bool:
    """Whether a value is an array, a tensor, or a number of such a library."""
    return hasattr(value, "tolist") and hasattr(value, "shape") and hasattr(value, "dtype")
