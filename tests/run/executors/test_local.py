"""Executors: units of work in, responses out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.models.dummy import DummyModel
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    Response,
    RollingRequest,
)
from multiform.run.executors import LocalExecutor, Unit, units
from multiform.stopping import request_stop, stoppable

REQUESTS: list[Request] = [
    GenerationRequest.of("Say", {"until": ["\n"]}),
    LoglikelihoodRequest("a", "b"),
    RollingRequest("text"),
    LoglikelihoodRequest("a", "c"),
    LoglikelihoodRequest("a", "b"),
    GenerationRequest.of("Say", {"until": ["\n"]}, sample=1),
]


class Backwards(DummyModel):
    """Responds to the last request first."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        yield from reversed(list(super().loglikelihood(requests)))


class Forgetful(DummyModel):
    """Leaves the last request out."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        return super().loglikelihood(requests[:-1])


class Twice(DummyModel):
    """Responds to the first request again and again."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        yield from [(0, LLOutput(-1.0)), (0, LLOutput(-2.0))]


class Broken(DummyModel):
    """Fails after its first response."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        yield from super().loglikelihood(requests[:1])
        raise RuntimeError("the device is gone")


class Elsewhere:
    """Does every unit in a thread of its own, as another machine would."""

    retried = 0

    def run(self, units: Iterable[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        with ThreadPoolExecutor() as pool:
            for done in pool.map(lambda unit: list(LocalExecutor(DummyModel()).run([unit])), units):
                yield from done


def test_a_unit_holds_requests_of_one_kind_and_none_twice() -> None:
    made = units(REQUESTS)
    assert [{type(request) for request in unit} for unit in made] == [
        {LoglikelihoodRequest},
        {RollingRequest},
        {GenerationRequest},
    ]
    assert sorted(map(repr, (request for unit in made for request in unit))) == sorted(map(repr, set(REQUESTS)))


def test_nothing_to_ask_is_no_unit() -> None:
    assert units([]) == []
    assert list(LocalExecutor(DummyModel()).run([])) == []


def test_responses_belong_to_their_requests_in_whatever_order_they_come() -> None:
    assert dict(LocalExecutor(Backwards()).run(units(REQUESTS))) == dict(
        LocalExecutor(DummyModel()).run(units(REQUESTS))
    )


def test_another_executor_gives_the_same_responses() -> None:
    assert dict(Elsewhere().run(units(REQUESTS))) == dict(LocalExecutor(DummyModel()).run(units(REQUESTS)))


def test_units_may_be_smaller_than_all_that_is_asked() -> None:
    apart: list[Unit] = [[request] for request in dict.fromkeys(REQUESTS)]
    assert dict(LocalExecutor(DummyModel()).run(apart)) == dict(LocalExecutor(DummyModel()).run(units(REQUESTS)))


def test_a_request_without_a_response_has_failed() -> None:
    outputs = dict(LocalExecutor(Forgetful()).run(units(REQUESTS)))
    assert outputs.pop(LoglikelihoodRequest("a", "c")) == FailedRequest(reason="model 'dummy' gave no response")
    assert not any(isinstance(output, FailedRequest) for output in outputs.values())


def test_a_request_with_two_responses_is_an_error() -> None:
    with pytest.raises(ModelError, match="model 'dummy' gave a second response to request 0"):
        list(LocalExecutor(Twice()).run(units(REQUESTS)))


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (LLOutput(math.nan), "the log-likelihood is nan"),
        (LLOutput(math.inf), "the log-likelihood is inf"),
        (LLOutput("low"), "the log-likelihood is 'low'"),  # type: ignore[arg-type]
        (Completion("yes"), "expected a log-likelihood, got Completion"),
        (-1.0, "expected a log-likelihood, got -1.0"),
        (FailedRequest(reason="HTTP 400", retried=3), "HTTP 400"),
    ],
)
def test_what_is_no_response_has_failed(output: Any, reason: str) -> None:
    class Bad(DummyModel):
        def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
            yield 0, output
            yield 1, LLOutput(-math.inf)

    outputs = dict(LocalExecutor(Bad()).run(units(REQUESTS)))
    failed = outputs[LoglikelihoodRequest("a", "b")]
    assert isinstance(failed, FailedRequest)
    assert failed.reason.startswith(reason)
    assert outputs[LoglikelihoodRequest("a", "c")] == LLOutput(-math.inf)


def test_after_a_stop_the_stream_ends_with_the_next_response() -> None:
    with stoppable():
        stream = LocalExecutor(DummyModel()).run(units(REQUESTS))
        next(stream)
        request_stop()
        assert list(stream) == []
    assert len(list(LocalExecutor(DummyModel()).run(units(REQUESTS)))) == 5


def test_a_failing_model_is_an_error_and_keeps_earlier_responses() -> None:
    came: list[object] = []
    with pytest.raises(ModelError, match="model 'dummy' failed: RuntimeError: the device is gone"):
        came.extend(LocalExecutor(Broken()).run(units(REQUESTS)))
    asked = LocalExecutor(Broken()).run(units(REQUESTS))
    assert next(asked)[0] == LoglikelihoodRequest("a", "b")
