"""Batching, with smaller batches when memory runs out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch

from multiform.errors import ModelError
from multiform.models.torch.limits import Limits
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_batches(
    items: Sequence[Item],
    length: Callable[[Item], int],
    limits: Limits,
    run: Callable[[Sequence[Item]], Result],
) -> Iterator[Result]:
    """The result of `run` for each batch of items, which are sorted by decreasing length.

    A batch that does not fit into memory is tried again at half its size, and so are those after it;
    earlier results are not lost. When a stop is requested, no further batch begins.
    """
    completed = 0
    while completed < len(items) and not stop_requested():
        longest = length(items[completed])
        batch = items[completed : completed + limits.fit(longest)]
        result = run_in_memory(partial(run, batch))
        if result is None:
            limits = halved(limits, len(batch), longest)
            continue
        yield result
        completed += len(batch)


def run_in_memory(run: Callable[[], Result]) -> Result | None:
    """The result of `run`, or None when it ran out of memory."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Only here, without the exception and the tensors in its frames, can the memory be freed.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def halved(limits: Limits, rows: int, length: int) -> Limits:
    """Limits under which half of that many rows go into a batch."""
    if rows == 1:
        raise ModelError(
            f"one sequence of {length} tokens does not fit into memory",
            hint="set a smaller max_length, or another dtype or device",
        )
    logger.warning("out of memory with %d rows of %d tokens; going on with half of that", rows, length)
    return replace(limits, tokens=(rows // 2) * length)


def halved_pass(size: int) -> int:
    """The size of a forward pass after one that did not fit into memory."""
    if size == 1:
        raise ModelError("one token does not fit into memory", hint="set another dtype or device")
    logger.warning("out of memory with passes of %d tokens; going on with half of that", size)
    return size // 2


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return any(words in text for words in ("out of memory", "can't allocate memory", "not enough memory"))
