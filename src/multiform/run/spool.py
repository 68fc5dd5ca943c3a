"""ScoredSamples: the scored samples of a run, in memory as long as they are small, and on disk beyond that.

What statistics need of every document (its scores, prediction and flags) stays in memory, in arrays. The rest of a
sample, such as its prompt and the model's responses, is read back from a file when somebody looks at it.
"""

from __future__ import annotations

import errno
import logging
import os
import pickle
import tempfile
import weakref
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar, overload

from multiform.forms import Sample, ScoredSample
from multiform.requests import Completion, Ending, Output

logger = logging.getLogger("multiform")

#: Characters of samples that stay in memory, about; beyond that, all are written to disk.
IN_MEMORY = 64_000_000
#: Characters that a sample counts for beside its texts.
_OVERHEAD = 2_000
#: Samples that are written, and read back, together; and how many of these blocks stay in memory once they are read.
_BLOCK = 256
_BLOCKS_READ = 16

T = TypeVar("T")


def size_of(sample: Sample, outputs: Sequence[Output] = ()) -> int:
    """About how many characters a sample takes in memory."""
    completions = sum(len(output.text) for output in outputs if isinstance(output, Completion))
    return _OVERHEAD + len(sample.prompt) + completions


class Spool(Generic[T]):
    """Objects in a file without a name, which ends with the process; those that cannot be written stay in memory."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        #: Where each block is, as its place and size in the file; or the block itself, where it is not in the file.
        self._blocks: list[tuple[int, int] | list[T]] = []
        self._read: OrderedDict[int, list[T]] = OrderedDict()
        #: The block of each object, and its place in it.
        self._places = array("L"), array("H")

    def __len__(self) -> int:
        return len(self._places[0])

    def extend(self, items: Sequence[T]) -> None:
        """Write objects to the file."""
        for start in range(0, len(items), _BLOCK):
            block = list(items[start : start + _BLOCK])
            self._places[0].extend([len(self._blocks)] * len(block))
            self._places[1].extend(range(len(block)))
            self._blocks.append(self._write(block))

    def add_block(self, data: bytes, number: int) -> None:
        """Write a block of so many objects that `pack_block` has packed, maybe in another process."""
        self._places[0].extend([len(self._blocks)] * number)
        self._places[1].extend(range(number))
        self._blocks.append(self._write_bytes(data) or load_block(data))

    def __getitem__(self, index: int) -> T:
        number = self._places[0][index]
        return self._block(number)[self._places[1][index]]

    def _write(self, block: list[T]) -> tuple[int, int] | list[T]:
        try:
            data = pickle.dumps(block, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001  (whatever the objects of a task raise)
            logger.debug("samples stay in memory: %s", error)
            return block
        return self._write_bytes(data) or block

    def _write_bytes(self, data: bytes) -> tuple[int, int] | None:
        """Where the data is in the file; None where the disk has no room."""
        try:
            if self._file is None:
                # Without a buffer, what does not fit on the disk is known at once.
                self._file = tempfile.TemporaryFile(prefix="multiform-", buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            place = self._file.seek(0, 2)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            logger.debug("samples stay in memory: %s", error)
            return None
        return place, len(data)

    def _block(self, number: int) -> list[T]:
        entry = self._blocks[number]
        if isinstance(entry, list):
            return entry
        block = self._read.get(number)
        if block is None:
            assert self._file is not None
            self._file.seek(entry[0])
            block = self._read[number] = load_block(self._file.read(entry[1]))
            if len(self._read) > _BLOCKS_READ:
                self._read.popitem(last=False)
        else:
            self._read.move_to_end(number)
        return block


def pack_block(items: Sequence[T]) -> bytes:
    """Objects as a block of a spool, for another process; prompts that begin alike take little room."""
    return zlib.compress(pickle.dumps(list(items), pickle.HIGHEST_PROTOCOL), 1)


def load_block(data: bytes) -> list[Any]:
    """The objects of a block, packed or not."""
    is_packed = data[:1] == b"x"  # zlib's first byte; that of a pickle is 0x80
    block: list[Any] = pickle.loads(zlib.decompress(data) if is_packed else data)
    return block


class Column:
    """Values of one kind in few bytes each, as far as they are numbers; they come back as they were.

    >>> column = Column()
    >>> for value in (1.0, 0.5, True):
    ...     column.append(value)
    >>> [column[index] for index in range(3)]
    [1.0, 0.5, True]
    """

    _CODES: Mapping[type, str] = {float: "d", int: "q", bool: "b"}

    def __init__(self) -> None:
        self._kind: type | None = None
        self._values: Any = None

    def append(self, value: Any) -> None:
        kind = type(value)
        if self._values is None and kind in self._CODES:
            self._kind, self._values = kind, array(self._CODES[kind])
        if self._kind is not None and kind is self._kind and (kind is not int or abs(value) < 2**63):
            self._values.append(value)
            return
        if self._kind is not None or self._values is None:
            self._values = [] if self._values is None else [self[index] for index in range(len(self._values))]
            self._kind = None
        self._values.append(value)

    def extend(self, other: Column) -> None:
        """Append all values of another column."""
        if self._values is None:
            self._kind, self._values = other._kind, other._values[:]
        elif self._kind is not None and self._kind is other._kind:
            self._values.extend(other._values)
        else:
            for index in range(len(other._values)):
                self.append(other[index])

    @property
    def values(self) -> Sequence[Any]:
        """The values; numbers in the place of booleans."""
        return () if self._values is None else self._values

    def __getitem__(self, index: int) -> Any:
        value = self._values[index]
        return bool(value) if self._kind is bool else value


class _ScorerColumns:
    """The values and predictions of one scorer's samples."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.values = {key: Column() for key in keys}
        self.predictions = Column()
        self.number = 0

    def append(self, sample: ScoredSample) -> None:
        for key, column in self.values.items():
            column.append(sample.values[key])
        self.predictions.append(sample.prediction)
        self.number += 1

    def extend(self, other: _ScorerColumns) -> None:
        for key, column in self.values.items():
            column.extend(other.values[key])
        self.predictions.extend(other.predictions)
        self.number += other.number


class SampleColumns:
    """What statistics need of scored samples, in arrays: those of a form, or of a block that comes from a worker."""

    def __init__(self) -> None:
        self.doc_ids = array("q")
        #: The columns of each scorer, by its name and metrics; those of each sample, and its row in them.
        self._columns: dict[tuple[str, tuple[str, ...]], _ScorerColumns] = {}
        self._keys: list[tuple[str, tuple[str, ...]]] = []
        self._scorer_of, self._rows = array("H"), array("L")
        #: The few samples that have one of these.
        self._truncated: set[int] = set()
        self._endings: dict[int, frozenset[Ending]] = {}
        self._ties: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.doc_ids)

    def append(self, sample: ScoredSample) -> None:
        index, key = len(self), (sample.scorer, tuple(sample.values))
        columns = self._of(key)
        self.doc_ids.append(sample.doc_id)
        self._scorer_of.append(self._keys.index(key))
        self._rows.append(columns.number)
        columns.append(sample)
        if sample.context_truncated:
            self._truncated.add(index)
        if sample.endings:
            self._endings[index] = sample.endings
        if sample.tied_choices:
            self._ties[index] = sample.tied_choices

    def extend(self, other: SampleColumns) -> None:
        """Append the samples of other columns."""
        first = len(self)
        rows = [self._of(key).number for key in other._keys]
        numbers = [self._keys.index(key) for key in other._keys]
        self.doc_ids.extend(other.doc_ids)
        self._scorer_of.extend([numbers[scorer] for scorer in other._scorer_of])
        self._rows.extend([row + rows[scorer] for scorer, row in zip(other._scorer_of, other._rows, strict=True)])
        for key, columns in other._columns.items():
            self._columns[key].extend(columns)
        self._truncated.update(first + index for index in other._truncated)
        self._endings.update((first + index, endings) for index, endings in other._endings.items())
        self._ties.update((first + index, ties) for index, ties in other._ties.items())

    def _of(self, key: tuple[str, tuple[str, ...]]) -> _ScorerColumns:
        if key not in self._columns:
            self._columns[key] = _ScorerColumns(key[1])
            self._keys.append(key)
        return self._columns[key]

    def first_values(self) -> tuple[str, Sequence[Any]]:
        """The first metric of the first scorer, and its values."""
        metric, column = next(iter(self._columns[self._keys[0]].values.items()), ("", Column()))
        return metric, column.values

    def values(self, index: int) -> dict[str, Any]:
        row = self._rows[index]
        return {key: column[row] for key, column in self._scorer(index).values.items()}

    def scorer(self, index: int) -> str:
        return self._keys[self._scorer_of[index]][0]

    def prediction(self, index: int) -> Any:
        return self._scorer(index).predictions[self._rows[index]]

    def is_truncated(self, index: int) -> bool:
        return index in self._truncated

    def endings(self, index: int) -> frozenset[Ending]:
        return self._endings.get(index, frozenset())

    def ties(self, index: int) -> tuple[int, ...]:
        return self._ties.get(index, ())

    def _scorer(self, index: int) -> _ScorerColumns:
        return self._columns[self._keys[self._scorer_of[index]]]


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Scored samples of a form from a worker: their columns, and all of them packed."""

    columns: SampleColumns
    data: bytes

    @classmethod
    def of(cls, samples: Sequence[ScoredSample]) -> SampleBlock:
        columns = SampleColumns()
        for sample in samples:
            columns.append(sample)
        return cls(columns, pack_block(samples))

    def __iter__(self) -> Iterator[ScoredSample]:
        return iter(load_block(self.data))


class SpooledSamples(Sequence[ScoredSample]):
    """The scored samples of a form on disk, by document; what statistics need of them is in memory."""

    def __init__(self, spool: Spool[ScoredSample]) -> None:
        self._spool = spool
        self._order: Sequence[int] | None = None
        self.columns = SampleColumns()
        self._positions = array("L")

    def extend(self, samples: Sequence[ScoredSample]) -> None:
        """Add samples of the form."""
        self._add_positions(len(samples))
        self._spool.extend(samples)
        for sample in samples:
            self.columns.append(sample)

    def add_block(self, block: SampleBlock) -> None:
        """Add samples of the form that a worker has scored."""
        self._add_positions(len(block.columns))
        self._spool.add_block(block.data, len(block.columns))
        self.columns.extend(block.columns)

    def _add_positions(self, number: int) -> None:
        self._order = None
        self._positions.extend(range(len(self._spool), len(self._spool) + number))

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> ScoredSample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ScoredSample]: ...
    def __getitem__(self, index: int | slice) -> ScoredSample | list[ScoredSample]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if self._order is None:
            self._order = array("L", sorted(range(len(self)), key=self.columns.doc_ids.__getitem__))
        return _SpooledSample(self, self._order[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(_whole(mine) == _whole(theirs) for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, ([_whole(sample) for sample in self],)

    def load(self, index: int) -> ScoredSample:
        """The whole sample, from the file."""
        return self._spool[self._positions[index]]


class _SpooledSample(ScoredSample):
    """A sample of `SpooledSamples`, of which the larger parts are read from the file when they are needed."""

    __slots__ = ("_home", "_index")
    _home: SpooledSamples
    _index: int

    def __new__(cls, *place: Any, **fields: Any) -> Any:
        """A sample of a place; or a whole one of the fields that `dataclasses.replace` gives."""
        return ScoredSample(**fields) if fields else super().__new__(cls)

    def __init__(self, home: SpooledSamples, index: int) -> None:
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_index", index)

    doc_id = property(lambda self: self._home.columns.doc_ids[self._index])
    scorer = property(lambda self: self._home.columns.scorer(self._index))
    values = property(lambda self: self._home.columns.values(self._index))
    prediction = property(lambda self: self._home.columns.prediction(self._index))
    context_truncated = property(lambda self: self._home.columns.is_truncated(self._index))
    endings = property(lambda self: self._home.columns.endings(self._index))
    tied_choices = property(lambda self: self._home.columns.ties(self._index))
    sample = property(lambda self: self._home.load(self._index).sample)
    outputs = property(lambda self: self._home.load(self._index).outputs)
    filtered = property(lambda self: self._home.load(self._index).filtered)
    steps = property(lambda self: self._home.load(self._index).steps)
    failure = property(lambda self: self._home.load(self._index).failure)

    def __reduce__(self) -> tuple[Any, ...]:
        return _whole, (_whole(self),)


def _whole(sample: ScoredSample) -> ScoredSample:
    """The sample with all its parts in memory."""
    return sample._home.load(sample._index) if isinstance(sample, _SpooledSample) else sample


class ScoredSamples:
    """Collects the scored samples of a run, by form."""

    def __init__(self, forms: Iterable[str]) -> None:
        self._recent: dict[str, list[ScoredSample]] = {form: [] for form in forms}
        self._older: dict[str, SpooledSamples] = {}
        self._spool: Spool[ScoredSample] = Spool()
        self._size = 0

    def add(self, form: str, samples: Iterable[ScoredSample]) -> None:
        """Add samples of a form, in any order of documents."""
        added = list(samples)
        self._recent[form] += added
        self._size += sum(size_of(sample.sample, sample.outputs) for sample in added)

    def add_block(self, form: str, block: SampleBlock) -> None:
        """Add samples of a form that a worker has scored; they go to disk."""
        self._older.setdefault(form, SpooledSamples(self._spool)).add_block(block)

    def write_out(self) -> None:
        """Write the samples to disk if there are many; the documents so far are finished, or most of them."""
        if self._size <= IN_MEMORY:
            return
        for form, samples in self._recent.items():
            if samples:
                samples.sort(key=_doc_id)  # what is near in the file is read together
                self._older.setdefault(form, SpooledSamples(self._spool)).extend(samples)
                samples.clear()
        self._size = 0

    def by_form(self) -> dict[str, Sequence[ScoredSample]]:
        """The samples of each form by document, in lists as long as nothing is on disk."""
        if self._older:
            for form, older in self._older.items():
                older.extend(sorted(self._recent[form], key=_doc_id))
                self._recent[form] = []
        return {form: self._older.get(form) or sorted(recent, key=_doc_id) for form, recent in self._recent.items()}

    def so_far(self) -> Iterator[tuple[str, Sequence[ScoredSample]]]:
        """The samples of each form so far, in the order in which they came; of many, the older ones first."""
        for form, recent in self._recent.items():
            yield form, [*self._older.get(form, ()), *recent]


def _doc_id(sample: ScoredSample) -> int:
    return sample.doc_id
