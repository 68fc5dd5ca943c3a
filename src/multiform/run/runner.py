"""Runner: runs samples on a model, chunk by chunk, and scores each as soon as its last response arrives."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Literal, Protocol

from multiform.errors import ModelError, MultiformError
from multiform.forms import Form, Sample, ScoredSample
from multiform.models import Model
from multiform.models.model import Usage, Workload
from multiform.requests import FailedRequest, Instance, Output, Request
from multiform.results.groups import TaskStops
from multiform.results.values import FailedDoc
from multiform.run.documents import PendingSample
from multiform.run.executors import Executor, LocalExecutor, Unit, responses, units
from multiform.run.limits import ErrorPolicy, Spending, workload_words
from multiform.run.progress import Progress, WatchingProgress
from multiform.run.spool import ScoredSamples
from multiform.run.status import RunningScore, RunStatus
from multiform.run.store import CachedResponses, Store
from multiform.stopping import request_stop, stop_requested, stoppable

logger = logging.getLogger("multiform")

_DEFAULT_POLICY = ErrorPolicy()
#: How many failed documents are logged one by one as they fail.
_LOGGED_FAILURES = 5
#: Seconds between two computations of the running scores that displays show, at least.
_SCORES_PAUSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of running samples on a model: the scored samples and the failed documents of each form.

    `state` is "complete" when every document is scored or has failed; "stopped" when a signal ended the run before,
    whose number is `signal`; and "failed" when the model itself failed (`error`) or too many documents did.
    """

    state: Literal["complete", "stopped", "failed"]
    scored: Mapping[str, Sequence[ScoredSample]]
    failed: Mapping[str, Sequence[FailedDoc]]
    documents: int
    signal: int | None = None
    error: ModelError | None = None
    #: Distinct requests, how many of them were cached, how many were run again because a worker failed, and the tokens
    #: that the model computed, where it counts them.
    requests: int = 0
    cached: int = 0
    retried: int = 0
    usage: Usage | None = None
    #: Where a schedule stopped early.
    stops: Sequence[TaskStops] = ()


class RunLog(Protocol):
    """Receives the events of a run, to keep a record of it on disk."""

    def begin(self, requests: int, cached: int) -> None:
        """A chunk of the run begins: the number of its distinct requests, and how many of them are cached."""

    def on_response(self, failed: bool) -> None:
        """The model has responded to a request, or it has failed."""

    def on_score(self, form: str, samples: Sequence[ScoredSample]) -> None:
        """A document of a form is scored, once by each scorer."""

    def on_failure(self, form: str, doc: FailedDoc) -> None:
        """A document of a form has no scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs samples on a model: cached responses come from the store, the others from the executor.

    With `fresh`, all requests are run, and the new responses replace the cached ones. Once the `spending` is beyond its
    limit, no request is begun. Whatever ends a run, requests in flight are finished and stored first; only a second
    signal does not wait for them.
    """

    model: Model
    #: In this process where there is none.
    executor: Executor | None = None
    store: Store | None = None
    fresh: bool = False
    logs: Sequence[RunLog] = ()
    spending: Spending | None = None

    def run(
        self,
        chunks: Iterable[Sequence[PendingSample]],
        progress: Progress,
        *,
        documents: Mapping[str, int],
        policy: ErrorPolicy = _DEFAULT_POLICY,
        meanwhile: Callable[[], None] | None = None,
    ) -> RunOutcome:
        """Run the samples of all chunks, and score them; a chunk is taken when the executor is done with those before.

        `documents` is the number of each form's, and `meanwhile` is called after each response.
        """
        run = _Run(self, documents, progress, policy)
        self.model.begin_run(fresh=self.fresh, flush=self.store.flush if self.store else lambda: True)
        feed = run.units(chunks)
        try:
            with stoppable() as stop:
                while (first := next(feed, None)) is not None:
                    units_left = chain([first], feed)
                    stream = responses(run.executor, units_left, identity=self.model.identity, store=self.store)
                    with closing(stream):  # responses are stored before anything else happens
                        run.receive(stream, meanwhile)
                    feed = run.units(())  # what follows from the last responses
        except ModelError as error:
            return run.outcome("failed", error=error)
        finally:
            if run.status is not None:
                run.update_scores()  # the last ones are shown
                progress.end()
        if run.mistake is not None:
            raise run.mistake
        if stop.number is not None and run.unfinished:
            return run.outcome("stopped", signal=stop.number)
        if run.is_too_expensive and run.unfinished:
            return run.outcome("stopped")
        failed = run.failures and policy.on_error == "stop"
        return run.outcome("failed" if failed or run.has_too_many_failures else "complete")


def _workload(model: Model, requests: Sequence[Request]) -> Workload | None:
    """The tokens that the requests need; None where the model cannot tell, for instance because it is broken."""
    try:
        return model.workload(requests)
    except MultiformError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
        logger.debug("the model cannot say what the requests take: %s", error)
        return None


class _Run:
    """The samples of a run, each scored when its last response comes, and forgotten."""

    def __init__(self, runner: Runner, documents: Mapping[str, int], progress: Progress, policy: ErrorPolicy) -> None:
        self.runner = runner
        self.executor = runner.executor or LocalExecutor(runner.model)
        self.progress = progress
        self._watching = progress if isinstance(progress, WatchingProgress) else None
        self.policy = policy
        self.documents = documents
        self.total = sum(documents.values())
        #: A mistake in a task that a document showed, which ends the run.
        self.mistake: MultiformError | None = None
        #: How many documents have failed so far.
        self.failures = 0
        #: The progress of the run, once the model is needed.
        self.status: RunStatus | None = None
        self._forms: dict[str, Form] = {}
        #: The samples that need the response, for each request that has none yet; and those that are still to be run.
        self._waiting: dict[Request, list[PendingSample]] = {}
        self._new: list[Request] = []
        self._requests = _DistinctRequests()
        self._rendered = self._finished = 0
        self._scored = ScoredSamples(documents)
        self._failed: dict[str, list[FailedDoc]] = {form: [] for form in documents}
        #: Samples of scorers that need all of them at once.
        self._together: dict[str, list[tuple[Sample, tuple[Output, ...]]]] = {form: [] for form in documents}
        self._running = {form: _RunningMean() for form in documents}
        self._retried_before = self.executor.retry_count
        self._scores_due = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether a document is neither scored nor failed."""
        return self._finished < self.total

    @property
    def is_too_expensive(self) -> bool:
        return self.runner.spending is not None and self.runner.spending.is_exceeded

    @property
    def has_too_many_failures(self) -> bool:
        return self.policy.is_exceeded(self.failures, self.total)

    def units(self, chunks: Iterable[Sequence[PendingSample]]) -> Iterator[Unit]:
        """The requests of the chunks that have no response yet, and those that follow from responses so far.

        A mistake in a document ends them, and the run.
        """
        try:
            for chunk in chain(chunks, [()]):
                while not stop_requested() and (requests := self._add(chunk)):
                    chunk = ()
                    if missing := self._look_up(requests):
                        if self.runner.spending is not None:
                            self.runner.spending.check(missing)
                        self._begin(missing)
                        yield from units(missing)
                if stop_requested():
                    return
        except MultiformError as error:
            self.mistake = error
            request_stop()

    def _add(self, chunk: Sequence[PendingSample]) -> Sequence[Request]:
        """Take the samples of a chunk; returns what nobody has asked for yet, with what follows from responses."""
        self._scored.write_out()
        for entry in chunk:
            self._forms[entry.form.name] = entry.form
            self._rendered += 1
            self._finished += not entry.sample.instances  # a task may leave documents out
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
        store = self.runner.store
        cached = CachedResponses()
        if store and not self.runner.fresh:
            cached = store.known(self.runner.model.identity, requests)
        if cached and store and not self._requests.cached:
            since = "" if cached.oldest is None else f", the oldest from {date.fromtimestamp(cached.oldest)}"
            first = "" if self._rendered == self.total else "the first "
            message = f"{len(cached)} of {first}{len(requests)} responses are cached in {store.path}{since}"
            self.progress.message(message)
        for log in self.runner.logs:
            log.begin(len(requests), len(cached))
        missing = [request for request in requests if request not in cached]
        self._requests.add(missing, cached)
        for request, output in cached.items():
            self._record(request, output)
        return missing

    def _begin(self, missing: Sequence[Request]) -> None:
        """Begin to run missing requests; where a display watches, plan them first."""
        model, workload = self.runner.model, None
        share = self._rendered / self.total
        if self._watching is not None:
            if self.status is None:
                self.progress.message("planning")
            workload = _workload(model, missing)
        if self.status is not None:
            self.status.add(missing, cached=self._requests.cached, workload=workload, share=share)
            return
        if workload is not None:
            self.progress.message(f"plan: {workload_words(workload)}")
        if share < 1:
            message = "documents are rendered as the run goes on, and the number of requests is an estimate"
            self.progress.message(message)
        self.status = RunStatus((), usage=model.usage)
        self.status.add(missing, cached=self._requests.cached, workload=workload, share=share)
        self.progress.begin(self.status.requests, self.total)
        if self._watching is not None:
            self.update_scores()
            self._watching.watch(self.status)

    def receive(
        self, stream: Iterator[tuple[Request, Output | FailedRequest]], meanwhile: Callable[[], None] | None
    ) -> None:
        """Score responses as they arrive.

        After a mistake in a task, which a document showed, too many failures or too high a cost, no further request is
        started, and those in flight are still stored.
        """
        for request, response in stream:
            self._count(request)
            if self.mistake is not None:
                continue
            try:
                for log in self.runner.logs:
                    log.on_response(isinstance(response, FailedRequest))
                self._record(request, response)
                if meanwhile is not None:
                    meanwhile()
            except MultiformError as error:
                self.mistake = error
                request_stop()
            if self.has_too_many_failures or self.is_too_expensive:
                request_stop()
            if self._watching is not None and time.monotonic() >= self._scores_due:
                self.update_scores()

    def _count(self, request: Request) -> None:
        """The model has responded to a request."""
        if self.status is not None:
            self.status.count(request)
        self.progress.on_response()

    def _record(self, request: Request, response: Output | FailedRequest) -> None:
        """Take the response to a request, and score the samples for which it was the last one."""
        for entry in self._waiting.pop(request):
            entry.outputs[request] = response
            entry.waiting -= 1
            if entry.waiting == 0:
                self._finish(entry)

    def outcome(
        self,
        state: Literal["complete", "stopped", "failed"],
        *,
        signal: int | None = None,
        error: ModelError | None = None,
    ) -> RunOutcome:
        """The outcome so far; scorers that need all samples at once score those of a complete run."""
        if state == "complete":
            for name, form in self._forms.items():
                samples = sorted(self._together[name], key=lambda pair: pair[0].doc_id)
                self._scored.add(name, form.scorer.score_together(samples))
        requests, cached = self._requests.count()
        return RunOutcome(
            state=state,
            scored=self._scored.by_form(),
            failed={name: sorted(docs, key=_doc_id) for name, docs in self._failed.items() if docs},
            documents=self.total,
            signal=signal,
            error=error,
            requests=requests,
            cached=cached,
            retried=self.executor.retry_count - self._retried_before,
            usage=None if self.status is None else self.status.usage,
        )

    def update_scores(self) -> None:
        """Compute the scores of all forms so far, for displays; less often where it takes long."""
        if self.status is None or self._watching is None:
            return
        started = time.monotonic()
        scores = []
        for form, samples in self._scored.so_far():
            first = self._forms[form].scorer.first_estimate(samples) if form in self._forms else None
            if first is not None:
                metric, estimate = first
                documents = self.documents[form]
                scores.append(RunningScore(form=form, metric=metric, estimate=estimate, documents=documents))
        self.status.scores = scores
        spent = time.monotonic() - started
        self._scores_due = started + max(_SCORES_PAUSE, 20 * spent)

    def _finish(self, entry: PendingSample) -> None:
        """Score a sample that has all its responses, have it wait for further ones, or record that it failed."""
        form, outputs = entry.form.name, [entry.outputs[instance.request] for instance in entry.sample.instances]
        failed = FailedDoc.of(entry.sample, outputs)
        if failed is not None:
            self._finished += 1
            self._failed[form].append(failed)
            self.failures += 1
            if self.failures <= _LOGGED_FAILURES:
                logger.warning("%s: doc %d failed: %s", form, failed.doc_id, failed.reason)
            for log in self.runner.logs:
                log.on_failure(form, failed)
            return
        known = tuple(output for output in outputs if not isinstance(output, FailedRequest))
        following = entry.form.continue_sample(entry.sample, known, self.runner.model.apply_chat_template)
        if following is not None:
            added = following.instances[len(entry.sample.instances) :]
            entry.sample = following
            self._await(entry, added)
            if entry.waiting == 0:
                self._finish(entry)
            return
        self._finished += 1
        scored = entry.form.score(entry.sample, known)
        self._scored.add(form, scored)
        if any(scorer.deferred for scorer in entry.form.scorer.scorers):
            self._together[form].append((entry.sample, known))
        self._running[form].show(form, scored, self.progress)
        for log in self.runner.logs:
            log.on_score(form, scored)


class _DistinctRequests:
    """Counts the requests of a run, of which several chunks may have the same, in eight bytes for each."""

    def __init__(self) -> None:
        self._chunks = 0
        self._asked, self._cached = array("q"), array("q")

    @property
    def cached(self) -> int:
        """How many responses came from the store so far."""
        return len(self._cached)

    def add(self, missing: Iterable[Request], cached: Iterable[Request]) -> None:
        self._chunks += 1
        self._asked.extend(map(hash, missing))
        self._cached.extend(map(hash, cached))

    def count(self) -> tuple[int, int]:
        """The distinct requests, and those of them that were cached when the run began."""
        if self._chunks < 2:
            return len(self._asked) + len(self._cached), len(self._cached)
        import numpy as np

        asked = len(np.unique(self._asked))
        distinct = len(np.unique(self._asked + self._cached))
        return distinct, distinct - asked


def _doc_id(entry: ScoredSample | FailedDoc) -> int:
    return entry.doc_id


@dataclass(slots=True)
class _RunningMean:
    """The running mean of a form's first metric."""

    total: float = 0.0
    n: int = 0

    def show(self, form: str, scored: Sequence[ScoredSample], progress: Progress) -> None:
        metric, value = next(iter(scored[0].values.items()), ("", None)) if scored else ("", None)
        if not isinstance(value, int | float):  # such as the parts of a ratio
            return
        self.total += float(value)
        self.n += 1
        progress.on_score(form, metric, self.total / self.n, self.n)
