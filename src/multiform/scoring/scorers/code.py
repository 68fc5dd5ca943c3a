"""Scorers of code: `code` runs the program that a model wrote, with the tests of its document.

`function_calls` compares the calls that a model wrote with those that its document asks for (BFCL).
"""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from multiform.errors import ConfigError, DataError, MultiformError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.prompts.template import compile_template, render
from multiform.sandbox import run_program
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers.base import DocumentScorer, Scorer, as_completion, register_own_metric, register_scorer

_BLOCK = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\r?\n(.*?)(?:\r?\n```|\Z)", re.DOTALL | re.IGNORECASE)
#: The most bytes of a document's packed tests.
_MAX_TESTS = 2**28
_WORKERS = 2

#: Runs `code` on each test: a text on standard input with the expected output, or the arguments of a function.
_TESTED = """
import builtins, io, json, sys
from decimal import Decimal, InvalidOperation

def _number(word):
    try:
        return Decimal(word)
    except InvalidOperation:
        return word

def _same(got, expected):
    got, expected = ([line.split() for line in text.strip().splitlines()] for text in (got, expected))
    numbers = ([list(map(_number, line)) for line in lines] for lines in (got, expected))
    return got == expected or next(numbers) == next(numbers)

def _printed(code, text):
    names, plain_open = {"__name__": "__main__"}, builtins.open
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    sys.stdout = io.TextIOWrapper(io.BytesIO(), write_through=True)
    builtins.open = lambda file, *rest, **options: sys.stdin if file == 0 else plain_open(file, *rest, **options)
    try:
        exec(code, names)
    except SystemExit as end:
        assert end.code in (None, 0), f"exit status {end.code}"
    finally:
        builtins.open = plain_open
    sys.stdout.flush()
    return sys.stdout.buffer.getvalue().decode()

def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value

def _run(source, tests, name):
    preface = "from typing import *; from collections import *; from itertools import *; import math, heapq, bisect\\n"
    code = compile(preface + source, "<code>", "exec")
    names = {"__name__": "code"}
    if name:
        exec(code, names)
        function = getattr(names["Solution"](), name) if "Solution" in names else names[name]
    for number, test in enumerate(tests, start=1):
        if name:
            arguments = [json.loads(line) for line in test["input"].split("\\n") if line.strip()]
            assert _plain(function(*arguments)) == _plain(json.loads(test["output"])), f"test {number}"
        else:
            assert _same(_printed(code, test["input"]), test["output"]), f"test {number}"
"""


register_own_metric(
    "passed",
    "Whether the program passed its tests, the mean of which is pass@1; computed by the scorer `code`.",
    hint="write scorer: {type: code, kwargs: ...}",
    reduction="mean",
)


@register_scorer("code")
@dataclass(kw_only=True, eq=False)
class Code(Scorer):
    """Whether the program in a completion passes the tests of its document.

    `program` is a Jinja template of the program to run, with the document's columns and `code`: the first fenced block
    of the completion (or the last, with `block`), or all of it if it has none. With `tests`, a field with a list
    of inputs and outputs (or several fields), the code is run on each of them instead; `function` is the field
    with the name of the function that they call, empty if programs read their standard input. The program
    gets `timeout` seconds. Why it failed is part of the values as `program_result`.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("passed", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("passed",)
    #: Tasks with this scorer need `unsafe_code: true`.
    runs_code: ClassVar[bool] = True

    program: str | None = None
    tests: FieldSpec = None
    function: FieldSpec = None
    block: Literal["first", "last"] = "first"
    timeout: float = 3.0

    def __post_init__(self) -> None:
        if (self.program is None) == (self.tests is None):
            hint = "write program: '{{prompt}}{{code}}\\n{{test}}', or tests: COLUMN"
            raise ConfigError("expected either a program or tests", where="scorer.kwargs", hint=hint)
        if self.block not in ("first", "last"):
            raise ConfigError(f"expected first or last, got {shorten(self.block)}", where="scorer.kwargs.block")
        fields = self.tests if isinstance(self.tests, list) else [self.tests]
        try:
            self._program = None if self.program is None else compile_template(self.program)
            self._tests = [Field.of(field) for field in fields]
            self._function = None if self.function is None else Field.of(self.function)
        except MultiformError as error:
            raise error.at("scorer.kwargs") from error

    def source(self, outcome: Outcome, doc: Doc) -> str:
        """The program that is run for a completion."""
        completion = as_completion(outcome, "code")
        text = completion.primed + str(completion.prediction or "")
        blocks = _BLOCK.findall(text)
        code = text if not blocks else blocks[0 if self.block == "first" else -1]
        if self._program is not None:
            return str(render(self._program, {**doc, "code": code}))
        tests = [test for field in self._tests for test in read_tests(field.value(doc))]
        if not tests:
            raise DataError("a document has no tests", where="scorer.kwargs.tests", hint="name the column with them")
        name = "" if self._function is None else self._function.value(doc) or ""
        return f"{_TESTED}\n_run({code!r}, {tests!r}, {name!r})"

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        sources = [
            self.source(outcome, doc) for repeats, doc in zip(outcomes, docs, strict=True) for outcome in repeats
        ]
        with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
            results = iter(list(pool.map(lambda source: run_program(source, seconds=self.timeout), sources)))
        return [self._values(repeats, [next(results) for _ in repeats]) for repeats in outcomes]

    def _values(self, outcomes: Sequence[Outcome], results: Sequence[Any]) -> dict[str, Any]:
        scored = [
            {"passed": float(result.passed), **self.score(outcome)}
            for outcome, result in zip(outcomes, results, strict=True)
        ]
        texts = {"program_result" if not i else f"program_result_{i}": r.result for i, r in enumerate(results)}
        return {**self.reduce(scored), **texts}


class _TextUnpickler(pickle.Unpickler):
    """Reads pickled text; whatever would import something is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def read_tests(value: Any) -> list[Mapping[str, str]]:
    """The tests of a column: a list of inputs and outputs, its JSON text, or that text pickled, packed and in base64.

    >>> read_tests('[{"input": "1", "output": "2"}]')
    [{'input': '1', 'output': '2'}]
    """
    if value is None or value == "":
        return []
    try:
        tests = json.loads(value) if isinstance(value, str) and value.lstrip().startswith("[") else value
        if isinstance(tests, str):
            unpacker = zlib.decompressobj()
            packed = unpacker.decompress(base64.b64decode(tests), _MAX_TESTS)
            if unpacker.unconsumed_tail:
                raise DataError(f"packed tests of more than {_MAX_TESTS:,} bytes", where="scorer.kwargs.tests")
            tests = json.loads(_TextUnpickler(io.BytesIO(packed)).load())
        return [{"input": str(test["input"]), "output": str(test["output"])} for test in tests]
    except (ValueError, TypeError, KeyError, EOFError, zlib.error, pickle.UnpicklingError) as error:
        message = f"expected tests with input and output, got {shorten(value)}: {error}"
        raise DataError(message, where="scorer.kwargs.tests", hint="check the column") from error


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

    A call is right if its name and arguments are; each argument may have several right values.

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
