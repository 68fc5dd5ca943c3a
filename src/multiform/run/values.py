"""The values of options: which are accepted from Python, and how the text of a flag is read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from multiform.errors import UsageError, excerpt, nearest

#: Seeds of python, numpy, torch and the few-shot sampler.
DEFAULT_SEEDS = (0, 1234, 1234, 1234)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """The values that an option accepts, in words and with an example, and how its flag takes them.

    >>> COUNT.check("num_fewshot", "5")
    Traceback (most recent call last):
    multiform.errors.UsageError: num_fewshot: expected a whole number of 0 or more, got '5'; give e.g. num_fewshot=5
    """

    #: Whether it accepts a value; by default, values are checked where they are used.
    accepts: Callable[[Any], bool] = lambda value: True
    expected: str = ""
    #: A value as Python has it, and as a flag has it where that is something else.
    example: str = ""
    flag_example: str | None = None
    #: Reads the text of a flag, or raises a ValueError or UsageError; None takes it as it is.
    parse: Callable[[str], Any] | None = None
    #: A flag has one value, one that may be left out (then it is `const`), none, or several that are gathered: words,
    #: folders, or key=value arguments, of which the flag of `run` may take several texts.
    arity: Literal["value", "optional", "switch", "words", "folders", "arguments", "several arguments"] = "value"
    const: Any = True
    #: What stands for a value in `--help`.
    metavar: str | None = None

    def check(self, name: str, value: Any) -> None:
        """Refuse a value of another type than the command line would read; None is the default of every option."""
        if value is not None and not self.accepts(value):
            hint = f"give e.g. {name}={self.example}"
            raise UsageError(f"expected {self.expected}, got {excerpt(value)}", where=name, hint=hint)

    def reader(self, flag: str) -> Callable[[str], Any]:
        """The argparse type of a flag that has such values."""

        def parse_text(text: str) -> Any:
            try:
                value = text if self.parse is None else self.parse(text)
                if self.accepts(value):
                    return value
            except UsageError as error:
                raise error.relocate(flag) from error
            except ValueError:
                pass
            hint = f"give e.g. {flag} {self.flag_example or self.example}"
            raise UsageError(f"expected {self.expected}, got {excerpt(text)}", where=flag, hint=hint)

        return parse_text


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_share_or_count(value: float) -> bool:
    """Whether a number is whole, or a share below 1."""
    return 0 <= value < 1 or (value >= 1 and float(value).is_integer())


def _has_some(value: Any, accepts: Callable[[Any], bool]) -> bool:
    """Whether a value is a list with items, all of which are accepted."""
    return isinstance(value, list | tuple) and bool(value) and all(map(accepts, value))


def number_type(
    is_valid: Callable[[float], bool], *, expected: str, example: str, metavar: str | None = None
) -> ValueType:
    """Numbers that fit a condition."""
    return ValueType(
        accepts=lambda value: _is_number(value) and is_valid(value),
        expected=expected,
        example=example,
        parse=float,
        metavar=metavar,
    )


def count(least: int = 0, example: int = 5) -> ValueType:
    """Whole numbers of `least` or more."""
    return ValueType(
        accepts=lambda value: _is_whole(value) and bool(value >= least),
        expected=f"a whole number of {least} or more",
        example=str(example),
        parse=int,
        metavar="N",
    )


def one_of(names: Sequence[str], *, example: str = "") -> ValueType:
    """One of several names; on the command line in upper or lower case."""

    def parse(text: str) -> str:
        matches = [name for name in names if name.lower() == text.lower()]
        if not matches:
            raise UsageError(f"no '{text}'", hint=nearest(text, names, listed="there are"))
        return matches[0]

    return ValueType(
        accepts=lambda value: value in names,
        expected=f"one of {', '.join(names)}",
        example=repr(example),
        parse=parse,
        metavar="|".join(names),
    )


def _is_batch_size(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"auto|(auto:)?0*[1-9][0-9]*", value) is not None
    return _is_whole(value) and bool(value >= 1)


def _parse_seeds(text: str) -> Sequence[int | None]:
    """The seeds of a text: one for all, or three or four; "None" sets no seed.

    >>> _parse_seeds("7"), _parse_seeds("1,none,3")
    ([7, 7, 7, 7], [1, None, 3, 1234])
    """
    seeds = [None if part.strip().lower() == "none" else int(part) for part in text.split(",")]
    if len(seeds) == 3:
        return [*seeds, DEFAULT_SEEDS[3]]
    return seeds * 4 if len(seeds) == 1 else seeds


def _are_samples(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(_has_some(ids, _is_whole) for ids in value.values())


def _parse_samples(text: str) -> Any:
    """What a JSON text says, or the file of that name."""
    inline = text.lstrip().startswith(("{", "["))
    hint = f"write e.g. {_SAMPLES_EXAMPLE}"
    try:
        return json.loads(text if inline else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read '{text}': {error.strerror}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{'' if inline else f'{text}: '}not valid JSON: {error}", hint=hint) from error


#: Values that are checked where they are used: where tasks and models are loaded, and where texts are parsed.
ANYTHING = ValueType()
WORDS = ValueType(arity="words")
FOLDERS = ValueType(arity="folders", metavar="DIR")
ARGUMENTS = ValueType(arity="arguments", metavar="K=V,...")
SEVERAL_ARGUMENTS = replace(ARGUMENTS, arity="several arguments")
TEXT = ValueType(accepts=_is_text, expected="text", example="'...'")
_BOOLS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
SWITCH = ValueType(accepts=_is_bool, expected="True or False", example="True", arity="switch")
YES_OR_NO = ValueType(
    accepts=_is_bool,
    expected="true or false",
    example="True",
    flag_example="true",
    parse=lambda text: _BOOLS.get(text.lower(), text),
    arity="optional",
    metavar="BOOL",
)
COUNT = count()
SAMPLE = ValueType(
    accepts=lambda value: isinstance(value, str) and re.fullmatch(r"first|random|stratified(:.+)?", value) is not None,
    expected="first, random, stratified or stratified:COLUMN",
    example="'random'",
    flag_example="random",
    metavar="HOW",
)
LIMIT = number_type(
    lambda value: _is_share_or_count(value) and value > 0,
    expected="a whole number of 1 or more, or a fraction below 1",
    example="0.1",
    metavar="N",
)
MAX_FAILURES = number_type(
    _is_share_or_count, expected="a whole number of documents or a share below 1", example="0.05", metavar="N"
)
DOLLARS = number_type(
    lambda value: 0 < value < math.inf, expected="a number above 0", example="5 for five US dollars", metavar="USD"
)
HALF_WIDTH = number_type(
    lambda value: 0 < value < 0.5,
    expected="a number between 0 and 0.5",
    example="0.02 for an interval of ± 0.02",
    metavar="WIDTH",
)
BATCH_SIZE = ValueType(
    accepts=_is_batch_size, expected="a whole number of 1 or more, or 'auto'", example="8", metavar="N|auto"
)
CHAT_TEMPLATE = ValueType(
    accepts=lambda value: isinstance(value, bool | str),
    expected="True, False or a name",
    example="True",
    # Other words are names.
    parse=lambda text: {"true": True, "false": False}.get(text.lower(), text),
    arity="optional",
    metavar="NAME",
)
SEEDS = ValueType(
    accepts=lambda value: _has_some(value, lambda seed: seed is None or _is_whole(seed)) and len(value) == 4,
    expected="the seeds of python, numpy, torch and the few-shot sampler",
    example=str(DEFAULT_SEEDS),
    flag_example=f"1234 or {','.join(map(str, DEFAULT_SEEDS))}",
    parse=_parse_seeds,
    metavar="N[,N,N,N]",
)
_SAMPLES_EXAMPLE = "'{\"quiz\": [0, 5]}'"
SAMPLES = ValueType(
    accepts=_are_samples,
    expected="a list of indexes for each task",
    example="{'quiz': [0, 5]}",
    flag_example=_SAMPLES_EXAMPLE,
    parse=_parse_samples,
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
    accepts=lambda value: _has_some(value, _is_text),
    expected="a list of language codes",
    example="['de', 'hi']",
    flag_example="de,hi",
    parse=lambda text: [code.strip() for code in text.split(",") if code.strip()],
    metavar="L,L",
)
BUDGETS = ValueType(
    accepts=lambda value: _has_some(value, COUNT.accepts),
    expected="numbers of tokens, 0 for no thinking",
    example="[0, 1024]",
    flag_example="0,1024,8192",
    parse=lambda text: [int(part) for part in text.split(",")],
    metavar="N,N",
)
CHOICE_ORDER = ValueType(
    accepts=lambda value: _is_text(value) and re.fullmatch(r"original|shuffle:\d+|cyclic|all", value) is not None,
    expected="original, shuffle:SEED, cyclic or all",
    example="'cyclic'",
    metavar="ORDER",
)
_CACHE_REQUESTS = ("true", "refresh", "delete")
CACHE_REQUESTS = replace(
    one_of(_CACHE_REQUESTS),
    arity="optional",
    const="true",
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
        "another folder of task files, or lm_eval for lm-eval's (may be repeated, or several with colons)",
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
        "folder that is searched for datasets before the hub: DIR/<dataset_path>/<dataset_name or default>/"
        "<split>.jsonl or .parquet (may be repeated; default: $MULTIFORM_DATASET_MIRROR)",
        FOLDERS,
        group=SOURCES,
        env="MULTIFORM_DATASET_MIRROR",
        recorded=True,
    ),
}
