"""Rolling log-likelihoods: whole texts, scored in windows as long as the model's context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from multiform.models.tokenizer import prefix_tokens
from multiform.models.torch.plan import Tokens
from multiform.models.torch.sequences import Pair
from multiform.requests import FailedRequest, LLOutput, Response

Failed = TypeVar("Failed", bound=FailedRequest)


def score_rolling(
    texts: Sequence[Tokens],
    windows_of: Callable[[Tokens], Iterable[Pair]],
    score: Callable[[Sequence[Pair]], Iterable[Response[LLOutput | Failed]]],
) -> Iterator[Response[LLOutput | Failed]]:
    """The log-likelihood of each text as the sum over its windows, as soon as the last of them is scored.

    A text of which a window fails has failed.
    """
    windows: list[Pair] = []
    owners: list[int] = []
    for index, tokens in enumerate(texts):
        windows += windows_of(tokens)
        owners += [index] * (len(windows) - len(owners))
        if not tokens:
            yield index, LLOutput(0.0, tokens=0)
    missing = Counter(owners)
    sums = dict.fromkeys(missing, 0.0)
    for position, output in score(windows):
        owner = owners[position]
        if isinstance(output, FailedRequest):
            if owner in sums:  # the first of its windows that fails
                del sums[owner]
                yield owner, output
            continue
        if owner not in sums:
            continue
        sums[owner] += output.loglikelihood
        missing[owner] -= 1
        if not missing[owner]:
            yield owner, LLOutput(sums[owner], tokens=len(texts[owner]))


def rolling_windows(tokens: Tokens, prefix: int | None, max_length: int) -> Iterator[Pair]:
    """Pairs that score each token of a text once, the first after the prefix token.

    Windows are as long as the model's context; the last one begins earlier, to have as much context as fits.

    >>> from array import array
    >>> [(p.context, p.continuation) for p in rolling_windows(array("i", [1, 2, 3, 4, 5]), 0, 3)]
    [([0], [1, 2, 3]), ([2, 3], [4, 5])]
    """
    yield from (Pair(prefix_tokens(prefix) + tokens[:max_length], 1) for _ in tokens[:1])
    for start in range(max_length, len(tokens), max_length):
        end = min(start + max_length, len(tokens))
        first = end - max_length - 1
        yield Pair(tokens[first:end], start - first)
