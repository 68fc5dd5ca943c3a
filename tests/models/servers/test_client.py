"""The client: several requests at a time, again after a failure, never for ever, and nothing is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from multiform.errors import ModelError
from multiform.models.servers import client as module
from multiform.models.servers.client import Client
from multiform.models.servers.server_model import PROBE
from multiform.requests import FailedRequest
from multiform.stopping import request_stop, stoppable
from tests.models.fake_server import Fault, fake_server
from tests.models.fake_server_fixture import shorten_waits

PROBE_PAYLOAD = {"messages": [{"role": "user", "content": PROBE}]}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch)


def client(server: Any, **options: Any) -> Client:
    defaults = {
        "url": httpx.URL(f"{server.base_url}/chat/completions"),
        "headers": {"Authorization": "Bearer sk-very-secret"},
        "secrets": ["sk-very-secret"],
        "probe": PROBE_PAYLOAD,
    }
    return Client(**{**defaults, **options})


def responses(one: Client, *texts: str) -> Iterator[tuple[int, Any]]:
    return one.ask(
        texts,
        lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 50},
        lambda text, response: response["choices"][0]["message"]["content"],
    )


def said(one: Client, *texts: str) -> dict[str, Any]:
    """The server's response to each text."""
    return {texts[position]: response for position, response in responses(one, *texts)}


def test_every_request_gets_a_response(server: Any) -> None:
    texts = [f"number {n}" for n in range(25)]
    assert said(client(server, num_concurrent=4), *texts) == {text: f"You said: {text}" for text in texts}


def test_nothing_to_ask(server: Any) -> None:
    assert said(client(server)) == {}


@pytest.mark.parametrize("number", [1, 4])
def test_so_many_requests_are_on_their_way_at_a_time(server: Any, number: int) -> None:
    server.delay = 0.05
    said(client(server, num_concurrent=number), *map(str, range(8)))
    assert server.busiest == number


def test_responses_come_as_they_are_ready(server: Any) -> None:
    server.fail(delay=0.5)  # to the request that comes first
    order = [position for position, _ in responses(client(server, num_concurrent=2), "0", "1")]
    assert [asked.payload["messages"][0]["content"] for asked in server.asked] == [str(n) for n in order[::-1]]


PASSING: dict[str, dict[str, Any]] = {
    "429": {"status": 429, "headers": {"Retry-After": "0"}},
    "500": {"status": 500},
    "503 with a date": {"status": 503, "headers": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}},
    "no JSON": {"body": b"<html>bad gateway</html>"},
    "cut off": {"body": b'{"choices": [{"mess'},
    "nested without end": {"body": b"[" * 100_000},
    "an error in a 200": {"body": b'{"error": {"message": "worker died"}}'},
    "a 429 in a 200": {"body": b'{"error": {"message": "slow down", "code": 429}}'},
    "hung up": {"hang_up": True},
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_failure_that_passes_is_not_seen(server: Any, fault: dict[str, Any]) -> None:
    server.fail(times=2, **fault)
    assert said(client(server), "hello") == {"hello": "You said: hello"}
    assert len(server.asked) == 3


def test_a_response_that_never_ends_is_a_failure(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESPONSE_BYTES", 2000)
    server.fail(body=b" " * 10_000)
    assert said(client(server), "hello") == {"hello": "You said: hello"}
    server.fail(times=9, body=b" " * 10_000)
    assert "longer than 2000 bytes" in said(client(server, max_retries=1), "hello")["hello"].reason


def test_retry_after_is_honoured_by_all(server: Any) -> None:
    server.fail(status=429, headers={"Retry-After": "0.3"})
    said(client(server, num_concurrent=1), "hello", "and", "goodbye")
    first, *others = server.asked
    assert all(asked.at - first.at >= 0.29 for asked in others)


def test_the_delay_of_google_is_honoured(server: Any) -> None:
    server.fail(body=b'{"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "0.3s"}]}}')
    said(client(server), "hello")
    first, second = server.asked
    assert second.at - first.at >= 0.29


def test_waits_grow_and_are_bounded(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.04)
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.1)
    server.fail(times=3, status=500)
    server.fail(status=429, headers={"Retry-After": "3600"})
    said(client(server), "hello")
    waits = [b.at - a.at for a, b in zip(server.asked, server.asked[1:], strict=False)]
    assert all(low <= wait < low + 1 for low, wait in zip((0.02, 0.04, 0.05, 0.1), waits, strict=True))


def test_requests_that_fail_together_do_not_come_back_together(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.4)
    server.fail(times=8, status=500)
    said(client(server, num_concurrent=8), *map(str, range(8)))
    again = sorted(asked.at for asked in server.asked)[8:]
    assert again[-1] - again[0] > 0.03


def test_the_number_of_retries_is_bounded(server: Any) -> None:
    server.fault_of = lambda prompt: Fault(status=500, message="out of paper") if prompt == "hello" else None
    assert said(client(server, max_retries=2), "hello", "you") == {
        "hello": FailedRequest(reason="HTTP 500: out of paper", retried=2),
        "you": "You said: you",
    }


def test_no_retries(server: Any) -> None:
    server.fail(status=429, message="slow down")
    assert said(client(server, max_retries=0), "hello")["hello"].reason == "HTTP 429: slow down"


@pytest.mark.parametrize("number", [1, 8])
def test_a_constant_refusal_fails_one_request_alone(server: Any, number: int) -> None:
    server.fault_of = lambda prompt: Fault(status=400, message="the prompt is too long") if prompt == "7" else None
    results = said(client(server, num_concurrent=number), *map(str, range(20)))
    assert results.pop("7") == FailedRequest(reason="HTTP 400: the prompt is too long")
    assert results == {str(n): f"You said: {n}" for n in range(20) if n != 7}
    assert len(server.asked) == 20


def test_a_response_that_is_never_right_fails_one_request_alone(server: Any) -> None:
    def read(text: str, response: Any) -> str:
        if text == "7":
            raise ModelError("the response has no message")
        return text

    asked = client(server, max_retries=2).ask([*map(str, range(9))], lambda t: {"messages": [{"content": t}]}, read)
    results = dict(asked)
    assert results.pop(7) == FailedRequest(reason="the response has no message", retried=2)
    assert len(results) == 8


def test_a_slow_request_is_not_waited_for(server: Any) -> None:
    server.fail(times=2, delay=1.0)
    started = time.monotonic()
    failed = said(client(server, timeout=0.1, max_retries=1), "hello")["hello"]
    assert failed == FailedRequest(reason="no response within 0.1 s", retried=1)
    assert time.monotonic() - started < 0.9


def test_a_server_that_was_never_there_is_not_waited_for_long() -> None:
    nobody = Client(url=httpx.URL("http://127.0.0.1:9/v1/completions"))
    with pytest.raises(ModelError, match=r"no connection: .* after \d+ attempts; check the server"):
        said(nobody, "hello")


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "check the model's arguments"), (401, r"set \$THE_KEY"), (404, "check base_url and model")],
)
def test_a_server_that_refuses_everything_is_an_error(server: Any, status: int, hint: str) -> None:
    server.fail(times=9, status=status, message="no")
    server.probe_faults.extend(Fault(status=status) for _ in range(9))
    with pytest.raises(ModelError, match=f"HTTP {status}: no; .*{hint}"):
        said(client(server, num_concurrent=1, key_hint="set $THE_KEY"), *map(str, range(5)))
    assert len(server.asked) == 1


def test_a_probe_that_fails_in_passing_is_no_reason_to_stop(server: Any) -> None:
    server.fail(status=400, message="too long")
    server.probe_faults.extend(Fault(status=500) for _ in range(9))
    assert said(client(server), "hello") == {"hello": FailedRequest(reason="HTTP 400: too long")}


def test_a_server_that_fails_at_everything_is_waited_for(server: Any) -> None:
    """The engine of a server that has died and is started again, while the server itself goes on."""
    one = client(server, max_retries=1, num_concurrent=1)
    said(one, "before")
    server.fail(times=6, status=500)
    server.probe_faults.extend(Fault(status=500) for _ in range(3 * 5))
    assert said(one, "hello") == {"hello": "You said: hello"}


def test_a_deadline_ends_the_waiting(server: Any) -> None:
    one = client(server, max_retries=1, deadline=0.2)
    said(one, "before")
    server.fail(times=99, status=503, message="starting")
    server.probe_faults.extend(Fault(status=503) for _ in range(99))
    with pytest.raises(ModelError, match=r"HTTP 503: starting after \d+ attempts; .*run the same command again"):
        said(one, "hello")


def test_a_restart_of_the_server_is_outlasted() -> None:
    with fake_server() as first:
        port = int(first.base_url.split(":")[2].partition("/")[0])
        one = client(first, num_concurrent=2)
        first.delay = 0.02
        stream = responses(one, *map(str, range(30)))
        results = dict(next(stream) for _ in range(5))

    def restart() -> None:
        time.sleep(0.6)
        with fake_server(port):
            done.wait(20)

    done = threading.Event()
    thread = threading.Thread(target=restart)
    thread.start()
    try:
        results |= dict(stream)
    finally:
        done.set()
        thread.join()
    assert results == {n: f"You said: {n}" for n in range(30)}


def test_what_is_in_flight_comes_before_the_error(server: Any) -> None:
    def fault(prompt: str) -> Fault | None:
        return Fault(status=401, message="who are you") if prompt == "bad" else Fault(delay=0.3)

    server.fault_of = fault
    server.probe_faults.append(Fault(status=401))
    came: list[int] = []
    with pytest.raises(ModelError, match="HTTP 401: who are you"):
        came.extend(position for position, _ in responses(client(server, num_concurrent=3), "a", "b", "bad", "c", "d"))
    assert sorted(came) == [0, 1]
    assert len(server.asked) == 3


def test_a_run_that_is_to_stop_gets_what_is_in_flight(server: Any) -> None:
    server.delay = 0.3
    came: list[int] = []
    with stoppable():
        for position, _ in responses(client(server, num_concurrent=3), *map(str, range(20))):
            came.append(position)
            request_stop()
    assert len(came) == len(server.asked) < 8


def test_whoever_stops_reading_stops_the_requests(server: Any) -> None:
    server.delay = 0.02
    stream: Any = responses(client(server, num_concurrent=1), *map(str, range(50)))
    next(stream)
    stream.close()
    time.sleep(0.2)
    assert len(server.asked) < 6


class TestFewerAtATime:
    """The number of requests in flight follows what the server can take."""

    @staticmethod
    def overloaded_above(server: Any, most: int, fault: Callable[[], Fault]) -> None:
        server.fault_of = lambda prompt: fault() if server.busy >= most else None
        server.delay = 0.01

    def test_after_429(self, server: Any) -> None:
        self.overloaded_above(server, 3, lambda: Fault(status=429))
        texts = [str(n) for n in range(150)]
        assert said(client(server, num_concurrent=24), *texts) == {text: f"You said: {text}" for text in texts}
        refused = len(server.asked) - len(texts)
        assert refused < 150  # all that are above the limit at all times would be refused far more often

    def test_after_slow_responses(self, server: Any) -> None:
        from multiform.models.servers.exchange import JobSchedule

        schedule = JobSchedule(10, 8)
        jobs = [schedule.take() for _ in range(8)]
        for job in jobs:
            assert job is not None
            schedule.complete(job, slow=True)
        assert schedule.limit == pytest.approx(8 * 0.7)  # once for all that were sent together
        job = schedule.take()
        assert job is not None
        schedule.complete(job)
        assert schedule.limit == pytest.approx(8 * 0.7 + 0.25)


def test_secrets_are_sent_and_shown_nowhere(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.fail(status=500, message="no such key: sk-very-secret")
    server.fail(status=401, message="wrong key: sk-very-secret " + "x" * 600)
    server.probe_faults.append(Fault(status=401))
    one = client(server, url=httpx.URL(f"{server.base_url}/chat/completions?api-key=qs-secret"))
    with pytest.raises(ModelError) as caught:
        said(one, "hello")
    assert server.asked[0].headers["Authorization"] == "Bearer sk-very-secret"
    assert server.asked[0].path.endswith("?api-key=qs-secret")
    shown = f"{caught.value} {one!r} {caplog.text}"
    assert "sk-very-secret" not in shown
    assert "qs-secret" not in shown
    assert "wrong key: ***" in str(caught.value)


def test_control_characters_of_a_server_do_not_reach_the_terminal(server: Any) -> None:
    server.fail(status=400, message="\x1b[2J\x07gone")
    failed = said(client(server), "hello")["hello"]
    assert failed.reason == r"HTTP 400: \u001b[2J\u0007gone"


def test_text_that_is_no_unicode_reaches_the_server(server: Any) -> None:
    said(client(server), "half \ud83d")
    assert server.asked[0].payload["messages"][0]["content"] == "half \ud83d"


def test_a_failure_of_our_own_while_reading_a_response_is_raised(server: Any) -> None:
    stream = client(server).ask(
        [1], lambda n: {"messages": [{"content": "x"}]}, lambda n, response: response["nothing"]
    )
    with pytest.raises(KeyError):
        list(stream)


def test_an_outage_is_one_line_however_many_requests_are_queued(server: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, logger="multiform")
    server.faults.extend([Fault(status=503)] * 12)
    texts = [f"number {n}" for n in range(12)]
    assert len(said(client(server, num_concurrent=12, max_retries=20), *texts)) == 12
    assert len([record for record in caplog.records if "trying again" in record.getMessage()]) == 1
