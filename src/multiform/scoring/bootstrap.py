"""Bootstrap standard errors with the same resamples as lm-eval, so that the numbers are the same.

Chunk i of up to 1,000 resamples takes its draws from Python's generator with seed i. numpy's
Mersenne Twister, seeded by the array [i], gives the same draws, many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy is imported when a bootstrap runs, which --help does not need
    import numpy as np

CHUNK = 1000


def bootstrap_stderr(statistic: Callable[[Sequence[Any]], float], items: Sequence[Any], iterations: int) -> float:
    """The standard deviation of a statistic over resamples of the items."""
    import numpy as np

    return float(np.std(bootstrap_values(statistic, items, iterations), ddof=1))


def bootstrap_values(statistic: Callable[[Sequence[Any]], float], items: Sequence[Any], iterations: int) -> list[float]:
    """A statistic of resamples of the items."""
    return [float(statistic([items[i] for i in row])) for rows in resamples(len(items), iterations) for row in rows]


def bootstrap_mean_stderr(
    finish: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], values: Sequence[float], iterations: int
) -> float:
    """The standard deviation of a function of the mean over resamples of the values; NaN is a missing value."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    chunks = [finish(np.nanmean(array[rows], axis=1)) for rows in resamples(len(array), iterations)]
    return float(np.std(np.concatenate(chunks), ddof=1))


def resamples(n: int, iterations: int) -> Iterator[np.ndarray[Any, Any]]:
    """The indexes of resamples, one row each, in chunks.

    >>> import random
    >>> rows = next(resamples(5, 1000))
    >>> rows[0].tolist() == random.Random(0).choices(range(5), k=5)
    True
    """
    import numpy as np

    chunk = min(CHUNK, iterations)
    for seed in range(iterations // chunk if chunk else 0):
        draws = np.random.RandomState([seed]).random_sample((chunk, n))
        yield (draws * n).astype(np.int64)
