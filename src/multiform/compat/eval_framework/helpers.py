"""Helpers of tasks: labels, errors, formatters of messages, pinned datasets, and code with its tests."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from multiform.compat.eval_framework.sample_hooks import RANDOM_SEED as RANDOM_SEED
from multiform.errors import UsageError
from multiform.formats.dialects.samples import Message, Role
from multiform.labels import label_list
from multiform.paths import replace_output

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


class LogicError(Exception):
    """A metric was given what it cannot use."""


logger = logging.getLogger("eval_framework")


def count_bytes(text: str, /, *, encoding: str = "utf-8") -> int:
    """The number of bytes of a text."""
    return len(text.encode(encoding))


RED = "\033[91m"
YELLOW = "\033[93m"
MAGENTA = "\033[1;35;40m"
GREEN = "\033[92m"
RESET = "\033[0m"


#: The lock files of eval-framework's benchmarks. They come with eval-framework: where there is none, a task uses
#: the newest revision of its dataset, and a file that is put here is used.
HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "hf-dataset-revisions.json"
FROZEN_HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "frozen-hf-dataset-revisions.json"


class HfDatasetRevisions:
    """The commits that datasets are pinned to."""

    def __init__(self, revisions: Mapping[str, str]) -> None:
        self._revisions = dict(revisions)

    @classmethod
    def from_file(cls, path: Path) -> HfDatasetRevisions:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def to_dict(self) -> dict[str, str]:
        return dict(self._revisions)

    def to_file(self, path: Path) -> None:
        text = json.dumps(self._revisions, indent=4, ensure_ascii=False, sort_keys=True)
        with replace_output(path) as file:
            file.write_text(f"{text}\n", encoding="utf-8")

    def revision_for(self, dataset_path: str) -> str:
        """The commit of a dataset; a KeyError where it is not pinned."""
        return self._revisions[dataset_path]

    def num_revisions(self) -> int:
        return len(self._revisions)


def pinned_revision(lockfile: Path, dataset_path: str) -> str:
    """The commit that a lock file has for a dataset; a KeyError where it has none."""
    try:
        return HfDatasetRevisions.from_file(lockfile).revision_for(dataset_path)
    except (FileNotFoundError, KeyError):
        raise KeyError(f"{lockfile.name} does not pin the dataset '{dataset_path}'") from None


class BaseFormatter:
    """Joins messages; `after` is what follows those of the system and, but for the last message, the assistant."""

    after = ""

    def format(self, messages: Sequence[Message], output_mode: str = "string") -> str:
        """The messages as one text; white space around the last one goes."""
        if output_mode != "string":
            raise ValueError(f"output_mode {output_mode!r} is not known here; use 'string'")
        *before, last = messages
        texts = [message.content + ("" if message.role is Role.USER else self.after) for message in before]
        ends = self.after if last.role is Role.SYSTEM else ""
        return "".join([*texts, last.content + ends if last.role is Role.SYSTEM else last.content.strip()])


class IdentityFormatter(BaseFormatter):
    """Puts the messages one after the other."""


class ConcatFormatter(BaseFormatter):
    """Puts an empty line after each message of the system and the assistant."""

    after = "\n\n"
