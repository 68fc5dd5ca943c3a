"""Rows out of local files: JSON Lines, JSON, CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multiform.config.source import display
from multiform.errors import DataError, shorten

Rows = list[dict[str, Any]]


def read_rows(path: Path) -> Rows:
    """All rows of a file, whose ending says what it is."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        endings = ", ".join(READERS)
        raise DataError(f"unknown kind of data file '{path.suffix}'", where=display(path), hint=f"use one of {endings}")
    try:
        return reader(path)
    except FileNotFoundError as error:
        raise DataError("no such data file", where=display(path), hint="check the path") from error
    except UnicodeDecodeError as error:
        what = f"not UTF-8: byte 0x{error.object[error.start]:02x}"
        raise DataError(what, where=display(path), hint="save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=display(path), hint="check its rights") from error


def _read_jsonl(path: Path) -> Rows:
    rows: Rows = []
    # Split at newlines only: other line separators may stand inside strings.
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                rows.append(_row(_parse(line, path, number), path, number))
    return rows


def _read_json(path: Path) -> Rows:
    data = _parse(path.read_text(encoding="utf-8"), path, None)
    if not isinstance(data, list):
        raise DataError("expected a list of objects", where=display(path), hint="or save it as .jsonl")
    return [_row(row, path, number) for number, row in enumerate(data, start=1)]


def _read_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))


def _read_parquet(path: Path) -> Rows:
    import pyarrow.lib
    import pyarrow.parquet

    try:
        rows: Rows = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.lib.ArrowException as error:
        raise DataError(f"not a Parquet file: {error}", where=display(path), hint="write it anew") from error
    return rows


def _parse(text: str, path: Path, number: int | None) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = number if number is not None else getattr(error, "lineno", 1)
        raise DataError(f"not valid JSON: {error}", where=f"{display(path)}:{line}", hint="fix this line") from error


def _row(value: Any, path: Path, number: int) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    what = f"expected an object with columns, got {shorten(value)}"
    raise DataError(what, where=f"{display(path)}:{number}", hint='write {"column": value, ...}')


READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
