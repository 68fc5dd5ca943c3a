"""Collator: requests in batches, longest first, and answers back in the order of the requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
BatchSize = Callable[[int, Iterable[Any]], int]
GroupBy = Literal["gen_kwargs", "contexts"]


def chunks(_iter: Iterable[T], n: int = 0, fn: BatchSize | None = None) -> Iterator[list[T]]:
    """Lists of n items, or of as many as the function says for the number of an item; all in one where n is 0.

    >>> list(chunks([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    items = list(_iter)
    batch: list[T] = []
    for number, item in enumerate(items):
        batch.append(item)
        if len(batch) == (fn(number, items) if fn else n):
            yield batch
            batch = []
    if batch:
        yield batch


class Collator(Generic[T]):
    """Sorts requests, gives them out in batches, and puts answers back into the order of the requests.

    With ``group_by="gen_kwargs"`` a batch has one set of generation settings. With ``"contexts"`` one request stands
    for all that have the same tokens but the last, and `get_cache` gives the logits to each of them.
    """

    def __init__(
        self,
        arr: Sequence[T],
        sort_fn: Callable[[T], Any] = lambda item: item,
        group_fn: Callable[[T], Any] = lambda item: item[1],  # type: ignore[index]
        group_by: GroupBy | None = None,
    ) -> None:
        self._size = len(arr)
        self._sort = sort_fn
        self._group_by = group_by
        numbered = list(enumerate(arr))
        self._groups: dict[Any, list[tuple[int, T]]] = (
            {None: numbered} if group_by is None else self.group(numbered, lambda pair: group_fn(pair[1]), group_by)
        )
        #: The numbers of the requests in the order in which their answers come.
        self._order: list[int] = []

    def get_batched(self, n: int = 1, batch_fn: BatchSize | None = None) -> Iterator[list[T]]:
        """Batches of n requests, or of as many as the function says."""
        if self._group_by == "contexts":
            longest = [max(some, key=lambda pair: len(pair[1][-1])) for some in self._groups.values()]  # type: ignore[index]
            yield from chunks([item for _, item in self._sorted(longest)], n, batch_fn)
            return
        for some in self._groups.values():
            ordered = self._sorted(some)
            self._order += [number for number, _ in ordered]
            yield from chunks([item for _, item in ordered], n, batch_fn)

    def get_cache(
        self, req_str: tuple[str, str], cxt_toks: list[int], cont_toks: list[int], logits: Any
    ) -> Iterator[tuple[tuple[str, str], list[int], Any]]:
        """The logits of a request, for each request that it stands for."""
        if self._group_by != "contexts":
            yield req_str, cont_toks, logits
            return
        same: list[tuple[int, Any]] = self._groups.pop((*cxt_toks, *cont_toks[:-1]))
        self._order += [number for number, _ in same]
        if len(same) == 1:
            yield req_str, cont_toks, logits
            return
        for (_, request), one in zip(same, logits.expand(len(same), -1, -1).chunk(len(same)), strict=True):
            yield request[0], request[-1], one

    def get_original(self, newarr: Sequence[Any]) -> list[Any]:
        """The answers in the order of the requests."""
        answers = dict(zip(self._order, newarr, strict=True))
        assert len(answers) == self._size, f"{len(answers)} answers to {self._size} requests"
        return [answers[number] for number in range(self._size)]

    def __len__(self) -> int:
        return self._size

    def _sorted(self, items: Iterable[tuple[int, T]]) -> list[tuple[int, T]]:
        return sorted(items, key=lambda pair: self._sort(pair[1]))

    @staticmethod
    def group(arr: Iterable[Any], fn: Callable[[Any], Any], group_by: GroupBy = "gen_kwargs") -> dict[Any, list[Any]]:
        """The items by what the function gives for each: generation settings, or the tokens of a context."""
        groups: dict[Any, list[Any]] = {}
        for item in arr:
            groups.setdefault(_hashable(fn(item)), []).append(item)
        return groups

    @staticmethod
    def get_chunks(_iter: Iterable[Any], n: int = 0, fn: BatchSize | None = None) -> Iterator[list[Any]]:
        """The same as `chunks`."""
        return chunks(_iter, n, fn)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
