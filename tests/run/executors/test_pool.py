"""PoolExecutor: units go to free workers, dead workers lose their unit alone, and poisoned requests are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from multiform.errors import ModelError
from multiform.models.dummy import DummyModel
from multiform.models.model import Usage
from multiform.requests import FailedRequest, LoglikelihoodRequest, Output, Request, Response
from multiform.run.executors import LocalExecutor, Unit, responses, units
from multiform.run.executors.pool import Event, Failed, Finished, PoolExecutor, Ready, Responded
from multiform.run.store import Store
from multiform.stopping import request_stop, stoppable

REQUESTS: list[Request] = [LoglikelihoodRequest(f"{task} {doc}", " x") for task in "abcd" for doc in range(25)]
POISON = LoglikelihoodRequest("c 7", " x")


def unit_responses(unit: Unit, number: int | None = None) -> list[Response[Output | FailedRequest]]:
    positions = {request: position for position, request in enumerate(unit)}
    return [(positions[request], output) for request, output in LocalExecutor(DummyModel()).run([unit])][:number]


class FakePool:
    """Workers in this process whose responses are known.

    `fails` says after how many responses a unit kills its worker, or None where it does not.
    """

    def __init__(self, size: int, fails: Callable[[Unit], int | None] = lambda unit: None, *, dead: bool = True):
        self.size = size
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

    def submit(self, worker: int, unit: Unit) -> None:
        self.asked.append((worker, unit))
        fails = self._fails(unit)
        self._pending += [Responded(worker, [response], Usage(prefill=1)) for response in unit_responses(unit, fails)]
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
    return dict(responses(LocalExecutor(DummyModel()), units(requests)))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_pool_gives_the_responses_of_one_model(size: int) -> None:
    executor = PoolExecutor(FakePool(size))
    assert dict(responses(executor, units(REQUESTS))) == local()
    assert executor.retry_count == 0
    assert executor.usage == Usage(prefill=len(REQUESTS))


def test_units_go_to_whoever_is_free() -> None:
    pool = FakePool(2)
    list(responses(PoolExecutor(pool), units(REQUESTS)))
    assert {worker for worker, _ in pool.asked} == {1, 2}
    assert sum(len(unit) for _, unit in pool.asked) == len(REQUESTS)


def test_workers_are_kept_for_the_next_requests() -> None:
    executor = PoolExecutor(FakePool(2))
    assert dict(executor.run([REQUESTS[:50]])) | dict(executor.run([REQUESTS[50:]])) == local()


def test_only_the_missing_requests_of_a_dead_worker_are_run_again() -> None:
    fails = Once(POISON, after=5)
    pool = FakePool(3, fails)
    executor = PoolExecutor(pool)
    stream = list(responses(executor, units(REQUESTS)))
    assert dict(stream) == local()
    assert len(stream) == len(REQUESTS)
    assert executor.retry_count == fails.failed - 5
    assert sum(len(unit) for _, unit in pool.asked) == len(REQUESTS) + executor.retry_count
    assert executor.usage == Usage(prefill=len(REQUESTS))  # with what the dead worker had computed


@pytest.mark.parametrize("dead", [True, False])
def test_a_poisoned_request_is_found_and_reported_and_all_others_get_a_response(dead: bool) -> None:
    pool = FakePool(2, lambda unit: 0 if POISON in unit else None, dead=dead)
    output = dict(responses(PoolExecutor(pool), units(REQUESTS)))
    failed = output.pop(POISON)
    assert isinstance(failed, FailedRequest)
    assert failed.reason == "its worker died"
    assert output == local([request for request in REQUESTS if request != POISON])
    times = sum(POISON in unit for _, unit in pool.asked)
    assert times == failed.retried + 1 <= 10


def test_a_poisoned_request_alone_is_asked_three_times() -> None:
    pool = FakePool(1, lambda unit: 0)
    assert dict(responses(PoolExecutor(pool), units([POISON]))) == {
        POISON: FailedRequest(reason="its worker died", retried=2)
    }
    assert len(pool.asked) == 3


def test_workers_that_fail_on_everything_end_the_run() -> None:
    with pytest.raises(ModelError, match="the workers fail on every unit: its worker died"):
        list(responses(PoolExecutor(FakePool(1, lambda unit: 0)), units(REQUESTS * 10)))


def test_after_a_stop_nothing_more_is_asked_and_what_is_in_flight_is_stored(tmp_path) -> None:
    pool = FakePool(2)
    store = Store(tmp_path / "answers.db")
    with stoppable():
        stream = responses(PoolExecutor(pool), units(REQUESTS), identity="m", store=store)
        came = dict([next(stream)])
        request_stop()
        came |= dict(stream)
    assert pool.stopped
    assert 0 < len(came) == sum(len(unit) for _, unit in pool.asked) < len(REQUESTS)
    assert store.known("m", REQUESTS) == came


def test_a_run_that_ended_early_leaves_nothing_to_the_next_one() -> None:
    """As in a sweep, where a run fails and the next one has the same workers."""
    pool = FakePool(2)
    executor = PoolExecutor(pool)
    stream = responses(executor, units(REQUESTS))
    next(stream)
    stream.close()
    assert dict(executor.run([REQUESTS])) == local()
    assert {worker for worker, _ in pool.asked} == {1, 2, 3, 4}


def test_an_error_of_the_pool_leaves_nothing_to_the_next_run() -> None:
    failing = True
    pool = FakePool(2, lambda unit: 0 if failing else None)
    executor = PoolExecutor(pool)
    with pytest.raises(ModelError):
        list(responses(executor, units(REQUESTS * 10)))
    failing = False
    assert dict(responses(executor, units(REQUESTS))) == local()


def test_requests_that_a_worker_leaves_without_a_response_are_asked_again() -> None:
    class Forgetful(FakePool):
        def submit(self, worker: int, unit: Unit) -> None:
            first = not self.asked
            super().submit(worker, unit)
            if first:
                self._pending.remove(next(event for event in self._pending if isinstance(event, Responded)))

    executor = PoolExecutor(Forgetful(2))
    assert dict(responses(executor, units(REQUESTS))) == local()
    assert executor.retry_count == 1


def test_a_driver_that_died_asks_nothing_twice(tmp_path) -> None:
    store = Store(tmp_path / "answers.db")
    stream = responses(PoolExecutor(FakePool(2)), units(REQUESTS), identity="m", store=store)
    for _ in range(30):
        next(stream)
    stream.close()
    known = store.known("m", REQUESTS)
    assert len(known) == 30
    pool = FakePool(2)
    rest = dict(responses(PoolExecutor(pool), units(r for r in REQUESTS if r not in known), identity="m", store=store))
    assert known | rest == local()
    assert sum(len(unit) for _, unit in pool.asked) == len(REQUESTS) - 30
