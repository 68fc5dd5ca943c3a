"""PendingSamples: samples that wait for responses: looked up, run and scored, on the driver or on a worker."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from multiform.errors import MultiformError
from multiform.forms import Form, Sample
from multiform.models import Model
from multiform.models.model import Usage
from multiform.requests import FailedRequest, Instance, Output, Request, Response, request_key, request_size
from multiform.results.values import FailedDoc
from multiform.run.executors import Executor, units
from multiform.run.store import CachedResponses, Row, response_row
from multiform.stopping import request_stop, stop_requested


@dataclass(slots=True)
class PendingSample:
    """A sample that waits for responses: `waiting` is the number of its distinct requests that have none yet."""

    form: Form
    sample: Sample
    waiting: int = 0
    outputs: dict[Request, Output | FailedRequest] = field(default_factory=dict)
    #: Its place among the samples that are run together.
    place: int = 0


@dataclass(slots=True, kw_only=True)
class Batch:
    """What was done since the last look, in this process or on a worker: with samples, or for requests alone."""

    rendered: int = 0
    #: The places of samples that are scored, failed, or left out by their task; or those of requests with a response.
    finished: list[int] = field(default_factory=list)
    #: The requests that the model is about to run; workers do not send them.
    missing: list[Request] = field(default_factory=list)
    #: Hashes of the requests that were looked up, by whether they were cached, and when the oldest of those came.
    asked: array[int] = field(default_factory=lambda: array("q"))
    cached: array[int] = field(default_factory=lambda: array("q"))
    oldest: int | None = None
    #: The lengths of the requests that were asked, and of those that have responses.
    size_asked: int = 0
    size_done: int = 0
    responses: int = 0
    failed_requests: int = 0
    #: The responses as rows of the store.
    rows: list[Row] = field(default_factory=list)
    #: The scored samples of each form, and how many documents of each form have all their responses.
    scored: dict[str, Any] = field(default_factory=dict)
    documents: Counter[str] = field(default_factory=Counter)
    #: Samples with outputs, for scorers that need all of them at once.
    together: dict[str, Any] = field(default_factory=dict)
    #: The names of values that the metrics of forms have given, beside their own.
    value_names: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    failed: list[tuple[str, FailedDoc]] = field(default_factory=list)
    #: A mistake in a task, which ends the run.
    mistake: MultiformError | None = None

    # What workers send as well.

    #: The outputs of requests that the driver has rendered, by their places.
    outputs: list[Response[Output | FailedRequest]] = field(default_factory=list)
    #: Documents or requests that made workers fail again and again: why, and how often they were tried once more.
    given_up: list[tuple[Any, str, int]] = field(default_factory=list)
    #: Documents that the worker cannot read, and why.
    unreadable: tuple[Sequence[Any], str] | None = None
    #: What was logged, what the model has computed, and the tokens that its server has counted.
    logged: list[tuple[int, str]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    server_tokens: Mapping[str, int] = field(default_factory=dict)


class ResponseReader(Protocol):
    """Where responses are looked up: the store of the driver, or a worker's view of it."""

    def read_responses(self, identity: str, requests: Mapping[bytes, Request]) -> CachedResponses:
        """The requests, which come by their keys, whose responses by this model are cached, with their outputs."""


class PendingSamples:
    """Runs samples on a model, and scores each as soon as its last response arrives.

    Responses that `cache` has come from there; with `stores`, the others are rows of batches. `check` may refuse
    requests before they are run. A mistake in a task that a document shows ends the run: no further request is started,
    and those in flight are still stored.
    """

    def __init__(
        self,
        model: Model,
        executor: Executor,
        cache: ResponseReader | None = None,
        *,
        stores: bool = False,
        check: Callable[[Sequence[Request]], None] | None = None,
    ) -> None:
        self._model = model
        self._executor = executor
        self._cache = cache
        self._stores = stores
        self._check = check
        self._batch = Batch()
        self._added = 0
        self._has_ended = False
        #: For each request that has no response yet, its key and the samples that need the response; and the requests
        #: that are still to be looked up.
        self._waiting: dict[Request, tuple[bytes, list[PendingSample]]] = {}
        self._new: list[Request] = []

    def run(self, chunks: Iterable[Sequence[PendingSample]], pause: float = 0.0) -> Iterator[Batch]:
        """Yield what was done: before the model begins, after each response or every `pause` seconds, and at the end.

        A chunk is taken when the executor is done with those before, or can run some of it meanwhile.
        """
        remaining = iter(chunks)
        sent = time.monotonic()
        while (first := next(self._units(remaining), None)) is not None:
            yield self._pop()
            if not first:
                continue
            following = self._units(remaining) if self._executor.takes_ahead else ()
            with closing(self._executor.run(chain(first, chain.from_iterable(following)))) as stream:
                for request, response in stream:
                    self._take(request, response)
                    if time.monotonic() - sent >= pause:
                        yield self._pop()
                        sent = time.monotonic()
        yield self._pop()

    def _pop(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch

    def _end(self, mistake: MultiformError) -> None:
        """End the run because of a mistake in a task."""
        self._batch.mistake = mistake
        self._has_ended = True
        request_stop()

    def _units(self, chunks: Iterator[Sequence[PendingSample]]) -> Iterator[Sequence[Sequence[Request]]]:
        """The requests that the model has to run: those that follow from responses, then those of chunks, in units.

        It ends at a chunk of which all responses are cached, as what is done with that is held until somebody looks.
        """
        try:
            while not stop_requested():
                if not self._new:
                    chunk = next(chunks, None)
                    if chunk is None:
                        return
                    self._add(chunk)
                requests, self._new = self._new, []
                missing = self._look_up(requests)
                yield units(missing)
                if not missing:
                    return
        except MultiformError as error:
            self._end(error)

    def _add(self, chunk: Sequence[PendingSample]) -> None:
        self._batch.rendered += len(chunk)
        for entry in chunk:
            entry.place, self._added = self._added, self._added + 1
            self._await(entry, entry.sample.instances)
            if not entry.sample.instances:  # a task may leave documents out
                self._batch.finished.append(entry.place)

    def _await(self, entry: PendingSample, instances: Sequence[Instance]) -> None:
        """Have a sample wait for the responses to some of its requests that it does not have."""
        for request in dict.fromkeys(instance.request for instance in instances):
            if request in entry.outputs:
                continue
            if request not in self._waiting:
                self._waiting[request] = request_key(request), []
                self._new.append(request)
            self._waiting[request][1].append(entry)
            entry.waiting += 1

    def _look_up(self, requests: Sequence[Request]) -> list[Request]:
        """Take the responses that are cached; returns the requests that the model has to run."""
        keys = {request: self._waiting[request][0] for request in requests}
        cached = CachedResponses()
        if self._cache is not None and keys:
            cached = self._cache.read_responses(self._model.identity, {key: request for request, key in keys.items()})
        missing = [request for request in requests if request not in cached]
        batch = self._batch
        batch.asked.extend(short_key(keys[request]) for request in missing)
        batch.cached.extend(short_key(keys[request]) for request in cached)
        batch.oldest = min((when for when in (batch.oldest, cached.oldest) if when is not None), default=None)
        for request, output in cached.items():
            self._record(request, output)
        if missing and self._check is not None:
            self._check(missing)
        batch.missing += missing
        batch.size_asked += sum(map(request_size, missing))
        return missing

    def _take(self, request: Request, response: Output | FailedRequest) -> None:
        """Take the response of the model to a request."""
        self._batch.responses += 1
        self._batch.size_done += request_size(request)
        if isinstance(response, FailedRequest):
            self._batch.failed_requests += 1
        elif self._stores:
            self._batch.rows.append(response_row(self._model.identity, self._waiting[request][0], response))
        if not self._has_ended:
            try:
                self._record(request, response)
            except MultiformError as error:
                self._end(error)

    def _record(self, request: Request, response: Output | FailedRequest) -> None:
        """Have the samples that need a response take it; those for which it was the last one are scored."""
        for entry in self._waiting.pop(request)[1]:
            entry.outputs[request] = response
            entry.waiting -= 1
            if entry.waiting == 0:
                self._finish(entry)

    def _finish(self, entry: PendingSample) -> None:
        """Score a sample that has all its responses, have it wait for further ones, or report that it failed."""
        form, batch = entry.form, self._batch
        outputs = [entry.outputs[instance.request] for instance in entry.sample.instances]
        known = tuple(output for output in outputs if not isinstance(output, FailedRequest))
        if len(known) < len(outputs):
            batch.finished.append(entry.place)
            batch.failed.append((form.name, FailedDoc.of(entry.sample, outputs)))
            return
        following = form.continue_sample(entry.sample, known, self._model.apply_chat_template)
        if following is not None:
            added = following.instances[len(entry.sample.instances) :]
            entry.sample = following
            self._await(entry, added)
            if entry.waiting == 0:
                self._finish(entry)
            return
        batch.scored.setdefault(form.name, []).extend(form.score(entry.sample, known))
        batch.finished.append(entry.place)
        batch.documents[form.name] += 1
        if any(scorer.deferred for scorer in form.scorer.scorers):
            batch.together.setdefault(form.name, []).append((entry.sample, known))


def short_key(key: bytes) -> int:
    """Eight bytes of the key of a request, which tell it from others in the count of a run."""
    return int.from_bytes(key[:8], "big", signed=True)
