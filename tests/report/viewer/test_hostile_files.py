"""Files that anybody may have put into a folder of runs: each is listed with what is wrong, and hides no other run."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from multiform import DataError, UsageError, evaluate, read_results
from multiform.report.server import Viewer

NAME = "results_2030-01-01T00-00-00.000000.json"
DIGITS = int("9" * 400)


#: Stands for lists within lists, which Python's encoder does not write.
NESTED = "nested lists"


def json_text(content: Any, depth: int = 200_000) -> str:
    return json.dumps(content).replace(f'"{NESTED}"', "[" * depth + "]" * depth)


def chain(number: int) -> dict[str, list[str]]:
    """Groups each of which holds the next one."""
    return {f"g{i}": [f"g{i + 1}"] for i in range(number)}


def doubling(number: int) -> dict[str, list[str]]:
    """Groups each of which holds the next one twice."""
    return {f"g{i}": [f"g{i + 1}", f"h{i + 1}"] for i in range(number)} | {
        f"h{i}": [f"g{i + 1}", f"h{i + 1}"] for i in range(number)
    }


#: Changes of a good results file, by a path of keys; FORM stands for the name of its form.
CHANGES: dict[str, tuple[tuple[str, ...], Any]] = {
    "forms: 5": (("forms",), 5),
    "forms: list": (("forms",), [1]),
    "form: number": (("forms", "FORM"), 5),
    "form task: list": (("forms", "FORM", "task"), ["quiz"]),
    "form task: object": (("forms", "FORM", "task"), {"a": 1}),
    "form identity: number": (("forms", "FORM", "identity"), 5),
    "primary metric: list": (("forms", "FORM", "primary_metric"), ["acc"]),
    "results: list": (("results",), []),
    "results: text": (("results",), "none"),
    "scores: list": (("results", "FORM"), [1]),
    "scores: null": (("results", "FORM"), None),
    "score: 400 digits": (("results", "FORM", "acc,none"), DIGITS),
    "standard error: 400 digits": (("results", "FORM", "acc_stderr,none"), DIGITS),
    "sample count: text": (("results", "FORM", "sample_count"), "many"),
    "sample count: list": (("results", "FORM", "sample_count"), {"acc,none": []}),
    "configs: list": (("configs",), []),
    "configs: missing": (("configs",), None),
    "config: text": (("configs", "FORM"), "as usual"),
    "config metadata: list": (("configs", "FORM", "metadata"), [1]),
    "groups: number": (("group_subtasks",), 7),
    "group: text": (("group_subtasks", "g"), "quiz"),
    "n-samples: list": (("n-samples",), []),
    "n-samples: text": (("n-samples", "FORM"), "ten"),
    "effective: list": (("n-samples", "FORM", "effective"), [1]),
    "effective: infinite": (("n-samples", "FORM", "effective"), float("inf")),
    "effective: 400 digits": (("n-samples", "FORM", "effective"), DIGITS),
    "original: text": (("n-samples", "FORM", "original"), "many"),
    "intervals: number": (("intervals",), 3),
    "interval: number": (("intervals", "FORM", "acc,none"), 3),
    "interval: three": (("intervals", "FORM", "acc,none"), [0, 1, 2]),
    "interval: texts": (("intervals", "FORM", "acc,none"), ["low", "high"]),
    "interval: objects": (("intervals", "FORM", "acc,none"), [{}, {}]),
    "interval: 400 digits": (("intervals", "FORM", "acc,none"), [0, DIGITS]),
    "higher is better: list": (("higher_is_better",), []),
    "higher is better: number": (("higher_is_better", "FORM"), 1),
    "higher is better: nested": (("higher_is_better", "FORM", "acc"), NESTED),
    "versions: text": (("versions",), "1"),
    "version: object": (("versions", "FORM"), {}),
    "n-shot: list": (("n-shot",), []),
    "n-shot: nested": (("n-shot", "FORM"), NESTED),
    "hashes: number": (("task_hashes",), 1),
    "hash: list": (("task_hashes", "FORM"), []),
    "failures: number": (("failures",), 1),
    "failure: number": (("failures", "FORM"), 1),
    "failed documents: number": (("failures", "FORM"), {"documents": 5}),
    "failed document: empty": (("failures", "FORM"), {"documents": [{}]}),
    "bounds: list": (("failures", "FORM"), {"bounds": [1]}),
    "bound: one": (("failures", "FORM"), {"bounds": {"acc,none": [1]}}),
    "config of the run: list": (("config",), [1]),
    "config of the run: number": (("config",), 1),
    "model arguments: nested": (("config", "model_args"), {"a": NESTED}),
    "model name: nested": (("model_name",), NESTED),
    "date: 400 digits": (("date_iso",), DIGITS),
    "date: out of range": (("date_iso",), 1e300),
    "seconds: object": (("total_evaluation_time_seconds",), {}),
    "seconds: text": (("total_evaluation_time_seconds",), "long"),
    "weights: text": (("weight_by_size",), "all"),
}
#: Changes that are odd and do no harm: the run is shown.
HARMLESS: dict[str, tuple[tuple[str, ...], Any]] = {
    "score: infinite": (("results", "FORM", "acc,none"), float("inf")),
    "score: not a number": (("results", "FORM", "acc,none"), float("nan")),
    "score: text": (("results", "FORM", "acc,none"), "good"),
    "no scores": (("results", "FORM"), {}),
    "groups in a circle": (("group_subtasks",), {"a": ["b"], "b": ["a"]}),
    "a chain of groups": (("group_subtasks",), chain(300)),
    "groups that double": (("group_subtasks",), doubling(60)),
    "name with markup": (("model_name",), "<img src=x onerror=alert(1)>"),
    "name with half a character": (("model_name",), "\ud800"),
    "group member: object": (("group_subtasks",), {"quiz": [{}]}),
}
#: Contents that are no JSON, or not the JSON of results.
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "cut": b'{"results": {"quiz',
    "nested": b"[" * 100_000,
    "nested objects": b'{"results":' * 50_000,
    "not UTF-8": b"\xff\xfe{}",
    "zeros": bytes(1000),
    "a number": b"5",
    "null": b"null",
    "long number": b"9" * 10_000,
    "list": b"[]",
    "a key twice": b'{"results": {}, "results": 5, "configs": {}}',
}


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


#: What is no regular file, or cannot be read.
PLACES: dict[str, Callable[[Path], object]] = {
    "dangling link": dangling,
    "link to itself": circle,
    "pipe": lambda path: os.mkfifo(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
    "sixteen gigabytes": huge,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one good run."""
    path = tmp_path_factory.mktemp("runs")
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=6, progress=False, use_cache=False)
    results.save(path, samples=True)
    return path


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Viewer]:
    with Viewer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def hostile(folder: Path) -> Iterator[Path]:
    """Where a test puts its file."""
    path = folder / NAME
    yield path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def ask(viewer: Viewer, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_address[1], timeout=20)
    connection.request("GET", path, headers={"Cookie": f"{viewer.cookie}={viewer.token}"})
    with closing(connection):
        response = connection.getresponse()
        body = response.read().decode()
    assert response.status == 200, body
    lines = [json.loads(line) for line in body.splitlines()]
    assert "problem" not in lines[-1], lines[-1]["problem"]
    return lines[0]


def shown_run(viewer: Viewer, file: Path) -> dict[str, Any]:
    """How a file is listed, after a check that the good run is shown everywhere."""
    runs = {run["file"]: run for run in ask(viewer, "/api/runs")["complete"]}
    listed: dict[str, Any] = runs.pop(file.name)
    [good] = runs.values()
    assert good["scores"][0]["form"] == "quiz@mcqa"
    board = ask(viewer, "/api/leaderboard")
    assert good["key"] in [cell["run"] for row in board["cells"] for cell in row if cell]
    assert ask(viewer, f"/api/report?runs={good['key']}")["forms"]
    return listed


def write_changed(folder: Path, file: Path, keys: tuple[str, ...], value: Any, depth: int = 200_000) -> None:
    [good] = (path for path in folder.rglob("results_*.json") if path != file)
    content = json.loads(good.read_text()) | {"model_name": "another"}
    names = ["quiz@mcqa" if key == "FORM" else key for key in keys]
    inner = content
    for name in names[:-1]:
        inner = inner.setdefault(name, {})
    inner[names[-1]] = value
    file.write_text(json_text(content, depth))


@pytest.mark.parametrize("depth", [300, 450, 600, 900, 1000, 5000])
@pytest.mark.parametrize("keys", ["higher_is_better/FORM/acc", "config/model_args", "model_name", "status"])
def test_lists_of_any_depth_are_shown_or_refused(keys, depth, viewer, folder, hostile):
    write_changed(folder, hostile, tuple(keys.split("/")), NESTED, depth)
    listed = shown_run(viewer, hostile)
    assert "problem" in listed or listed["scores"]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_malformed_file_is_listed_with_the_reason_beside_the_others(change, viewer, folder, hostile):
    write_changed(folder, hostile, *change)
    assert NAME in shown_run(viewer, hostile)["problem"] or "cannot be shown" in shown_run(viewer, hostile)["problem"]


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS.keys())
def test_an_odd_file_is_shown_beside_the_others(change, viewer, folder, hostile):
    write_changed(folder, hostile, *change)
    assert "problem" not in shown_run(viewer, hostile)


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_file_of_something_else_is_listed_with_the_reason(content, viewer, hostile):
    hostile.write_bytes(content)
    assert "is not a results file" in shown_run(viewer, hostile)["problem"]
    with pytest.raises(DataError, match="is not a results file"):
        read_results(hostile)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("name", [NAME, "partial_results_abc.json"], ids=["results", "partial"])
def test_what_is_no_regular_file_is_listed_with_the_reason(place, name, viewer, folder, hostile):
    file = hostile.with_name(name)
    place(file)
    try:
        assert "is not a results file" in shown_run(viewer, file)["problem"]
        with pytest.raises((DataError, UsageError)):
            read_results(file)
    finally:
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


GOOD_STATE = {
    "status": "running",
    "model": "m",
    "forms": {"f": {"scored": 1, "documents": 2}},
    "requests": {"needed": 3},
}
STATES: dict[str, Any] = {
    "forms: list": {**GOOD_STATE, "forms": [1]},
    "form: null": {**GOOD_STATE, "forms": {"f": None}},
    "form: text": {**GOOD_STATE, "forms": {"f": "half"}},
    "scored: list": {**GOOD_STATE, "forms": {"f": {"scored": []}}},
    "scored: 400 digits": {**GOOD_STATE, "forms": {"f": {"scored": DIGITS}}},
    "needed: negative": {**GOOD_STATE, "requests": {"needed": -5}},
    "needed: text": {**GOOD_STATE, "requests": {"needed": "<b>"}},
    "requests: list": {**GOOD_STATE, "requests": [1]},
    "requests: number": {**GOOD_STATE, "requests": 1},
    "status: nested": {**GOOD_STATE, "status": NESTED},
    "model: nested": {**GOOD_STATE, "model": NESTED},
}


def shown_states(viewer: Viewer, file: Path) -> list[Any]:
    states: list[Any] = ask(viewer, "/api/runs")["going_on"]
    return [state for state in states if state["file"] == file.name]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_a_malformed_state_is_listed_with_the_reason(state, viewer, folder):
    file = folder / "run_abc.json"
    file.write_text(json_text(state))
    try:
        [shown] = shown_states(viewer, file)
        assert "the state of a run cannot be read" in shown["problem"]
    finally:
        file.unlink()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_state_that_is_no_regular_file_is_listed_with_the_reason(place, viewer, folder):
    file = folder / "run_abc.json"
    place(file)
    try:
        [shown] = shown_states(viewer, file)
        assert "the state of a run cannot be read" in shown["problem"]
    finally:
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()


@pytest.mark.parametrize("key", ["pid", "host", "updated"])
def test_odd_facts_about_a_run_do_no_harm(key, viewer, folder):
    file = folder / "run_abc.json"
    file.write_text(json.dumps({**GOOD_STATE, key: DIGITS}))
    [shown] = shown_states(viewer, file)
    file.unlink()
    assert shown["status"] == "running"


def test_a_file_of_another_program_is_not_listed(viewer, folder):
    file = folder / "run_settings.json"
    file.write_text('{"forms": 3}')
    assert not shown_states(viewer, file)
    file.unlink()


SAMPLES: dict[str, bytes] = {
    "nested": b"[" * 100_000 + b"\n",
    "not UTF-8": b"\xff\xfe\n",
    "number": b"5\n",
    "400 digits": b'{"doc_id": 0, "doc": {}, "arguments": [["a", "b"]], "resps": [[[' + b"9" * 400 + b', "True"]]]}\n',
    "cut": b'{"doc_id": 0',
}


@pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES.keys())
def test_malformed_samples_are_a_message_about_their_run_alone(content, viewer, folder, hostile):
    write_changed(folder, hostile, ("model_name",), "other")
    samples = hostile.with_name(NAME.replace("results_", "samples_quiz@mcqa_") + "l")
    samples.write_bytes(content)
    key = shown_run(viewer, hostile)["key"]
    with pytest.raises(AssertionError, match="the line is not a sample"):
        ask(viewer, f"/api/report?runs={key}")
    samples.unlink()
