"""Samples of a run on disk: `Spool`, a list of objects in blocks of a file, and `ScoredSamples` of each form.

They are in memory as long as they are small. Beyond that, what statistics need of every document (its scores,
prediction and flags) stays in memory, compressed; the rest, such as its prompt and the model's responses, is read back
from a file when somebody looks at it.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import pickle
import tempfile
import weakref
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import IO, Any, Generic, NamedTuple, TypeAlias, TypeVar, overload

from multiform.forms import Sample, ScoredSample
from multiform.requests import Completion, Ending, Output

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
    """Blocks in a file without a name, which ends with the process; those that were read last stay loaded."""

    def __init__(self, file: IO[bytes] | None = None, *, most_loaded: int = _BLOCKS_READ) -> None:
        self._file = file
        #: The objects of the block at a place.
        self.read_block = lru_cache(most_loaded)(self._read_block)

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

    def _read_block(self, place: int, size: int) -> list[Any]:
        assert self._file is not None
        self._file.seek(place)
        return load_block(self._file.read(size))


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

    def extend(self, items: Sequence[T], *, in_memory: bool = False) -> None:
        """Add objects, which stay as they are if they are to be in memory."""
        for start in range(0, len(items), BLOCK):
            part = list(items[start : start + BLOCK])
            self.add_block(part if in_memory else pack_block(part), len(part))

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


class SampleScores(NamedTuple):
    """What statistics need of a scored sample beside its document."""

    scorer: str
    values: Mapping[str, Any]
    prediction: Any
    context_truncated: bool
    endings: frozenset[Ending]
    tied_choices: tuple[int, ...]

    @classmethod
    def of(cls, sample: ScoredSample) -> SampleScores:
        flags = sample.context_truncated, sample.endings, sample.tied_choices
        return cls(sample.scorer, dict(sample.values), sample.prediction, *flags)


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Scored samples of a form as two blocks: a small one of what statistics need, and the samples themselves."""

    doc_ids: array[int]
    scores: Block
    samples: Block

    @classmethod
    def of(cls, samples: Sequence[ScoredSample], *, compress: bool = False) -> SampleBlock:
        doc_ids = array("q", [sample.doc_id for sample in samples])
        scores = pack_block([SampleScores.of(sample) for sample in samples], compress=True)
        return cls(doc_ids, scores, pack_block(samples, compress=compress))

    def __iter__(self) -> Iterator[ScoredSample]:
        return iter(load_block(self.samples))


class SpooledSamples(Sequence[ScoredSample]):
    """The scored samples of a form on disk, by document; what statistics need of them is in memory."""

    def __init__(self, file: SpoolFile | None = None) -> None:
        self.doc_ids = array("q")
        self.scores: Spool[SampleScores] = Spool(SpoolFile(io.BytesIO(), most_loaded=2))
        self.samples: Spool[ScoredSample] = Spool(file)
        self._order: Sequence[int] | None = None

    def extend(self, samples: Sequence[ScoredSample]) -> None:
        """Add samples of the form."""
        for start in range(0, len(samples), BLOCK):
            self.add_block(SampleBlock.of(samples[start : start + BLOCK]))

    def add_block(self, block: SampleBlock) -> None:
        """Add samples of the form, which a worker may have scored."""
        self._order = None
        self.doc_ids.extend(block.doc_ids)
        self.scores.add_block(block.scores, len(block.doc_ids))
        self.samples.add_block(block.samples, len(block.doc_ids))

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

    doc_id = property(lambda self: self._home.doc_ids[self._row])
    context_truncated = property(lambda self: self._home.scores[self._row].context_truncated)
    endings = property(lambda self: self._home.scores[self._row].endings)
    tied_choices = property(lambda self: self._home.scores[self._row].tied_choices)

    def __getattr__(self, name: str) -> Any:
        """A field of the sample: in memory where statistics need it, and else in the file."""
        return getattr(self._home.scores[self._row] if name in SampleScores._fields else _whole(self), name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _whole, (_whole(self),)


def _whole(sample: ScoredSample) -> ScoredSample:
    """The sample with all its parts in memory."""
    return sample._home.samples[sample._row] if isinstance(sample, _SpooledSample) else sample


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
