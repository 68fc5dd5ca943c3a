"""The client: several requests at a time, again after a failure, and never for ever."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.models.openai import client as module
from multiform.models.openai.client import Client


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.01)


def client(server: Any, **options: Any) -> Client:
    return Client(url=f"{server.base_url}/chat/completions", key="sk-very-secret", **options)


def said(one: Client, *texts: str) -> dict[str, str]:
    """What the server answers to each text."""
    answers = one.ask(
        texts,
        lambda text: {"messages": [{"role": "user", "content": text}], "max_tokens": 50},
        lambda text, answer: answer["choices"][0]["message"]["content"],
    )
    return {texts[position]: answer for position, answer in answers}


def test_every_request_is_answered(server: Any) -> None:
    texts = [f"number {n}" for n in range(25)]
    assert said(client(server, num_concurrent=4), *texts) == {text: f"You said: {text}" for text in texts}


def test_nothing_to_ask(server: Any) -> None:
    assert said(client(server)) == {}


@pytest.mark.parametrize("number", [1, 4])
def test_so_many_requests_are_on_their_way_at_a_time(server: Any, number: int) -> None:
    server.delay = 0.05
    said(client(server, num_concurrent=number), *map(str, range(8)))
    assert server.busiest == number


def test_answers_come_as_they_are_ready(server: Any) -> None:
    server.fail(delay=0.5)  # to the request that comes first
    answers = client(server, num_concurrent=2).ask(
        ["one", "two"],
        lambda text: {"messages": [{"role": "user", "content": text}]},
        lambda text, answer: text,
    )
    order = [text for _, text in answers]
    assert [asked.payload["messages"][0]["content"] for asked in server.asked] == order[::-1]


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "headers": {"Retry-After": "0"}},
        {"status": 500},
        {"status": 503, "headers": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}},
        {"body": b"<html>bad gateway</html>"},
        {"body": b'{"choices": [{"mess'},
        {"hang_up": True},
    ],
    ids=["429", "500", "503 with a date", "no JSON", "cut off", "hung up"],
)
def test_a_failure_that_passes_is_not_seen(server: Any, fault: dict[str, Any]) -> None:
    server.fail(times=2, **fault)
    assert said(client(server), "hello") == {"hello": "You said: hello"}
    assert len(server.asked) == 3


def test_retry_after_is_honoured(server: Any) -> None:
    server.fail(status=429, headers={"Retry-After": "0.3"})
    said(client(server), "hello")
    first, second = server.asked
    assert second.at - first.at >= 0.29


def test_waits_grow_and_are_bounded(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT", 0.04)
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.1)
    server.fail(times=3, status=500)
    server.fail(status=429, headers={"Retry-After": "3600"})
    said(client(server, max_retries=4), "hello")
    waits = [b.at - a.at for a, b in zip(server.asked, server.asked[1:], strict=False)]
    assert all(low <= wait < low + 1 for low, wait in zip((0.04, 0.08, 0.1, 0.1), waits, strict=True))


def test_the_number_of_attempts_is_bounded(server: Any) -> None:
    server.fail(times=9, status=500, message="out of paper")
    with pytest.raises(ModelError, match=r"HTTP 500: out of paper after 3 attempts; check the server") as caught:
        said(client(server, max_retries=2), "hello")
    assert caught.value.where == f"{server.base_url}/chat/completions"
    assert len(server.asked) == 3


def test_no_retries(server: Any) -> None:
    server.fail(status=429, message="slow down")
    with pytest.raises(ModelError, match="HTTP 429: slow down after 1 attempt;"):
        said(client(server, max_retries=0), "hello")


def test_a_slow_server_is_not_waited_for(server: Any) -> None:
    server.fail(times=2, delay=1.0)
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"no answer within 0.1 s after 2 attempts"):
        said(client(server, timeout=0.1, max_retries=1), "hello")
    assert time.monotonic() - started < 0.9


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"no connection: .* after 2 attempts"):
        said(Client(url="http://127.0.0.1:9/v1/completions", max_retries=1), "hello")


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "check the model's arguments"), (401, "OPENAI_API_KEY"), (404, "check base_url and model")],
)
def test_a_refusal_is_final_and_says_why(server: Any, status: int, hint: str) -> None:
    server.fail(status=status, message="the prompt is too long")
    with pytest.raises(ModelError, match=f"HTTP {status}: the prompt is too long; .*{hint}"):
        said(client(server), "hello")
    assert len(server.asked) == 1


def test_the_first_refusal_ends_it(server: Any) -> None:
    server.delay = 0.02
    server.fail(status=400)
    with pytest.raises(ModelError, match="HTTP 400"):
        said(client(server, num_concurrent=2), *map(str, range(50)))
    time.sleep(0.2)
    assert len(server.asked) < 10


def test_whoever_stops_reading_stops_the_requests(server: Any) -> None:
    server.delay = 0.02
    answers: Any = client(server).ask([*range(50)], lambda n: {"messages": [{"content": str(n)}]}, lambda n, answer: n)
    next(answers)
    answers.close()
    time.sleep(0.2)
    assert len(server.asked) < 6


def test_the_key_is_sent_and_shown_nowhere(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.fail(status=500, message="no such key: sk-very-secret")
    server.fail(status=401, message="wrong key: sk-very-secret")
    one = client(server)
    with pytest.raises(ModelError) as caught:
        said(one, "hello")
    assert server.asked[0].headers["Authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in f"{caught.value} {one!r} {caplog.text}"
    assert "wrong key: ***" in str(caught.value)


def test_extra_headers_are_sent_and_win(server: Any) -> None:
    said(client(server, headers={"X-Team": "evals", "Authorization": "Basic abc"}), "hello")
    assert server.asked[0].headers["X-Team"] == "evals"
    assert server.asked[0].headers["Authorization"] == "Basic abc"


def test_text_that_is_no_unicode_reaches_the_server(server: Any) -> None:
    said(client(server), "half \ud83d")
    assert server.asked[0].payload["messages"][0]["content"] == "half \ud83d"


def test_a_failure_while_reading_an_answer_is_raised(server: Any) -> None:
    answers = client(server).ask([1], lambda n: {"messages": [{"content": "x"}]}, lambda n, answer: answer["nothing"])
    with pytest.raises(KeyError):
        list(answers)
