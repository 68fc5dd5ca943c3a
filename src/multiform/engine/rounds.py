"""Rounds of a budgeted run: the forms of a task or group, evaluated on more and more documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from multiform.engine.contests import Contest
from multiform.engine.failures import ErrorPolicy, FailedDoc
from multiform.engine.pending import PendingSample
from multiform.engine.progress import Progress, Silent, WatchingProgress
from multiform.engine.run import RunOutcome
from multiform.engine.status import EvaluationStatus, RunningScore
from multiform.engine.stops import FormStop, TaskStops
from multiform.errors import UsageError, shorten
from multiform.forms import ScoredSample
from multiform.models.usage import Usage
from multiform.statistics.elimination import Search, search_forms
from multiform.statistics.scores import Array
from multiform.statistics.sequences import ConfidenceSequence, confidence_sequence, document_order

#: Runs the samples of a round on a model, and reports the progress.
Ask: TypeAlias = Callable[[Sequence[PendingSample], Progress], RunOutcome]
#: A document of a subject; a task is its own and only subject.
_Document: TypeAlias = tuple[str, int]

#: The probability with which a statement about the forms of a task may be wrong.
DELTA = 0.05
#: Documents of a round.
_ROUND = 16


class EndedError(Exception):
    """A round was stopped or failed, which ends the run."""

    def __init__(self, outcome: RunOutcome) -> None:
        self.outcome = outcome


class _CountingProgress(Silent):
    """Progress of a round, as a part of the progress of all rounds."""

    def __init__(self, progress: Progress, status: EvaluationStatus) -> None:
        self._progress, self._status = progress, status

    def answered(self) -> None:
        self._progress.answered()

    def scored(self, form: str, metric: str, running: float, n: int) -> None:
        self._status.completed += 1
        self._progress.scored(form, metric, running, n)


class RoundLog:
    """Collects the outcomes of all rounds as the outcome of one run."""

    def __init__(self, ask: Ask, forms: Sequence[str], documents: int, policy: ErrorPolicy, progress: Progress) -> None:
        self.counts_failed = policy.on_error == "count"
        self.scored: dict[str, list[ScoredSample]] = {form: [] for form in forms}
        self.failed: dict[str, list[FailedDoc]] = {form: [] for form in forms}
        self.requests = self.cached = self.asked_again = 0
        self.usage: Usage | None = None
        self.status = EvaluationStatus(0)
        self._ask, self._documents, self._policy, self._progress = ask, documents, policy, progress

    def begin(self, evaluations: int) -> None:
        """Begin a run of at most this number of evaluations, and show it."""
        self.status = EvaluationStatus(evaluations)
        self._progress.message(f"evaluating in rounds, at most {evaluations:,} evaluations of a document under a form")
        if isinstance(self._progress, WatchingProgress):
            self._progress.watch(self.status)

    def ask(self, entries: Sequence[PendingSample]) -> RunOutcome:
        """Run the samples of a round; raises an `EndedError` where the run cannot go on after it."""
        before = self.status.completed
        outcome = self._ask(entries, _CountingProgress(self._progress, self.status))
        self.status.completed = before + len(entries)  # with those that failed
        for form in outcome.scored:
            self.scored[form] += outcome.scored[form]
            self.failed[form] += outcome.failed.get(form, ())
        self.requests += outcome.requests
        self.cached += outcome.cached
        self.asked_again += outcome.asked_again
        if outcome.usage is not None:
            self.usage = outcome.usage + (self.usage or Usage())
        failures = sum(map(len, self.failed.values()))
        if outcome.state == "complete" and self._policy.is_exceeded(failures, self._documents):
            outcome = replace(outcome, state="failed")
        if outcome.state != "complete":
            raise EndedError(outcome)
        return outcome

    def outcome(self, last: RunOutcome | None = None) -> RunOutcome:
        """The outcome of all rounds; `last` is a round that ended the run."""
        scored = {form: sorted(samples, key=lambda sample: sample.doc_id) for form, samples in self.scored.items()}
        return replace(
            last or RunOutcome(state="complete", scored={}, failed={}, documents=0),
            scored=scored,
            failed=self.failed,
            documents=self._documents,
            requests=self.requests,
            cached=self.cached,
            asked_again=self.asked_again,
            usage=self.usage,
        )


class Rounds:
    """The forms of one contest, evaluated on more and more of its documents."""

    def __init__(
        self, contest: Contest, pending: Mapping[str, Sequence[PendingSample]], *, log: RoundLog, seed: int | None
    ) -> None:
        self.contest, self._log = contest, log
        self.names = list(contest.forms)
        self._pending: dict[tuple[str, _Document], PendingSample] = {}
        for form, subjects in contest.forms.items():
            for subject, task in subjects.items():
                for entry in pending.get(task.name, ()):
                    if entry.sample.instances:
                        self._pending[form, (subject, entry.sample.doc_id)] = entry
        shared = set.intersection(*({doc for form, doc in self._pending if form == name} for name in self.names))
        ids = {subject: sorted(doc_id for s, doc_id in shared if s == subject) for subject in contest.subjects}
        #: The documents that every form has, in random order.
        self.docs = document_order(ids, equal_subjects=contest.equal_subjects, seed=seed)
        self._sizes = {subject: len(documents) for subject, documents in ids.items()}
        #: The interval of each form, and of each form of a subject, which holds at all rounds together.
        self._means = {name: confidence_sequence(level=1 - DELTA) for name in self.names}
        self._members: dict[str, ConfidenceSequence] = {}
        self._asked = 0
        self._metric = "no metric"

    @property
    def evaluations(self) -> int:
        return sum(mean.n for mean in self._means.values())

    @property
    def most_evaluations(self) -> int:
        """The maximum number of evaluations."""
        return len(self.names) * len(self.docs)

    def search(self, budget: int) -> TaskStops:
        """Find the best and the worst form within a budget of evaluations."""
        if len(self.names) == 1:
            self._ask(self.docs[:budget], self.names)
            why = self._no_more if budget >= len(self.docs) else "the budget is spent"
            return self._stops({self.names[0]: why}, f"The interval holds with probability {1 - DELTA:g}.")
        search = search_forms(
            lambda positions, chosen: self._ask(
                [self.docs[position] for position in positions], [self.names[index] for index in chosen]
            ),
            documents=len(self.docs),
            forms=len(self.names),
            budget=budget,
            block=min(_ROUND, max(1, budget // len(self.names))),
            delta=DELTA,
        )
        guarantee = f"With probability {1 - DELTA:g} or more, the best and the worst form are among those named."
        return self._stops(self._reasons(search), guarantee, best=search.best, worst=search.worst)

    def until(self, half_width: float) -> TaskStops:
        """Evaluate each form until its interval is no wider than ± `half_width`."""
        for start in range(0, len(self.docs), _ROUND):
            unfinished = [name for name in self.names if self._means[name].half_width > half_width]
            if not unfinished:
                break
            self._ask(self.docs[start : start + _ROUND], unfinished)
        reasons = {}
        for name, mean in self._means.items():
            why = "its interval is narrow enough" if mean.half_width <= half_width else self._no_more
            reasons[name] = f"{why} (± {mean.half_width:.3f})"
        return self._stops(reasons, f"Each form's interval holds with probability {1 - DELTA:g}, wherever it stopped.")

    @property
    def _no_more(self) -> str:
        if len(self.docs) == sum(self._sizes.values()):
            return "no more documents"
        return "no more documents of a task, and all tasks of the group weigh the same"

    def _ask(self, docs: Sequence[_Document], names: Sequence[str]) -> Array:
        """A row of scores for each document that all forms have a score of, a column for each form."""
        outcome = self._log.ask([self._pending[name, doc] for doc in docs for name in names])
        self._asked += len(docs)
        columns = [self._column(name, docs, outcome) for name in names]
        complete = [doc for doc in docs if all(doc in column for column in columns)]
        self._show()
        rows = [[column[doc] for column in columns] for doc in complete]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))

    def _column(self, name: str, docs: Sequence[_Document], outcome: RunOutcome) -> dict[_Document, float]:
        """The scores of a form on documents of a round, by which its intervals are updated."""
        column: dict[_Document, float] = {}
        for subject, task in self.contest.forms[name].items():
            first = task.scorer.scorers[0].name
            scored = [sample for sample in outcome.scored.get(task.name, ()) if sample.scorer == first]
            values = {(subject, sample.doc_id): self._value(task.name, sample) for sample in scored}
            if self._log.counts_failed:
                failed = outcome.failed.get(task.name, ())
                values |= {(subject, document.sample.doc_id): 0.0 for document in failed}
            if values and len(self.contest.subjects) > 1:
                mean = self._members.get(task.name) or confidence_sequence(level=1 - DELTA)
                self._members[task.name] = mean.updated(list(values.values()))
            column |= values
        ordered = {doc: column[doc] for doc in docs if doc in column}
        self._means[name] = self._means[name].updated(list(ordered.values()))
        return ordered

    def _show(self) -> None:
        """The intervals so far, for the display of the run."""
        before = [score for score in self._log.status.scores if score.form not in self._means]
        self._log.status.scores = [
            *before,
            *(
                RunningScore(form=name, metric=self._metric, estimate=mean.estimate, documents=len(self.docs))
                for name, mean in self._means.items()
            ),
        ]

    def _value(self, name: str, sample: ScoredSample) -> float:
        metric = self.contest.metric if self.contest.metric in sample.values else next(iter(sample.values), "")
        value = sample.values.get(metric or "")
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            message = f"'{name}' scores {shorten(value, 40)} by {metric or 'no metric'}, which is not between 0 and 1"
            raise UsageError(
                message, where="--budget or --until_ci", hint="leave the form out, or name a metric like acc"
            )
        self._metric = metric or self._metric
        return float(value)

    def _reasons(self, search: Search) -> dict[str, str]:
        if not search.wanted:
            last = "the best and the worst form are known"
        elif self._asked == len(self.docs):
            last = self._no_more
        else:
            last = "the budget is spent"
        candidates = {*search.best, *search.worst}
        dropped = "it is neither the best nor the worst form"
        return {name: last if index in candidates else dropped for index, name in enumerate(self.names)}

    def _stops(
        self, reasons: Mapping[str, str], guarantee: str, *, best: Sequence[int] = (), worst: Sequence[int] = ()
    ) -> TaskStops:
        def stop(mean: ConfidenceSequence, documents: int, why: str) -> FormStop:
            return FormStop(evaluated=mean.n, documents=documents, why=why, low=mean.low, high=mean.high)

        members = {
            task.name: stop(self._members[task.name], self._sizes[subject], f"as {name}: {reasons[name]}")
            for name, subjects in self.contest.forms.items()
            for subject, task in subjects.items()
            if task.name in self._members
        }
        return TaskStops(
            task=self.contest.name,
            metric=self._metric,
            forms={name: stop(self._means[name], len(self.docs), why) for name, why in reasons.items()},
            guarantee=guarantee,
            best=tuple(self.names[index] for index in best),
            worst=tuple(self.names[index] for index in worst),
            members=members,
        )
