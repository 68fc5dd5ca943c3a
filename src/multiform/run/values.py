"""The values of options: which are accepted from Python, and how the text of a flag is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeAlias

from multiform.errors import UsageError, nearest, shorten

#: Reads the text of a flag; the second argument is the flag, which errors name.
Reader: TypeAlias = Callable[[str, str], Any]
#: Seeds of python, numpy, torch and the few-shot sampler.
DEFAULT_SEEDS = (0, 1234, 1234, 1234)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """The values that an option accepts, in words and with an example, and how its flag takes them.

    >>> COUNT.check("num_fewshot", "5")
    Traceback (most recent call last):
    multiform.errors.UsageError: num_fewshot: expected a whole number of 0 or more, got '5'; give e.g. num_fewshot=5
    """

    accepts: Callable[[Any], bool]
    expected: str = ""
    example: str = ""
    #: Reads the text of a flag; None takes it as it is.
    read: Reader | None = None
    #: A flag has one value, one that may be left out (then it is `const`), none, or several that are gathered: words,
    #: folders, or key=value arguments.
    arity: Literal["value", "optional", "switch", "words", "folders", "arguments"] = "value"
    const: Any = True
    #: What stands for a value in `--help`.
    metavar: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Refuse a value of another type than the command line would read; None is the default of every option."""
        if value is not None and not self.accepts(value):
            hint = f"give e.g. {name}={self.example}"
            raise UsageError(f"expected {self.expected}, got {shorten(value)}", where=name, hint=hint)

    def reader(self, flag: str) -> Callable[[str], Any]:
        """The argparse type of a flag that has such values."""
        read = self.read
        return str if read is None else lambda text: read(text, flag)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_share_or_count(value: Any) -> bool:
    """Whether a value is a whole number, or a share below 1."""
    return _is_number(value) and (0 <= value < 1 or (value >= 1 and float(value).is_integer()))


def number(text: str) -> float:
    """The number that a text is; not a number where it is none, which every comparison refuses."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def number_type(
    is_valid: Callable[[float], bool],
    *,
    expected: str,
    hint: str,
    example: str = "",
    read_expected: str | None = None,
    metavar: str | None = None,
) -> ValueType:
    """Numbers that fit a condition; `hint` is that of a flag, with ``FLAG`` where its name goes."""

    def parse(text: str, flag: str) -> float:
        value = number(text)
        if not is_valid(value):
            message = f"expected {read_expected or expected}, got {shorten(text)}"
            raise UsageError(message, where=flag, hint=hint.replace("FLAG", flag))
        return value

    accepts = lambda value: _is_number(value) and is_valid(value)  # noqa: E731
    return ValueType(accepts=accepts, expected=expected, example=example, read=parse, metavar=metavar)


def count(least: int = 0, example: int = 5) -> ValueType:
    """Whole numbers of `least` or more."""
    expected = f"a whole number of {least} or more"

    def parse(text: str, flag: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise UsageError(f"expected {expected}, got {shorten(text)}", where=flag, hint=f"give e.g. {flag} 5")
        return value

    accepts = lambda value: _is_whole(value) and bool(value >= least)  # noqa: E731
    return ValueType(accepts=accepts, expected=expected, example=str(example), read=parse, metavar="N")


def one_of(names: Sequence[str], *, example: str = "", optional: bool = False, const: Any = True) -> ValueType:
    """One of several names; on the command line in upper or lower case."""

    def parse(text: str, flag: str) -> str:
        matches = [name for name in names if name.lower() == text.lower()]
        if not matches:
            raise UsageError(f"no '{text}'", where=flag, hint=nearest(text, names, listed="there are"))
        return matches[0]

    return ValueType(
        accepts=lambda value: value in names,
        expected=f"one of {', '.join(names)}",
        example=repr(example),
        read=parse,
        arity="optional" if optional else "value",
        const=const,
        metavar="|".join(names),
    )


def _is_batch_size(value: Any) -> bool:
    if isinstance(value, str):
        word, colon, _ = value.partition(":")
        return word == "auto" if colon else word == "auto" or (word.isdecimal() and int(word) > 0)
    return _is_whole(value) and bool(value >= 1)


def _read_batch_size(text: str, flag: str) -> str:
    word, _, size = text.partition(":")
    counted = size if word == "auto" and size else text
    if text != "auto" and not (counted.isdecimal() and int(counted) > 0):
        message = f"expected a whole number of 1 or more, or auto, got {shorten(text)}"
        raise UsageError(message, where=flag, hint=f"give e.g. {flag} 8")
    return text


def _read_bool(text: str, flag: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise UsageError(f"expected true or false, got '{text}'", where=flag, hint="leave the value out for true")
    return words[text.lower()]


def _read_template(text: str, flag: str) -> bool | str:
    """The name of a chat template, or whether to use one at all."""
    return {"true": True, "false": False}.get(text.lower(), text)


def _are_seeds(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 4
    return is_list and all(seed is None or _is_whole(seed) for seed in value)


def read_seeds(text: str, flag: str = "--seed") -> Sequence[int | None]:
    """The seeds of a text: one for all, or three or four; "None" sets no seed.

    >>> read_seeds("7"), read_seeds("1,none,3")
    ([7, 7, 7, 7], [1, None, 3, 1234])
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        seeds = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError:
        seeds = []
    if len(seeds) not in (1, 3, 4):
        message = f"expected one or four whole numbers, got {shorten(text)}"
        hint = f"give e.g. {flag} 1234 or {flag} {','.join(map(str, DEFAULT_SEEDS))}"
        raise UsageError(message, where=flag, hint=hint)
    if len(seeds) == 3:
        return [*seeds, DEFAULT_SEEDS[3]]
    return seeds * 4 if len(seeds) == 1 else seeds


def _are_samples(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    lists = [ids for ids in value.values() if isinstance(ids, Sequence) and not isinstance(ids, str) and ids]
    return len(lists) == len(value) and all(_is_whole(index) for ids in lists for index in ids)


def read_samples(spec: str | Mapping[str, Any], flag: str = "--samples") -> dict[str, list[int]]:
    """The documents of a JSON object of task names and indexes, of the path of such a file, or of a mapping."""
    hint = f"write e.g. {flag} '{{\"quiz\": [0, 5]}}'"
    samples = _read_json(spec, flag, hint) if isinstance(spec, str) else spec
    if not isinstance(samples, Mapping) or not samples:
        message = f"expected an object of task names and lists of indexes, got {shorten(samples)}"
        raise UsageError(message, where=flag, hint=hint)
    for task, indexes in samples.items():
        if not isinstance(indexes, list) or not indexes or any(type(index) is not int for index in indexes):
            message = f"expected a list of indexes for '{task}', got {shorten(indexes)}"
            raise UsageError(message, where=flag, hint=hint)
    return {str(task): list(indexes) for task, indexes in samples.items()}


def _read_json(text: str, flag: str, hint: str) -> Any:
    inline = text.lstrip().startswith(("{", "["))
    source = "" if inline else f"{text}: "
    try:
        return json.loads(text if inline else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read '{text}': {error.strerror}", where=flag, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}not valid JSON: {error}", where=flag, hint=hint) from error


def _is_anything(value: Any) -> bool:
    return True


#: Values that are checked where they are used: where tasks and models are loaded, and where texts are parsed.
ANYTHING = ValueType(accepts=_is_anything)
WORDS = ValueType(accepts=_is_anything, arity="words")
FOLDERS = ValueType(accepts=_is_anything, arity="folders", metavar="DIR")
ARGUMENTS = ValueType(accepts=_is_anything, arity="arguments", metavar="K=V,...")
TEXT = ValueType(accepts=_is_text, expected="text", example="'...'")
SWITCH = ValueType(accepts=_is_bool, expected="True or False", example="True", arity="switch")
YES_OR_NO = ValueType(
    accepts=_is_bool, expected="True or False", example="True", read=_read_bool, arity="optional", metavar="BOOL"
)
COUNT = count()
SAMPLE = ValueType(
    accepts=lambda value: isinstance(value, str) and re.fullmatch(r"first|random|stratified(:.+)?", value) is not None,
    expected="first, random, stratified or stratified:COLUMN",
    example="'random'",
)
LIMIT = number_type(
    lambda value: _is_share_or_count(value) and value > 0,
    expected="a whole number of documents or a fraction below 1",
    example="100",
    read_expected="a whole number of 1 or more, or a fraction below 1",
    hint="give e.g. FLAG 100 or FLAG 0.1",
    metavar="N",
)
MAX_FAILURES = number_type(
    _is_share_or_count,
    expected="a whole number of documents or a share below 1",
    example="10 or max_failures=0.05",
    read_expected="a whole number of 0 or more, or a share below 1",
    hint="give e.g. FLAG 10 or FLAG 0.05",
    metavar="N",
)
DOLLARS = number_type(
    lambda value: 0 < value < math.inf,
    expected="a number above 0",
    example="5 for five US dollars",
    hint="give e.g. FLAG 5",
    metavar="USD",
)
HALF_WIDTH = number_type(
    lambda value: 0 < value < 0.5,
    expected="a number between 0 and 0.5",
    example="0.02 for an interval of ± 0.02",
    hint="give e.g. FLAG 0.02 for an interval of plus or minus 0.02",
    metavar="WIDTH",
)
BATCH_SIZE = ValueType(
    accepts=_is_batch_size,
    expected="a whole number of 1 or more, or 'auto'",
    example="8",
    read=_read_batch_size,
    metavar="N|auto",
)
CHAT_TEMPLATE = ValueType(
    accepts=lambda value: isinstance(value, bool | str),
    expected="True, False or a name",
    example="True",
    read=_read_template,
    arity="optional",
    metavar="NAME",
)
SEEDS = ValueType(
    accepts=_are_seeds,
    expected="the seeds of python, numpy, torch and the few-shot sampler",
    example=str(DEFAULT_SEEDS),
    read=read_seeds,
    metavar="N[,N,N,N]",
)
SAMPLES = ValueType(
    accepts=_are_samples,
    expected="a list of indexes for each task",
    example="{'quiz': [0, 5]}",
    read=read_samples,
    metavar="JSON",
)
STORE_FILE = ValueType(
    accepts=lambda value: isinstance(value, bool | str | Path),
    expected="True, False or the name of a file",
    example="True",
    metavar="FILE",
)
OUTPUT = ValueType(
    accepts=lambda value: isinstance(value, str | Path),
    expected="the name of a folder or of a .json file",
    example="'results'",
    metavar="DIR",
)
INPUT_FILE = replace(OUTPUT, expected="the name of a file", example="'labels.jsonl'", metavar="FILE")
LANGUAGES = ValueType(
    accepts=lambda value: isinstance(value, list | tuple) and bool(value) and all(map(_is_text, value)),
    expected="a list of language codes",
    example="['de', 'hi']",
    read=lambda text, flag: [code.strip() for code in text.split(",") if code.strip()],
    metavar="L,L",
)


def _read_budgets(text: str, flag: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        message = f"expected numbers of tokens, 0 for no thinking, got {shorten(text)}"
        raise UsageError(message, where=flag, hint=f"give e.g. {flag} 0,1024,8192")
    return [int(part) for part in parts]


BUDGETS = ValueType(
    accepts=lambda value: isinstance(value, list | tuple) and bool(value) and all(map(COUNT.accepts, value)),
    expected="a list of numbers of tokens, 0 for no thinking",
    example="[0, 1024]",
    read=_read_budgets,
    metavar="N,N",
)
CHOICE_ORDER = ValueType(
    accepts=_is_text, expected="original, shuffle:SEED, cyclic or all", example="'cyclic'", metavar="ORDER"
)
_CACHE_REQUESTS = ("true", "refresh", "delete")
CACHE_REQUESTS = replace(
    one_of(_CACHE_REQUESTS, optional=True, const="true"),
    accepts=lambda value: isinstance(value, bool) or value in _CACHE_REQUESTS,
    expected="one of three",
    example="True, 'refresh' or 'delete'",
)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a run: what `--help` says about it, its values, and where else it shows."""

    help: str
    type: ValueType = SWITCH
    #: What stands for the value in `--help`, where it is not what the type says.
    metavar: str | None = None
    #: The heading under which `--help` lists the flag; options without one are listed first.
    group: str | None = None
    #: The name of the flag where it is not that of the field, and its short form. `flag` is "" where there is no flag.
    flag: str | None = None
    short: str | None = None
    #: Whether the flag of `run` takes several key=value texts, separated by spaces.
    several: bool = False
    #: The environment variable that has the flag's default.
    env: str | None = None
    #: Whether it is a setting of every form, on which the identity of forms depends.
    setting: bool = False
    #: Whether results record it in `config["arguments"]` when it is not the default.
    recorded: bool = False


#: Where tasks and data come from: options of a run, and of light commands that need nothing else of a run.
SOURCES = "tasks and data"
SOURCE_OPTIONS = {
    "include_path": Option(
        "another folder of task files, or lm_eval for those of lm-eval (may be repeated, or several with colons)",
        FOLDERS,
        group=SOURCES,
        recorded=True,
    ),
    "imports": Option(
        "a Python file, or a module by name, that registers models, formats, metrics and so on; it is run (may be "
        "repeated)",
        replace(FOLDERS, metavar="FILE"),
        group=SOURCES,
        flag="import",
        recorded=True,
    ),
    "dataset_mirror": Option(
        "folder in which datasets are looked up before the hub: DIR/<dataset_path>/<dataset_name or default>/"
        "<split>.jsonl or .parquet; may be repeated: a split is read from the first folder that has it (default: "
        "$MULTIFORM_DATASET_MIRROR)",
        FOLDERS,
        group=SOURCES,
        env="MULTIFORM_DATASET_MIRROR",
        recorded=True,
    ),
}
