"""Units of work for several workers: sub-trees of requests of one kind, and ranges of documents over all forms.

Requests in the order of their texts are a walk through the prefix tree, as in `models.torch.plan`, and a section of
that walk is a sub-tree. A cut costs the prefix that the requests on both of its sides share, which is then computed
twice. Lengths are estimated from the texts, so that the driver needs neither the tokenizer nor torch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from multiform.prompts.prompt import shared_length
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest, resolved_names
from multiform.run.executors.local import Unit

#: Bytes of text in a token, about.
_BYTES_PER_TOKEN = 4
#: Tokens of an image or a sound, about.
_MEDIA_TOKENS = 500
#: Tokens of a completion whose request names no limit.
_COMPLETION_TOKENS = 256
#: The share of tokens that may be computed again because prefixes are cut.
MAX_OVERHEAD = 0.04
#: Tokens that are too few to tell whether documents share a prefix.
_ROUNDING = 4
#: The requests of a range, at most.
RANGE_REQUESTS = 4096
#: Units for each worker, at least: with several, a worker that is done early takes work from the others.
UNITS_PER_WORKER = 4


class DocRef(NamedTuple):
    """A document of a form, by its place among those that the run selects."""

    form: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDocs:
    """The documents of a task: how many each form has, and about how many requests one has under all of them.

    A range has at least `smallest` of them, so that prefixes which documents share are computed once, or nearly so.
    """

    forms: Mapping[str, int]
    requests: float
    smallest: int = 1


def doc_ranges(tasks: Sequence[TaskDocs], workers: Callable[[], int]) -> Iterator[list[DocRef]]:
    """The documents of each task under all its forms, in ranges, of which the last are the smallest.

    >>> ranges = list(doc_ranges([TaskDocs(forms={"a": 4, "b": 3}, requests=2)], lambda: 1))
    >>> [len(each) for each in ranges], ranges[0]
    ([2, 2, 2, 1], [DocRef(form='a', position=0), DocRef(form='b', position=0)])
    """
    left = sum(max(task.forms.values(), default=0) * task.requests for task in tasks)
    for task in tasks:
        first, documents = 0, max(task.forms.values(), default=0)
        while first < documents:
            room = min(RANGE_REQUESTS, left / (UNITS_PER_WORKER * workers()))
            last = min(documents, first + max(task.smallest, int(room / max(task.requests, 1e-9))))
            yield [DocRef(name, place) for name, n in task.forms.items() for place in range(first, min(last, n))]
            left -= task.requests * (last - first)
            first = last


def subtrees(unit: Unit, workers: int) -> list[Unit]:
    """The unit cut into sub-trees for a number of workers, the largest first.

    Cutting ends once it would add more than `MAX_OVERHEAD` to the tokens of the unit, unless a worker would be idle.

    >>> requests = [LoglikelihoodRequest(f"{task} " * 40 + f"{doc}?", " yes") for task in "ab" for doc in range(4)]
    >>> [len(part) for part in subtrees(requests, 2)]
    [4, 4]
    """
    if not unit:
        return []
    walk = _Walk.of(unit)
    total = walk.tokens(0, len(unit))
    spare = MAX_OVERHEAD * total
    # The largest sub-tree is cut next; those that are not worth cutting are left uncut.
    heap, uncut = [(-total, 0, len(unit))], list[tuple[int, int, int]]()
    while heap and len(heap) + len(uncut) < UNITS_PER_WORKER * workers:
        cost, first, last = section = heapq.heappop(heap)
        cut = walk.cheapest_cut(first, last)
        if cut is not None and walk.shared[cut] > spare:
            # A costly cut is made for a worker that would be idle, if the run ends sooner.
            largest = max(walk.tokens(first, cut), walk.tokens(cut, last))
            cut = cut if len(heap) + len(uncut) + 1 < workers and largest < -0.8 * cost else None
        if cut is None:
            uncut.append(section)
            continue
        spare -= walk.shared[cut]
        heapq.heappush(heap, (-walk.tokens(first, cut), first, cut))
        heapq.heappush(heap, (-walk.tokens(cut, last), cut, last))
    return [walk.requests[first:last] for _, first, last in sorted([*heap, *uncut])]


def smallest_range(samples: Sequence[Sequence[Request]]) -> int | None:
    """How many documents in a row are to be computed together at least; None where those far apart share prefixes.

    `samples` are the requests of the first documents of a form. Ranges of that size compute at most `MAX_OVERHEAD` more
    than all documents together; workers keep the prefix that nine of ten share.
    """
    size = 1
    whole = tree_tokens([request for sample in samples for request in sample])
    first = _Walk.of([sample[0] for sample in samples if sample])
    kept = sorted(first.shared)[1 + len(first.shared) // 10] + _ROUNDING if len(first.shared) > 1 else 0
    while 2 * size <= len(samples):
        parts = [samples[first : first + size] for first in range(0, len(samples), size)]
        ranges = [[request for sample in part for request in sample] for part in parts]
        tokens = sum(map(tree_tokens, ranges))
        if tokens - kept * (len(ranges) - 1) <= (1 + MAX_OVERHEAD) * whole:
            return size
        size *= 2
    return None if len(samples) > 1 else 1


def tree_tokens(requests: Unit) -> int:
    """About how many tokens requests take together."""
    return _Walk.of(requests).tokens(0, len(requests))


def halves(unit: Sequence[Any]) -> list[Sequence[Any]]:
    """A unit of two or more items in two: requests near the middle where the least is shared, documents in their order.

    Forms of one document are the last that are separated.
    """
    if isinstance(unit[0], DocRef):
        unit = sorted(unit, key=lambda ref: ref.position)
        cut = len(unit) // 2
    else:
        walk = _Walk.of(unit)
        unit, cut = walk.requests, walk.cheapest_cut(0, len(unit)) or len(unit) // 2
    return [unit[:cut], unit[cut:]]


@dataclass(frozen=True, slots=True)
class _Walk:
    """The requests of a unit in the order of their texts.

    `shared` are the tokens that each has in common with the one before, and `added` the sums of what they add.
    """

    requests: Sequence[Request]
    shared: Sequence[int]
    added: Sequence[int]

    @classmethod
    def of(cls, unit: Unit) -> _Walk:
        requests = sorted(unit, key=_texts)
        shared = [0] * len(requests)
        for index in range(1, len(requests)):
            (before, continued), (context, continuation) = _texts(requests[index - 1]), _texts(requests[index])
            shared[index] = _length(context[: shared_length(before, context)])
            if before == context:
                shared[index] += _length(continuation[: shared_length(continued, continuation)])
        new = (_tokens(request) - common for request, common in zip(requests, shared, strict=True))
        return cls(requests, shared, [0, *accumulate(max(1, tokens) for tokens in new)])

    def tokens(self, first: int, last: int) -> int:
        """The tokens of a section that is computed by itself."""
        return self.added[last] - self.added[first] + self.shared[first]

    def cheapest_cut(self, first: int, last: int) -> int | None:
        """Where to cut a section into two with at least a quarter of its tokens each, at the least cost.

        Of equal costs, the cut nearest to the middle. None where no cut leaves that much on both sides.
        """
        begin, end = self.added[first], self.added[last]
        middle, quarter = (begin + end) / 2, (end - begin) / 4
        inside = [index for index in range(first + 1, last) if abs(self.added[index] - middle) <= quarter]
        return min(inside, key=lambda index: (self.shared[index], abs(self.added[index] - middle)), default=None)


def _texts(request: Request) -> tuple[str, str]:
    """The text of a request; that of a continuation apart, so that no context is copied."""
    if isinstance(request, RollingRequest):
        return request.text, ""
    return request.context, request.continuation if isinstance(request, LoglikelihoodRequest) else ""


def _tokens(request: Request) -> int:
    """About how many tokens a request takes alone, with those of its completion."""
    context, continuation = _texts(request)
    tokens = _length(context) + _length(continuation)
    if isinstance(request, RollingRequest):
        return tokens
    tokens += _MEDIA_TOKENS * len(request.media)
    if isinstance(request, GenerationRequest):
        limit = resolved_names(request.gen_kwargs).get("max_gen_toks")
        tokens += int(limit) if isinstance(limit, int | float) else _COMPLETION_TOKENS
    return tokens


def _length(text: str) -> int:
    """About how many tokens a text has."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)
