"""Spool: a list of objects on disk, in blocks that are read back when somebody looks at them."""

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
from collections.abc import Sequence
from typing import IO, Any, Generic, TypeAlias, TypeVar

from multiform.forms import Sample
from multiform.requests import Completion, Output

logger = logging.getLogger("multiform")

#: Characters of samples that stay in memory, about; beyond that, all are written to disk.
IN_MEMORY = 64_000_000
#: Characters that a sample counts for beside its texts.
_OVERHEAD = 2_000
#: Samples that are written, and read back, together; and how many of these blocks stay in memory once they are read.
BLOCK = 256
_BLOCKS_READ = 16

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

    def read(self, place: int, size: int) -> list[Any]:
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
        block: list[T] = entry if isinstance(entry, list) else self._file.read(*entry)
        return block[index - self._starts[number]]
