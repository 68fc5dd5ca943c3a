"""How much goes into one batch, and what happens when that was too much."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch

from multiform.errors import ModelError, UsageError
from multiform.inference.memory import free_memory

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Padded tokens that are read at once: a bound for memory where the number of rows is given.
READ_TOKENS = 16384
#: With "auto", a batch of this many keeps a processor busy; more would only be more padding.
BUSY_TOKENS = {"cpu": 1024}
#: Tokens in a pass of a plan: enough to keep a processor busy, and no padding among them.
PASS_TOKENS = {"cpu": 512}
OTHER_PASS_TOKENS = 4096
#: Texts that are written at a time where `batch_size` is "auto". Four times as many take two thirds of the time and,
#: for a small model, half a gigabyte more.
WRITTEN_ROWS = {"cpu": 16}
#: Units of an amount of memory.
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
#: Of the memory that is free, the part that kept prefixes may take, and texts in the making as well.
BUDGET_SHARE = 4
#: With "auto", tokens that are kept in memory for all texts being written.
KEPT_TOKENS = 32768


@dataclass(frozen=True, slots=True)
class Limits:
    """At most this many rows, and this many tokens with padding, unless one row alone has more."""

    rows: int
    tokens: int

    def fit(self, length: int) -> int:
        """How many rows of that length go into a batch."""
        return max(1, min(self.rows, self.tokens // max(1, length)))


def scoring_limits(batch_size: int | str, max_batch_size: int, device: torch.device) -> Limits:
    """The limits for scoring that a `batch_size` argument means: a number of rows, or "auto"."""
    rows = fixed_rows(batch_size)
    if rows is None:
        return Limits(max_batch_size, BUSY_TOKENS.get(device.type, READ_TOKENS))
    return Limits(rows, READ_TOKENS)


def generation_limits(batch_size: int | str, max_batch_size: int, max_length: int, device: torch.device) -> Limits:
    """The limits for generation, where tokens count until their text is done."""
    rows = fixed_rows(batch_size)
    if rows is None:
        return Limits(min(max_batch_size, WRITTEN_ROWS.get(device.type, max_batch_size)), KEPT_TOKENS)
    return Limits(rows, rows * max_length)


def fixed_rows(batch_size: int | str) -> int | None:
    """The number of rows that a `batch_size` argument gives, or None for "auto"."""
    text = str(batch_size)
    if text.partition(":")[0] == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(f"batch_size must be a positive number or 'auto', not '{batch_size}'", hint="try batch_size=8")


def pass_tokens(device: torch.device) -> int:
    """How many tokens a pass of a plan has on a device."""
    return PASS_TOKENS.get(device.type, OTHER_PASS_TOKENS)


def prefix_budget(given: int | str | None, token_bytes: int, device: torch.device) -> int:
    """How many tokens may be kept for later passes, each of which takes `token_bytes`.

    A number is that many tokens; a text such as "500MB" or "2GB" is an amount of memory. Without
    either, the budget is a part of the memory that is free.
    """
    if given is None:
        return free_memory(device) // BUDGET_SHARE // token_bytes
    number, unit = budget_parts(given)
    return number * UNITS[unit] // token_bytes if unit else number


def budget_parts(given: int | str) -> tuple[int, str]:
    """The number and the unit, if any, of a `prefix_budget` argument.

    >>> budget_parts("500MB"), budget_parts(4096)
    ((500, 'MB'), (4096, ''))
    """
    text = str(given).strip().upper()
    number, unit = (text[:-2], text[-2:]) if text.endswith(tuple(UNITS)) else (text, "")
    if not number.isdecimal():
        what = f"prefix_budget must be a number of tokens or an amount of memory, not '{given}'"
        raise UsageError(what, hint="try prefix_budget=4096 or prefix_budget=500MB")
    return int(number), unit


def fewer_tokens(size: int) -> int:
    """The size of a pass after one that did not fit into memory."""
    if size == 1:
        raise ModelError("one token does not fit into memory", hint="set another dtype or device")
    logger.warning("out of memory with passes of %d tokens; going on with half of that", size)
    return size // 2


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    limits: Limits,
    run: Callable[[Sequence[Item]], Result],
) -> Iterator[Result]:
    """What `run` makes of each batch of items, which come longest first.

    A batch that does not fit into memory is tried again at half its size, and so are those after
    it; what was answered before stays answered.
    """
    done = 0
    while done < len(items):
        longest = length(items[done])
        batch = items[done : done + limits.fit(longest)]
        result = attempt(partial(run, batch))
        if result is None:
            limits = halved(limits, len(batch), longest)
            continue
        yield result
        done += len(batch)


def attempt(run: Callable[[], Result]) -> Result | None:
    """What `run` returns, or None when it ran out of memory."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Only here, without the exception and the tensors in its frames, can the memory be had back.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def halved(limits: Limits, rows: int, length: int) -> Limits:
    """Limits under which half of those rows go into a batch."""
    if rows == 1:
        raise ModelError(
            f"one sequence of {length} tokens does not fit into memory",
            hint="set a smaller max_length, or another dtype or device",
        )
    logger.warning("out of memory with %d rows of %d tokens; going on with half of that", rows, length)
    return replace(limits, tokens=(rows // 2) * length)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "can't allocate memory", "not enough memory"))
