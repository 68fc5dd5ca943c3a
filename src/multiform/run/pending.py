"""PendingSamples: samples that wait for responses: looked up, run and scored, on the driver or on a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from multiform.errors import MultiformError
from multiform.forms import Form, Sample, ScoredSample
from multiform.models import Model
from multiform.requests import FailedRequest, Instance, Output, Request
from multiform.results.values import FailedDoc
from multiform.run.executors.local import ResponseStore, Unit, UnitRunner, responses, units
from multiform.run.store import CachedResponses
from multiform.stopping import request_stop, stop_requested


@dataclass(slots=True)
class PendingSample:
    """A sample that waits for responses: `waiting` is the number of its distinct requests that have none yet."""

    form: Form
    sample: Sample
    waiting: int = 0
    outputs: dict[Request, Output | FailedRequest] = field(default_factory=dict)


class SampleSink(Protocol):
    """Gets what comes of samples."""

    def on_chunk(self, entries: Sequence[PendingSample]) -> None:
        """Samples begin to wait; those without requests, which a task leaves out, are done."""

    def on_look_up(self, cached: CachedResponses, missing: Sequence[Request]) -> None:
        """Requests that nobody has asked before: those that are cached, and those that the model has to run."""

    def on_begin(self, missing: Sequence[Request]) -> None:
        """The model is about to run requests; the samples of those that are cached are scored."""

    def on_score(self, entry: PendingSample, scored: Sequence[ScoredSample], outputs: tuple[Output, ...]) -> None:
        """A sample has all its responses, and is scored."""

    def on_failure(self, entry: PendingSample, failed: FailedDoc) -> None:
        """A request of a sample has failed."""


class PendingSamples:
    """Runs samples on a model, and scores each as soon as its last response arrives.

    Responses that the store has come from there, unless the run is `fresh`. A mistake in a task that a document shows
    ends the run: no further request is started, and those in flight are still stored.
    """

    def __init__(
        self, model: Model, executor: UnitRunner, store: ResponseStore | None, sink: SampleSink, *, fresh: bool = False
    ) -> None:
        self._model = model
        self._executor = executor
        self._store = store
        self._sink = sink
        self._fresh = fresh
        self.mistake: MultiformError | None = None
        #: The samples that need the response, for each request that has none yet; and those that are still to be run.
        self._waiting: dict[Request, list[PendingSample]] = {}
        self._new: list[Request] = []

    def run(self, chunks: Iterable[Sequence[PendingSample]]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        """Yield each response of the model, once it is stored and the samples for which it was the last one are scored.

        A chunk is taken when the executor is done with those before.
        """
        feed = self._units(chunks)
        while (first := next(feed, None)) is not None:
            stream = responses(self._executor, chain([first], feed), identity=self._model.identity, store=self._store)
            with closing(stream):  # responses are stored before anything else happens
                for request, response in stream:
                    if self.mistake is None:
                        try:
                            self._record(request, response)
                        except MultiformError as error:
                            self.end(error)
                    yield request, response
            feed = self._units(())  # what follows from the last responses

    def end(self, mistake: MultiformError) -> None:
        """End the run because of a mistake in a task."""
        self.mistake = mistake
        request_stop()

    def _units(self, chunks: Iterable[Sequence[PendingSample]]) -> Iterator[Unit]:
        """The requests of the chunks that have no response yet, and those that follow from responses so far."""
        try:
            for chunk in chain(chunks, [()]):
                while not stop_requested() and (requests := self._add(chunk)):
                    chunk = ()
                    yield from units(self._look_up(requests))
                if stop_requested():
                    return
        except MultiformError as error:
            self.end(error)

    def _add(self, chunk: Sequence[PendingSample]) -> Sequence[Request]:
        """Take the samples of a chunk; returns what nobody has asked for yet, with what follows from responses."""
        self._sink.on_chunk(chunk)
        for entry in chunk:
            self._await(entry, entry.sample.instances)
        requests, self._new = self._new, []
        return requests

    def _await(self, entry: PendingSample, instances: Sequence[Instance]) -> None:
        """Have a sample wait for the responses to some of its requests that it does not have."""
        for request in dict.fromkeys(instance.request for instance in instances):
            if request in entry.outputs:
                continue
            if request not in self._waiting:
                self._new.append(request)
            self._waiting.setdefault(request, []).append(entry)
            entry.waiting += 1

    def _look_up(self, requests: Sequence[Request]) -> list[Request]:
        """Take the responses that the store has; returns the requests that the model has to run."""
        cached = CachedResponses()
        if self._store is not None and not self._fresh:
            cached = self._store.known(self._model.identity, requests)
        missing = [request for request in requests if request not in cached]
        self._sink.on_look_up(cached, missing)
        for request, output in cached.items():
            self._record(request, output)
        if missing:
            self._sink.on_begin(missing)
        return missing

    def _record(self, request: Request, response: Output | FailedRequest) -> None:
        """Take the response to a request, and score the samples for which it was the last one."""
        for entry in self._waiting.pop(request):
            entry.outputs[request] = response
            entry.waiting -= 1
            if entry.waiting == 0:
                self._finish(entry)

    def _finish(self, entry: PendingSample) -> None:
        """Score a sample that has all its responses, have it wait for further ones, or report that it failed."""
        outputs = [entry.outputs[instance.request] for instance in entry.sample.instances]
        failed = FailedDoc.of(entry.sample, outputs)
        if failed is not None:
            self._sink.on_failure(entry, failed)
            return
        known = tuple(output for output in outputs if not isinstance(output, FailedRequest))
        following = entry.form.continue_sample(entry.sample, known, self._model.apply_chat_template)
        if following is not None:
            added = following.instances[len(entry.sample.instances) :]
            entry.sample = following
            self._await(entry, added)
            if entry.waiting == 0:
                self._finish(entry)
            return
        self._sink.on_score(entry, entry.form.score(entry.sample, known), known)
