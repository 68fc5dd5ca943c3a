"""LazyRows: the rows of a table that is too large for memory, read when they are needed."""

from __future__ import annotations

import json
import weakref
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, overload

from multiform.paths import open_file

#: Tables of more rows are not held in memory.
LARGE = 100_000
#: Rows that are read together where they are read one after the other.
_BLOCK = 512

Row = dict[str, Any]


class LazyRows(Sequence[Row]):
    """Rows that `read(start, stop)` gives; those that come one after the other are read in blocks."""

    def __init__(self, number: int, read: Callable[[int, int], list[Row]]) -> None:
        self._number = number
        self._read = read
        self._start = self._next = 0
        self._block: list[Row] = []

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._number))]
        index = range(self._number)[index]
        follows, self._next = index == self._next, index + 1
        if not self._start <= index < self._start + len(self._block):
            if not follows:
                return self._read(index, index + 1)[0]
            self._start, self._block = index, self._read(index, min(index + _BLOCK, self._number))
        return self._block[index - self._start]


class JsonLines:
    """The rows of a JSON Lines file, by the places at which their lines begin."""

    def __init__(self, path: Path, places: array[int]) -> None:
        self.path = path
        self.places = places
        self._file: BinaryIO | None = None

    def read(self, start: int, stop: int) -> list[Row]:
        """Rows of the file, which were read before."""
        if self._file is None:
            self._file = open_file(self.path)
            weakref.finalize(self, self._file.close)
        rows = []
        for index in range(start, stop):
            self._file.seek(self.places[index])
            rows.append(json.loads(self._file.readline().removeprefix(b"\xef\xbb\xbf")))
        return rows

    def rows(self) -> LazyRows:
        return LazyRows(len(self.places), self.read)
