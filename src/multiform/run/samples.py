"""Runs forms on a model and scores every sample as soon as its last response arrives."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from typing import Literal, Protocol

from multiform.errors import ModelError, MultiformError
from multiform.forms import Sample, ScoredSample
from multiform.models import Model
from multiform.models.model import Usage, Workload
from multiform.requests import FailedRequest, Output, Request
from multiform.results.groups import TaskStops
from multiform.results.values import FailedDoc
from multiform.run.executors import Executor, LocalExecutor, responses
from multiform.run.failures import ErrorPolicy
from multiform.run.pending import PendingSample, by_form
from multiform.run.progress import Progress, WatchingProgress
from multiform.run.status import RunningScore, RunStatus
from multiform.run.store import CachedResponses, Store
from multiform.stopping import request_stop, stoppable

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
        """The run begins: the number of its distinct requests, and how many of them are cached."""

    def on_response(self, failed: bool) -> None:
        """The model has responded to a request, or it has failed."""

    def on_score(self, form: str, samples: Sequence[ScoredSample]) -> None:
        """A document of a form is scored, once by each scorer."""

    def on_failure(self, form: str, doc: FailedDoc) -> None:
        """A document of a form has no scores."""


def run_samples(
    model: Model,
    pending: Sequence[PendingSample],
    progress: Progress,
    store: Store | None = None,
    *,
    policy: ErrorPolicy = _DEFAULT_POLICY,
    fresh: bool = False,
    log: RunLog | None = None,
    executor: Executor | None = None,
) -> RunOutcome:
    """Run the requests that are not cached, and score each sample as soon as its last response arrives.

    Requests that follow from the responses to a sample (`Form.continue_sample`) are run in a wave of their own.
    The `executor` runs them, by default in this process. With `fresh`, all requests are run, and the new responses
    replace the cached ones. Whatever ends the run, requests in flight are finished and stored first; only a second
    signal does not wait for them.
    """
    run = _Run(pending, progress, log, model)
    executor = executor or LocalExecutor(model)
    run.executor, run.retried_before = executor, executor.retry_count
    for requests in run.waves():
        cached = store.known(model.identity, requests) if store and not fresh else CachedResponses()
        if cached and store:
            since = "" if cached.oldest is None else f", the oldest from {date.fromtimestamp(cached.oldest)}"
            progress.message(f"{len(cached)} of {len(requests)} responses are cached in {store.path}{since}")
        if log is not None:
            log.begin(len(requests), len(cached))
        run.cached += len(cached)
        for request, output in cached.items():
            run.record_response(request, output)
        missing = [request for request in requests if request not in cached]
        if not missing:
            continue
        stream = responses(executor, missing, identity=model.identity, store=store)
        try:
            run.begin(missing, cached=len(cached))
            with stoppable() as stop, closing(stream):  # responses are stored before anything else happens
                unscorable = _receive(run, stream, policy)
        except ModelError as error:
            return run.outcome("failed", error=error)
        finally:
            progress.end()
        if unscorable is not None:
            raise unscorable
        if stop.number is not None and run.unfinished:
            return run.outcome("stopped", signal=stop.number)
        if policy.is_exceeded(run.failures, len(pending)):
            return run.outcome("failed")
    return run.outcome("failed" if run.failures and policy.on_error == "stop" else "complete")


def _receive(
    run: _Run, stream: Iterator[tuple[Request, Output | FailedRequest]], policy: ErrorPolicy
) -> MultiformError | None:
    """Score responses as they arrive; returns the error of a document that cannot be scored, a mistake in its task.

    After such an error, or too many failures, no further request is started, and those in flight are still stored.
    """
    for request, response in stream:
        try:
            run.take_response(request, response)
        except MultiformError as error:
            request_stop()
            for late, _ in stream:
                run.count(late)
            return error
        if policy.is_exceeded(run.failures, len(run.pending)):
            request_stop()
    return None


def _workload(model: Model, requests: Sequence[Request]) -> Workload | None:
    """The tokens that the requests need; None where the model cannot tell, for instance because it is broken."""
    try:
        return model.workload(requests)
    except MultiformError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
        logger.debug("the model cannot say what the requests take: %s", error)
        return None


def _planned_words(workload: Workload) -> str:
    """The plan of a run in words: the tokens to compute, and those saved by prefix sharing."""
    words = f"plan: {workload.prefill:,} prompt tokens to compute"
    if workload.unshared > workload.prefill:
        times = workload.unshared / max(1, workload.prefill)
        words += f" for {workload.unshared:,} ({times:.1f} times less, as prompts share their beginnings)"
    if workload.completions:
        words += f", and at most {workload.decode:,} tokens of {workload.completions:,} completions"
    return words


class _Run:
    """The samples of a run, each scored when its last response comes."""

    def __init__(self, pending: Sequence[PendingSample], progress: Progress, log: RunLog | None, model: Model) -> None:
        self.pending = pending
        self.progress = progress
        self._model = model
        self.log = log
        #: The samples that need the response, for each distinct request.
        self.waiting: dict[Request, list[PendingSample]] = {}
        for entry in pending:
            for request in dict.fromkeys(instance.request for instance in entry.sample.instances):
                self.waiting.setdefault(request, []).append(entry)
        #: The requests of the next wave.
        self._following: list[Request] = []
        self._outputs: dict[Request, Output | FailedRequest] = {}
        self._scored: dict[str, list[ScoredSample]] = {entry.form.name: [] for entry in pending}
        self._failed: dict[str, list[FailedDoc]] = {entry.form.name: [] for entry in pending}
        self._running = {entry.form.name: _RunningMean() for entry in pending}
        self._documents = Counter(entry.form.name for entry in pending)
        #: How many documents have failed so far.
        self.failures = 0
        #: The executor, once the run has begun, and how many requests it ran again in runs before this one.
        self.executor: Executor | None = None
        self.retried_before = 0
        #: How many of the requests were cached.
        self.cached = 0
        #: The progress of the first and of the current wave, once they have begun.
        self._first_status: RunStatus | None = None
        self.status: RunStatus | None = None
        self._scores_due = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether a document is neither scored nor failed."""
        return len(self._outputs) < len(self.waiting)

    def waves(self) -> Iterator[Sequence[Request]]:
        """The requests of all samples; and as long as there are any, those that follow from the responses to them."""
        yield list(self.waiting)
        while self._following:
            requests, self._following = self._following, []
            yield requests

    def begin(self, missing: Sequence[Request], *, cached: int) -> None:
        """Begin to run the missing requests of a wave; where a display watches, plan them first."""
        workload = None
        if isinstance(self.progress, WatchingProgress):
            self.progress.message("planning")
            workload = _workload(self._model, missing)
        if workload is not None:
            self.progress.message(_planned_words(workload))
        first = self._first_status is None
        waiting = len(self.pending) if first else sum(entry.waiting > 0 for entry in self.pending)
        self.progress.begin(len(missing), waiting)
        self.status = RunStatus(missing, cached=cached, workload=workload, usage=self._model.usage)
        self._first_status = self._first_status or self.status
        if isinstance(self.progress, WatchingProgress):
            self._update_scores()
            self.progress.watch(self.status)

    def count(self, request: Request) -> None:
        """The model has responded to a request."""
        if self.status is not None:
            self.status.count(request)
        self.progress.on_response()

    def take_response(self, request: Request, response: Output | FailedRequest) -> None:
        """Take a response that the model has just returned."""
        self.count(request)
        if self.log is not None:
            self.log.on_response(isinstance(response, FailedRequest))
        self.record_response(request, response)
        if isinstance(self.progress, WatchingProgress) and time.monotonic() >= self._scores_due:
            self._update_scores()

    def record_response(self, request: Request, response: Output | FailedRequest) -> None:
        """Take the response to a request, and score the samples for which it was the last one."""
        self._outputs[request] = response
        for entry in self.waiting[request]:
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
            for name, entries in by_form(self.pending).items():
                with_outputs = [(entry.sample, entry.outputs) for entry in entries if entry.outputs]
                self._scored[name] += entries[0].form.scorer.score_together(with_outputs)
        if isinstance(self.progress, WatchingProgress):
            self._update_scores()
        return RunOutcome(
            state=state,
            scored={name: sorted(samples, key=_doc_id) for name, samples in self._scored.items()},
            failed={name: sorted(docs, key=_doc_id) for name, docs in self._failed.items() if docs},
            documents=len(self.pending),
            signal=signal,
            error=error,
            requests=len(self.waiting),
            cached=self.cached,
            retried=0 if self.executor is None else self.executor.retry_count - self.retried_before,
            usage=None if self._first_status is None else self._first_status.usage,
        )

    def _update_scores(self) -> None:
        """Compute the scores of all forms so far, for displays; less often where it takes long."""
        if self.status is None:
            return
        started = time.monotonic()
        tasks = {entry.form.name: entry.form for entry in self.pending}
        scores = []
        for form, samples in self._scored.items():
            first = tasks[form].aggregator.first_estimate(samples)
            if first is not None:
                metric, estimate = first
                scores.append(
                    RunningScore(form=form, metric=metric, estimate=estimate, documents=self._documents[form])
                )
        self.status.scores = scores
        spent = time.monotonic() - started
        self._scores_due = started + max(_SCORES_PAUSE, 20 * spent)

    def _finish(self, entry: PendingSample) -> None:
        """Score a sample that has all its responses, have it wait for further ones, or record that it failed."""
        form, outputs = entry.form.name, [self._outputs[instance.request] for instance in entry.sample.instances]
        failed = FailedDoc.of(entry.sample, outputs)
        if failed is not None:
            self._failed[form].append(failed)
            self.failures += 1
            if self.failures <= _LOGGED_FAILURES:
                logger.warning("%s: doc %d failed: %s", form, failed.doc_id, failed.reason)
            if self.log is not None:
                self.log.on_failure(form, failed)
            return
        known = tuple(output for output in outputs if not isinstance(output, FailedRequest))
        following = entry.form.continue_sample(entry.sample, known, self._model.apply_chat_template)
        if following is not None:
            self._wait(entry, following)
            return
        entry.outputs = known
        scored = entry.form.score(entry.sample, entry.outputs)
        self._scored[form] += scored
        self._running[form].show(form, scored, self.progress)
        if self.log is not None:
            self.log.on_score(form, scored)

    def _wait(self, entry: PendingSample, following: Sample) -> None:
        """Have a sample wait for the responses to its next requests, and finish it where all of them are known."""
        added = following.instances[len(entry.sample.instances) :]
        entry.sample = following
        for request in dict.fromkeys(instance.request for instance in added):
            if request in self._outputs:
                continue
            if request not in self.waiting:
                self._following.append(request)
            self.waiting.setdefault(request, []).append(entry)
            entry.waiting += 1
        if entry.waiting == 0:
            self._finish(entry)


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
