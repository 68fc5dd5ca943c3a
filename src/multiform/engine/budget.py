"""Budgeted runs: documents in random order, and of each form only as many as the question needs.

`--budget` searches the best and the worst form of each task within so many evaluations (a document under a form).
`--until_ci` evaluates each form until its interval is narrow enough. Both ask the model in rounds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from multiform.engine.failures import ErrorPolicy, FailedDoc
from multiform.engine.progress import Progress
from multiform.engine.run import PendingSample, RunOutcome
from multiform.errors import UsageError, shorten
from multiform.forms import ScoredSample, Task
from multiform.models.usage import Usage
from multiform.statistics.elimination import Search, search_forms
from multiform.statistics.scores import Array
from multiform.statistics.sequences import ConfidenceSequence, confidence_sequence

#: Asks a model about the samples of a round.
Ask: TypeAlias = Callable[[Sequence[PendingSample]], RunOutcome]

#: The probability with which a statement about the forms of a task may be wrong.
DELTA = 0.05
_DEFAULT_POLICY = ErrorPolicy()
#: Documents of a round.
_ROUND = 16
#: Seconds between two messages.
_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much is evaluated: so many documents counted under each form, or until intervals are no wider than ± this.

    Documents are shuffled with the seed; None shuffles them otherwise each time.
    """

    evaluations: int | None = None
    half_width: float | None = None
    seed: int | None = 0

    def __post_init__(self) -> None:
        if self.evaluations is not None and self.half_width is not None:
            what = "a budget searches the best and worst form, until_ci measures every form"
            raise UsageError(what, where="until_ci", hint="give one of budget and until_ci")
        if self.evaluations is not None and self.evaluations < 1:
            what = f"expected a whole number of 1 or more, got {self.evaluations}"
            raise UsageError(what, where="budget", hint="give e.g. budget=2000")
        if self.half_width is not None and not 0 < self.half_width < 0.5:
            what = f"expected a number between 0 and 0.5, got {self.half_width}"
            raise UsageError(what, where="until_ci", hint="give e.g. until_ci=0.02 for an interval of ± 0.02")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormStop:
    """How far a form was evaluated, and why no further; the interval holds whenever a run stops."""

    evaluated: int
    documents: int
    why: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStops:
    """What a budgeted run did about the forms of a task, and what it promises."""

    task: str
    metric: str
    forms: Mapping[str, FormStop]
    guarantee: str
    #: The forms that may be the best and the worst, where they were searched.
    best: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()


def stop_lines(stops: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a budgeted run did, in words, from the plain values of `TaskStops` that results hold."""
    lines = []
    for task in stops:
        forms = task["forms"]
        spent, whole = (sum(form[key] for form in forms.values()) for key in ("evaluated", "documents"))
        lines.append(f"{task['task']}: {spent} of {whole} evaluations, by {task['metric']}, documents in random order")
        lines += [_candidates(which, task[which]) for which in ("best", "worst") if task[which]]
        for name, form in forms.items():
            may_be = [which for which in ("best", "worst") if len(task[which]) > 1 and name in task[which]]
            candidate = f"; it may be the {' or the '.join(may_be)}" if may_be else ""
            lines.append(f"  {name}: {form['evaluated']} documents, {form['why']}{candidate}")
        lines.append(f"  {task['guarantee']}")
    return lines


def _candidates(which: str, names: Sequence[str]) -> str:
    return f"  {which}: {names[0] if len(names) == 1 else f'not known yet, one of {len(names)} forms'}"


class _EndedError(Exception):
    """A round did not end well, so that there is no other."""

    def __init__(self, outcome: RunOutcome) -> None:
        self.outcome = outcome


def check_budget(tasks: Sequence[Task], budget: Budget) -> None:
    """Refuse a budget too small for its tasks, and metrics of which less is better, before a model is loaded."""
    by_task: dict[str, list[Task]] = {}
    for task in tasks:
        by_task.setdefault(task.config.base_name, []).append(task)
    for name, forms in by_task.items():
        if budget.evaluations is not None and budget.evaluations // len(by_task) < len(forms):
            what = f"it is not enough for one document under each of {len(forms)} forms of '{name}'"
            raise UsageError(what, where="--budget", hint=f"give {20 * len(forms)} or more for each task")
    for task in tasks:
        lower = [metric for metric, higher in list(task.higher_is_better().items())[:1] if not higher]
        if lower:
            what = f"lower is better in the first metric of '{task.name}' ({lower[0]})"
            hint = "leave the form out, and name others instead of @all"
            raise UsageError(what, where="--budget or --until_ci", hint=hint)


def run_budgeted(
    ask: Ask,
    pending: Sequence[PendingSample],
    progress: Progress,
    budget: Budget,
    policy: ErrorPolicy = _DEFAULT_POLICY,
) -> tuple[RunOutcome, list[TaskStops]]:
    """Evaluate as much as the budget asks for, and say what was stopped where.

    `ask` scores the samples of a round. `policy` says what becomes of documents whose requests fail.
    """
    by_task: dict[str, list[PendingSample]] = {}
    for entry in pending:
        by_task.setdefault(entry.task.config.base_name, []).append(entry)
    asked = _Asked(ask, [entry.task.name for entry in pending], len(pending), policy)
    tasks = [
        _Rounds(name, entries, asked=asked, progress=progress, seed=budget.seed) for name, entries in by_task.items()
    ]
    stops: list[TaskStops] = []
    left = budget.evaluations or 0
    try:
        for number, rounds in enumerate(tasks):
            if budget.half_width is not None:
                stops.append(rounds.until(budget.half_width))
            else:
                stops.append(rounds.search(left // (len(tasks) - number)))
                left -= rounds.evaluations
    except _EndedError as ended:
        return asked.outcome(ended.outcome), stops
    return asked.outcome(), stops


class _Asked:
    """All that the rounds of a run have asked, as the outcome of one run."""

    def __init__(self, ask: Ask, forms: Sequence[str], documents: int, policy: ErrorPolicy) -> None:
        self.counts_failed = policy.on_error == "count"
        self.scored: dict[str, list[ScoredSample]] = {form: [] for form in forms}
        self.failed: dict[str, list[FailedDoc]] = {form: [] for form in forms}
        self.requests = self.cached = 0
        self.usage: Usage | None = None
        self._ask, self._documents, self._policy = ask, documents, policy

    def __call__(self, entries: Sequence[PendingSample]) -> RunOutcome:
        """Ask about the samples of a round; raises where the run cannot go on after it."""
        outcome = self._ask(entries)
        for form in outcome.scored:
            self.scored[form] += outcome.scored[form]
            self.failed[form] += outcome.failed.get(form, ())
        self.requests += outcome.requests
        self.cached += outcome.cached
        if outcome.usage is not None:
            self.usage = outcome.usage + (self.usage or Usage())
        failures = sum(map(len, self.failed.values()))
        if outcome.state == "complete" and self._policy.is_exceeded(failures, self._documents):
            outcome = replace(outcome, state="failed")
        if outcome.state != "complete":
            raise _EndedError(outcome)
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
            usage=self.usage,
        )


class _Rounds:
    """The forms of one task, evaluated on more and more of its documents."""

    def __init__(
        self,
        task: str,
        pending: Sequence[PendingSample],
        *,
        asked: _Asked,
        progress: Progress,
        seed: int | None,
    ) -> None:
        self.task = task
        self.tasks: dict[str, Task] = {entry.task.name: entry.task for entry in pending}
        self.names = list(self.tasks)
        self._pending = {(entry.task.name, entry.sample.doc_id): entry for entry in pending if entry.sample.instances}
        ids = sorted({doc_id for _, doc_id in self._pending})
        #: The documents that every form asks about, in random order.
        self.docs = [doc_id for doc_id in ids if all((name, doc_id) in self._pending for name in self.names)]
        random.Random(seed).shuffle(self.docs)
        self._run, self._progress = asked, progress
        #: The interval of each form, which holds at all rounds together.
        self._means: dict[str, ConfidenceSequence] = {name: confidence_sequence(level=1 - DELTA) for name in self.names}
        self._asked = 0
        self._silent_until = 0.0

    @property
    def evaluations(self) -> int:
        return sum(mean.n for mean in self._means.values())

    def search(self, budget: int) -> TaskStops:
        """Find the best and the worst form within so many evaluations."""
        if len(self.names) == 1:
            self._ask(self.docs[:budget], self.names)
            why = "no more documents" if budget >= len(self.docs) else "the budget is spent"
            return self._stops({self.names[0]: why}, f"The interval holds with probability {1 - DELTA:g}.")
        search = search_forms(
            lambda positions, wanted: self._ask(
                [self.docs[position] for position in positions], [self.names[index] for index in wanted]
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
        """Evaluate each form until its interval is no wider than plus or minus this."""
        for start in range(0, len(self.docs), _ROUND):
            wanted = [name for name in self.names if self._means[name].half_width > half_width]
            if not wanted:
                break
            self._ask(self.docs[start : start + _ROUND], wanted)
        reasons = {}
        for name, mean in self._means.items():
            why = "its interval is narrow enough" if mean.half_width <= half_width else "no more documents"
            reasons[name] = f"{why} (± {mean.half_width:.3f})"
        return self._stops(reasons, f"Each form's interval holds with probability {1 - DELTA:g}, wherever it stopped.")

    def _ask(self, doc_ids: Sequence[int], names: Sequence[str]) -> Array:
        """A row of scores for each document that all forms have a score of, a column for each form."""
        entries = [self._pending[name, doc_id] for doc_id in doc_ids for name in names]
        self._tell(names)
        outcome = self._run(entries)
        self._asked += len(doc_ids)
        columns: list[dict[int, float]] = []
        for name in names:
            first = self.tasks[name].scorer.scorers[0].name
            samples = [sample for sample in outcome.scored[name] if sample.scorer == first]
            by_doc = {sample.doc_id: self._value(name, sample) for sample in samples}
            if self._run.counts_failed:
                by_doc |= {failed.sample.doc_id: 0.0 for failed in outcome.failed.get(name, ())}
            columns.append({doc_id: by_doc[doc_id] for doc_id in doc_ids if doc_id in by_doc})
            self._means[name] = self._means[name].updated(list(columns[-1].values()))
        complete = [doc_id for doc_id in doc_ids if all(doc_id in column for column in columns)]
        rows = [[column[doc_id] for column in columns] for doc_id in complete]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))

    def _tell(self, names: Sequence[str]) -> None:
        """Say every few seconds how far the rounds are."""
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _PAUSE
            self._progress.message(f"{self.task}: {self.evaluations} evaluations, going on with {len(names)} forms")

    def _value(self, name: str, sample: ScoredSample) -> float:
        metric, value = next(iter(sample.values.items()), ("", None))
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            what = f"'{name}' scores {shorten(value, 40)} by {metric or 'no metric'}, which is not between 0 and 1"
            raise UsageError(what, where="--budget or --until_ci", hint="leave the form out, or name a metric like acc")
        return float(value)

    def _reasons(self, search: Search) -> dict[str, str]:
        if not search.wanted:
            last = "the best and the worst form are known"
        elif self._asked == len(self.docs):
            last = "no more documents"
        else:
            last = "the budget is spent"
        candidates = {*search.best, *search.worst}
        dropped = "it is neither the best nor the worst form"
        return {name: last if index in candidates else dropped for index, name in enumerate(self.names)}

    def _stops(
        self, reasons: Mapping[str, str], guarantee: str, *, best: Sequence[int] = (), worst: Sequence[int] = ()
    ) -> TaskStops:
        forms = {}
        for name, why in reasons.items():
            mean = self._means[name]
            forms[name] = FormStop(evaluated=mean.n, documents=len(self.docs), why=why, low=mean.low, high=mean.high)
        values = next((dict(sample.values) for name in self.names for sample in self._run.scored[name]), {})
        return TaskStops(
            task=self.task,
            metric=next(iter(values), "no metric"),
            forms=forms,
            guarantee=guarantee,
            best=tuple(self.names[index] for index in best),
            worst=tuple(self.names[index] for index in worst),
        )
