"""Rows out of local files."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.errors import DataError
from multiform.tasks.datasets.files import read_rows


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}]', '{"a": 1}\n{"a": 2}\n', '\ufeff{"a": 1}\n\n{"a": 2}'])
def test_json_is_a_list_or_an_object_on_each_line(tmp_path: Path, text: str):
    (tmp_path / "rows.json").write_text(text, encoding="utf-8")
    assert read_rows(tmp_path / "rows.json") == [{"a": 1}, {"a": 2}]


def test_an_object_over_several_lines_is_no_list(tmp_path: Path):
    (tmp_path / "rows.json").write_text('{\n  "a": 1\n}\n')
    with pytest.raises(DataError, match="expected a list of objects"):
        read_rows(tmp_path / "rows.json")


def test_a_broken_line_is_named(tmp_path: Path):
    (tmp_path / "rows.json").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(DataError, match=r"rows\.json:2: not valid JSON"):
        read_rows(tmp_path / "rows.json")
