"""Batch interfaces: no request is lost or paid for twice, whatever happens to the batches and to this process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from multiform import evaluate
from multiform.errors import ModelError, UsageError
from multiform.models import Model, models
from multiform.models.servers import batch_client
from multiform.models.servers.batch_ledger import Ledger
from multiform.requests import Completion, FailedRequest, GenerationRequest
from multiform.stopping import request_stop, stoppable
from tests.models.fake_server_fixture import shorten_waits
from tests.models.servers.fake_batches import KINDS, FakeBatches, Fate, Kind, fake_batches

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(batch_client, "FIRST_POLL", 0.01)
    monkeypatch.setattr(batch_client, "LONGEST_POLL", 0.02)
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))


def model(server: FakeBatches, **arguments: Any) -> Model:
    return models.get(server.kind)(model="tiny", base_url=server.base_url, batch=True, api_key="sk-secret", **arguments)


def requests(number: int) -> list[GenerationRequest]:
    return [GenerationRequest.of(f"question {i}", {"max_gen_toks": 9}) for i in range(number)]


def texts(outputs: dict[int, Any]) -> dict[int, str]:
    return {position: output.text for position, output in outputs.items() if isinstance(output, Completion)}


def open_batches(server: FakeBatches) -> int:
    path = "chat/completions" if server.kind == "openai-chat" else "messages"
    path = "models/tiny:generateContent" if server.kind == "gemini" else path
    return len(Ledger(f"{server.kind} {server.base_url}/{path} tiny").batches())


#: The fates of 2,000 requests: one in ten expires at first, one in twenty is overloaded, one in a hundred is lost once,
#: one in forty is invalid.
def _fate(prompt: str, submission: int) -> Fate:
    number = int(prompt.split()[-1])
    if number % 40 == 7:
        return "invalid"
    if submission == 1:
        return (
            "expired"
            if number % 10 == 3
            else "overloaded"
            if number % 20 == 5
            else "lost"
            if number % 100 == 9
            else "done"
        )
    return "done"


#: Runs the requests in a process of its own, which the test kills.
DRIVER = """
import sys
from multiform.models import models
from multiform.models.servers import batch_client
from multiform.requests import GenerationRequest
batch_client.FIRST_POLL = batch_client.LONGEST_POLL = 0.05
kind, url = sys.argv[1:]
model = models.get(kind)(model="tiny", base_url=url, batch=True, batch_requests=500, num_concurrent=3, timeout=60)
asked = [GenerationRequest.of(f"question {i}", {"max_gen_toks": 9}) for i in range(2000)]
list(model.generate(asked))
"""


@pytest.mark.process
def test_2000_requests_with_failures_expiry_and_a_killed_driver(kind: Kind) -> None:
    with fake_batches(kind, fate_of=_fate, polls=None) as server:
        command = [sys.executable, "-c", DRIVER, kind, server.base_url]
        process = subprocess.Popen(command)
        _wait_for(lambda: len(server.batches) >= 3 and open_batches(server) >= 3)
        process.kill()
        process.wait()
        server.polls = 1
        outputs = dict(model(server, batch_requests=500, num_concurrent=3).generate(requests(2000)))
    assert sorted(outputs) == list(range(2000))  # none is lost
    failed = [position for position, output in outputs.items() if isinstance(output, FailedRequest)]
    assert sorted(failed) == list(range(7, 2000, 40))
    assert all(text == f"You said: question {position}" for position, text in texts(outputs).items())
    assert set(server.paid.values()) <= {0, 1}  # none is paid twice
    assert sum(server.paid.values()) == 1950
    retried = [i for i in range(2000) if _fate(f"question {i}", 1) in ("expired", "overloaded", "lost")]
    assert sum(server.submitted.values()) == 2000 + len(retried)
    assert open_batches(server) == 0


def _wait_for(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def test_a_kill_while_results_are_read_pays_for_none_again(kind: Kind) -> None:
    with fake_batches(kind) as server:
        first: Any = model(server, batch_requests=10).generate(requests(30))
        seen = {position for position, _ in (next(first) for _ in range(14))}
        first.close()  # as if the process had ended
        rest = [request for position, request in enumerate(requests(30)) if position not in seen]
        outputs = dict(model(server, batch_requests=10).generate(rest))
        assert len(outputs) == 16
        assert sorted(texts(outputs).values()) == sorted(f"You said: {request.prompt.text}" for request in rest)
    assert set(server.paid.values()) == {1}


def test_a_lost_response_to_a_submission_is_looked_up(kind: Kind) -> None:
    with fake_batches(kind, lost_creations=1, failed_creations=1) as server:
        outputs = dict(model(server, batch_requests=10).generate(requests(20)))
        assert len(texts(outputs)) == 20
        assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}


def test_a_process_that_died_while_it_submitted_is_made_up_for(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def kill(self: Any, token: str, id: str) -> None:
        raise KilledError

    with fake_batches(kind) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "set_id", kill)
            with pytest.raises(KilledError):
                list(model(server).generate(requests(5)))
        assert len(server.batches) == 1
        assert len(texts(dict(model(server).generate(requests(5))))) == 5
        assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


def test_a_stop_cancels_and_yields_what_is_done(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    with fake_batches(kind, polls=None) as server, stoppable():
        answers = model(server, batch_requests=10, num_concurrent=2).generate(requests(40))
        request_stop_soon(server, 2)
        outputs = dict(answers)
    assert len(server.cancelled) == 2
    assert sorted(outputs) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert open_batches(server) == 0
    with fake_batches(kind) as later:
        assert len(dict(model(later).generate(requests(4)))) == 4


def request_stop_soon(server: FakeBatches, batches: int) -> None:
    import threading

    def wait() -> None:
        _wait_for(lambda: len(server.batches) == batches)
        request_stop()

    threading.Thread(target=wait, daemon=True).start()


def test_a_request_that_never_works_fails_after_its_retries(kind: Kind) -> None:
    with fake_batches(kind, fate_of=lambda prompt, n: "expired" if prompt == "question 1" else "done") as server:
        outputs = dict(model(server, max_retries=2).generate(requests(3)))
    assert isinstance(outputs[1], FailedRequest)
    assert outputs[1].retried == 2
    assert server.submitted == {"question 0": 1, "question 1": 3, "question 2": 1}


def test_a_batch_that_the_server_has_lost_is_submitted_again(kind: Kind) -> None:
    with fake_batches(kind) as server:
        first: Any = model(server).generate(requests(3))
        next(first)
        first.close()
        server.batches.clear()
        assert len(texts(dict(model(server).generate(requests(3))))) == 3


def test_a_run_gives_what_single_requests_give_and_shares_the_store(kind: Kind, tmp_path: Path) -> None:
    with fake_batches(kind) as server:
        arguments = {"model": "tiny", "base_url": server.base_url}
        options: dict[str, Any] = {"model": kind, "tasks": "quiz@generate", "limit": 5, "progress": False}
        options["use_cache"] = str(tmp_path / "store.sqlite")
        results = evaluate(**options, model_args={**arguments, "batch": True}, output_path=tmp_path, log_samples=True)
        assert sum(server.paid.values()) == 5
        assert results.run["server_tokens"] == {"prompt": 50, "completion": 15}
        single = server.single
        again = evaluate(**options, model_args=arguments)
        assert server.single - single <= 1  # the probe; all responses are stored
        assert again["quiz@generate"] == results["quiz@generate"]
    assert results.run["model_args"]["batch"] is True


def run_options(server: FakeBatches, store: Path) -> dict[str, Any]:
    arguments = {"model": "tiny", "base_url": server.base_url, "batch": True}
    return {
        "model": server.kind,
        "model_args": arguments,
        "tasks": "quiz@generate",
        "limit": 5,
        "use_cache": str(store),
    }


def test_a_batch_is_struck_once_its_responses_are_in_the_file_of_the_store(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, collect = tmp_path / "store.sqlite", Ledger.collect
    stored: list[int] = []

    def count_first(self: Ledger, token: str, ids: Any) -> None:
        with closing(sqlite3.connect(store)) as file:
            stored.append(file.execute("SELECT count(*) FROM answers").fetchone()[0])
        collect(self, token, ids)

    monkeypatch.setattr(Ledger, "collect", count_first)
    with fake_batches(kind) as server:
        evaluate(**run_options(server, store), progress=False)
        assert open_batches(server) == 0
    assert stored == [5]


def test_what_cannot_be_stored_stays_in_the_ledger_for_the_next_run(kind: Kind, tmp_path: Path) -> None:
    store = tmp_path / "folder"
    store.mkdir()
    with fake_batches(kind, fate_of=lambda prompt, n: "expired" if n == 1 else "done") as server:
        first = evaluate(**run_options(server, store), progress=False)
        again = evaluate(**run_options(server, store), progress=False)
        assert again["quiz@generate"] == first["quiz@generate"]
    assert sum(server.paid.values()) == 5


def test_a_fresh_run_asks_again_for_what_a_killed_one_left_unread(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with fake_batches(kind) as server:
        options = run_options(server, tmp_path / "store.sqlite")
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "collect", lambda *_: None)  # as if the process had ended before
            evaluate(**options, progress=False)
        assert open_batches(server) == 1
        evaluate(**options, fresh=True, progress=False)
        assert open_batches(server) == 0
        assert sum(server.paid.values()) == 10
    assert "5 requests are in batch" in caplog.text
    assert "sent again, as the run is fresh" in caplog.text


def test_equal_requests_are_paid_once_and_repeats_are_not_equal(kind: Kind) -> None:
    asked = [GenerationRequest.of("question", {"until": ["a", "b", "c", "d", "e", "f", f"{i}"]}) for i in range(2)]
    asked += [GenerationRequest.of("question", {"do_sample": True, "seed": None}, i) for i in range(3)]
    with fake_batches(kind) as server:
        outputs = dict(model(server).generate(asked))
        assert len(outputs) == 5
    assert server.paid["question"] == (5 if kind == "anthropic" else 4)


def test_only_true_and_false_switch_it(kind: Kind) -> None:
    for arguments, message in (
        ({"batch": "yes"}, "batch is true or false"),
        ({"batch_requests": 5}, "batch_requests needs batch"),
        ({"batch": True, "batch_requests": 0}, "batch_requests"),
    ):
        with pytest.raises(UsageError, match=message):
            models.get(kind)(model="tiny", base_url="http://127.0.0.1:9/v1", **arguments)


def test_a_batch_that_is_refused_as_a_whole(kind: Kind) -> None:
    with fake_batches(kind, refused=("question 1",)) as server:
        if kind == "openai-chat":  # it names the line
            outputs = dict(model(server).generate(requests(3)))
            assert isinstance(outputs[1], FailedRequest)
            assert sorted(texts(outputs)) == [0, 2]
        elif kind == "gemini":
            with pytest.raises(ModelError, match="the server refuses the batch"):
                list(model(server).generate(requests(3)))
            assert open_batches(server) == 0


def test_a_name_that_fits_into_no_address_is_an_error(kind: Kind) -> None:
    def distort(answer: Any) -> Any:
        return {**answer, "id": "batch\n1", "name": "batch\n1"}

    with fake_batches(kind, distort=distort) as server:
        with pytest.raises(ModelError, match=r"a response of the batch interface has the (id|name) 'batch"):
            list(model(server).generate(requests(3)))
        server.distort = lambda answer: answer
        assert len(texts(dict(model(server).generate(requests(3))))) == 3


def test_a_batch_without_a_time_is_not_taken_for_the_lost_one(kind: Kind) -> None:
    def distort(answer: Any) -> Any:
        return {**answer, "data": [{**batch, "created_at": "yesterday"} for batch in answer.get("data", ())]}

    with fake_batches(kind, lost_creations=1, distort=distort) as server:
        if kind == "anthropic":  # the others say which batch it is
            with pytest.raises(ModelError, match="created at no time: 'yesterday'"):
                list(model(server).generate(requests(3)))
            server.distort = lambda answer: answer
        assert len(texts(dict(model(server).generate(requests(3))))) == 3
    assert set(server.paid.values()) == {1}


def test_results_that_are_no_list_are_no_results(kind: Kind) -> None:
    def distort(answer: Any) -> Any:
        return {**answer, "response": {"inlinedResponses": {"inlinedResponses": 5}}}

    with fake_batches(kind, distort=distort) as server:
        outputs = dict(model(server, max_retries=1).generate(requests(3)))
    assert len(outputs) == 3
    assert all(isinstance(output, FailedRequest) is (kind == "gemini") for output in outputs.values())


@pytest.mark.parametrize("answer", [None, 5, ["x"], "9" * 5000])
def test_an_answer_that_is_no_object_is_an_error(kind: Kind, answer: Any) -> None:
    with fake_batches(kind, distort=lambda _: answer) as server:
        with pytest.raises(ModelError, match="a response of the batch interface"):
            list(model(server).generate(requests(3)))
        server.distort = lambda answer: answer
        assert len(texts(dict(model(server).generate(requests(3))))) == 3


def test_a_count_of_many_digits_is_none(kind: Kind) -> None:
    def distort(answer: Any) -> Any:
        stats = {"completed": "9" * 5000, "succeeded": "9" * 5000, "successfulRequestCount": "9" * 5000}
        about = {**answer.get("metadata", {}), "batchStats": stats} if kind == "gemini" else answer.get("metadata")
        return {**answer, "request_counts": stats, "metadata": about}

    with fake_batches(kind, distort=distort) as server:
        assert len(texts(dict(model(server).generate(requests(3))))) == 3
