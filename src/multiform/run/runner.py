"""Runner: runs samples on a model, chunk by chunk, and scores each as soon as its last response arrives."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Protocol

from multiform.errors import ModelError, MultiformError
from multiform.forms import Form, Sample, ScoredSample
from multiform.models import Model
from multiform.models.model import Usage, Workload
from multiform.requests import FailedRequest, Output, Request, request_size
from multiform.results.groups import TaskStops
from multiform.results.values import FailedDoc
from multiform.run.documents import Documents
from multiform.run.executors import Executor, LocalExecutor
from multiform.run.executors.ranges import DocBatch, RangedDocs, RangeExecutor, short_key
from multiform.run.limits import ErrorPolicy, Spending, workload_words
from multiform.run.pending import PendingSample, PendingSamples
from multiform.run.progress import Progress, WatchingProgress
from multiform.run.spool import ScoredSamples, load_block
from multiform.run.status import RunningScore, RunStatus
from multiform.run.store import CachedResponses, Store
from multiform.run.store.store import request_key
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
        """A chunk of the run begins: the number of its distinct requests, and how many of them are cached."""

    def on_responses(self, number: int, failed: int) -> None:
        """The model has responded to so many requests, and so many others have failed."""

    def on_scores(self, form: str, documents: int, samples: Iterable[ScoredSample]) -> None:
        """Documents of a form are scored, each once by each scorer."""

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
        meanwhile: Callable[[], None] = lambda: None,
        ranged: RangedDocs | None = None,
    ) -> RunOutcome:
        """Run the samples of all chunks, and score them; a chunk is taken when the executor is done with those before.

        `documents` is the number of each form's, `ranged` are those of them that workers render, and `meanwhile` is
        called after each response.
        """
        run = _Run(self, documents, progress, policy)
        run.forms.update({form.name: form for form in ranged.forms} if ranged is not None else {})
        executor = self.executor or LocalExecutor(self.model)
        pending = PendingSamples(self.model, executor, self.store, run, fresh=self.fresh)

        def go_on() -> None:
            if pending.mistake is None:
                try:
                    meanwhile()
                except MultiformError as error:
                    pending.end(error)
            run.stop_at_limits()

        self.model.begin_run(fresh=self.fresh, flush=self.store.flush if self.store else lambda: True)
        try:
            with stoppable() as stop:
                for batch in self._batches(ranged) if ranged is not None else ():
                    run.take(batch)
                    for mistake in batch.mistakes:
                        pending.end(mistake)
                    go_on()
                for request, response in pending.run(chunks):
                    run.count(1, request_size(request), failed=int(isinstance(response, FailedRequest)))
                    go_on()
        except ModelError as error:
            return run.outcome("failed", error=error)
        finally:
            if run.has_begun:
                run.update_scores()  # the last ones are shown
                progress.end()
        if pending.mistake is not None:
            raise pending.mistake
        if stop.number is not None and run.unfinished:
            return run.outcome("stopped", signal=stop.number)
        if run.is_too_expensive and run.unfinished:
            return run.outcome("stopped")
        failed = run.failures and policy.on_error == "stop"
        return run.outcome("failed" if failed or run.has_too_many_failures else "complete")

    def give_to_workers(self, documents: Documents) -> RangedDocs | None:
        """The documents that workers of the executor render; None where this process has to render all of them."""
        executor = self.executor
        cannot_stop = self.model.batch and self.spending is not None and self.spending.limit is not None
        if not isinstance(executor, RangeExecutor) or cannot_stop:
            return None
        return documents.give_to_workers(lambda: executor.worker_count)

    def _batches(self, ranged: RangedDocs) -> Iterator[DocBatch]:
        """What workers have done with the documents that they render; its responses are stored."""
        assert isinstance(self.executor, RangeExecutor)
        batches = self.executor.run_ranges(ranged, None if self.fresh else self.store)
        with nullcontext() if self.store is None else self.store.recording(self.model.identity) as recording:
            for batch in batches:
                if recording is not None:
                    recording.add_rows(batch.rows)
                for ref, reason, retried in batch.given_up:
                    failed = FailedDoc(sample=ranged.sample(ref), reason=reason, retried=retried)
                    batch.failed.append((ref.form, failed))
                yield batch


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
    """What has come of a run so far: counts, scored samples and failed documents; displays and logs are told."""

    def __init__(self, runner: Runner, documents: Mapping[str, int], progress: Progress, policy: ErrorPolicy) -> None:
        self.runner = runner
        self.progress = progress
        self._watching = progress if isinstance(progress, WatchingProgress) else None
        self.policy = policy
        self.documents = documents
        self.total = sum(documents.values())
        #: How many documents have failed so far.
        self.failures = 0
        #: Whether the model is needed, what it had computed before, and the progress since then for displays.
        self.has_begun = False
        self._usage_before = Usage()
        self.status: RunStatus | None = None
        self.forms: dict[str, Form] = {}
        self._requests = _DistinctRequests()
        self._rendered = self._finished = 0
        self._scored = ScoredSamples(documents)
        self._failed: dict[str, list[FailedDoc]] = {form: [] for form in documents}
        #: Samples of scorers that need all of them at once.
        self._together: dict[str, list[tuple[Sample, tuple[Output, ...]]]] = {form: [] for form in documents}
        self._running = {form: _RunningMean() for form in documents}
        self._retries_before = self._retries
        self._scores_due = 0.0
        #: Tells requests apart; `hash` differs between the processes of workers.
        shares = isinstance(runner.executor, RangeExecutor)
        self._hash = (lambda request: short_key(request_key(request))) if shares else hash

    @property
    def _retries(self) -> int:
        return 0 if self.runner.executor is None else self.runner.executor.retry_count

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

    def stop_at_limits(self) -> None:
        """After too many failures or too high a cost, no further request is started."""
        if self.has_too_many_failures or self.is_too_expensive:
            request_stop()

    def count(self, number: int, size: int, *, failed: int) -> None:
        """The model has responded to requests, `failed` of which have failed; `size` is their length."""
        if self.status is not None:
            self.status.count(number, size)
        for _ in range(number):
            self.progress.on_response()
        for log in self.runner.logs:
            log.on_responses(number - failed, failed)
        if self._watching is not None and time.monotonic() >= self._scores_due:
            self.update_scores()

    def take(self, batch: DocBatch) -> None:
        """Take what a worker has done with documents of its range."""
        self._rendered += batch.rendered
        self._finished += len(batch.finished) + len(batch.given_up)
        if batch.asked or batch.cached:
            self._say_cached(len(batch.cached), len(batch.cached) + len(batch.asked), batch.oldest)
            self._requests.add(batch.asked, batch.cached)
        if batch.asked:
            self._begin(len(batch.asked), batch.size_asked, None)
        for form, failed in batch.failed:
            self._add_failure(form, failed)
        for form, names in batch.value_names.items():
            self.forms[form].scorer.add_value_names(names)
        for form, block in batch.blocks.items():
            self._scored.add_block(form, block)
            metric, values = block.columns.first_values()
            self._running[form].add(form, metric, values, self.progress)
        for form, data in batch.together.items():
            self._together[form] += load_block(data)
        for form, documents in batch.scored.items():
            for log in self.runner.logs:
                log.on_scores(form, documents, batch.blocks.get(form, ()))
        self.count(batch.responses, batch.size_done, failed=batch.failed_requests)

    # The samples that this process runs, as `PendingSamples` reports them.

    def on_chunk(self, entries: Sequence[PendingSample]) -> None:
        self._scored.write_out()
        for entry in entries:
            self.forms[entry.form.name] = entry.form
            self._rendered += 1
            self._finished += not entry.sample.instances  # a task may leave documents out

    def on_look_up(self, cached: CachedResponses, missing: Sequence[Request]) -> None:
        self._say_cached(len(cached), len(cached) + len(missing), cached.oldest)
        self._requests.add(map(self._hash, missing), map(self._hash, cached))

    def _say_cached(self, cached: int, requests: int, oldest: int | None) -> None:
        store = self.runner.store
        if cached and store and not self._requests.cached_count:
            since = "" if oldest is None else f", the oldest from {date.fromtimestamp(oldest)}"
            first = "" if self._rendered == self.total else "the first "
            self.progress.message(f"{cached} of {first}{requests} responses are cached in {store.path}{since}")
        for log in self.runner.logs:
            log.begin(requests, cached)

    def on_begin(self, missing: Sequence[Request]) -> None:
        if self.runner.spending is not None:
            self.runner.spending.check(missing)
        workload = None
        if self._watching is not None:
            if self.status is None:
                self.progress.message("planning")
            workload = _workload(self.runner.model, missing)
        self._begin(len(missing), sum(map(request_size, missing)), workload)

    def _begin(self, requests: int, size: int, workload: Workload | None) -> None:
        """Begin to run requests of this total length; where a display watches, they are planned."""
        share = self._rendered / self.total
        has_begun, self.has_begun = self.has_begun, True
        if self.status is not None:
            self.status.add(requests, size, cached=self._requests.cached_count, workload=workload, share=share)
        if has_begun:
            return
        if workload is not None:
            self.progress.message(f"plan: {workload_words(workload)}")
        if share < 1:
            message = "documents are rendered as the run goes on, and the number of requests is an estimate"
            self.progress.message(message)
        self._usage_before = self.runner.model.usage() or Usage()
        self.progress.begin(round(requests / share), self.total)
        if self._watching is not None:
            self.status = RunStatus(usage=self.runner.model.usage)
            self.status.add(requests, size, cached=self._requests.cached_count, workload=workload, share=share)
            self.update_scores()
            self._watching.watch(self.status)

    def on_failure(self, entry: PendingSample, failed: FailedDoc) -> None:
        self._finished += 1
        self._add_failure(entry.form.name, failed)

    def _add_failure(self, form: str, failed: FailedDoc) -> None:
        self._failed[form].append(failed)
        self.failures += 1
        if self.failures <= _LOGGED_FAILURES:
            logger.warning("%s: doc %d failed: %s", form, failed.doc_id, failed.reason)
        for log in self.runner.logs:
            log.on_failure(form, failed)

    def on_score(self, entry: PendingSample, scored: Sequence[ScoredSample], outputs: tuple[Output, ...]) -> None:
        form = entry.form.name
        self._finished += 1
        self._scored.add(form, scored)
        if any(scorer.deferred for scorer in entry.form.scorer.scorers):
            self._together[form].append((entry.sample, outputs))
        for metric, value in list(scored[0].values.items())[:1] if scored else ():
            self._running[form].add(form, metric, [value], self.progress)
        for log in self.runner.logs:
            log.on_scores(form, 1, scored)

    def outcome(
        self,
        state: Literal["complete", "stopped", "failed"],
        *,
        signal: int | None = None,
        error: ModelError | None = None,
    ) -> RunOutcome:
        """The outcome so far; scorers that need all samples at once score those of a complete run."""
        if state == "complete":
            for name, form in self.forms.items():
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
            retried=self._retries - self._retries_before,
            usage=self._usage,
        )

    @property
    def _usage(self) -> Usage | None:
        """What the model has computed; None where it was not needed, or does not count tokens."""
        usage = self.runner.model.usage() if self.has_begun else None
        return None if usage is None else usage.since(self._usage_before)

    def update_scores(self) -> None:
        """Compute the scores of all forms so far, for displays; less often where it takes long."""
        if self.status is None or self._watching is None:
            return
        started = time.monotonic()
        scores = []
        for form, samples in self._scored.so_far():
            first = self.forms[form].scorer.first_estimate(samples) if form in self.forms else None
            if first is not None:
                metric, estimate = first
                documents = self.documents[form]
                scores.append(RunningScore(form=form, metric=metric, estimate=estimate, documents=documents))
        self.status.scores = scores
        spent = time.monotonic() - started
        self._scores_due = started + max(_SCORES_PAUSE, 20 * spent)


class _DistinctRequests:
    """Counts the requests of a run, of which several chunks may have the same, in eight bytes for each."""

    def __init__(self) -> None:
        self._chunks = 0
        self._asked, self._cached = array("q"), array("q")

    @property
    def cached_count(self) -> int:
        """How many responses came from the store so far."""
        return len(self._cached)

    def add(self, missing: Iterable[int], cached: Iterable[int]) -> None:
        """Add requests by their hashes."""
        self._chunks += 1
        self._asked.extend(missing)
        self._cached.extend(cached)

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

    def add(self, form: str, metric: str, values: Iterable[Any], progress: Progress) -> None:
        numbers = [float(value) for value in values if isinstance(value, int | float)]  # others are parts of a ratio
        self.total += sum(numbers)
        self.n += len(numbers)
        if numbers:
            progress.on_score(form, metric, self.total / self.n, self.n)
