"""Helpers that tasks, models and scripts import from `lm_eval.utils` and `lm_eval.api.utils`, and the results table."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

from multiform.arguments import parse_arguments
from multiform.hashing import sha256 as hash_string  # noqa: F401
from multiform.results.table import make_table as make_table

T = TypeVar("T")
Tokens = list[int]

eval_logger = logging.getLogger("lm-eval")


def setup_logging(verbosity: int | str = logging.INFO) -> None:
    """Log to standard error from this level on; the environment's LOGLEVEL goes before."""
    level = os.environ.get("LOGLEVEL") or verbosity
    logging.basicConfig(format="%(asctime)s %(levelname)-8s [%(name)s:%(lineno)d] %(message)s")
    for name in ("multiform", "lm-eval", "lm_eval"):
        logging.getLogger(name).setLevel(level.upper() if isinstance(level, str) else level)


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
