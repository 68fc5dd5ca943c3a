"""Runner: runs samples on a model, chunk by chunk, and keeps what has come of them: scores, failures, counts, cost."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multiform.errors import ModelError, MultiformError, UsageError
from multiform.forms import Form, Sample, ScoredSample
from multiform.models import Model
from multiform.models.model import Usage
from multiform.models.prices import Price
from multiform.requests import Output, Request
from multiform.results.groups import TaskStops
from multiform.results.provenance import usage_entry
from multiform.results.values import FailedDoc
from multiform.run.displays import ProgressReporter
from multiform.run.documents import Documents
from multiform.run.executors import Executor
from multiform.run.executors.pool import PoolExecutor
from multiform.run.executors.ranges import RangedDocs
from multiform.run.options import RunOptions
from multiform.run.pending import Batch, PendingSample, PendingSamples
from multiform.run.progress import Progress
from multiform.run.spool import ScoredSamples, load_block
from multiform.run.store import Store
from multiform.stopping import request_stop, stoppable

logger = logging.getLogger("multiform")

#: How many failed documents are logged one by one as they fail.
_LOGGED_FAILURES = 5


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
    #: The key `usage` of the results: requests and tokens.
    usage: Mapping[str, Any]
    signal: int | None = None
    error: ModelError | None = None
    #: Where a schedule stopped early.
    stops: Sequence[TaskStops] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a model on a server has cost since the run began."""

    model: Model
    #: None where no price is known, or there is no server.
    price: Price | None
    #: The tokens that the server had counted when the run began: several runs may share a model.
    before: Mapping[str, int]
    #: The most that the run may cost, in dollars.
    limit: float | None = None

    @classmethod
    def of(cls, model: Model, prices: str | Path | None = None, limit: float | None = None) -> Spending:
        """The spending of a run that begins; a limit that cannot be kept is refused."""
        price = model.price(None if prices is None else Path(prices))
        if limit is not None and price is None:
            message = f"the price of '{model.name}' is not known"
            hint = 'give --prices FILE with a line such as "my-model" = [0.40, 1.60]'
            raise UsageError(message, where="max_cost", hint=hint)
        model.identity  # noqa: B018  (the probe of a server is no request of the run)
        return cls(model=model, price=price, before=model.server_tokens(), limit=limit)

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that the server has counted since then."""
        return {name: count - self.before.get(name, 0) for name, count in self.model.server_tokens().items()}

    @property
    def cost(self) -> float:
        return 0.0 if self.price is None else self.price.cost(self.tokens)

    @property
    def is_exceeded(self) -> bool:
        """Whether the run has cost more than it may."""
        return self.limit is not None and self.cost > self.limit

    def check(self, requests: Sequence[Request]) -> None:
        """Refuse requests that go out in batches, which cannot be stopped at a cost, if they may cost too much."""
        if self.limit is None or self.price is None or not self.model.batch:
            return
        most = self.cost + self.price.cost(self.model.estimate_tokens(requests))
        if most > self.limit:
            message = f"a batch cannot be stopped at a cost, and these may cost up to about {dollars(most)}"
            raise UsageError(message, where="max_cost", hint="raise it, lower --limit, or leave batch out")

    def entries(self) -> dict[str, Any]:
        """The keys `server_tokens` and `cost` of a run's configuration."""
        tokens = self.tokens
        if not any(tokens.values()):
            return {}
        if self.price is None:
            return {"server_tokens": tokens}
        price = {"prompt": self.price.prompt, "completion": self.price.completion}
        return {"server_tokens": tokens, "cost": {"dollars": round(self.cost, 6), "dollars_per_million_tokens": price}}


def dollars(amount: float) -> str:
    """An amount with at least two digits that count.

    >>> dollars(12.3456), dollars(0.000123), dollars(0)
    ('$12.35', '$0.00012', '$0.00')
    """
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${float(f'{amount:.2g}'):.12f}".rstrip("0")


class RunEndedError(Exception):
    """A round was stopped or failed, which ends the run."""


class Runner:
    """Runs samples on a model: cached responses come from the store, the others from the executor.

    `documents` is the number of each form's. With `fresh`, all requests are run, and the new responses replace the
    cached ones. Once the `spending` is beyond its limit, or more documents have failed than the options allow, no
    request is begun. Whatever ends a run, requests in flight are finished and stored first; only a second signal does
    not wait for them. `log` gets every batch.
    """

    def __init__(
        self,
        options: RunOptions,
        executor: Executor,
        store: Store | None,
        forms: Sequence[Form],
        documents: Mapping[str, int],
        progress: Progress,
        spending: Spending,
        log: Callable[[Batch], object],
    ) -> None:
        self.options = options
        self._scored = ScoredSamples(documents)
        self._failed: dict[str, list[FailedDoc]] = {form: [] for form in documents}
        self._model: Model = executor.model
        self._executor, self._store = executor, store
        self._forms = {form.name: form for form in forms}
        self._log, self._spending = log, spending
        self.reporter = ProgressReporter(progress, self._model, self._forms, documents, self._scored)
        self._total = sum(documents.values())
        self._finished = self._failures = 0
        #: Hashes of the requests that were looked up: eight bytes for each.
        self._asked, self._cached = array("q"), array("q")
        #: Samples of scorers that need all of them at once.
        self._together: dict[str, list[tuple[Sample, tuple[Output, ...]]]] = {form: [] for form in documents}
        #: Whether the model was needed, and what it and the executor had counted before.
        self._has_begun = False
        self._usage_before = Usage()
        self._retries_before = executor.retry_count
        self._state: Literal["complete", "stopped", "failed"] = "complete"
        #: What has ended the run.
        self._signal: int | None = None
        self._error: ModelError | None = None
        self._mistake: MultiformError | None = None

    def run_all(self, documents: Documents) -> None:
        """Run all documents: those that workers can render, and then the others, chunk by chunk."""
        batches = self._pending(documents.chunks())
        workers = self._executor
        if isinstance(workers, PoolExecutor):
            ranged = documents.give_to_workers(lambda: workers.pool.size)
            if ranged is not None:
                batches = chain(self._ranges(workers, ranged), batches, self._pending(ranged.returned_chunks()))
        try:
            self._run(batches, self._total, lambda _: documents.checks.advance())
        finally:
            self.reporter.end()

    def run_round(self, samples: Sequence[PendingSample]) -> Batch:
        """Run some samples; returns what was done with them. A RunEndedError says that the run cannot go on."""
        done = Batch()

        def collect(batch: Batch) -> None:
            done.failed += batch.failed
            for form, scored in batch.scored.items():
                done.scored.setdefault(form, []).extend(scored)

        self._run(self._pending([samples]), self._finished + len(samples), collect)
        if self._state != "complete":
            raise RunEndedError
        collect(Batch(scored=self._score_together()))
        return done

    def _pending(self, chunks: Iterable[Sequence[PendingSample]]) -> Iterator[Batch]:
        """Run chunks of samples that this process has rendered."""
        pending = PendingSamples(
            self._model,
            self._executor,
            None if self.options.fresh else self._store,
            stores=self._store is not None,
            check=self._spending.check,
        )
        return pending.run(chunks)

    def _ranges(self, workers: PoolExecutor, documents: RangedDocs) -> Iterator[Batch]:
        """Have workers render and run documents."""
        cache = None if self.options.fresh else self._store
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
        self._model.begin_run(fresh=self.options.fresh, flush=store.flush if store else lambda: True)
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
                    if self._has_too_many_failures or self._spending.is_exceeded:
                        request_stop()
        except ModelError as error:
            self._error = error
        finally:
            self.reporter.update_scores()  # the last ones are shown
        if self._mistake is not None:
            raise self._mistake
        is_unfinished = self._finished < expected
        if self._error is None and is_unfinished and (stop.number is not None or self._spending.is_exceeded):
            self._state, self._signal = "stopped", stop.number
        elif self._error or self._has_too_many_failures or (self._failures and self.options.on_error == "stop"):
            self._state = "failed"

    def _end(self, mistake: MultiformError) -> None:
        """End the run because of a mistake in a task."""
        self._mistake = self._mistake or mistake
        request_stop()

    @property
    def _has_too_many_failures(self) -> bool:
        return not self.options.allows_failures(self._failures, self._total)

    def _take(self, batch: Batch) -> None:
        """Take what was done with samples; the display and the logs are told."""
        if batch.mistake is not None:
            self._end(batch.mistake)
        if batch.rendered:
            self._scored.write_out()
        self._finished += len(batch.finished) + len(batch.given_up)
        self._asked.extend(batch.asked)
        self._cached.extend(batch.cached)
        if batch.asked and not self._has_begun:
            self._has_begun = True
            self._usage_before = self._model.usage() or Usage()
        for form, failed in batch.failed:
            self._failed[form].append(failed)
            self._failures += 1
            if self._failures <= _LOGGED_FAILURES:
                logger.warning("%s: doc %d failed: %s", form, failed.doc_id, failed.reason)
        for form, names in batch.value_names.items():
            self._forms[form].scorer.add_value_names(names)
        for form, samples in batch.scored.items():
            self._scored.add(form, samples)
        for form, block in batch.together.items():
            self._together[form] += load_block(block)
        self.reporter.report(batch, None if self._store is None else self._store.path)
        self._log(batch)

    def outcome(self, stops: Sequence[TaskStops] = ()) -> RunOutcome:
        """The outcome so far; scorers that need all samples at once score those of a complete run."""
        if self._state == "complete":
            self._score_together()
        requests, cached = _count_distinct(self._asked, self._cached)
        usage = self._model.usage() if self._has_begun else None
        return RunOutcome(
            state=self._state,
            scored=self._scored.by_form(),
            failed={name: sorted(docs, key=lambda doc: doc.doc_id) for name, docs in self._failed.items() if docs},
            signal=self._signal,
            error=self._error,
            usage=usage_entry(
                None if usage is None else usage.since(self._usage_before),
                requests=requests,
                cached=cached,
                retried=self._executor.retry_count - self._retries_before,
                loading_seconds=self._model.loading_seconds,
            ),
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


def _count_distinct(missing: array[int], cached: array[int]) -> tuple[int, int]:
    """The distinct requests of a run by their hashes, and those of them that were cached when it began.

    Several chunks may have the same requests.
    """
    asked, distinct = len(np.unique(missing)), len(np.unique(missing + cached))
    return distinct, distinct - asked
