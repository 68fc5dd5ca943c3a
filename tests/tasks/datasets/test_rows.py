"""Rows of large tables are read when they are needed, and are those that a list would have."""

from __future__ import annotations

import json
import random
from pathlib import Path

import datasets
import pytest

from multiform.errors import DataError
from multiform.tasks.datasets import files
from multiform.tasks.datasets.files import LazyRows, listing, read_rows

ROWS = [
    {"q": f"Ünicode {number}?", "c": [str(number), "x" * (number % 50)], "a": number % 3} for number in range(2_000)
]


@pytest.fixture(autouse=True)
def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 100)


def check(rows: object) -> None:
    assert isinstance(rows, LazyRows)
    assert len(rows) == len(ROWS)
    assert list(rows) == ROWS
    places = random.Random(0).choices(range(-len(ROWS), len(ROWS)), k=300)
    assert [rows[place] for place in places] == [ROWS[place] for place in places]
    assert rows[10:1500:7] == ROWS[10:1500:7]
    with pytest.raises(IndexError):
        rows[len(ROWS)]


def test_json_lines(tmp_path: Path) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS]
    (tmp_path / "rows.jsonl").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    check(read_rows(tmp_path / "rows.jsonl"))


def test_rows_are_those_of_the_file_that_was_read_if_another_takes_its_place(tmp_path: Path) -> None:
    path, other = tmp_path / "rows.jsonl", tmp_path / "other.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    rows = read_rows(path)
    other.write_text("".join(json.dumps(row) + "\n" for row in reversed(ROWS)))
    other.replace(path)
    check(rows)


def test_parquet_and_tables_of_the_hub(tmp_path: Path) -> None:
    table = datasets.Dataset.from_list(ROWS)
    table.to_parquet(tmp_path / "rows.parquet")
    check(read_rows(tmp_path / "rows.parquet"))
    check(listing(table, None)())


def test_the_last_line_of_a_large_file_is_checked_when_it_is_opened(tmp_path: Path) -> None:
    lines = [json.dumps(row) + "\n" for row in ROWS]
    (tmp_path / "rows.jsonl").write_text("".join([*lines, "{oops\n"]))
    with pytest.raises(DataError, match=r"rows\.jsonl:2001"):
        read_rows(tmp_path / "rows.jsonl")
