"""`dataset_kwargs` on local data: they mean what they mean to `datasets.load_dataset`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import DataError
from multiform.forms import Task

Load = Callable[..., Task]


def lines(*questions: str) -> str:
    return "".join(json.dumps({"question": question}) + "\n" for question in questions)


def questions(task: Task, split: str = "test") -> list[Any]:
    return [doc["question"] for doc in task.form.source.dataset[split]]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Makes a task over files in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def task(path: str, kwargs: dict[str, Any], files: dict[str, str], mirror: str | None = None, **keys: Any) -> Task:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        config = {"task": "t", "dataset_path": path, "dataset_kwargs": kwargs, "doc_to_text": "question", **keys}
        return Task.from_config(config, dataset_mirror=tmp_path / mirror if mirror else None)

    return task


def test_a_pattern_names_several_files_in_order(load: Load):
    files = {"parts/b.jsonl": lines("two"), "parts/a.jsonl": lines("one"), "other.jsonl": lines("no")}
    assert questions(load("json", {"data_files": "parts/*.jsonl"}, files)) == ["one", "two"]
    assert questions(load("json", {"data_files": {"test": ["parts/?.jsonl", "other.jsonl"]}}, files)) == [
        "one",
        "two",
        "no",
    ]


@pytest.mark.parametrize("pattern", ["/**/*.jsonl", "../" * 40 + "**/*.jsonl", "/*/**", "file:///**/*.jsonl"])
def test_a_pattern_does_not_search_the_whole_disk(load: Load, pattern: str):
    with pytest.raises(DataError, match=r"searches the whole disk; name the folder of the files"):
        questions(load("json", {"data_files": {"test": pattern}}, {}))


def test_a_pattern_searches_folders_below_a_folder(load: Load, tmp_path: Path):
    files = {"deep/er/a.jsonl": lines("one")}
    for pattern in (f"{tmp_path}/**/*.jsonl", f"file://{tmp_path}/**/*.jsonl"):
        assert questions(load("json", {"data_files": {"test": pattern}}, files)) == ["one"]


def test_data_dir_is_where_the_files_are(load: Load):
    files = {"deep/er/a.jsonl": lines("here"), "a.jsonl": lines("not here")}
    assert questions(load("json", {"data_dir": "deep/er", "data_files": "a.jsonl"}, files)) == ["here"]
    assert questions(load("json", {"data_dir": "deep/er"}, {}), "train") == ["here"]


def test_data_dir_is_a_folder_in_the_folder_that_the_path_names(load: Load):
    files = {"rows/easy/test.jsonl": lines("easy"), "rows/test.jsonl": lines("all")}
    assert questions(load("rows", {"data_dir": "easy"}, files)) == ["easy"]
    assert questions(load("rows", {}, files)) == ["all"]


def test_data_files_are_in_the_folder_that_the_path_names(load: Load):
    files = {"rows/part1.jsonl": lines("one"), "rows/part2.jsonl": lines("two")}
    assert questions(load("rows", {"data_files": {"test": "part2*"}}, files)) == ["two"]


def test_a_field_holds_the_rows(load: Load):
    files = {"a.json": json.dumps({"version": 1, "data": [{"question": "inside"}]})}
    assert questions(load("json", {"data_files": {"test": "a.json"}, "field": "data"}, files)) == ["inside"]
    assert questions(load("a.json", {"field": "data"}, {})) == ["inside"]
    with pytest.raises(DataError, match=r"a\.json: no field 'dta' in the file; did you mean 'data'"):
        questions(load("a.json", {"field": "dta"}, {}))


@pytest.mark.parametrize("key", ["sep", "delimiter"])
def test_a_separator_is_taken(load: Load, key: str):
    files = {"a.csv": "question;answer\nWhy, oh why?;1\n"}
    by_loader = load("csv", {"data_files": {"test": "a.csv"}, key: ";"}, files)
    assert list(by_loader.form.source.dataset["test"]) == [{"question": "Why, oh why?", "answer": 1}]
    by_file = load("a.csv", {key: ";"}, {})
    assert list(by_file.form.source.dataset["test"]) == [{"question": "Why, oh why?", "answer": "1"}]


def test_the_csv_loader_reads_numbers_as_datasets_does(load: Load):
    files = {"a.csv": "question,answer\nWhy?,1\n"}
    assert load("csv", {"data_files": "a.csv"}, files).form.source.dataset["test"] == [
        {"question": "Why?", "answer": 1}
    ]


def test_a_split_selects_rows(load: Load):
    files = {"rows/train.jsonl": lines("a", "b", "c", "d"), "rows/test.jsonl": lines("e")}
    assert questions(load("rows", {"split": "train[1:3]"}, files)) == ["b", "c"]
    assert questions(load("rows", {"split": "test+train[:25%]"}, files)) == ["e", "a"]
    named = {"data_files": {"some": "rows/train.jsonl"}, "split": "some[-1:]"}
    assert questions(load("json", named, {})) == ["d"]
    with pytest.raises(DataError, match=r"dataset_kwargs\.split: not a split: .*trian"):
        questions(load("rows", {"split": "trian"}, {}))


def test_other_options_go_to_the_loader(load: Load):
    files = {"a.csv": "Why?,1\n"}
    kwargs = {"data_files": {"test": "a.csv"}, "column_names": ["question", "answer"], "header": None}
    assert questions(load("csv", kwargs, files)) == ["Why?"]


def test_other_loaders_find_files_beside_the_task(load: Load):
    [row] = load("text", {"data_files": {"test": "a.txt"}}, {"a.txt": "one line\n"}).form.source.dataset["test"]
    assert row == {"text": "one line"}


@pytest.mark.parametrize(
    ("path", "kwargs", "says"),
    [
        ("json", {"data_files": "a.jsonl", "feild": "x"}, "dataset_kwargs.feild: unknown argument 'feild' of the json"),
        ("a.jsonl", {"feild": "x"}, "dataset_kwargs.feild: unknown argument 'feild' of a local file; did you mean"),
        (".", {"header": 0}, "dataset_kwargs.header: unknown argument 'header' of a local file"),
        ("a.jsonl", {"data_files": "a.jsonl"}, "dataset_kwargs.data_files: dataset_path is the file a.jsonl already"),
        ("a.jsonl", {"sep": ";"}, "a.jsonl: a delimiter is for .csv and .tsv files"),
        ("a.jsonl", {"field": 3}, "dataset_kwargs.field: expected text, got 3"),
        ("json", {"data_dir": "nope"}, "dataset_kwargs.data_dir: no folder 'nope'; check the name"),
        ("json", {"data_files": "*.nope"}, "dataset_kwargs.data_files: no data file '*.nope'"),
        ("json", {"data_dir": 7}, "dataset_kwargs.data_dir: expected the name of a folder, got 7"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(load: Load, path: str, kwargs: dict[str, Any], says: str):
    with pytest.raises(DataError) as error:
        questions(load(path, kwargs, {"a.jsonl": lines("a")}))
    assert says in str(error.value)


def test_arguments_about_the_hub_change_nothing(load: Load):
    about = {"trust_remote_code": True, "revision": "main", "token": None, "download_mode": "reuse_cache_if_exists"}
    assert questions(load("a.jsonl", about, {"a.jsonl": lines("a")})) == ["a"]


def test_a_mirror_has_the_files_of_a_repository_where_the_repository_has_them(load: Load):
    files = {"m/org/data/default/test.jsonl": lines("default"), "m/org/data/sub/x_test.csv": "Why?\nHow?\n"}
    kwargs = {"data_files": {"test": "sub/x_test.csv"}, "column_names": ["question"], "header": None}
    assert questions(load("org/data", kwargs, files, mirror="m")) == ["Why?", "How?"]
    with pytest.raises(DataError, match=r"data_files: no data file 'sub/y\.csv'; .* m/org/data/sub/y\.csv"):
        questions(load("org/data", {"data_files": "sub/y.csv"}, {}, mirror="m"))
    assert questions(load("org/data", {"trust_remote_code": True}, {}, mirror="m")) == ["default"]
