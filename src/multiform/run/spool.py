"""Samples of a run on disk: `Spool`, a list of objects in blocks of a file, and `ScoredSamples` of each form.

They are in memory as long as they are small. Beyond that, what statistics need of every document (its scores,
prediction and flags) stays in memory, in arrays; the rest, such as its prompt and the model's responses, is read back
from a file when somebody looks at it.
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
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import IO, Any, Generic, TypeAlias, TypeVar, overload

from multiform.forms import Sample, ScoredSample
from multiform.requests import Completion, Output

logger = logging.getLogger("multiform")

#: Characters of samples that stay in memory, about; beyond that, all are written to disk.
IN_MEMORY = 64_000_000
#: Characters that a sample counts for beside its texts.
_OVERHEAD = 2_000
#: Samples that are written, and read back, together; and how many of these blocks stay in memory once they are read.
BLOCK = 256
_BLOCKS_READ = 16

_doc_id = attrgetter("doc_id")

T = TypeVar("T")
#: Objects as bytes; or the objects themselves, where they cannot be pickled or the disk has no room.
Block: TypeAlias = bytes | list[Any]


def size_of(sample: Sample, outputs: Sequence[Output] = ()) -> int:
    """About how many characters a sample takes in memory."""
    completions = sum(len(output.text) for output in outputs if isinstance(output, Completion))
    return _OVERHEAD + len(sample.prompt) + completions


def pack_block(items: Sequence[Any], *, compress: bool = False) -> Block:
    """Objects as a block; compressed for another process, where prompts that begin alike take little room."""
    try:
        data = pickle.dumps(list(items), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001  (whatever the objects of a task raise)
        logger.debug("samples stay in memory: %s", error)
        return list(items)
    return zlib.compress(data, 1) if compress else data


def load_block(block: Block) -> list[Any]:
    """The objects of a block."""
    if isinstance(block, list):
        return block
    is_compressed = block[:1] == b"x"  # zlib's first byte; that of a pickle is 0x80
    items: list[Any] = pickle.loads(zlib.decompress(block) if is_compressed else block)
    return items


class SpoolFile:
    """A file without a name, which ends with the process; the blocks that were read last stay in memory."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._read: OrderedDict[int, list[Any]] = OrderedDict()

    def write(self, data: bytes) -> tuple[int, int] | None:
        """The place and size of the data in the file; None where the disk has no room."""
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

    def read_block(self, place: int, size: int) -> list[Any]:
        """The objects of the block at a place."""
        if place in self._read:
            self._read.move_to_end(place)
            return self._read[place]
        assert self._file is not None
        self._file.seek(place)
        block = self._read[place] = load_block(self._file.read(size))
        if len(self._read) > _BLOCKS_READ:
            self._read.popitem(last=False)
        return block


class Spool(Generic[T]):
    """A list of objects in blocks of a file; those that cannot be written stay in memory."""

    def __init__(self, file: SpoolFile | None = None) -> None:
        self._file = file or SpoolFile()
        #: Where each block is in the file, or the block itself; and the index of its first object.
        self._blocks: list[tuple[int, int] | list[T]] = []
        self._starts = array("L")
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, items: Sequence[T]) -> None:
        """Add objects."""
        for start in range(0, len(items), BLOCK):
            part = items[start : start + BLOCK]
            self.add_block(pack_block(part), len(part))

    def add_block(self, block: Block, number: int) -> None:
        """Add a block of so many objects, which `pack_block` has made, maybe in another process."""
        place = self._file.write(block) if isinstance(block, bytes) else None
        self._blocks.append(load_block(block) if place is None else place)
        self._starts.append(self._length)
        self._length += number

    def __getitem__(self, index: int) -> T:
        number = bisect_right(self._starts, index) - 1
        entry = self._blocks[number]
        block: list[T] = entry if isinstance(entry, list) else self._file.read_block(*entry)
        return block[index - self._starts[number]]


class PackedColumn:
    """Values of one kind in few bytes each, as far as they are numbers; they come back as they were.

    >>> column = PackedColumn()
    >>> for row, value in enumerate((1.0, 0.5, True)):
    ...     column.put_value(row, value)
    >>> [column[index] for index in range(3)]
    [1.0, 0.5, True]
    """

    _CODES: Mapping[type, str] = {float: "d", int: "q", bool: "b"}

    def __init__(self) -> None:
        self._kind: type | None = None
        self._values: Any = []

    def put_value(self, row: int, value: Any) -> None:
        """Append the value of a row; rows before it that have none get a value that nobody reads."""
        kind = type(value)
        if not self._values and kind in self._CODES:
            self._kind, self._values = kind, array(self._CODES[kind])
        self._pad(row)
        if self._kind not in (None, kind) or (kind is int and abs(value) >= 2**63):
            self._values, self._kind = list(self), None
        self._values.append(value)

    def append_column(self, row: int, other: PackedColumn) -> None:
        """Append all values of another column, from a row on."""
        if not self._values:
            self._kind, self._values = other._kind, other._values[:0]
        self._pad(row)
        if self._kind is other._kind:
            self._values.extend(other._values)
        else:
            for index, value in enumerate(other):
                self.put_value(row + index, value)

    def _pad(self, rows: int) -> None:
        if len(self._values) < rows:
            filler = None if self._kind is None else self._kind()
            self._values.extend([filler] * (rows - len(self._values)))

    def __iter__(self) -> Iterator[Any]:
        return map(bool, self._values) if self._kind is bool else iter(self._values)

    def __getitem__(self, index: int) -> Any:
        value = self._values[index]
        return bool(value) if self._kind is bool else value


class SampleColumns:
    """What statistics need of scored samples, in arrays: those of a form, or of a block that comes from a worker."""

    def __init__(self) -> None:
        self.doc_ids = array("q")
        #: The scorers with the names of their metrics, and that of each sample.
        self._scorers: list[tuple[str, tuple[str, ...]]] = []
        self._scorer_of = array("H")
        #: The values of each sample, in the order of its scorer's metrics, and its prediction.
        self._values: list[PackedColumn] = []
        self._predictions = PackedColumn()
        #: Whether the context was cut off, how completions ended, and tied choices, of the few samples that have these.
        self._flags: dict[int, tuple[bool, frozenset[Any], tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self.doc_ids)

    def append(self, sample: ScoredSample) -> None:
        row = len(self)
        self.doc_ids.append(sample.doc_id)
        self._scorer_of.append(self._scorer_number(sample.scorer, tuple(sample.values)))
        self._add_columns(len(sample.values))
        for column, value in zip(self._values, sample.values.values(), strict=False):
            column.put_value(row, value)
        self._predictions.put_value(row, sample.prediction)
        flags = sample.context_truncated, sample.endings, sample.tied_choices
        if any(flags):
            self._flags[row] = flags

    def extend(self, other: SampleColumns) -> None:
        """Append the samples of other columns."""
        first = len(self)
        numbers = [self._scorer_number(*key) for key in other._scorers]
        same = numbers == list(range(len(numbers)))
        self.doc_ids.extend(other.doc_ids)
        self._scorer_of.extend(other._scorer_of if same else [numbers[scorer] for scorer in other._scorer_of])
        self._add_columns(len(other._values))
        for column, values in zip(self._values, other._values, strict=False):
            column.append_column(first, values)
        self._predictions.append_column(first, other._predictions)
        self._flags.update((first + row, flags) for row, flags in other._flags.items())

    def _scorer_number(self, name: str, metrics: tuple[str, ...]) -> int:
        if (name, metrics) not in self._scorers:
            self._scorers.append((name, metrics))
        return self._scorers.index((name, metrics))

    def _add_columns(self, number: int) -> None:
        self._values += [PackedColumn() for _ in range(number - len(self._values))]

    def first_values(self) -> tuple[str, Sequence[Any]]:
        """The first metric of the first scorer, and its values."""
        metrics = self._scorers[0][1]
        values = zip(self._scorer_of, self._values[0], strict=False) if metrics else ()
        return (metrics or ("",))[0], [value for scorer, value in values if scorer == 0]

    def values(self, row: int) -> dict[str, Any]:
        metrics = self._scorers[self._scorer_of[row]][1]
        return {name: column[row] for name, column in zip(metrics, self._values, strict=False)}

    def scorer(self, row: int) -> str:
        return self._scorers[self._scorer_of[row]][0]

    def prediction(self, row: int) -> Any:
        return self._predictions[row]

    def flags(self, row: int) -> tuple[bool, frozenset[Any], tuple[int, ...]]:
        """Whether the context was cut off, how completions ended, and tied choices."""
        return self._flags.get(row, (False, frozenset(), ()))


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Scored samples of a form: their columns, and all of them as a block."""

    columns: SampleColumns
    block: Block

    @classmethod
    def of(cls, samples: Sequence[ScoredSample], *, compress: bool = False) -> SampleBlock:
        columns = SampleColumns()
        for sample in samples:
            columns.append(sample)
        return cls(columns, pack_block(samples, compress=compress))

    def __iter__(self) -> Iterator[ScoredSample]:
        return iter(load_block(self.block))


class SpooledSamples(Sequence[ScoredSample]):
    """The scored samples of a form on disk, by document; what statistics need of them is in memory."""

    def __init__(self, file: SpoolFile | None = None) -> None:
        self._spool: Spool[ScoredSample] = Spool(file)
        self._order: Sequence[int] | None = None
        self.columns = SampleColumns()

    def extend(self, samples: Sequence[ScoredSample]) -> None:
        """Add samples of the form."""
        for start in range(0, len(samples), BLOCK):
            self.add_block(SampleBlock.of(samples[start : start + BLOCK]))

    def add_block(self, block: SampleBlock) -> None:
        """Add samples of the form, which a worker may have scored."""
        self._order = None
        self._spool.add_block(block.block, len(block.columns))
        self.columns.extend(block.columns)

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

    def load(self, row: int) -> ScoredSample:
        """The whole sample, from the file."""
        return self._spool[row]


class _SpooledSample(ScoredSample):
    """A sample of `SpooledSamples`, of which the larger parts are read from the file when they are needed."""

    __slots__ = ("_home", "_row")
    _home: SpooledSamples
    _row: int

    def __new__(cls, *place: Any, **fields: Any) -> Any:
        """A sample of a place; or a whole one of the fields that `dataclasses.replace` gives."""
        return ScoredSample(**fields) if fields else super().__new__(cls)

    def __init__(self, home: SpooledSamples, row: int) -> None:
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_row", row)

    doc_id = property(lambda self: self._home.columns.doc_ids[self._row])
    scorer = property(lambda self: self._home.columns.scorer(self._row))
    values = property(lambda self: self._home.columns.values(self._row))
    prediction = property(lambda self: self._home.columns.prediction(self._row))
    context_truncated = property(lambda self: self._home.columns.flags(self._row)[0])
    endings = property(lambda self: self._home.columns.flags(self._row)[1])
    tied_choices = property(lambda self: self._home.columns.flags(self._row)[2])
    sample = property(lambda self: self._home.load(self._row).sample)
    outputs = property(lambda self: self._home.load(self._row).outputs)
    filtered = property(lambda self: self._home.load(self._row).filtered)
    steps = property(lambda self: self._home.load(self._row).steps)
    failure = property(lambda self: self._home.load(self._row).failure)

    def __reduce__(self) -> tuple[Any, ...]:
        return _whole, (_whole(self),)


def _whole(sample: ScoredSample) -> ScoredSample:
    """The sample with all its parts in memory."""
    return sample._home.load(sample._row) if isinstance(sample, _SpooledSample) else sample


class ScoredSamples:
    """Collects the scored samples of a run, by form."""

    def __init__(self, forms: Iterable[str]) -> None:
        self._recent: dict[str, list[ScoredSample]] = {form: [] for form in forms}
        self._older: dict[str, SpooledSamples] = {}
        self._file = SpoolFile()
        self._size = 0

    def add(self, form: str, samples: Sequence[ScoredSample] | SampleBlock) -> None:
        """Add samples of a form, in any order of documents; a block, which comes from a worker, goes to disk."""
        if isinstance(samples, SampleBlock):
            self._older.setdefault(form, SpooledSamples(self._file)).add_block(samples)
            return
        self._recent[form] += samples
        self._size += sum(size_of(sample.sample, sample.outputs) for sample in samples)

    def write_out(self) -> None:
        """Write the samples to disk if there are many; the documents so far are finished, or most of them."""
        if self._size <= IN_MEMORY:
            return
        for form, samples in self._recent.items():
            if samples:
                samples.sort(key=_doc_id)  # what is near in the file is read together
                self._older.setdefault(form, SpooledSamples(self._file)).extend(samples)
                samples.clear()
        self._size = 0

    def by_form(self) -> dict[str, Sequence[ScoredSample]]:
        """The samples of each form by document, in lists as long as nothing is on disk."""
        for form, older in self._older.items():
            older.extend(sorted(self._recent[form], key=_doc_id))
            self._recent[form] = []
        return {form: self._older.get(form) or sorted(recent, key=_doc_id) for form, recent in self._recent.items()}

    def so_far(self) -> Iterator[tuple[str, Sequence[ScoredSample]]]:
        """The samples of each form so far, in the order in which they came; of many, the older ones first."""
        for form, recent in self._recent.items():
            yield form, [*self._older.get(form, ()), *recent]
