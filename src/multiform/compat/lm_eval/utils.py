"""Helpers that tasks, models and scripts import from `lm_eval.utils` and `lm_eval.api.utils`, and the results table."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from multiform.arguments import parse_arguments
from multiform.terminal import markdown_text

T = TypeVar("T")
Tokens = list[int]

eval_logger = logging.getLogger("lm-eval")


def setup_logging(verbosity: int | str = logging.INFO) -> None:
    """Log to standard error from this level on; the environment's LOGLEVEL goes before."""
    level = os.environ.get("LOGLEVEL") or verbosity
    logging.basicConfig(format="%(asctime)s %(levelname)-8s [%(name)s:%(lineno)d] %(message)s")
    for name in ("multiform", "lm-eval", "lm_eval"):
        logging.getLogger(name).setLevel(level.upper() if isinstance(level, str) else level)


def hash_string(string: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(string.encode("utf-8")).hexdigest()


def simple_parse_args_string(args_string: str | None) -> dict[str, Any]:
    """``key=value,key=value`` as a dict.

    >>> simple_parse_args_string("pretrained=gpt2,max_length=512")
    {'pretrained': 'gpt2', 'max_length': 512}
    """
    return parse_arguments(args_string, where="arguments")


def handle_non_serializable(o: Any) -> Any:
    """What JSON says for a value that it does not know: the number of numpy, the list of a set, else a text."""
    if isinstance(o, set):
        return list(o)
    return o.item() if getattr(o, "ndim", None) == 0 and hasattr(o, "item") else str(o)


def sanitize_list(sub: Any) -> Any:
    """Nested lists with a text for everything in them."""
    return [sanitize_list(item) for item in sub] if isinstance(sub, list | tuple) else str(sub)


def general_detokenize(string: str) -> str:
    """Text without the blanks that tokenised datasets have around punctuation.

    >>> general_detokenize("He did n't ( ever ) say so .")
    "He didn't (ever) say so."
    """
    for spaced, joined in ((" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"')):
        string = string.replace(spaced, joined)
    return re.sub(r" (?=['.,])", "", string)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> float:
    """F1 of each class, weighted by how often it is right, from pairs of gold and prediction.

    >>> round(weighted_f1_score([("a", "a"), ("a", "b"), ("b", "b")]), 4)
    0.6667
    """
    pairs = list(items)
    golds = Counter(gold for gold, _ in pairs)
    predicted = Counter(prediction for _, prediction in pairs)
    both = Counter(gold for gold, prediction in pairs if gold == prediction)
    return sum(n * 2 * both[label] / (n + predicted[label]) for label, n in golds.items()) / len(pairs)


def get_rolling_token_windows(
    token_list: Tokens, prefix_token: int, max_seq_len: int, context_len: int
) -> Generator[tuple[Tokens, Tokens], None, None]:
    """Windows that together predict every token once: what goes in, and what is predicted at its end.

    >>> list(get_rolling_token_windows([1, 2, 3, 4, 5], 0, 3, 1))
    [([0, 1, 2], [1, 2, 3]), ([2, 3, 4], [4, 5])]
    """
    if not 1 <= context_len <= max_seq_len:
        raise ValueError(f"context_len is {context_len}, not between 1 and {max_seq_len}")
    first = min(max_seq_len, len(token_list))
    if token_list:
        yield [prefix_token, *token_list[: first - 1]], token_list[:first]
    step = max_seq_len - context_len + 1
    for begin in range(first, len(token_list), step):
        end = min(begin + step, len(token_list))
        yield token_list[max(0, end - max_seq_len - 1) : end - 1], token_list[begin:end]


def make_disjoint_window(pair: tuple[Tokens, Tokens]) -> tuple[Tokens, Tokens]:
    """A window with the tokens that are predicted taken out of what goes in.

    >>> make_disjoint_window(([2, 3, 4], [4, 5]))
    ([2, 3], [4, 5])
    """
    before, predicted = pair
    return before[: len(before) - (len(predicted) - 1)], predicted


_ARROWS = {True: "↑", False: "↓"}
_NOT_METRICS = ("name", "alias", "sample_len", "sample_count")
#: The columns that may hold numbers.
_NUMBERS = ("Version", "n-shot", "Value", "Stderr")


def make_table(result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False) -> str:
    """A row for each metric of each task, or of each group with ``column="groups"``."""
    headers = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "",
               "Stderr"]  # fmt: skip
    order = _depths(result_dict.get("group_subtasks", {}), list(result_dict[column]))
    names = sorted(result_dict[column]) if sort_results else order
    rows = [row for name in names for row in _rows(name, order.get(name, 0), result_dict, column)]
    return _markdown(headers, rows)


def _depths(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, int]:
    """The names in the order of the table, members below their groups, each with how deep it is."""
    inside = {member for members in groups.values() for member in members}
    depths: dict[str, int] = {}

    def add(name: str, depth: int) -> None:
        if name in names and name not in depths:
            depths[name] = depth
            for member in sorted(groups.get(name, ())):
                add(member, depth + 1)

    for name in sorted(names):
        if name not in inside:
            add(name, 0)
    for name in sorted(names):
        add(name, 0)
    return depths


def _rows(name: str, depth: int, results: Mapping[str, Any], column: str) -> list[list[str]]:
    scores = results[column][name]
    shown = " " * depth + "- " * bool(depth) + str(scores.get("alias", name))
    version, shots = str(results["versions"].get(name, "    N/A")), str(results.get("n-shot", {}).get(name, " "))
    better = results.get("higher_is_better", {}).get(name, {})
    rows: list[list[str]] = []
    for key in sorted(key for key in scores if key not in _NOT_METRICS):
        metric, _, filtered = key.partition(",")
        if metric.endswith("_stderr"):
            continue
        error = scores.get(f"{metric}_stderr,{filtered}", "")
        first = [shown, version] if not rows else ["", ""]
        arrow, sign = _ARROWS.get(better.get(metric), ""), "" if error == "" else "±"
        rows.append([*first, filtered, shots, metric, arrow, _score(scores[key]), sign, _score(error)])
    return rows


def _score(value: Any) -> str:
    if value == "N/A":
        return "   N/A"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table; a column of numbers stands to the right, with as many decimals as its longest number needs."""
    columns = [_column(header, [markdown_text(row[index]) for row in rows]) for index, header in enumerate(headers)]
    heads = ["|" + "|".join(column[line] for column in columns) + "|" for line in range(len(rows) + 2)]
    return "\n".join(heads) + "\n"


def _column(header: str, cells: Sequence[str]) -> list[str]:
    """The header, the rule below it and the cells, all of one width."""
    filled = [cell for cell in cells if cell.strip()]
    numeric = header in _NUMBERS and bool(filled) and all(_number(cell) is not None for cell in filled)
    decimals = max((_decimals(cell) for cell in filled), default=0) if numeric else 0
    texts = [_spell_number(cell, decimals) if numeric else cell for cell in cells]
    width = max(3, len(header), *map(len, texts), 0)
    rule = "-" * (width - 1) + ":" if numeric else "-" * width
    placed = [f"{text:>{width}}" if numeric or _whole(header, text) else f"{text:<{width}}" for text in texts]
    trimmed = [f"{int(float(text)):>{width}}" if not numeric and _whole(header, text) else text for text in placed]
    return [f"{header:^{width}}", rule, *trimmed]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _decimals(text: str) -> int:
    """How many decimals a number needs.

    >>> _decimals("0.2500"), _decimals("3.0"), _decimals("nan")
    (2, 0, 0)
    """
    return len(text.partition(".")[2].rstrip("0"))


def _spell_number(text: str, decimals: int) -> str:
    value = _number(text)
    if value is None:
        return text
    return f"{value:.{decimals}f}" if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity"


def _whole(header: str, text: str) -> bool:
    """Whether a cell among texts is a whole number, such as a version."""
    value = _number(text) if header in _NUMBERS else None
    return value is not None and math.isfinite(value) and value.is_integer()
