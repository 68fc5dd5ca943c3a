"""Parsing and checking the values of flags."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import UsageError, shorten

#: Seeds of python, numpy, torch and the few-shot sampler.
DEFAULT_SEEDS = "0,1234,1234,1234"
CACHE_REQUESTS = ("true", "refresh", "delete")
ON_ERROR = ("stop", "skip", "count")
EXECUTORS = ("local", "ray")


def parse_samples(spec: str | Mapping[str, Any] | None) -> dict[str, list[int]] | None:
    """Parse ``--samples``: a JSON object of task names and document indexes, or the path of a JSON file."""
    if spec is None:
        return None
    hint = "write e.g. --samples '{\"quiz\": [0, 5]}'"
    samples = _read_samples(spec, hint) if isinstance(spec, str) else spec
    if not isinstance(samples, Mapping) or not samples:
        message = f"expected an object of task names and lists of indexes, got {shorten(samples)}"
        raise UsageError(message, where="--samples", hint=hint)
    for task, indexes in samples.items():
        if not _are_indexes(indexes):
            message = f"expected a list of indexes for '{task}', got {shorten(indexes)}"
            raise UsageError(message, where="--samples", hint=hint)
    return {str(task): list(indexes) for task, indexes in samples.items()}


def _read_samples(text: str, hint: str) -> Any:
    inline = text.lstrip().startswith(("{", "["))
    source = "" if inline else f"{text}: "
    try:
        return json.loads(text if inline else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read '{text}': {error.strerror}", where="--samples", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}not valid JSON: {error}", where="--samples", hint=hint) from error


def _are_indexes(value: Any) -> bool:
    """Whether a value is a non-empty list of integers."""
    return isinstance(value, list) and bool(value) and all(type(index) is int for index in value)


def _number(text: str) -> float:
    """The number that a text is; not a number where it is none, which every comparison refuses."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def limit(text: str) -> float:
    """Parse ``--limit``: a whole number of documents, or a fraction below 1."""
    number = _number(text)
    if not (0 < number < 1 or (number >= 1 and number.is_integer())):
        message = f"expected a whole number of 1 or more, or a fraction below 1, got '{text}'"
        raise UsageError(message, where="--limit", hint="give e.g. --limit 100 or --limit 0.1")
    return number


def half_width(text: str) -> float:
    """Parse ``--until_ci``: half the width of an interval."""
    number = _number(text)
    if not 0 < number < 0.5:
        message = f"expected a number between 0 and 0.5, got '{text}'"
        hint = "give e.g. --until_ci 0.02 for an interval of plus or minus 0.02"
        raise UsageError(message, where="--until_ci", hint=hint)
    return number


def gain(text: str) -> float:
    """Parse ``--fail_below``: a difference between two scores."""
    number = _number(text)
    if not math.isfinite(number):
        message = f"expected a number, got '{text}'"
        raise UsageError(message, where="--fail_below", hint="give e.g. --fail_below -0.02")
    return number


def wanted_half_width(text: str) -> float:
    """Parse ``--half_width``: half the width of a wanted interval."""
    number = _number(text)
    if not 0 < number < math.inf:
        message = f"expected a number above 0, got {shorten(text)}"
        raise UsageError(message, where="--half_width", hint="give e.g. --half_width 0.02 for ± 0.02")
    return number


def max_failures(text: str) -> float:
    """Parse ``--max_failures``: a whole number of documents, or a share below 1."""
    number = _number(text)
    if not (0 <= number < 1 or (number >= 1 and number.is_integer())):
        message = f"expected a whole number of 0 or more, or a share below 1, got {shorten(text)}"
        raise UsageError(message, where="--max_failures", hint="give e.g. --max_failures 10 or --max_failures 0.05")
    return number


def count(flag: str, least: int = 0) -> Callable[[str], int]:
    """The type of a flag that takes a whole number of `least` or more."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            message = f"expected a whole number of {least} or more, got {shorten(text)}"
            raise UsageError(message, where=flag, hint=f"give e.g. {flag} 5")
        return number

    return parse


def batch_size(text: str) -> str:
    """Parse ``--batch_size``: a whole number of 1 or more, ``auto``, or lm-eval's ``auto:N``."""
    word, _, number = text.partition(":")
    counted = number if word == "auto" and number else text
    if text != "auto" and not (counted.isdecimal() and int(counted) > 0):
        message = f"expected a whole number of 1 or more, or auto, got {shorten(text)}"
        raise UsageError(message, where="--batch_size", hint="give e.g. --batch_size 8")
    return text


def truth(flag: str) -> Callable[[str], bool]:
    """The type of a flag that takes true or false."""

    def parse(text: str) -> bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise UsageError(f"expected true or false, got '{text}'", where=flag, hint="leave the value out for true")
        return words[text.lower()]

    return parse


def seeds(text: str) -> Sequence[int | None]:
    """Parse ``--seed``: one seed for all, or three or four; "None" sets no seed.

    >>> seeds("7"), seeds("1,none,3")
    ([7, 7, 7, 7], [1, None, 3, 1234])
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        numbers = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 3, 4):
        message = f"expected one or four whole numbers, got {shorten(text)}"
        raise UsageError(message, where="--seed", hint=f"give e.g. --seed 1234 or --seed {DEFAULT_SEEDS}")
    if len(numbers) == 3:
        return [*numbers, int(DEFAULT_SEEDS.rpartition(",")[2])]
    return numbers * 4 if len(numbers) == 1 else numbers
