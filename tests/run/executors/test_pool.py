"""PoolExecutor: units go to free workers, dead workers lose their unit alone, and poisoned requests are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.models import Model
from multiform.models.dummy import DummyModel
from multiform.models.model import Usage
from multiform.requests import FailedRequest, LoglikelihoodRequest, Output, Request, Response
from multiform.run.evaluate import run
from multiform.run.executors import LocalExecutor, Unit, units
from multiform.run.executors.pool import Event, Failed, Finished, PoolExecutor, Ready, Responded
from multiform.run.executors.ranges import RangedDocs
from multiform.run.options import RunOptions
from multiform.run.pending import Batch
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.stopping import request_stop, stoppable
from tests.run.test_streams import Dying

REQUESTS: list[Request] = [LoglikelihoodRequest(f"{task} {doc}", " x") for task in "abcd" for doc in range(25)]
POISON = LoglikelihoodRequest("c 7", " x")


def unit_outputs(unit: Unit, number: int | None, model: Model) -> list[Response[Output | FailedRequest]]:
    positions = {request: position for position, request in enumerate(unit)}
    return [(positions[request], output) for request, output in LocalExecutor(model).run([unit])][:number]


class FakePool:
    """Workers in this process whose responses are known.

    `fails` says after how many responses a unit kills its worker, or None where it does not.
    """

    def __init__(self, size: int, fails: Callable[[Unit], int | None] = lambda unit: None, *, dead: bool = True):
        self.size = size
        self.model: Model = DummyModel()
        self.asked: list[tuple[int, Unit]] = []
        self.stopped = False
        self._fails = fails
        self._dead = dead
        self._pending: list[Event] = []
        self._workers = 0
        self._started = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            for _ in range(self.size):
                self._add()

    def begin_job(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> None: ...

    def submit(self, worker: int, unit: Unit) -> None:
        self.asked.append((worker, unit))
        fails = self._fails(unit)
        for position, output in unit_outputs(unit, fails, self.model):
            batch = Batch(responses=1, finished=[position], outputs=[(position, output)], usage=Usage(prefill=1))
            self._pending.append(Responded(worker, batch))
        if fails is None:
            self._pending.append(Finished(worker))
            return
        self._pending.append(Failed(worker, "its worker died", dead=self._dead))
        if self._dead:
            self._add()

    def events(self) -> Sequence[Event]:
        assert self._pending, "everybody waits"
        return [self._pending.pop(0)]

    def stop(self) -> None:
        self.stopped = True

    def abandon(self) -> None:
        self._pending.clear()
        self._started = False

    def _add(self) -> None:
        self._workers += 1
        self._pending.append(Ready(self._workers))


class Once:
    """Fails on the first unit that holds a request, after a number of responses."""

    def __init__(self, request: Request, after: int) -> None:
        self.request, self.after, self.failed = request, after, 0

    def __call__(self, unit: Unit) -> int | None:
        if self.request in unit and not self.failed:
            self.failed = len(unit)
            return self.after
        return None


def local(requests: Sequence[Request] = REQUESTS) -> dict[Request, object]:
    return dict(LocalExecutor(DummyModel()).run(units(requests)))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_pool_gives_the_responses_of_one_model(size: int) -> None:
    executor = PoolExecutor(FakePool(size))
    assert dict(executor.run(units(REQUESTS))) == local()
    assert executor.retry_count == 0
    assert executor.usage == Usage(prefill=len(REQUESTS))


def test_units_go_to_whoever_is_free() -> None:
    pool = FakePool(2)
    list(PoolExecutor(pool).run(units(REQUESTS)))
    assert {worker for worker, _ in pool.asked} == {1, 2}
    assert sum(len(unit) for _, unit in pool.asked) == len(REQUESTS)


def test_workers_are_kept_for_the_next_requests() -> None:
    executor = PoolExecutor(FakePool(2))
    assert dict(executor.run([REQUESTS[:50]])) | dict(executor.run([REQUESTS[50:]])) == local()


def test_only_the_missing_requests_of_a_dead_worker_are_run_again() -> None:
    fails = Once(POISON, after=5)
    pool = FakePool(3, fails)
    executor = PoolExecutor(pool)
    stream = list(executor.run(units(REQUESTS)))
    assert dict(stream) == local()
    assert len(stream) == len(REQUESTS)
    assert executor.retry_count == fails.failed - 5
    assert sum(len(unit) for _, unit in pool.asked) == len(REQUESTS) + executor.retry_count
    assert executor.usage == Usage(prefill=len(REQUESTS))  # with what the dead worker had computed


@pytest.mark.parametrize("dead", [True, False])
def test_a_poisoned_request_is_found_and_reported_and_all_others_get_a_response(dead: bool) -> None:
    pool = FakePool(2, lambda unit: 0 if POISON in unit else None, dead=dead)
    output = dict(PoolExecutor(pool).run(units(REQUESTS)))
    failed = output.pop(POISON)
    assert isinstance(failed, FailedRequest)
    assert failed.reason == "its worker died"
    assert output == local([request for request in REQUESTS if request != POISON])
    times = sum(POISON in unit for _, unit in pool.asked)
    assert times == failed.retried + 1 <= 10


def test_a_poisoned_request_alone_is_asked_three_times() -> None:
    pool = FakePool(1, lambda unit: 0)
    assert dict(PoolExecutor(pool).run(units([POISON]))) == {POISON: FailedRequest(reason="its worker died", retried=2)}
    assert len(pool.asked) == 3


def test_workers_that_fail_on_everything_end_the_run() -> None:
    with pytest.raises(ModelError, match="the workers fail on every unit: its worker died"):
        list(PoolExecutor(FakePool(1, lambda unit: 0)).run(units(REQUESTS * 10)))


def test_after_a_stop_nothing_more_is_asked_and_what_is_in_flight_comes() -> None:
    pool = FakePool(2)
    with stoppable():
        stream = PoolExecutor(pool).run(units(REQUESTS))
        came = dict([next(stream)])
        request_stop()
        came |= dict(stream)
    assert pool.stopped
    assert 0 < len(came) == sum(len(unit) for _, unit in pool.asked) < len(REQUESTS)


def test_a_run_that_ended_early_leaves_nothing_to_the_next_one() -> None:
    """As in a sweep, where a run fails and the next one has the same workers."""
    pool = FakePool(2)
    executor = PoolExecutor(pool)
    stream = executor.run(units(REQUESTS))
    next(stream)
    stream.close()
    assert dict(executor.run([REQUESTS])) == local()
    assert {worker for worker, _ in pool.asked} == {1, 2, 3, 4}


def test_an_error_of_the_pool_leaves_nothing_to_the_next_run() -> None:
    failing = True
    pool = FakePool(2, lambda unit: 0 if failing else None)
    executor = PoolExecutor(pool)
    with pytest.raises(ModelError):
        list(executor.run(units(REQUESTS * 10)))
    failing = False
    assert dict(executor.run(units(REQUESTS))) == local()


def test_requests_that_a_worker_leaves_without_a_response_are_asked_again() -> None:
    class Forgetful(FakePool):
        def submit(self, worker: int, unit: Unit) -> None:
            first = not self.asked
            super().submit(worker, unit)
            if first:
                self._pending.remove(next(event for event in self._pending if isinstance(event, Responded)))

    executor = PoolExecutor(Forgetful(2))
    assert dict(executor.run(units(REQUESTS))) == local()
    assert executor.retry_count == 1


class PoolHere(PoolExecutor):
    """Sends requests that the driver renders to workers in this process."""

    def __init__(self) -> None:
        super().__init__(FakePool(2))

    def load(self, model: Any, arguments: Any, progress: Progress, open_store: Any = None) -> Model:
        self.pool.model = self._model = model  # type: ignore[attr-defined]
        return self.model


def test_a_driver_that_died_asks_nothing_twice_and_gives_the_results_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    options: dict[str, Any] = {"tasks": "quiz@mcqa+cloze", "use_cache": tmp_path / "answers.db"}
    options["cache_requests"] = True  # for which the driver renders
    dying = Dying(left=500)
    with pytest.raises(KeyboardInterrupt):
        run(RunOptions(model=dying, **options), PoolHere())
    stored = Store(tmp_path / "answers.db").known(dying.identity, dying.asked)
    assert 0 < len(stored) < 500
    model = Dying()
    results = run(RunOptions(model=model, **options), PoolHere())
    assert results.problem is None
    assert not set(model.asked) & set(stored)
    assert len(model.asked) == results.provenance["usage"]["requests"] - len(stored)
    alone = run(RunOptions(model="dummy", tasks=options["tasks"], use_cache=False))
    assert {name: dict(results[name]) for name in results} == {name: dict(alone[name]) for name in alone}
