"""The store: what goes in comes out, whatever happens to the file."""

from __future__ import annotations

import logging
import math
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import evaluate
from multiform.prompts.media import Media
from multiform.requests import (
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    RollingRequest,
    request_key,
)
from multiform.run import database
from multiform.run.store import PAUSE, Store, chosen_store, default_path, output_line, read_output

ASKED: dict[Request, Output] = {
    LoglikelihoodRequest("context", " yes"): LLOutput(-0.1 - 1e-16, True, 2),
    LoglikelihoodRequest("context", " no"): LLOutput(-math.inf, False),
    RollingRequest("a text"): LLOutput(-12.5),
    GenerationRequest.of("Say", {"until": ["\n"]}): Completion(' "yes"\ud800\0', True),
    GenerationRequest.of("Say", {"until": ["\n"]}, sample=1): Completion(""),
}


RED, BEEP = Media("image", "0a1b"), Media("audio", "2c3d")
CHAT = [{"role": "system", "content": "Sei kürzer."}, {"role": "user", "content": "2 + 2?"}]
PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Red?"}]}]
ARGUMENTS = {"until": ["\n"], "max_gen_toks": 8, "logit_bias": {"5": 1}}
#: The keys that stores in use have.
KEYS: dict[Request, str] = {
    LoglikelihoodRequest("2 + 2 =", " 4"): "1b7babaa4792bf25751da02f5550f1fe2de5ce4e98ca2554f907ce42d925c67a",
    RollingRequest("2 + 2 = 4"): "9dc04528d8fca6a40837b2b7cb3ede9ef8eca759396155e798a3e3dad6fe374b",
    GenerationRequest.of("2 + 2 =", ARGUMENTS, 3): "03cbb5c57d916a5aed298241ff82d9b7282924335f6e37929499c907a6ff36f1",
    LoglikelihoodRequest(CHAT, " 4"): "de700f1ede760b39134f6c2569692d09a2a3e34b1a568a9f723664ff2a5e3f97",
    GenerationRequest.of(CHAT, ARGUMENTS): "e221812a7d6485df2a3f35846568712c9f5b2562d0f0f95462d8f99ebb5b9f5e",
    LoglikelihoodRequest(
        "<image> or <audio>?", " red", (RED, BEEP)
    ): "014d98bbe22bf377f05baf9bd45fdbf3c2dd9d138682b80af9579f7c7597e713",
    GenerationRequest.of(
        "<image> or <audio>?", {}, 0, (RED, BEEP)
    ): "def8cfca6ead69f2f842d58a12fd812ff7652ec85590ff7a378d46ef49160e7c",
    GenerationRequest.of(PARTS, {}, 1, (RED,)): "05ff7e5c93e5dfb8fead6a1da80beb987178278058f2f167fa8455dbfc702e6f",
}


def test_the_keys_of_requests_stay_the_same() -> None:
    assert {request: request_key(request).hex() for request in KEYS} == KEYS


def fill(store: Store, asked: dict[Request, Output] = ASKED, identity: str = "model") -> None:
    with store.recording(identity) as record:
        for request, output in asked.items():
            record(request, output)


def test_responses_come_back_to_the_last_bit(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder" / "answers.db")
    fill(store)
    assert store.known("model", ASKED) == ASKED


def test_responses_are_those_of_one_model(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    fill(store)
    assert store.known("another model", ASKED) == {}


def test_a_thousand_are_found_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    asked: dict[Request, Output] = {LoglikelihoodRequest("c", str(i)): LLOutput(-float(i)) for i in range(1234)}
    fill(store, asked)
    assert store.known("model", [*asked, LoglikelihoodRequest("c", "new")]) == asked


def test_a_response_is_stored_while_the_next_one_is_awaited(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    (request, output), *_ = ASKED.items()
    with store.recording("model") as record:
        record(request, output)
        time.sleep(5 * PAUSE)
        assert store.known("model", [request]) == {request: output}


texts = st.text(max_size=8)
requests = st.one_of(
    st.builds(LoglikelihoodRequest, texts, texts),
    st.builds(RollingRequest, texts),
    st.builds(
        GenerationRequest.of, texts, st.dictionaries(texts, st.none() | st.integers() | texts), st.integers(0, 3)
    ),
)


@given(requests, requests)
def test_requests_have_the_same_key_only_if_they_are_the_same(one: Request, other: Request) -> None:
    assert (request_key(one) == request_key(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LoglikelihoodRequest("ab", "c"), LoglikelihoodRequest("a", "bc")),
        (LoglikelihoodRequest("a", ""), RollingRequest("a")),
        (GenerationRequest.of("a", {"seed": 1}), GenerationRequest.of("a", {"seed": 2})),
        (GenerationRequest.of("a", {}), GenerationRequest.of("a", {}, sample=1)),
        (GenerationRequest.of("a", {"until": ["b"]}), GenerationRequest.of("a", {"until": ["b", "c"]})),
    ],
)
def test_what_changes_a_response_changes_the_key(one: Request, other: Request) -> None:
    assert request_key(one) != request_key(other)


def test_a_truncated_context_is_remembered() -> None:
    request, output = LoglikelihoodRequest("a", "b"), LLOutput(-1.0, True, 2, context_truncated=True)
    assert read_output(output_line(output), request) == output
    generation, completion = GenerationRequest.of("a", {}), Completion("b", context_truncated=True)
    assert read_output(output_line(completion), generation) == completion


@pytest.mark.parametrize(
    "line",
    [
        *("", "nonsense", "{}", "[]", "[1]", '["text", false]', "[-1.0, 1, null]", "[" * 100_000),
        *("[NaN, false, null]", "[Infinity, false, null]", "[-1.0, true, 1, 5]", "[-1.0, true, 1, true, 5]"),
    ],
)
def test_a_damaged_response_is_none(line: str) -> None:
    assert read_output(line, LoglikelihoodRequest("a", "b")) is None


def test_a_damaged_response_is_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    fill(store)
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("UPDATE answers SET output = 'torn'")
    assert store.known("model", ASKED) == {}
    fill(store)
    assert store.known("model", ASKED) == ASKED


def without_log(path: Path) -> bytes:
    """The content of a store, all of it in one file."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def test_a_flipped_bit_is_a_missing_response_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "answers.db")
    request = LoglikelihoodRequest("context", " yes")
    fill(store, {request: LLOutput(-12.345, True, 2)})
    whole = without_log(store.path)
    start = whole.index(b"[-12.345, true, 2]")
    for bit in range(8 * len(b"[-12.345, true, 2]")):
        flipped = bytearray(whole)
        flipped[start + bit // 8] ^= 1 << bit % 8
        store.path.write_bytes(flipped)
        caplog.clear()
        assert Store(store.path).known("model", [request]) == {}, bit
        [warning] = warnings(caplog)
        assert "1 responses of model are damaged" in warning
        assert request_key(request).hex()[:16] in warning
    fill(store, {request: LLOutput(-12.345, True, 2)})
    assert store.known("model", [request]) == {request: LLOutput(-12.345, True, 2)}


def test_a_response_that_became_that_of_another_model_or_request_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    first, second = LoglikelihoodRequest("a", "b"), LoglikelihoodRequest("a", "c")
    fill(store, {first: LLOutput(-1.0)})
    fill(store, {first: LLOutput(-2.0)}, identity="another")
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("UPDATE answers SET request = ? WHERE model = 1", (request_key(second),))
        file.execute("UPDATE answers SET model = 1 WHERE model = 2")
    assert store.known("model", [first, second]) == {}


def test_damaged_facts_are_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "answers.db")
    store.remember("signature", {"max_length": 2048})
    assert store.facts("signature") == {"max_length": 2048}
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("UPDATE facts SET facts = replace(facts, '2048', '2049')")
    assert store.facts("signature") is None
    assert "the facts about a model (signature) are damaged" in warnings(caplog)[0]


def test_a_file_without_checksums_keeps_its_responses_and_gets_them_for_new_ones(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    fill(store)
    store.remember("signature", {"max_length": 2048})
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("ALTER TABLE answers DROP COLUMN checksum")
        file.execute("ALTER TABLE facts DROP COLUMN checksum")
        file.execute("PRAGMA user_version = 2")
    assert store.known("model", ASKED) == ASKED
    new: dict[Request, Output] = {LoglikelihoodRequest("new", "one"): LLOutput(-3.0)}
    fill(store, new)
    assert store.known("model", [*ASKED, *new]) == {**ASKED, **new}
    assert store.facts("signature") == {"max_length": 2048}
    with closing(sqlite3.connect(store.path)) as file:
        [(without, all_rows)] = file.execute("SELECT sum(checksum IS NULL), count(*) FROM answers")
    assert (without, all_rows) == (len(ASKED), len(ASKED) + 1)


WRITER = """
import sys
from pathlib import Path
from multiform.run.store import Store
from multiform.requests import LLOutput, LoglikelihoodRequest

store = Store(Path(sys.argv[1]))
with store.recording("model") as record:
    for i in range(int(sys.argv[2]), int(sys.argv[3])):
        record(LoglikelihoodRequest("c", str(i)), LLOutput(float(i)))
print(store.working)
"""


@pytest.mark.process
def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    starts = (0, 500, 1000, 1500)
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(i), str(i + 1000)], stdout=subprocess.PIPE)
        for i in starts
    ]
    assert [process.communicate(timeout=60)[0] for process in running] == [b"True\n"] * len(starts)
    assert len(Store(path).known("model", [LoglikelihoodRequest("c", str(i)) for i in range(2500)])) == 2500


@pytest.mark.process
def test_a_full_disk_does_not_end_a_run(tmp_path: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    hurried = "from multiform.run.store import database; database.PATIENCE = 1.0\n" + WRITER
    command = [sys.executable, "-c", hurried, str(tmp_path / "answers.db"), "0", "20000"]
    done = subprocess.run(command, capture_output=True, preexec_fn=small_files, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"False\n")
    assert done.stderr.count(b"responses cannot be stored") == 1


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 1000)


def folder(path: Path) -> None:
    path.mkdir()


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE unnamed (key TEXT, value BLOB)")


def newer(path: Path) -> None:
    database.connect(path).close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA user_version = 99")


def no_tables(path: Path) -> None:
    database.connect(path).close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE answers")


def torn(path: Path) -> None:
    asked: dict[Request, Output] = {LoglikelihoodRequest("c", str(i)): LLOutput(-1.0) for i in range(2000)}
    fill(Store(path), asked)
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 50_000)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (garbage, "file is not a database"),
        (folder, "unable to open database file"),
        (foreign, "the file is the database of another program"),
        (newer, "the file has layout 99, of another version of Multiform"),
        (no_tables, "no such table: answers"),
        (torn, "malformed"),
    ],
)
def test_a_bad_file_is_reported_once_and_left_alone(
    spoil: Callable[[Path], None], says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "answers.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=4, use_cache=path)
    assert results["quiz@mcqa"]["sample_len"] == 4
    assert len(warnings(caplog)) == 1
    assert says in warnings(caplog)[0]
    assert "--cache_path" in warnings(caplog)[0]
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("place", ["file/answers.db", "/proc/multiform/answers.db", "/dev/null/answers.db", "a\0b"])
def test_a_place_that_cannot_be_is_reported_once(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert evaluate(model="dummy", tasks="quiz@mcqa", limit=4, use_cache=place)["quiz@mcqa"]["sample_len"] == 4
    assert len(warnings(caplog)) == 1


def test_an_empty_file_is_a_new_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "answers.db")
    store.path.touch()
    fill(store)
    assert (store.known("model", ASKED), warnings(caplog)) == (ASKED, [])


def test_a_store_that_stays_locked_is_reported_with_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    store = Store(tmp_path / "answers.db")
    fill(store)
    with locked(store.path):
        fill(store, {LoglikelihoodRequest("new", "one"): LLOutput(0.0)})
    assert [warning.partition(": ")[2] for warning in warnings(caplog)] == [
        "responses cannot be stored for now: database is locked; they are kept in memory and tried again",
        "1 responses were not stored",
    ]
    assert not store.working
    assert Store(store.path).known("model", ASKED) == ASKED


def test_a_lock_in_mid_run_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    store = Store(tmp_path / "answers.db")
    asked = list(ASKED.items())
    fill(store, dict(asked[:1]))
    with store.recording("model") as record:
        with locked(store.path):
            record(*asked[1])
            time.sleep(1)
        record(*asked[2])
    assert len(warnings(caplog)) == 1
    assert (store.known("model", ASKED), store.working) == (dict(asked[:3]), True)


READER = """
import sys
from multiform import evaluate

results = evaluate(model="dummy", tasks="quiz@mcqa", limit=int(sys.argv[2]), use_cache=sys.argv[1], progress=True)
print(results["quiz@mcqa"]["sample_len"])
"""


@pytest.mark.process
def test_a_store_on_a_read_only_mount_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    script = tmp_path / "reader.py"
    script.write_text(READER)
    path = folder / "answers.db"
    evaluate(model="dummy", tasks="quiz@mcqa", limit=4, use_cache=path)
    mount = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    command = ["unshare", "-rm", "sh", "-c", f"{mount} && exec {sys.executable} {script} {path} 6"]
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounts need user namespaces")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
    assert "16 of 24 responses are cached in" in done.stderr
    assert done.stderr.count("cached responses are used, and new ones are not stored") == 1


def test_a_file_without_times_is_brought_up_to_date(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    fill(store)
    (request, output), *_ = ASKED.items()
    with closing(sqlite3.connect(store.path)) as file, file:
        file.execute("ALTER TABLE answers DROP COLUMN created")
        file.execute("ALTER TABLE answers DROP COLUMN checksum")
        file.execute("ALTER TABLE facts DROP COLUMN checksum")
        file.execute("PRAGMA user_version = 1")
    before = store.known("model", ASKED)
    assert (before, before.oldest) == (ASKED, None)
    fill(store, {request: output})
    after = store.known("model", ASKED)
    assert after == ASKED
    assert after.oldest == pytest.approx(time.time(), abs=60)


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    store = Store(tmp_path / "answers.db")
    fill(store, {})
    writer = Thread(target=fill, args=[store])
    with locked(store.path):
        writer.start()
        time.sleep(0.5)
    writer.join()
    assert (store.known("model", ASKED), store.working) == (ASKED, True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield
        file.rollback()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_store_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_path().parent.name.startswith("store")
    monkeypatch.delenv("MULTIFORM_STORE")
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path))
    assert default_path() == tmp_path / "answers.db"
    assert chosen_store(False) is None
    named = chosen_store("~/mine.db")
    assert named is not None
    assert named.path == Path.home() / "mine.db"


def test_the_dummy_model_is_stored_only_where_that_is_asked_for(tmp_path: Path) -> None:
    evaluate(model="dummy", tasks="quiz@mcqa", limit=4)
    assert not default_path().exists()
    evaluate(model="dummy", tasks="quiz@mcqa", limit=4, use_cache=tmp_path / "answers.db")
    assert (tmp_path / "answers.db").exists()


def test_a_file_that_is_set_up_while_it_is_opened_is_not_of_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.5)
    path, statements = tmp_path / "answers.db", []

    def set_up(statement: str) -> None:
        statements.append(statement)
        if len(statements) == 2:
            database.connect(path).close()

    with closing(sqlite3.connect(path)) as reading:
        reading.execute("SELECT 1")
        reading.set_trace_callback(set_up)
        assert database.layout(reading) in (0, database.LAYOUT)
