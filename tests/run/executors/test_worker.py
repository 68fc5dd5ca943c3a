"""Worker and WorkerModel: what a worker counts reaches the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models import models, register_model
from multiform.models.dummy import DummyModel
from multiform.models.model import Usage
from multiform.models.prices import Price
from multiform.requests import LLOutput, LoglikelihoodRequest, Request, Response
from multiform.run.executors.pool import Event, Finished, PoolExecutor, Ready, Responded
from multiform.run.executors.ranges import RangedDocs
from multiform.run.executors.worker import LoadedModel, Worker, WorkerModel
from multiform.run.runner import Spending
from multiform.run.store import Store


class Priced(DummyModel):
    """A model on a server that counts ten tokens of each prompt."""

    tokens = 7  # of its probe

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for response in super().loglikelihood(requests):
            self.tokens += 10
            yield response

    def server_tokens(self) -> dict[str, int]:
        return {"prompt": self.tokens, "completion": 0}

    def price(self, file: Path | None = None) -> Price:
        return Price(prompt=2.0, completion=4.0)


class WorkersHere:
    """Two workers in this process."""

    size = 2

    def __init__(self, name: str) -> None:
        self._workers = [Worker() for _ in range(self.size)]
        self._loaded = [worker.load(name, models.get(name), {}, os.getcwd()) for worker in self._workers]
        self._events: list[Event] = [Ready(number) for number in range(self.size)]

    def wait_until_loaded(self) -> LoadedModel:
        return self._loaded[0]

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._workers[0].call(method, *arguments, **options)

    def start(self) -> None: ...

    def begin_job(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> None: ...

    def submit(self, worker: int, unit: Sequence[Any]) -> None:
        self._events += [Responded(worker, batch) for batch in self._workers[worker].run(unit, (), 0.0, 1)]
        self._events.append(Finished(worker))

    def events(self) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def stop(self) -> None: ...

    def abandon(self) -> None: ...


class Planned(Priced):
    """A model that says what its requests take."""

    def workload(self, requests: Sequence[Request]) -> Usage:
        return Usage(prefill=len(requests))

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        return {"prompt": len(requests), "completion": 0}


class Batched(Priced):
    """A model with a batch interface."""

    batch = True


def test_a_model_on_workers_says_what_its_requests_would_take() -> None:
    register_model("planned")(Planned)
    pool = WorkersHere("planned")
    model = WorkerModel(pool, PoolExecutor(pool))
    requests = [LoglikelihoodRequest("a", " b"), LoglikelihoodRequest("a", " c")]
    assert model.workload(requests) == Usage(prefill=2)
    assert model.estimate_tokens(requests) == {"prompt": 2, "completion": 0}


def test_a_batch_interface_is_refused_on_workers() -> None:
    register_model("batched")(Batched)
    pool = WorkersHere("batched")
    with pytest.raises(UsageError, match="a batch interface needs no workers"):
        WorkerModel(pool, PoolExecutor(pool))


def test_the_tokens_of_servers_that_workers_ask_are_counted_and_paid() -> None:
    register_model("priced")(Priced)
    pool = WorkersHere("priced")
    executor = PoolExecutor(pool)
    model = WorkerModel(pool, executor)
    spending = Spending.of(model, None, limit=0.0007)
    requests = [LoglikelihoodRequest(f"{task} question {number}", " yes") for task in "abcd" for number in range(10)]
    assert spending.cost == 0
    assert len(dict(executor.run([requests]))) == 40
    assert spending.tokens == {"prompt": 400, "completion": 0}
    assert spending.is_exceeded
    assert spending.entries()["cost"]["dollars"] == 0.0008
