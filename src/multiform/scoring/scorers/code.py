"""The scorer `code`: runs the program that a model wrote, with the tests of its document."""

from __future__ import annotations

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

from multiform.errors import ConfigError, DataError, MultiformError, excerpt
from multiform.fields import Doc, Field, FieldSpec
from multiform.prompts.template import compile_template, render
from multiform.sandbox import run_program
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers.base import Scorer, as_completion, register_own_metric, register_scorer

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
    "Whether the program passed its tests, the mean of which is pass@1",
    scorer="code",
    hint="write scorer: {type: code, kwargs: ...}",
    reduction="mean",
)


@register_scorer("code")
@dataclass(kw_only=True, eq=False)
class Code(Scorer):
    """Whether the program in a completion passes the tests of its document.

    `program` is a Jinja template of the program to run, with the document's columns and `code`: the first fenced block
    of the completion (or the last, with `block`), or all of it. With `tests`, a field with a list of inputs and outputs
    (or several fields), the code is run on each of them instead; `function` is the field with the name of the function
    that they call, empty if programs read their standard input. The program gets `timeout` seconds.
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
            raise ConfigError(f"expected first or last, got {excerpt(self.block)}", where="scorer.kwargs.block")
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
        pairs = zip(outcomes, docs, strict=True)
        sources = [self.source(outcome, doc) for repeats, doc in pairs for outcome in repeats]
        with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
            results = iter(list(pool.map(lambda source: run_program(source, seconds=self.timeout), sources)))
        values = []
        for repeats in outcomes:
            scored, texts = [], {}
            for index, (outcome, result) in enumerate(zip(repeats, results, strict=False)):
                scored.append({"passed": float(result.passed), **self.score(outcome)})
                texts[f"program_result_{index}" if index else "program_result"] = result.result
            values.append({**self.reduce(scored), **texts})
        return values


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
        message = f"expected tests with input and output, got {excerpt(value)}: {error}"
        raise DataError(message, where="scorer.kwargs.tests", hint="check the column") from error
