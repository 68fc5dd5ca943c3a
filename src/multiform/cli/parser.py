"""Commands with their flags, the parser whose errors are a UsageError, and what all commands share in printing.

Each repetition of a flag that gathers values, and each further value, adds to the values before. Values of a `--config`
file are defaults: the first value on the command line replaces them.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from multiform.errors import UsageError, nearest
from multiform.run.values import ValueType

#: Adds a flag, or those of a group, to the parser of a command.
AddFlags: TypeAlias = Callable[[argparse.ArgumentParser], Any]
#: Runs a command; without an exit code it is 0.
Execute: TypeAlias = Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command: its name and texts in `--help`, what adds its flags, and the function that runs it."""

    name: str
    help: str
    description: str
    examples: str
    flags: Sequence[AddFlags]
    execute: Execute


def command(help: str, *flags: AddFlags, description: str = "", examples: str) -> Callable[[Execute], Command]:
    """Make a command of the function that runs it, under its name; without a description, `--help` repeats the help."""
    text = description or f"{help[0].upper()}{help[1:]}."
    return lambda execute: Command(execute.__name__, help, text, examples, flags, execute)


def flag(names: str, help: str, type: ValueType | Callable[[str], Any] | None = None, **settings: Any) -> AddFlags:
    """A flag by its names (``"--output -o"``) or an argument by its one; without type and metavar, it is a switch."""
    *_, name = sorted(names.split(), key=len)
    if isinstance(type, ValueType):
        settings = _value_settings(type, name) | settings
    elif type is not None:
        settings["type"] = type
    elif name.startswith("-") and "metavar" not in settings:
        settings["action"] = "store_true"
    return lambda parser: parser.add_argument(*names.split(), help=help, **settings)


def _value_settings(kind: ValueType, name: str) -> dict[str, Any]:
    """What argparse has to know of a flag's values."""
    reader = {"type": kind.reader(name)}
    settings: dict[str, dict[str, Any]] = {
        "value": reader,
        "optional": {**reader, "nargs": "?", "const": kind.const},
        "words": {"action": Gather, "nargs": "+"},
        "folders": {"action": Folders},
        "arguments": {"action": Arguments},
        "several arguments": {"action": Arguments},
    }
    return {"action": "store_true"} if kind.arity == "switch" else {**settings[kind.arity], "metavar": kind.metavar}


#: Flags of runs that every `--help` lists; the others are rare, which `--help all` lists.
_COMMON = frozenset(
    (
        *("tasks", "model", "model_args", "batch_size", "device", "num_fewshot", "apply_chat_template", "gen_kwargs"),
        *("include_path", "import", "dataset_mirror", "limit", "output_path", "log_samples", "report", "json"),
        *("config", "plan"),
    )
)
#: Fewer rare flags than these are listed like the others.
_FEW = 4


def mark_rare(action: argparse.Action | None) -> None:
    """Leave a flag to `--help all` if it is not among the common ones."""
    if action is not None and _COMMON.isdisjoint(name.lstrip("-") for name in action.option_strings):
        action.is_rare = True  # type: ignore[attr-defined]


JSON = flag("--json", "print JSON and nothing else")
#: The results of a run, as an argument.
RUN = flag("run", "an --output_path, or a results_<date>.json in it", metavar="RUN")


def print_result(options: argparse.Namespace, value: Any, lines: Iterable[str]) -> None:
    """Print the value as JSON if `--json` is set, otherwise the lines."""
    if options.json:
        from multiform.results.export import plain_json

        lines = [plain_json(value)]
    for line in lines:
        print(line)


def value_text(action: argparse.Action) -> str:
    """What a flag or argument takes, as help texts show it."""
    if action.nargs == 0:
        return ""
    text = f"{action.metavar or action.dest}{' ...' if action.nargs in ('*', '+') else ''}"
    return f"[{text}]" if action.nargs in ("*", "?") else text


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Names the value of a flag once, wraps descriptions, and keeps the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        keeps_lines = "\n" in text
        return super()._fill_text(text, width, indent) if keeps_lines else textwrap.fill(text, width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        return f"{', '.join(sorted(action.option_strings, key=len))} {value_text(action)}".rstrip()


class Parser(argparse.ArgumentParser):
    """Raises a UsageError where argparse would print its usage and exit."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, add_help=False, **kwargs)
        self.add_argument("-h", "--help", action=_Help, nargs="?", metavar="all", help="show this help and exit")

    def error(self, message: str) -> NoReturn:
        about = re.match(r"argument (?P<names>[^:]+): (?P<what>.*)", message, re.DOTALL)
        if missing := message.removeprefix("the following arguments are required: ").removeprefix(message):
            example = re.search(rf"^  ({self.prog} .*?)(?:   .*)?$", self.epilog or "", re.MULTILINE)
            hint = f"type e.g. {example[1]}" if example else f"see {self.prog} --help"
            raise UsageError(f"missing: {missing}", where=self.prog, hint=hint)
        if about is None:
            raise UsageError(message, where=self.prog, hint=f"see {self.prog} --help")
        flag = max(about["names"].split("/"), key=len)  # of --limit/-L the longer
        raise UsageError(about["what"], where=flag, hint=f"see {self.prog} --help")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise for arguments that no flag takes."""
        name = unknown[0].partition("=")[0]
        flags = [flag for action in self._actions for flag in action.option_strings]
        if name.startswith("--") or name in flags:
            raise UsageError(f"no flag {name}", where=self.prog, hint=nearest(name, flags, listed="flags"))
        raise UsageError(f"'{unknown[0]}' belongs to no flag", where=self.prog, hint=f"see {self.prog} --help")


class _Help(argparse.Action):
    """``--help`` prints the common flags and how many others there are, ``--help all`` every flag."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        rare = [action for action in parser._actions if getattr(action, "is_rare", False)]
        if values != "all" and len(rare) >= _FEW:
            for action in rare:
                action.help = argparse.SUPPRESS
            parser.epilog = f"{parser.prog} --help all lists {len(rare)} more flags.\n\n{parser.epilog or ''}"
        parser.print_help()
        parser.exit()


class Gather(argparse.Action):
    """Collects all values of a flag on the command line in a list."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        seen: set[str] = vars(namespace).setdefault("given", set())
        before = getattr(namespace, self.dest) if self.dest in seen else None
        seen.add(self.dest)
        words = [values] if isinstance(values, str) else list(values or ())
        setattr(namespace, self.dest, self.gather(before, words))

    def gather(self, before: Any, values: Sequence[str]) -> Any:
        """The values so far, with those of another occurrence of the flag."""
        return [*(before or ()), *values]


class Arguments(Gather):
    """Collects ``key=value,key=value`` texts or JSON objects in a dict."""

    def gather(self, before: Any, values: Sequence[str]) -> dict[str, Any]:
        from multiform.arguments import parse_arguments

        arguments = dict(before or {})
        for value in values:
            arguments |= parse_arguments(value, where=f"--{self.dest}")
        return arguments


class Folders(Gather):
    """Collects folders; a value may hold several, separated as in the variable PATH."""

    def gather(self, before: Any, values: Sequence[str]) -> list[str]:
        parts = ([value] if Path(value).exists() else value.split(os.pathsep) for value in values)
        return [*(before or ()), *(folder for folders in parts for folder in filter(None, folders))] or list(values)


logger = logging.getLogger("multiform")

#: What libraries read when they are imported, which is later than this.
_SETTINGS = {
    "TQDM_DISABLE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "DATASETS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "true",
}


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Show nothing of what libraries say on their own; what the user has set in the environment is kept.

    Warnings of Python code and logs without a handler are logged as debug messages of Multiform, for
    ``--verbosity DEBUG``.
    """
    # On a terminal, downloads show their progress.
    left_out = ("HF_HUB_DISABLE_PROGRESS_BARS",) if sys.stderr.isatty() else ()
    unset = [name for name in _SETTINGS if name not in os.environ and name not in left_out]
    os.environ.update({name: _SETTINGS[name] for name in unset})
    root, handler = logging.getLogger(), _ToDebug()
    logging.captureWarnings(True)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logging.captureWarnings(False)
        for name in unset:
            os.environ.pop(name, None)


class _ToDebug(logging.Handler):
    """Passes what other loggers say on to that of Multiform, which shows it with ``--verbosity DEBUG``."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != logger.name:
            logger.debug("%s: %s", record.name, record.getMessage())
