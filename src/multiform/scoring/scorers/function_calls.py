"""The scorer `function_calls`: whether a completion calls the functions that its document asks for (BFCL).

A call is right if its name and arguments are; each argument may have several right values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.scoring.scorers.base import DocumentScorer, register_scorer

#: The name of a function, and its arguments by name.
Call = tuple[str, dict[str, Any]]

_TYPES: dict[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip


@register_scorer("function_calls")
@dataclass(kw_only=True, eq=False)
class FunctionCalls(DocumentScorer):
    """Whether a completion is a list of the right calls, in any order.

    `functions` is the field with the descriptions of the functions, and `calls` that with the right calls: a mapping
    from a name to the right values of each argument, in which "" allows to leave the argument out. An empty list
    stands for no call at all, and `any` for some call.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("exact_match", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("exact_match",)

    functions: FieldSpec = "function"
    calls: FieldSpec = "ground_truth"

    def __post_init__(self) -> None:
        self._fields = self.compile_fields("functions", "calls")

    def own_values(self, text: str, doc: Doc) -> Mapping[str, Any]:
        wanted, functions = (self._fields[name].value(doc) for name in ("calls", "functions"))
        return {"exact_match": float(is_right(read_calls(text), wanted, functions))}


def read_calls(text: str) -> list[Call]:
    """The calls of a Python list; none if the text is anything else.

    >>> read_calls("[area(base=3, unit='cm'), geo.find(at=[1, -2])]"), read_calls("No function does that.")
    ([('area', {'base': 3, 'unit': 'cm'}), ('geo.find', {'at': [1, -2]})], [])
    """
    stripped = text.strip("`\n ")
    opening, closing = "" if stripped.startswith("[") else "[", "" if stripped.endswith("]") else "]"
    try:
        body = ast.parse(f"{opening}{stripped}{closing}".strip("'"), mode="eval").body
        return [_call(item) for item in body.elts] if isinstance(body, ast.List | ast.Tuple) else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError):
        return []


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError("not a call")
    return ast.unparse(node.func), {str(argument.arg): _value(argument.value) for argument in node.keywords}


def _value(node: ast.expr) -> Any:
    """The value of an argument; names and other code stand for their own text."""
    match node:
        case ast.Constant(value):
            return "..." if value is ... else value
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys, values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as operator, right):
            first, second = _value(left), _value(right)
            if not isinstance(first, int | float) or not isinstance(second, int | float):
                raise ValueError("not a number")
            results = {ast.Add: first + second, ast.Sub: first - second, ast.Mult: first * second}
            return results[type(operator)] if type(operator) in results else first / second
        case ast.Call(keywords=[_, *_]):
            return dict([_call(node)])
        case ast.Name() | ast.Call() | ast.Subscript():
            return ast.unparse(node)
    raise ValueError("not a value")


def is_right(calls: Sequence[Call], wanted: Any, functions: Any) -> bool:
    """Whether the calls are the wanted ones, each once."""
    if wanted == "any":
        return bool(calls)
    if not isinstance(wanted, list) or not isinstance(functions, list):
        message = f"expected lists of calls and functions, got {shorten(wanted)} and {shorten(functions)}"
        raise DataError(message, where="scorer.kwargs", hint="name the columns with calls: and functions:")
    descriptions = {function["name"]: function["parameters"] for function in functions}
    left = dict(enumerate(calls))
    for each in wanted:
        [(name, answers)] = each.items()
        fitting = (at for at, call in left.items() if call[0] == name and _fits(call[1], answers, descriptions[name]))
        if left.pop(next(fitting, -1), None) is None:
            return False
    return not left


def _fits(given: Mapping[str, Any], answers: Mapping[str, list[Any]], description: Mapping[str, Any]) -> bool:
    """Whether the arguments of a call are right: the required ones, and no others than described."""
    known = description["properties"]
    return (
        given.keys() >= {*description.get("required", ())}
        and given.keys() <= known.keys() & answers.keys()
        and all(_is_allowed(value, answers[name], known[name]) for name, value in given.items())
        and all("" in answers[name] for name in answers if name not in given)
    )


def _is_allowed(value: Any, allowed: Sequence[Any], description: Mapping[str, Any]) -> bool:
    """Whether a value has the described type, or that of the right values, and is one of these."""
    declared = _TYPES[description["type"]]
    inner = _TYPES[description["items"]["type"]] if declared is list else None
    if description["type"] == "tuple" and isinstance(value, tuple):
        value = list(value)
    if declared is float and type(value) is int:
        value = float(value)
    given, stated = type(value), _first_type(allowed)
    if given is not declared:
        return given is stated and value in allowed
    if inner is not None and not any(_has_items(value, answer, inner) for answer in allowed):
        return False
    if stated not in (None, declared):  # a variable, which stands for its own name
        return value in allowed
    if declared is dict:
        return any(_is_mapping(value, answer) for answer in allowed if answer != "")
    if inner is dict:
        return any(len(value) == len(answer) and all(map(_is_mapping, value, answer)) for answer in allowed)
    if value == [] and "" in allowed:  # as if it were left out
        return True
    return _plain(value) in [_plain(answer) for answer in allowed]


def _first_type(values: Sequence[Any]) -> type | None:
    return next((type(value) for value in values if value != ""), None)


def _has_items(value: Sequence[Any], answer: Any, inner: type) -> bool:
    return not isinstance(answer, list) or all(type(item) in (inner, _first_type(answer)) for item in value)


def _is_mapping(value: Mapping[str, Any], answer: Mapping[str, list[Any]]) -> bool:
    return all(
        key in answer and _plain(item) in [_plain(allowed) for allowed in answer[key]] for key, item in value.items()
    ) and all("" in answer[key] for key in answer if key not in value)


def _plain(value: Any) -> Any:
    """Texts, also those in a list, without blanks, case and the marks that dates and names are written with."""
    if isinstance(value, list):
        return [_plain(item) if isinstance(item, str) else item for item in value]
    return re.sub(r"[ ,./\-_*^]", "", value).lower().replace("'", '"') if isinstance(value, str) else value
