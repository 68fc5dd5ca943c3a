"""Dataset: the splits of a dataset, loaded lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import DataError, nearest, reason
from multiform.tasks.datasets.files import Rows
from multiform.tasks.datasets.media_files import undecoded


class Dataset(Mapping[str, Rows]):
    """The splits of a dataset, loaded lazily.

    With `any_split`, there is one table, which is used for every split.
    """

    def __init__(self, name: str, splits: Mapping[str, Callable[[], Rows]], *, any_split: bool = False) -> None:
        self.name = name
        self._sources = dict(splits)
        self._any_split = any_split
        self._read: dict[str, Rows] = {}

    def __getitem__(self, split: str) -> Rows:
        if split not in self._read:
            self._read[split] = self._source(split)()
        return self._read[split]

    def same_rows(self, split: str, other: str) -> bool:
        """Whether two names stand for the same rows, as all names do where one file serves every split."""
        return self._source(split) is self._source(other)

    def _source(self, split: str) -> Callable[[], Rows]:
        if split in self._sources:
            return self._sources[split]
        if self._any_split:
            return next(iter(self._sources.values()))
        hint = nearest(split, self._sources, listed="its splits are")
        raise DataError(f"no split '{split}' in {self.name}", hint=hint)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def merged(datasets: Sequence[Dataset]) -> Dataset:
    """The splits of all datasets; a split that several have is that of the first."""
    sources = {split: dataset._source(split) for dataset in reversed(datasets) for split in dataset}
    return datasets[0] if len(datasets) == 1 else Dataset(datasets[0].name, sources)


def sliced(dataset: Dataset, split: Any, place: str | None) -> Dataset:
    """The rows that a `split` of `datasets.load_dataset` selects, such as ``train``, ``test[:10]`` or ``a+b``."""
    import datasets

    lengths = {name: len(rows) for name, rows in dataset.items()}
    try:
        slices = datasets.ReadInstruction.from_spec(split).to_absolute(lengths)
    except Exception as error:  # text that is no specification raises several kinds of errors
        hint = "write the name of a split, or a part of one as in train[:100] or test[50%:]"
        raise DataError(f"not a split: {reason(error)}", where=place, hint=hint) from error

    def read() -> Rows:
        return [row for part in slices for row in dataset[part.splitname][part.from_ : part.to]]

    return Dataset(f"{dataset.name} ({split})", {str(split): read}, any_split=True)


def listing(rows: Any, place: str | None) -> Callable[[], Rows]:
    """Reads rows of any kind, such as a `datasets.Dataset`, into a list of dicts."""

    def read() -> Rows:
        try:
            return [dict(row) for row in undecoded(rows)]
        except (TypeError, ValueError) as error:
            message = f"the rows are not mappings of columns: {error}"
            raise DataError(message, where=place, hint="give a list of dicts for each split") from error

    return read


def splits_of(loaded: Any, name: str, place: str | None) -> Dataset:
    """What `datasets.load_dataset` returned: a table for each split, or one table where a split was selected."""
    if not isinstance(loaded, Mapping):
        return Dataset(name, {str(loaded.split or "train"): listing(loaded, place)}, any_split=True)
    return Dataset(name, {str(split): listing(rows, place) for split, rows in loaded.items()})
