"""The commands that list, prune, export and merge stores."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from multiform.cli.main import main
from multiform.requests import LLOutput, LoglikelihoodRequest, request_key
from multiform.run.store import Store

DAY = 86400


def request(number: int) -> LoglikelihoodRequest:
    return LoglikelihoodRequest("c", str(number))


def fill(path: Path, identity: str, numbers: range, *, value: float = -1.0, age: float = 0) -> None:
    """Store responses of a model, which came so many seconds ago."""
    with Store(path).recording(identity) as record:
        for number in numbers:
            record(request(number), LLOutput(value))
    if age:
        with closing(sqlite3.connect(path)) as file, file:
            query = "UPDATE answers SET created = ? WHERE model = (SELECT id FROM models WHERE identity = ?)"
            file.execute(query, (int(time.time() - age), identity))


def known(path: Path, identity: str) -> int:
    return len(Store(path).known(identity, map(request, range(100))))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with ten old responses of one model and twenty new ones of another."""
    path = tmp_path / "answers.db"
    monkeypatch.setenv("MULTIFORM_STORE", str(path))
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    fill(path, "old model", range(10), age=100 * DAY)
    fill(path, "new model", range(20))
    return path


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["store", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_each_model_is_listed_with_what_is_stored_of_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = printed(capsys, "ls")
    assert [(model["identity"], model["responses"]) for model in listed] == [("new model", 20), ("old model", 10)]
    assert main(["store", "ls"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == "20"
    assert second.endswith("old model")


def test_the_whole_file_is_counted(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats = printed(capsys, "stats")
    assert (stats["models"], stats["responses"], stats["size"]) == (2, 30, store.stat().st_size)
    assert main(["store", "gc", "--model", "old"]) == main(["store", "stats"]) == 0
    assert "20 responses of 1 model, " in capsys.readouterr().out
    assert stats["newest"] - stats["oldest"] == pytest.approx(100 * DAY, abs=60)


def test_old_responses_and_indexes_are_removed(store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    index = tmp_path / "cache" / "tasks" / "some.index"
    index.parent.mkdir(parents=True)
    index.touch()
    os.utime(index, (0, 0))
    assert printed(capsys, "gc", "--max_age", "90d", "--dry_run")["responses"] == 10
    assert (known(store, "old model"), index.exists()) == (10, True)
    removed = printed(capsys, "gc", "--max_age", "90d")
    assert (removed["responses"], removed["files"]) == (10, 1)
    assert (known(store, "old model"), known(store, "new model"), index.exists()) == (0, 20, False)
    assert [model["identity"] for model in printed(capsys, "ls")] == ["new model"]


def test_the_newest_responses_that_fit_are_kept(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = printed(capsys, "ls")[0]["size"]
    assert printed(capsys, "gc", "--max_size", f"{size + 10}B")["responses"] == 10
    assert (known(store, "old model"), known(store, "new model")) == (0, 20)
    assert printed(capsys, "gc", "--max_size", f"{size // 2}B")["responses"] == 10
    assert known(store, "new model") == 10


def test_an_age_or_size_beyond_all_numbers_of_the_database_removes_nothing(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for amount in (("--max_age", f"{'9' * 30}w"), ("--max_size", f"{'9' * 30}TB")):
        assert printed(capsys, "gc", *amount)["responses"] == 0


def test_one_model_is_removed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "gc", "--model", "new")["responses"] == 20
    assert (known(store, "old model"), known(store, "new model")) == (10, 0)


def test_every_response_is_exported(store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "responses.jsonl"
    assert printed(capsys, "export", "--output", str(file)) == {"responses": 30}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["model"] for line in lines} == {"old model", "new model"}
    assert {line["output"] for line in lines} == {"[-1.0, false, null]"}
    assert main(["store", "export"]) == 0
    assert capsys.readouterr().out == file.read_text()


def test_stores_are_merged_and_what_is_there_stays(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other, into = tmp_path / "other.db", tmp_path / "all.db"
    fill(other, "new model", range(15, 30), value=-2.0)
    Store(other).remember("signature", {"identity": "x"})
    assert printed(capsys, "merge", str(into), str(store), str(other)) == {"added": 40}
    assert (known(into, "old model"), known(into, "new model")) == (10, 30)
    values = Store(into).known("new model", [request(15), request(29)])
    assert values == {request(15): LLOutput(-1.0), request(29): LLOutput(-2.0)}
    assert Store(into).facts("signature") == {"identity": "x"}
    assert printed(capsys, "merge", str(into), str(other)) == {"added": 0}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["gc"], "store gc: nothing says what to remove; give --max_age"),
        (["gc", "--max_age", "soon"], "--max_age: expected a number with a unit, got 'soon'"),
        (["gc", "--max_size", "5XB"], "--max_size: expected a number with a unit"),
        (["ls", "--max_age", "1d"], "store ls: --max_age is for gc"),
        (["ls", "--cache_path", "none.db"], "none.db: there is no store"),
        (["merge", "all.db"], "store merge: expected the file to add to and at least one other"),
        (["merge", "all.db", "none.db"], "none.db: there is no store"),
        (["merge", "rows.jsonl", "answers.db"], "rows.jsonl: the store cannot be used: file is not a database"),
        (["merge", "answers.db", "answers.db"], "'answers.db' would be merged into itself"),
    ],
)
def test_what_cannot_be_done_is_said(
    argv: list[str], says: str, store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    Path("rows.jsonl").write_text("these are no responses\n" * 100)
    assert main(["store", *argv]) == 2
    assert says in capsys.readouterr().err
    assert not Path("all.db").exists()


def test_damaged_responses_are_neither_exported_nor_merged(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(store)) as file, file:
        damaged = request_key(request(3))
        file.execute("UPDATE answers SET output = '[-9.0, false, null]' WHERE request = ?", (damaged,))
    assert main(["store", "export", "--output", str(tmp_path / "lines.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert len(lines) == 28
    assert damaged.hex() not in [line["request"] for line in lines]
    assert f"the response {damaged.hex()[:16]} of new model is damaged, and left out" in capsys.readouterr().err
    assert printed(capsys, "merge", str(tmp_path / "all.db"), str(store)) == {"added": 28}
    assert known(tmp_path / "all.db", "new model") == 19
