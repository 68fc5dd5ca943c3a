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
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    def __getitem__(self, index: int) -> T:
        number = self._places[0][index]
        return self._block(number)[self._places[1][index]]

    def _write(self, block: list[T]) -> tuple[int, int] | list[T]:
        try:
            data = pickle.dumps(block, pickle.HIGHEST_PROTOCOL)
            if self._file is None:
                # Without a buffer, what does not fit on the disk is known at once.
                self._file = tempfile.TemporaryFile(prefix="multiform-", buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            place = self._file.seek(0, 2)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except Exception as error:  # noqa: BLE001  (whatever the objects of a task, or the disk, raise)
            logger.debug("samples stay in memory: %s", error)
            return block
        return place, len(data)

    def _block(self, number: int) -> list[T]:
        entry = self._blocks[number]
        if isinstance(entry, list):
            return entry
        block = self._read.get(number)
        if block is None:
            assert self._file is not None
            self._file.seek(entry[0])
            block = self._read[number] = pickle.loads(self._file.read(entry[1]))
            if len(self._read) > _BLOCKS_READ:
                self._read.popitem(last=False)
        else:
            self._read.move_to_end(number)
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

    def __getitem__(self, index: int) -> Any:
        value = self._values[index]
        return bool(value) if self._kind is bool else value


class _ScorerColumns:
    """The values and predictions of one scorer's samples."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.values = {key: Column() for key in keys}
        self.predictions = Column()
        self.number = 0

    def add(self, sample: ScoredSample) -> int:
        """Add a sample; returns the number of its row."""
        for key, column in self.values.items():
            column.append(sample.values[key])
        self.predictions.append(sample.prediction)
        self.number += 1
        return self.number - 1


class SpooledSamples(Sequence[ScoredSample]):
    """The scored samples of a form on disk, by document; what statistics need of them is in memory."""

    def __init__(self, spool: Spool[ScoredSample]) -> None:
        self._spool = spool
        self._order: Sequence[int] | None = None
        self.doc_ids = array("q")
        self._positions = array("L")
        #: The columns of each sample, by scorer and metrics, and the row in them.
        self._columns: dict[tuple[str, tuple[str, ...]], tuple[int, _ScorerColumns]] = {}
        self._scorers: list[tuple[str, _ScorerColumns]] = []
        self._scorer_of, self._rows = array("H"), array("L")
        #: The few samples that have one of these.
        self._truncated: set[int] = set()
        self._endings: dict[int, frozenset[Ending]] = {}
        self._ties: dict[int, tuple[int, ...]] = {}

    def extend(self, samples: Sequence[ScoredSample]) -> None:
        """Add samples of the form."""
        self._order = None
        first = len(self._spool)
        self._spool.extend(samples)
        for position, sample in enumerate(samples, start=first):
            index = len(self.doc_ids)
            key = (sample.scorer, tuple(sample.values))
            if key not in self._columns:
                self._columns[key] = len(self._scorers), _ScorerColumns(key[1])
                self._scorers.append((sample.scorer, self._columns[key][1]))
            number, columns = self._columns[key]
            self.doc_ids.append(sample.doc_id)
            self._positions.append(position)
            self._scorer_of.append(number)
            self._rows.append(columns.add(sample))
            if sample.context_truncated:
                self._truncated.add(index)
            if sample.endings:
                self._endings[index] = sample.endings
            if sample.tied_choices:
                self._ties[index] = sample.tied_choices

    def __len__(self) -> int:
        return len(self.doc_ids)

    @overload
    def __getitem__(self, index: int) -> ScoredSample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ScoredSample]: ...
    def __getitem__(self, index: int | slice) -> ScoredSample | list[ScoredSample]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if self._order is None:
            self._order = array("L", sorted(range(len(self)), key=self.doc_ids.__getitem__))
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

    def values(self, index: int) -> dict[str, Any]:
        row = self._rows[index]
        return {key: column[row] for key, column in self._scorers[self._scorer_of[index]][1].values.items()}

    def scorer(self, index: int) -> str:
        return self._scorers[self._scorer_of[index]][0]

    def prediction(self, index: int) -> Any:
        return self._scorers[self._scorer_of[index]][1].predictions[self._rows[index]]

    def is_truncated(self, index: int) -> bool:
        return index in self._truncated

    def endings(self, index: int) -> frozenset[Ending]:
        return self._endings.get(index, frozenset())

    def ties(self, index: int) -> tuple[int, ...]:
        return self._ties.get(index, ())


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

    doc_id = property(lambda self: self._home.doc_ids[self._index])
    scorer = property(lambda self: self._home.scorer(self._index))
    values = property(lambda self: self._home.values(self._index))
    prediction = property(lambda self: self._home.prediction(self._index))
    context_truncated = property(lambda self: self._home.is_truncated(self._index))
    endings = property(lambda self: self._home.endings(self._index))
    tied_choices = property(lambda self: self._home.ties(self._index))
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
