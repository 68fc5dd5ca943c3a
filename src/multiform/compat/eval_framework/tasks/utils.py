"""Helpers of tasks: labels, errors, and code that is to be run with its tests."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from multiform.catalog.sample_hooks import RANDOM_SEED
from multiform.errors import UsageError
from multiform.labels import label_list

__all__ = [
    "BIG_CODE_BENCH_PACKAGE_MAPPING",
    "RANDOM_SEED",
    "CallableSerializer",
    "ExecutionResult",
    "classproperty",
    "execute_python_code_with_tests",
    "extract_imports",
    "get_n_letters",
    "raise_errors",
    "run_python_code",
    "unittest_merge_snippets",
]

T = TypeVar("T")

#: Why metrics that run a model's code have no values here.
NO_CONTAINER = "it runs the model's code in a container, and Multiform starts none"
#: Packages that code needs in a container; there is none, so that nothing is installed.
BIG_CODE_BENCH_PACKAGE_MAPPING: dict[str, str | None] = {}


class classproperty(Generic[T]):  # noqa: N801 - as `property` is written
    """A property of a class."""

    def __init__(self, fget: Callable[[Any], T]) -> None:
        self.fget = fget

    def __get__(self, obj: object, owner: type[Any] | None = None) -> T:
        return self.fget(owner if owner is not None else type(obj))


def get_n_letters(n: int) -> list[str]:
    """The first labels: A, B, C, ..."""
    return label_list(max(0, n))


def raise_errors() -> bool:
    """Whether DEBUG asks for errors to be raised."""
    return os.environ.get("DEBUG", "false").lower() in ("1", "true")


def run_python_code(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: code is not run here."""
    raise UsageError(f"run_python_code: {NO_CONTAINER}", hint="score these answers with eval-framework")


execute_python_code_with_tests = run_python_code


class ExecutionResult(NamedTuple):
    """Whether tests passed, and what they said."""

    success: bool
    output: str


class SerializationError(Exception):
    """A function cannot be written as text, or read from it."""


class EncodingError(SerializationError):
    """A function cannot be written as text."""


class DecodingError(SerializationError):
    """A function cannot be read from text."""


class CallableSerializer:
    """Writes functions as text."""

    @staticmethod
    def encode(fn: Callable[..., Any]) -> str:
        import dill  # type: ignore[import-untyped]

        try:
            return base64.b64encode(dill.dumps(fn)).decode("ascii")
        except Exception as error:
            raise EncodingError(f"{fn} cannot be written as text: {error}") from error

    @staticmethod
    def decode(fn_str: str) -> Callable[..., Any]:
        import dill

        try:
            function: Callable[..., Any] = dill.loads(base64.b64decode(fn_str))
        except Exception as error:
            raise DecodingError(f"no function can be read from the text: {error}") from error
        return function


def unittest_merge_snippets(code: str, test_code: str) -> str:
    """Code and its tests as one script, which runs the tests."""
    runs = "" if "unittest.main(" in test_code else "\n\nif __name__ == '__main__':\n  unittest.main()"
    return f"{code}\n\n{test_code}{runs}"


def _parse_unittest_output(output: str) -> ExecutionResult:
    """What the output of tests says about them."""
    if "FAILED" in output or "OK" not in output:
        return ExecutionResult(False, output)
    ran = re.search(r"Ran (\d+) tests?", output)
    return ExecutionResult(True, f"{ran.group(1) if ran else 'all'} tests passed")


def extract_imports(code: str) -> tuple[list[str], set[str]]:
    """The lines of code that import, and the packages that they name."""
    lines: list[str] = []
    packages: set[str] = set()
    for line in map(str.strip, code.split("\n")):
        if found := re.match(r"import\s+([\w\s,.]+)", line):
            names = [name.strip().split(".")[0].split(" as ")[0] for name in found.group(1).split(",")]
        elif found := re.match(r"from\s+([\w.]+)\s+import\s", line):
            names = [found.group(1).split(".")[0]]
        else:
            continue
        lines.append(line)
        packages.update(name for name in names if name)
    return lines, packages
