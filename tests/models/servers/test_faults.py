"""Runs through a server that fails at three requests in ten, in many ways: the results are those without a fault."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.models.servers import client
from tests.models.fake_server import FakeServer, Fault, fake_server
from tests.models.fake_server_fixture import shorten_waits

SHARE = 0.3
TIMEOUT = 2.0
LIMIT = 100_000


def body(content: Any) -> Fault:
    return Fault(body=json.dumps(content).encode())


def logprobs(content: Any) -> Fault:
    return body({"choices": [{"index": 0, "text": " x", "logprobs": content}]})


COMMON: dict[str, Fault] = {
    "429": Fault(status=429),
    "429 with a wait": Fault(status=429, headers={"Retry-After": "0"}),
    "408": Fault(status=408),
    "500": Fault(status=500),
    "502": Fault(status=502, body=b"<html>Bad Gateway</html>"),
    "503 with a date": Fault(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "504": Fault(status=504),
    "529": Fault(status=529),
    "hung up": Fault(hang_up=True),
    "no response in time": Fault(delay=TIMEOUT * 1.25),
    "HTML": Fault(body=b"<html>Please wait</html>"),
    "cut off": Fault(body=b'{"choices": [{"index": 0, "mess'),
    "empty": Fault(body=b""),
    "too long": Fault(body=b" " * (LIMIT + 1)),
    "null": body(None),
    "no choices": body({"choices": []}),
    "null choices": body({"choices": None}),
    "another choice": body({"choices": [{"index": 3, "text": " x", "message": {"content": "x"}}]}),
    "an error": body({"error": {"message": "the worker died"}}),
    "an error with a status": body({"error": {"message": "slow down", "code": 429}}),
}
CHAT = {
    **COMMON,
    "no message": body({"choices": [{"index": 0, "message": None}]}),
    **{
        f"ended by {reason}": body({"choices": [{"message": {"content": "The answer is 3"}, "finish_reason": reason}]})
        for reason in ("error", "abort", "insufficient_system_resource")
    },
}


def numbers(new: Callable[[list[Any]], list[Any]]) -> Fault:
    """Other log-probabilities."""
    return Fault(distort=lambda logprobs: logprobs.update(token_logprobs=new(logprobs["token_logprobs"])))


def tokens(new: Callable[[list[str]], list[str]]) -> Fault:
    return Fault(distort=lambda logprobs: logprobs.update(tokens=new(logprobs["tokens"])))


def every_list(new: Callable[[list[Any]], list[Any]]) -> Fault:
    return Fault(distort=lambda logprobs: logprobs.update({key: new(values) for key, values in logprobs.items()}))


SCORES = {
    **COMMON,
    "null logprobs": logprobs(None),
    "short logprobs": logprobs({"tokens": ["Q"], "token_logprobs": [None], "top_logprobs": [None]}),
    "logprobs as text": logprobs({"tokens": ["Q"] * 40, "token_logprobs": ["-1.0"] * 40}),
    "logprobs that are NaN": logprobs({"tokens": ["Q"] * 40, "token_logprobs": [float("nan")] * 40}),
    "positive": numbers(lambda values: [value and -value for value in values]),
    "one positive": numbers(lambda values: [*values[:-2], 0.5, values[-1]]),
    "all 0": numbers(lambda values: [value and 0.0 for value in values]),
    "all -9999": numbers(lambda values: [value and -9999.0 for value in values]),
    "all -inf": numbers(lambda values: [value and -math.inf for value in values]),
    "one place too early": numbers(lambda values: [*values[1:], -1.0]),
    "one place too late": numbers(lambda values: [None, *values[:-1]]),
    "fewer numbers": numbers(lambda values: values[:-1]),
    "more numbers": numbers(lambda values: [None, *values]),
    "null in the context": numbers(lambda values: [*values[:2], None, *values[3:]]),
    "no beginning": every_list(lambda values: values[2:]),
    "no first token": every_list(lambda values: values[1:]),
    "no end": every_list(lambda values: values[:-2]),
    "another order": every_list(lambda values: values[::-1]),
    "other tokens": tokens(lambda values: [f" word{len(value)}" for value in values]),
    "one other token": tokens(lambda values: [*values[:-3], " cats", *values[-2:]]),
    "without white space": tokens(lambda values: [value.strip() for value in values]),
}


class Faults:
    """Chooses what goes wrong with a request, and counts it; each kind is as frequent as any other."""

    def __init__(self, kinds: dict[str, Fault]) -> None:
        self.kinds = kinds
        self.counts: Counter[str] = Counter()
        self._random = random.Random(7)
        self._waiting: list[str] = []

    def __call__(self, prompt: str) -> Fault | None:
        if self._random.random() >= SHARE:
            return None
        if not self._waiting:
            self._waiting = self._random.sample(list(self.kinds), len(self.kinds))
        name = self._waiting.pop()
        self.counts[name] += 1
        return self.kinds[name]


def task(number: int) -> multiform.TaskConfig:
    docs = [
        {"question": f"What is {n} plus {n}?", "choices": [str(2 * n + more) for more in range(4)], "answer": 0}
        for n in range(number)
    ]
    return multiform.TaskConfig.from_dict(
        {
            "task": "sums",
            "custom_dataset": lambda **_: {"test": docs},
            "test_split": "test",
            "doc_to_text": "question",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
        }
    )


def run(server: FakeServer, model: str, config: multiform.TaskConfig, store: Path) -> Any:
    arguments = {"model": "tiny", "base_url": server.base_url, "num_concurrent": 32, "max_retries": 20}
    results = multiform.evaluate(
        model=model,
        model_args={**arguments, "timeout": TIMEOUT},
        tasks=[config],
        use_cache=store,
        bootstrap_iters=0,
    )
    return results, results.samples(config.form_name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "format", "kinds"),
    [("openai-chat", "generate", CHAT), ("openai-completions", "cloze", SCORES)],
    ids=["generation", "scoring"],
)
@pytest.mark.parametrize("requests", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_faults_change_nothing(
    model: str, format: str, kinds: dict[str, Fault], requests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(client, "MAX_RESPONSE_BYTES", LIMIT)
    number = requests if format == "generate" else requests // 4
    config = multiform.TaskConfig.from_dict({**task(number).to_dict(keep_callable=True), "formats": format})
    with fake_server() as server:
        server.reply = lambda prompt: f"The answer is {len(prompt) % 7}"
        expected, expected_samples = run(server, model, config, tmp_path / "without.db")
        assert len(server.asked) == requests
        server.asked.clear()
        faults = Faults(kinds)
        server.fault_of = faults
        results, samples = run(server, model, config, tmp_path / "with.db")
        given = faults.counts.total()
        assert len(server.asked) == requests + given  # nothing is lost, and nothing returned twice
        assert server.busiest <= 33  # and a probe
    assert SHARE * 0.6 < given / len(server.asked) < SHARE * 1.4
    assert set(faults.counts) == set(kinds)
    assert samples == expected_samples
    assert dict(results[config.form_name]) == dict(expected[config.form_name])
    assert stored(tmp_path / "with.db") == stored(tmp_path / "without.db")
    assert len(stored(tmp_path / "with.db")) == requests


def stored(path: Path) -> list[Any]:
    """What is stored, without the time."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT request, output FROM answers ORDER BY request").fetchall()
