"""Runner: runs samples on a model, chunk by chunk, and keeps what has come of them: scores, failures and counts."""

from __future__ import annotations

import logging
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from typing import Literal

from multiform.errors import ModelError, MultiformError
from multiform.forms import Form, Sample, ScoredSample
from multiform.models import Model
from multiform.models.model import Usage
from multiform.requests import Output, Request
from multiform.results.groups import TaskStops
from multiform.results.values import FailedDoc
from multiform.run.costs import Spending, workload_words
from multiform.run.documents import Documents
from multiform.run.executors import Executor
from multiform.run.executors.pool import PoolExecutor
from multiform.run.executors.ranges import RangedDocs
from multiform.run.options import ErrorPolicy
from multiform.run.pending import Batch, PendingSample, PendingSamples
from multiform.run.progress import Progress, WatchingProgress
from multiform.run.spool import SampleBlock, ScoredSamples, load_block
from multiform.run.status import EvaluationStatus, RunningScore, RunStatus
from multiform.run.store import Store
from multiform.stopping import request_stop, stoppable

logger = logging.getLogger("multiform")

#: How many failed documents are logged one by one as they fail.
_LOGGED_FAILURES = 5
#: Seconds between two computations of the running scores that displays show, at least.
_SCORES_PAUSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of running samples on a model: the scored samples and the failed documents of each form.

    `state` is "complete" when every document is scored or has failed; "stopped" when a signal ended the run before,
    whose number is `signal`, or its cost; and "failed" when the model itself failed (`error`) or too many documents
    did.
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


@dataclass(frozen=True, slots=True)
class Round:
    """What has come of the samples of a round, by form."""

    scored: dict[str, list[ScoredSample]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[str, list[FailedDoc]] = field(default_factory=lambda: defaultdict(list))


class Runner:
    """Runs samples on a model: cached responses come from the store, the others from the executor.

    `documents` is the number of each form's. With `fresh`, all requests are run, and the new responses replace the
    cached ones. Once the `spending` is beyond its limit, or more documents have failed than the policy allows, no
    request is begun. Whatever ends a run, requests in flight are finished and stored first; only a second signal does
    not wait for them. `logs` get every batch.
    """

    def __init__(
        self,
        executor: Executor,
        store: Store | None,
        forms: Sequence[Form],
        documents: Mapping[str, int],
        progress: Progress,
        *,
        fresh: bool = False,
        policy: ErrorPolicy | None = None,
        spending: Spending | None = None,
        logs: Sequence[Callable[[Batch], None]] = (),
    ) -> None:
        self.documents = documents
        self.policy = policy or ErrorPolicy()
        self._scored = ScoredSamples(documents)
        self._failed: dict[str, list[FailedDoc]] = {form: [] for form in documents}
        #: What displays show, once the model runs.
        self.status: RunStatus | None = None
        self._model: Model = executor.model
        self._executor, self._store, self._fresh = executor, store, fresh
        self._forms = {form.name: form for form in forms}
        self._progress, self._logs, self._spending = progress, logs, spending
        self._watching = progress if isinstance(progress, WatchingProgress) else None
        self._total = sum(documents.values())
        self._rendered = self._finished = self._failures = 0
        self._requests = _DistinctRequests()
        #: Samples of scorers that need all of them at once.
        self._together: dict[str, list[tuple[Sample, tuple[Output, ...]]]] = {form: [] for form in documents}
        self._running = {form: _RunningMean() for form in documents}
        #: Whether the model was needed, and what it and the executor had counted before.
        self._has_begun = False
        self._usage_before = Usage()
        self._retries_before = executor.retry_count
        self._scores_due = 0.0
        self._state: Literal["complete", "stopped", "failed"] = "complete"
        #: What has ended the run.
        self._signal: int | None = None
        self._error: ModelError | None = None
        self._mistake: MultiformError | None = None

    def run_all(self, documents: Documents) -> None:
        """Run all documents: those that workers can render, and then the others, chunk by chunk."""
        batches = self._pending(documents.chunks())
        workers = self._executor
        cannot_stop = self._model.batch and self._spending is not None and self._spending.limit is not None
        if isinstance(workers, PoolExecutor) and not cannot_stop:
            ranged = documents.give_to_workers(lambda: workers.worker_count)
            if ranged is not None:
                batches = chain(self._ranges(workers, ranged), batches, self._pending(ranged.returned_chunks()))
        try:
            self._run(batches, self._total, lambda _: documents.check_ahead())
        finally:
            if self._has_begun:
                self._progress.end()

    def begin_rounds(self, evaluations: int) -> None:
        """Show that a run begins of at most this number of evaluations of a document under a form, in rounds."""
        self._progress.message(f"evaluating in rounds, at most {evaluations:,} evaluations of a document under a form")
        self.status = EvaluationStatus(evaluations)
        if self._watching is not None:
            self._watching.watch(self.status)

    def end_rounds(self) -> None:
        """Show that no round follows."""
        self._progress.end()

    def run_round(self, samples: Sequence[PendingSample]) -> Round | None:
        """Run some samples; returns what has come of them, or None where the run cannot go on after that."""
        done = Round()

        def collect(batch: Batch) -> None:
            for form, scored in batch.scored.items():
                done.scored[form] += scored
            for form, failed in batch.failed:
                done.failed[form].append(failed)

        self._run(self._pending([samples]), self._finished + len(samples), collect)
        if self._state != "complete":
            return None
        for form, scored in self._score_together().items():
            done.scored[form] += scored
        return done

    def _pending(self, chunks: Iterable[Sequence[PendingSample]]) -> Iterator[Batch]:
        """Run chunks of samples that this process has rendered."""
        pending = PendingSamples(
            self._model,
            self._executor,
            None if self._fresh else self._store,
            stores=self._store is not None,
            check=None if self._spending is None or self._spending.limit is None else self._spending.check,
        )
        return pending.run(chunks)

    def _ranges(self, workers: PoolExecutor, documents: RangedDocs) -> Iterator[Batch]:
        """Have workers render and run documents."""
        cache = None if self._fresh else self._store
        for batch in workers.run_ranges(documents, cache, stores=self._store is not None):
            if batch.unreadable is not None:
                documents.take_back(*batch.unreadable)
            for ref, reason, retried in batch.given_up:
                failed = FailedDoc(sample=documents.sample(ref), reason=reason, retried=retried)
                batch.failed.append((ref.form, failed))
            yield batch

    def _run(self, batches: Iterator[Batch], expected: int, then: Callable[[Batch], None]) -> None:
        """Take batches as they come, and do something after each; in the end, `expected` documents are finished."""
        store = self._store
        self._model.begin_run(fresh=self._fresh, flush=store.flush if store else lambda: True)
        try:
            with stoppable() as stop, nullcontext() if store is None else store.recording(self._model.identity) as rows:
                for batch in batches:
                    if rows is not None:
                        rows.add_rows(batch.rows)
                    self._take(batch)
                    try:
                        then(batch)
                    except MultiformError as error:
                        self._end(error)
                    if self._has_too_many_failures or self._is_too_expensive:
                        request_stop()
        except ModelError as error:
            self._error = error
        finally:
            self._update_scores()  # the last ones are shown
        if self._mistake is not None:
            raise self._mistake
        is_unfinished = self._finished < expected
        if self._error is None and is_unfinished and (stop.number is not None or self._is_too_expensive):
            self._state, self._signal = "stopped", stop.number
        elif self._error or self._has_too_many_failures or (self._failures and self.policy.on_error == "stop"):
            self._state = "failed"

    def _end(self, mistake: MultiformError) -> None:
        """End the run because of a mistake in a task."""
        self._mistake = self._mistake or mistake
        request_stop()

    @property
    def _is_too_expensive(self) -> bool:
        return self._spending is not None and self._spending.is_exceeded

    @property
    def _has_too_many_failures(self) -> bool:
        return self.policy.is_exceeded(self._failures, self._total)

    def _take(self, batch: Batch) -> None:
        """Take what was done with samples; displays and logs are told."""
        if batch.mistake is not None:
            self._end(batch.mistake)
        if batch.rendered:
            self._scored.write_out()
        self._rendered += batch.rendered
        self._finished += len(batch.finished) + len(batch.given_up)
        if batch.asked or batch.cached:
            self._say_cached(batch)
            self._requests.add(batch.asked, batch.cached)
        if batch.asked:
            self._begin(batch)
        if self.status is not None:
            self.status.count(batch.responses, batch.size_done, batch.documents.total() + len(batch.failed))
        for form, failed in batch.failed:
            self._failed[form].append(failed)
            self._failures += 1
            if self._failures <= _LOGGED_FAILURES:
                logger.warning("%s: doc %d failed: %s", form, failed.doc_id, failed.reason)
        for form, names in batch.value_names.items():
            self._forms[form].scorer.add_value_names(names)
        for form, samples in batch.scored.items():
            self._scored.add(form, samples)
            self._running[form].add(form, samples, self._progress)
        for form, block in batch.together.items():
            self._together[form] += load_block(block)
        for _ in range(batch.responses):
            self._progress.on_response()
        for log in self._logs:
            log(batch)
        if self._watching is not None and time.monotonic() >= self._scores_due:
            self._update_scores()

    def _say_cached(self, batch: Batch) -> None:
        if batch.cached and self._store and not self._requests.cached_count:
            since = "" if batch.oldest is None else f", the oldest from {date.fromtimestamp(batch.oldest)}"
            first = "" if self._rendered == self._total else "the first "
            number = f"{len(batch.cached)} of {first}{len(batch.cached) + len(batch.asked)}"
            self._progress.message(f"{number} responses are cached in {self._store.path}{since}")

    def _begin(self, batch: Batch) -> None:
        """Begin to run requests; where a display watches a run of all documents, they are planned."""
        has_begun, self._has_begun = self._has_begun, True
        if not has_begun:
            self._usage_before = self._model.usage() or Usage()
        if isinstance(self.status, EvaluationStatus):
            return
        workload = None
        if self._watching is not None and batch.missing:
            if not has_begun:
                self._progress.message("planning")
            workload = _workload(self._model, batch.missing)
        share = self._rendered / self._total
        if not has_begun:
            if workload is not None:
                self._progress.message(f"plan: {workload_words(workload)}")
            if share < 1:
                message = "documents are rendered as the run goes on, and the number of requests is an estimate"
                self._progress.message(message)
            self._progress.begin(round(len(batch.asked) / share), self._total)
        if self._watching is None:
            return
        status = self.status or RunStatus(usage=self._model.usage)
        status.add(len(batch.asked), batch.size_asked, workload=workload, share=share)
        if self.status is None:
            self.status = status
            self._update_scores()
            self._watching.watch(status)

    def outcome(self, stops: Sequence[TaskStops] = ()) -> RunOutcome:
        """The outcome so far; scorers that need all samples at once score those of a complete run."""
        if self._state == "complete":
            self._score_together()
        requests, cached = self._requests.count()
        usage = self._model.usage() if self._has_begun else None
        return RunOutcome(
            state=self._state,
            scored=self._scored.by_form(),
            failed={name: sorted(docs, key=lambda doc: doc.doc_id) for name, docs in self._failed.items() if docs},
            documents=self._total,
            signal=self._signal,
            error=self._error,
            requests=requests,
            cached=cached,
            retried=self._executor.retry_count - self._retries_before,
            usage=None if usage is None else usage.since(self._usage_before),
            stops=stops,
        )

    def _score_together(self) -> dict[str, list[ScoredSample]]:
        """Score with scorers that need all samples at once, those that came since the last time."""
        scored = {}
        for form, samples in self._together.items():
            by_doc = sorted(samples, key=lambda pair: pair[0].doc_id)
            scored[form] = self._forms[form].scorer.score_together(by_doc)
            self._scored.add(form, scored[form])
            samples.clear()
        return scored

    def _update_scores(self) -> None:
        """Compute the scores of all forms so far, for displays; less often where it takes long."""
        if self.status is None or self._watching is None or isinstance(self.status, EvaluationStatus):
            return
        started = time.monotonic()
        scores = []
        for form, samples in self._scored.so_far():
            first = self._forms[form].scorer.first_estimate(samples)
            if first is not None:
                metric, estimate = first
                documents = self.documents[form]
                scores.append(RunningScore(form=form, metric=metric, estimate=estimate, documents=documents))
        self.status.scores = scores
        spent = time.monotonic() - started
        self._scores_due = started + max(_SCORES_PAUSE, 20 * spent)


def _workload(model: Model, requests: Sequence[Request]) -> Usage | None:
    """The tokens that the requests need; None where the model cannot tell, for instance because it is broken."""
    try:
        return model.workload(requests)
    except MultiformError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
        logger.debug("the model cannot say what the requests take: %s", error)
        return None


class _DistinctRequests:
    """Counts the requests of a run, of which several chunks may have the same, in eight bytes for each."""

    def __init__(self) -> None:
        self._chunks = 0
        self._asked, self._cached = array("q"), array("q")

    @property
    def cached_count(self) -> int:
        """How many responses came from the store so far."""
        return len(self._cached)

    def add(self, missing: array[int], cached: array[int]) -> None:
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


@dataclass(slots=True)
class _RunningMean:
    """The running mean of a form's first metric."""

    total: float = 0.0
    n: int = 0

    def add(self, form: str, samples: Sequence[ScoredSample] | SampleBlock, progress: Progress) -> None:
        if isinstance(samples, SampleBlock):
            metric, values = samples.columns.first_values()
        else:
            of_scorer = [sample.values for sample in samples if sample.scorer == samples[0].scorer]
            metric = next(iter(of_scorer[0]), "") if of_scorer else ""
            values = [each.get(metric) for each in of_scorer]
        numbers = [float(value) for value in values if isinstance(value, int | float)]  # others are parts of a ratio
        self.total += sum(numbers)
        self.n += len(numbers)
        if numbers:
            progress.on_score(form, metric, self.total / self.n, self.n)
