"""Which documents a task has: renamed columns, documents that are left out, several mirrors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiform import ConfigError, DataError, Task, TaskConfig
from multiform.paths import mirror_path


def write(folder: Path, split: str, *rows: dict[str, Any]) -> Path:
    place = folder / "org" / "set" / "default"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def docs(mirror: Path, split: str = "test", **keys: Any) -> list[dict[str, Any]]:
    config = TaskConfig(
        task="t",
        dataset_path="org/set",
        test_split=split,
        doc_to_text="q",
        doc_to_target="a",
        output_type="generate_until",
        **keys,
    )
    return list(Task.from_config(config, dataset_mirror=mirror).form.source.eval_docs())


def test_documents_for_which_the_condition_holds_are_left_out(tmp_path: Path):
    mirror = write(tmp_path, "test", {"q": "x", "a": -1}, {"q": "NS", "a": 0}, {"q": "y", "a": 1})
    assert docs(mirror, drop_docs="{{a == -1 or q == 'NS'}}") == [{"q": "y", "a": 1}]


def test_a_condition_is_one_expression_over_columns_that_there_are(tmp_path: Path):
    mirror = write(tmp_path, "test", {"q": "x", "a": 1})
    with pytest.raises(ConfigError, match="expected one expression in braces"):
        docs(mirror, drop_docs="a == 1")
    with pytest.raises(DataError, match="b"):
        docs(mirror, drop_docs="{{b == 1}}")


def test_columns_are_renamed_where_the_new_name_is_not_there(tmp_path: Path):
    mirror = write(tmp_path, "test", {"Question": "x", "a": 1}, {"Question": "old", "q": "new", "a": 1})
    assert [doc["q"] for doc in docs(mirror, rename_columns={"Question": "q"})] == ["x", "new"]


def test_a_split_is_read_from_the_first_mirror_that_has_it(tmp_path: Path):
    first = write(tmp_path / "one", "test", {"q": "one", "a": 1})
    second = write(tmp_path / "two", "test", {"q": "two", "a": 1})
    write(second, "train", {"q": "train", "a": 1})
    both = Path(f"{first}:{second}")
    assert both == mirror_path([first, second])
    assert [doc["q"] for doc in docs(both)] == ["one"]
    assert [doc["q"] for doc in docs(both, "train")] == ["train"]
    with pytest.raises(DataError, match="no folder"):
        docs(Path(f"{first}:{tmp_path / 'none'}"))


def test_a_part_of_a_split_is_taken_from_the_mirror_that_has_the_split(tmp_path: Path):
    first = write(tmp_path / "first", "train", {"q": "t", "a": 0})
    second = write(tmp_path / "second", "test", {"q": "x", "a": 1}, {"q": "y", "a": 1})
    part = docs(Path(f"{first}:{second}"), dataset_kwargs={"split": "test[:1]"})
    assert part == [{"q": "x", "a": 1}]


PAPER = {
    "q": "old",
    "a": 0,
    "qas": [{"q": "x", "tries": {"a": [1, 2], "by": ["A", "B"]}}, {"q": "y", "tries": {"a": [3]}}],
}


def test_each_entry_of_a_column_is_a_document(tmp_path: Path):
    mirror = write(tmp_path, "test", PAPER)
    assert [(doc["q"], doc["a"]) for doc in docs(mirror, unfold_columns=["qas"])] == [("x", 0), ("y", 0)]


def test_columns_are_unfolded_one_after_the_other_and_before_documents_are_left_out(tmp_path: Path):
    mirror = write(tmp_path, "test", PAPER)
    unfolded = docs(mirror, unfold_columns=["qas", "tries"], drop_docs="{{a == 2}}")
    assert unfolded == [{"q": "x", "a": 1, "by": "A"}, {"q": "y", "a": 3}]


def test_an_entry_that_is_no_mapping_keeps_the_name_of_its_column(tmp_path: Path):
    mirror = write(tmp_path, "test", {"q": ["x", "y"], "a": 1})
    assert docs(mirror, unfold_columns=["q"]) == [{"a": 1, "q": "x"}, {"a": 1, "q": "y"}]


@pytest.mark.parametrize("value", [1, None, {"q": ["x", "y"], "a": [1]}])
def test_a_column_without_entries_cannot_be_unfolded(tmp_path: Path, value: object):
    mirror = write(tmp_path, "test", {"q": "x", "a": 1, "qas": value})
    with pytest.raises(DataError, match="expected several entries in column 'qas'"):
        docs(mirror, unfold_columns=["qas"])
