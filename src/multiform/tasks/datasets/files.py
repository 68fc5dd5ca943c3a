"""Rows of local files (JSON Lines, JSON, CSV, TSV and Parquet), and Dataset: splits that are read when needed.

The rows of a table that is too large for memory are read when they are needed, too.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, overload

from multiform.errors import DataError, excerpt, nearest, reason
from multiform.paths import display, open_file, read_file

#: A list, or what reads rows of a large table when they are needed.
Rows = Sequence[dict[str, Any]]

_BOM = "\ufeff"
#: The most rows of a Parquet file.
_MAX_ROWS = 10_000_000
#: The most bytes of a file that is read line by line, and of one that is read as a whole.
_MAX_BYTES, _MAX_WHOLE = 50_000_000_000, 4_000_000_000
#: The most characters of a line of JSON Lines.
_MAX_LINE = 100_000_000
#: Tables of more rows are not held in memory.
LARGE = 100_000
#: Rows that are read together where they are read one after the other.
_BLOCK = 512


def read_rows(path: Path, *, field: str | None = None, delimiter: str | None = None) -> Rows:
    """All rows of a file, whose ending says what it is.

    `field` is the key of a JSON object that holds the rows, `delimiter` what stands between the values of a CSV file.
    """
    ending = path.suffix.lower()
    reader = READERS.get(ending)
    if reader is None:
        hint = f"use one of {', '.join(READERS)}"
        hint = f"save it as 'CSV UTF-8', or {hint}" if ending in (".xlsx", ".xls", ".ods", ".numbers") else hint
        raise DataError(f"unknown kind of data file '{path.suffix}'", where=display(path), hint=hint)
    for name, value, kinds in (("field", field, (".json",)), ("delimiter", delimiter, (".csv", ".tsv"))):
        if value is not None and ending not in kinds:
            message = f"a {name} is for {' and '.join(kinds)} files"
            raise DataError(message, where=display(path), hint=f"remove the {name}, or name another file")
    try:
        _check_size(path, _MAX_WHOLE if ending in (".json", ".csv", ".tsv") else _MAX_BYTES)
        if field is not None:
            return _read_json(path, field)
        return reader(path) if delimiter is None else _read_csv(path, delimiter)
    except FileNotFoundError as error:
        raise DataError("no such data file", where=display(path), hint="check the path") from error
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except OSError as error:
        reason = error.strerror or _flat(error, path)
        hint = "check the file and its rights"
        raise DataError(f"cannot be read: {reason}", where=display(path), hint=hint) from error


def _check_size(path: Path, most: int) -> None:
    """Refuse a file that would fill the memory: one without content may be of any size."""
    size = path.stat().st_size
    if size > most:
        message = f"the file is too large: {size:,} bytes, and {most:,} are allowed"
        raise DataError(message, where=display(path), hint="keep the rows that are evaluated")


def _read_jsonl(path: Path) -> Rows:
    """All rows, each of which is checked; those of a large file are read again when they are needed."""
    rows: list[dict[str, Any]] = []
    places, place = array("Q"), 0
    name = display(path)
    # Split at newlines only: other line separators may stand inside strings.
    with open_file(path) as file:
        for number, data in enumerate(iter(lambda: file.readline(_MAX_LINE), b""), start=1):
            if len(data) == _MAX_LINE:
                message = f"a line of more than {_MAX_LINE:,} bytes"
                raise DataError(message, where=f"{name}:{number}", hint="write one row on each line")
            line = data.decode("utf-8").removeprefix(_BOM) if number == 1 else data.decode("utf-8")
            if line.strip():
                row = _row(_parse(line, path, number), f"{name}:{number}")
                places.append(place)
                if len(places) <= LARGE:
                    rows.append(row)
                else:
                    rows.clear()
            place += len(data)
    return _json_lines(path, places) if len(places) > LARGE else rows


def _read_json(path: Path, field: str | None = None) -> Rows:
    """A list of objects; or an object on each line, which many files of this ending are."""
    text, place = read_file(path).decode("utf-8").removeprefix(_BOM), display(path)
    is_jsonl = field is None and len(text.splitlines()) > 1 and _is_object(text.lstrip().partition("\n")[0])
    if is_jsonl:
        return _read_jsonl(path)
    data = _parse(text, path, None)
    expected, hint = "a list of objects", 'write [{"column": value, ...}, ...], or save it as .jsonl'
    if field is not None:
        if not isinstance(data, dict) or field not in data:
            hint = nearest(field, data, listed="its keys are") if isinstance(data, dict) else "remove the field"
            raise DataError(f"no field '{field}' in the file", where=place, hint=hint)
        data, expected = data[field], f"{expected} in field '{field}'"
        hint = f'write {{"{field}": [{{"column": value, ...}}, ...]}}'
    if not isinstance(data, list):
        raise DataError(f"expected {expected}, got {excerpt(data)}", where=place, hint=hint)
    inside = place if field is None else f"{place}: {field}"
    return [_row(row, f"{inside}: item {index}") for index, row in enumerate(data)]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _read_csv(path: Path, delimiter: str | None = None) -> Rows:
    if delimiter is None:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    if len(delimiter) != 1:
        hint = "write dataset_path: csv with data_files for patterns of several"
        raise DataError(f"a delimiter is one character, got {excerpt(delimiter)}", where=display(path), hint=hint)
    csv.field_size_limit(sys.maxsize)  # a passage may well be longer than the 128 KB that csv allows
    with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            columns = next(lines, [])
            twice = [name for name in columns if columns.count(name) > 1]
            if twice:
                message = f"the column '{twice[0]}' is there twice"
                raise DataError(message, where=f"{display(path)}:1", hint="rename one of the two")
            return [_csv_row(columns, values, f"{display(path)}:{lines.line_num}") for values in lines if values]
        except csv.Error as error:
            message = f"not valid CSV: {error}"
            raise DataError(message, where=f"{display(path)}:{lines.line_num}", hint="check the quotes") from error


def _csv_row(columns: list[str], values: list[str], place: str) -> dict[str, Any]:
    if len(values) != len(columns):
        message = f"{len(values)} values for {len(columns)} columns"
        raise DataError(message, where=place, hint="quote a value that holds the delimiter or a line break")
    return dict(zip(columns, values, strict=True))


def _read_parquet(path: Path) -> Rows:
    import pyarrow.lib
    import pyarrow.parquet

    try:
        with open_file(path) as file:
            table = pyarrow.parquet.ParquetFile(file)
            if table.metadata.num_rows > _MAX_ROWS:  # a few bytes may stand for any number of equal rows
                message = f"{table.metadata.num_rows:,} rows, and {_MAX_ROWS:,} are allowed"
                raise DataError(message, where=display(path), hint="keep the rows that are evaluated")
            content = table.read()
    except (pyarrow.lib.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        message = f"not a Parquet file, or damaged: {_flat(error, path)}"
        raise DataError(message, where=display(path), hint="write it again") from error
    if content.num_rows > LARGE:
        return LazyRows(content.num_rows, lambda start, stop: _table_rows(content.slice(start, stop - start), path))
    return _table_rows(content, path)


def _table_rows(table: Any, path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except Exception as error:  # dates and time zones that Python does not know raise nearly anything
        for name, column in zip(table.column_names, table.columns, strict=True):
            try:
                column.to_pylist()
            except Exception as cause:  # noqa: BLE001
                message = f"the column '{name}' of type {column.type} has a value that Python cannot hold"
                hint = f"write it as text; the reason is {_flat(cause, path)}"
                raise DataError(message, where=display(path), hint=hint) from error
        raise
    return rows


def _parse(text: str, path: Path, number: int | None) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = error.lineno if number is None else number
        message = f"not valid JSON: {error.msg} at column {error.pos + 1 if number else error.colno}"
        raise DataError(message, where=f"{display(path)}:{line}", hint="fix this line") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or brackets without end
        message = f"not valid JSON: {str(error).partition(';')[0]}"
        raise DataError(message, where=f"{display(path)}:{number or 1}", hint="fix this line") from error


def _row(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    message = f"expected an object with columns, got {excerpt(value)}"
    raise DataError(message, where=place, hint='write {"column": value, ...}')


def _not_utf8(path: Path) -> DataError:
    """An error with the place of the first byte that is not UTF-8."""
    before = read_file(path)
    try:
        before.decode("utf-8")
    except UnicodeDecodeError as error:
        line = before[: error.start].count(b"\n") + 1
        message = f"not UTF-8: byte 0x{before[error.start]:02x} at offset {error.start}"
        return DataError(message, where=f"{display(path)}:{line}", hint="save the file as UTF-8")
    return DataError("not UTF-8", where=display(path), hint="save the file as UTF-8")


def _flat(error: Exception, path: Path) -> str:
    """The reason in one line, without the path, which the message names already."""
    text = " ".join(str(error).split()).replace(f"Could not open Parquet input source '{path}': ", "")
    return excerpt(text, 160).strip("'\"").rstrip(".")


READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}


class LazyRows(Sequence[dict[str, Any]]):
    """Rows that `read(start, stop)` gives; those that come one after the other are read in blocks."""

    def __init__(self, number: int, read: Callable[[int, int], list[dict[str, Any]]]) -> None:
        self._number = number
        self._read = read
        self._start = self._next = 0
        self._block: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._number))]
        index = range(self._number)[index]
        follows, self._next = index == self._next, index + 1
        if not self._start <= index < self._start + len(self._block):
            if not follows:
                return self._read(index, index + 1)[0]
            self._start, self._block = index, self._read(index, min(index + _BLOCK, self._number))
        return self._block[index - self._start]


def _json_lines(path: Path, places: array[int]) -> LazyRows:
    """The rows of a JSON Lines file, which were read before, by the places at which their lines begin."""

    file = open_file(path)  # which stays open: a file that takes its place may have other rows

    def read_line(place: int) -> dict[str, Any]:
        file.seek(place)
        row: dict[str, Any] = json.loads(file.readline().removeprefix(b"\xef\xbb\xbf"))
        return row

    rows = LazyRows(len(places), lambda start, stop: list(map(read_line, places[start:stop])))
    weakref.finalize(rows, file.close)
    return rows


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
        """Whether two names stand for the same rows, as all names do if one file serves every split."""
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


def merge_datasets(datasets: Sequence[Dataset]) -> Dataset:
    """The splits of all datasets; a split that several have is that of the first."""
    sources = {split: dataset._source(split) for dataset in reversed(datasets) for split in dataset}
    return datasets[0] if len(datasets) == 1 else Dataset(datasets[0].name, sources)


def slice_splits(dataset: Dataset, split: Any, place: str | None) -> Dataset:
    """The rows that a `split` of `datasets.load_dataset` selects, such as ``train``, ``test[:10]`` or ``a+b``."""
    import datasets

    lengths = {name: len(rows) for name, rows in dataset.items()}
    try:
        slices = datasets.ReadInstruction.from_spec(split).to_absolute(lengths)
    except Exception as error:  # text that is not a specification raises several kinds of errors
        hint = "write the name of a split, or a part of one as in train[:100] or test[50%:]"
        raise DataError(f"not a split: {reason(error)}", where=place, hint=hint) from error

    def read_rows() -> Rows:
        return [row for part in slices for row in dataset[part.splitname][part.from_ : part.to]]

    return Dataset(f"{dataset.name} ({split})", {str(split): read_rows}, any_split=True)


def listing(rows: Any, place: str | None) -> Callable[[], Rows]:
    """Reads rows of any kind, such as a `datasets.Dataset`, into a list of dicts."""

    def read_rows() -> Rows:
        try:
            table = _without_decoding(rows)
            if type(table).__name__ == "Dataset" and len(table) > LARGE:  # of `datasets`, which maps its files
                return LazyRows(len(table), lambda start, stop: [dict(table[index]) for index in range(start, stop)])
            return [dict(row) for row in table]
        except (TypeError, ValueError) as error:
            message = f"the rows are not mappings of columns: {error}"
            raise DataError(message, where=place, hint="give a list of dicts for each split") from error

    return read_rows


def _without_decoding(rows: Any) -> Any:
    """The rows of a `datasets.Dataset` with sounds as files, if the package that would decode them is missing."""
    features = getattr(rows, "features", None)
    if not isinstance(features, Mapping) or find_spec("torchcodec") is not None:
        return rows
    for name, feature in features.items():
        if type(feature).__name__ == "Audio" and feature.decode:
            rows = rows.cast_column(name, type(feature)(decode=False))
    return rows


def splits_of(loaded: Any, name: str, place: str | None) -> Dataset:
    """What `datasets.load_dataset` returned: a table for each split, or one table if a split was selected."""
    if not isinstance(loaded, Mapping):
        return Dataset(name, {str(loaded.split or "train"): listing(loaded, place)}, any_split=True)
    return Dataset(name, {str(split): listing(rows, place) for split, rows in loaded.items()})
