"""SequentialEvaluation: the forms of a task or group, evaluated on more and more documents until a rule stops it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import numpy as np

from multiform.errors import UsageError, excerpt
from multiform.forms import Form, ScoredSample
from multiform.results.groups import FormStop, TaskStops
from multiform.run.documents import RenderedSamples
from multiform.run.pending import Batch, PendingSample
from multiform.run.progress import RunningScore
from multiform.run.runner import Runner
from multiform.statistics.estimates import STOPPED_LEVEL, mean_estimate
from multiform.statistics.means import Array, dataset_estimates, document_scores, form_means
from multiform.statistics.sampling import document_order
from multiform.statistics.sequences import Search, confidence_sequence, search_forms

#: A document of a subject; a task is its own and only subject.
_Document: TypeAlias = tuple[str, int]

#: The probability with which a statement about the forms of a task may be wrong.
DELTA = 0.05
#: Documents of a round; of the first one, if intervals are judged by their width; and the fewest clusters for that.
_ROUND, _PILOT, _FEWEST_CLUSTERS = 16, 32, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormSet:
    """A task, or a group whose documents are pooled, under several forms."""

    #: The name of the task or group, without a format.
    name: str
    #: For each form its tasks by their names without a format: a single one, or the subjects of a group.
    forms: Mapping[str, Mapping[str, Form]]
    #: The metric that a group names; None for the first metric of each form.
    metric: str | None = None
    #: Whether each subject counts as much as any other, whatever its number of documents.
    equal_subjects: bool = False

    @property
    def subjects(self) -> list[str]:
        return list(next(iter(self.forms.values())))

    def tasks(self) -> Iterator[Form]:
        """All tasks of all forms."""
        for subjects in self.forms.values():
            yield from subjects.values()


class SequentialEvaluation:
    """The forms of one set, evaluated on more and more of its documents.

    Documents come in random order, those of a cluster together.
    """

    def __init__(self, form_set: FormSet, rendered: RenderedSamples, runner: Runner) -> None:
        self.form_set, self._runner = form_set, runner
        self.names = list(form_set.forms)
        self._rendered = rendered
        shared = set.intersection(
            *(
                {(subject, doc_id) for subject, task in subjects.items() for doc_id in rendered.doc_ids(task.name)}
                for subjects in form_set.forms.values()
            )
        )
        #: The first document of each one's cluster: itself, where documents are independent.
        self._head: dict[_Document, _Document] = {}
        first_docs: dict[tuple[str, Any], _Document] = {}
        clusters: dict[_Document, list[_Document]] = {}
        for subject, doc_id in sorted(shared):
            cluster = rendered.cluster(form_set.forms[self.names[0]][subject].name, doc_id)
            head = self._head[subject, doc_id] = first_docs.setdefault((subject, cluster), (subject, doc_id))
            clusters.setdefault(head, []).append((subject, doc_id))
        heads = {subject: [doc_id for s, doc_id in clusters if s == subject] for subject in form_set.subjects}
        order = document_order(heads, equal_subjects=form_set.equal_subjects, seed=runner.options.seeds[0])
        #: The documents that every form has, a list for each cluster, in random order.
        self.units = [clusters[head] for head in order]
        self._sizes = Counter(subject for subject, _ in shared)
        self._largest = max(map(len, self.units), default=1)
        #: The interval of each form, and of each form of a subject, which holds at all rounds together.
        self._means = {name: confidence_sequence(level=1 - DELTA) for name in self.names}
        self._scores: dict[str, dict[_Document, float]] = {name: {} for name in self.names}
        self._units_evaluated = 0
        self._metric = "no metric"
        self._rule: Literal["budget", "until_ci"] = "budget"

    @property
    def documents(self) -> int:
        """The number of documents that every form has."""
        return sum(map(len, self.units))

    @property
    def evaluations(self) -> int:
        return sum(map(len, self._scores.values()))

    def search(self, budget: int) -> TaskStops:
        """Find the best and the worst form within a budget of evaluations."""
        units = max(1, budget // self._largest)
        if len(self.names) == 1:
            self._evaluate(self.units[:units], self.names)
            why = self._no_more if units >= len(self.units) else "the budget is spent"
            return self._stops({self.names[0]: why}, f"The interval holds with probability {1 - DELTA:g}.")
        search = search_forms(
            lambda positions, chosen: self._evaluate(
                [self.units[position] for position in positions], [self.names[index] for index in chosen]
            ),
            documents=len(self.units),
            forms=len(self.names),
            budget=units,
            block=min(_ROUND, max(1, units // len(self.names))),
            delta=DELTA,
        )
        guarantee = f"With probability {1 - DELTA:g} or more, the best and the worst form are among those named."
        stops = self._stops(self._reasons(search), guarantee, best=search.best, worst=search.worst)
        best, worst = search.best_and_worst
        spread = None if search.spread is None else search.spread * self._scale
        return replace(stops, picked=(self.names[best], self.names[worst]), spread=spread)

    def until(self, half_width: float, *, of_dataset: bool = False) -> TaskStops:
        """Evaluate each form until its interval is no wider than ± `half_width`.

        With `of_dataset`, that is the interval of what all documents of the dataset would score, which is narrower.
        """
        self._rule, position = "until_ci", 0
        while position < len(self.units):
            unfinished = [name for name in self.names if self._width(name, of_dataset=of_dataset) > half_width]
            if not unfinished:
                break
            sizes = accumulate(map(len, self.units[position:]))
            chunk = sum(size < (_ROUND if position else _PILOT) for size in sizes) + 1
            self._evaluate(self.units[position : position + chunk], unfinished)
            position += chunk
        reasons = {}
        for name in self.names:
            width = self._width(name, of_dataset=of_dataset)
            interval = "the interval of the whole dataset's score" if of_dataset else "its interval"
            why = f"{interval} is narrow enough" if width <= half_width else self._no_more
            reasons[name] = f"{why} (± {width:.3f})" if math.isfinite(width) else why
        guarantee = (
            f"Each interval is a {STOPPED_LEVEL:.0%} one, so that it holds with probability {1 - DELTA:g} "
            "although the run stopped because of its width."
        )
        return self._stops(reasons, guarantee)

    def _width(self, name: str, *, of_dataset: bool = False) -> float:
        """Half the interval of a form so far; infinite before there are enough documents to tell."""
        scores = self._scores[name]
        clusters = [self._head[doc] for doc in scores]
        if len(scores) < _PILOT or len(set(clusters)) < _FEWEST_CLUSTERS:
            return math.inf
        table = document_scores(list(scores.values()), clusters)
        if of_dataset:
            (estimate,) = dataset_estimates(table, self.documents, level=STOPPED_LEVEL)
        else:
            (estimate,) = form_means(table).estimates(STOPPED_LEVEL)
        low, high = estimate.interval
        return (high - low) / 2

    @property
    def _no_more(self) -> str:
        if self.documents == self._sizes.total():
            return "no more documents"
        return "no more documents of a task, and all tasks of the group weigh the same"

    @property
    def _scale(self) -> float:
        """What a score of a cluster, which is a share of the largest one, is of a mean over documents."""
        return self._largest * len(self.units) / self.documents if self.units else 1.0

    def _evaluate(self, units: Sequence[Sequence[_Document]], names: Sequence[str]) -> Array:
        """A row of scores for each cluster of which all forms have scores, a column for each form.

        The score of a cluster is the sum of its documents' over the size of the largest cluster.
        """
        forms = self.form_set.forms
        entries = [
            PendingSample(forms[name][subject], self._rendered.sample(forms[name][subject].name, doc_id))
            for unit in units
            for subject, doc_id in unit
            for name in names
        ]
        done = self._runner.run_round(entries)
        self._units_evaluated += len(units)
        columns = [self._column(name, done) for name in names]
        complete = [[doc for doc in unit if all(doc in column for column in columns)] for unit in units]
        rows = [[sum(column[doc] for doc in unit) / self._largest for column in columns] for unit in complete if unit]
        for name, column in zip(names, columns, strict=True):
            self._scores[name] |= column
        if self._rule == "budget":
            for name, values in zip(names, zip(*rows, strict=True), strict=False):
                self._means[name] = self._means[name].after(values)
        self._show()
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))

    def _column(self, name: str, done: Batch) -> dict[_Document, float]:
        """The scores of a form on the documents of a round."""
        column: dict[_Document, float] = {}
        for subject, task in self.form_set.forms[name].items():
            first = task.scoring.scorers[0].name
            scored = [sample for sample in done.scored.get(task.name, ()) if sample.scorer == first]
            column |= {(subject, s.doc_id): self._value(task.name, s) for s in scored}
            if self._runner.options.on_error == "count":
                column |= {(subject, document.doc_id): 0.0 for form, document in done.failed if form == task.name}
        return column

    def _show(self) -> None:
        """The intervals so far, for the display of the run."""
        status = self._runner.reporter.status
        assert status is not None
        shown = {score.form: score for score in status.scores}
        for name, scores in self._scores.items():
            if scores:
                estimate = mean_estimate(list(scores.values()))
                shown[name] = RunningScore(form=name, metric=self._metric, estimate=estimate, documents=self.documents)
        status.scores = list(shown.values())

    def _value(self, name: str, sample: ScoredSample) -> float:
        metric = self.form_set.metric if self.form_set.metric in sample.values else next(iter(sample.values), "")
        value = sample.values.get(metric or "")
        is_bounded = self._rule == "budget"
        if not isinstance(value, int | float) or (is_bounded and not 0 <= value <= 1):
            needed = "between 0 and 1" if is_bounded else "a number"
            message = f"'{name}' scores {excerpt(value, 40)} by {metric or 'no metric'}, which is not {needed}"
            raise UsageError(message, where=f"--{self._rule}", hint="leave the form out, or name a metric like acc")
        self._metric = metric or self._metric
        return float(value)

    def _reasons(self, search: Search) -> dict[str, str]:
        if not search.undecided_forms:
            last = "the best and the worst form are known"
        elif self._units_evaluated == len(self.units):
            last = self._no_more
        else:
            last = "the budget is spent"
        candidates, most = {*search.best, *search.worst}, search.counts.max()

        reasons = {}
        for index, name in enumerate(self.names):
            if index not in candidates:
                reasons[name] = "it is neither the best nor the worst form"
            elif search.counts[index] < most and search.undecided_forms:
                reasons[name] = "others looked better and others worse in an earlier round"
            else:
                reasons[name] = last
        return reasons

    def _stops(
        self, reasons: Mapping[str, str], guarantee: str, best: Sequence[int] = (), worst: Sequence[int] = ()
    ) -> TaskStops:
        members = {
            task.name: FormStop(evaluated=number, documents=self._sizes[subject], why=f"as {name}: {reasons[name]}")
            for name, subjects in self.form_set.forms.items()
            for subject, task in subjects.items()
            if len(subjects) > 1 and (number := sum(doc[0] == subject for doc in self._scores[name]))
        }
        forms = {}
        for name, why in reasons.items():
            mean, evaluated = self._means[name], len(self._scores[name])
            low, high = (min(1.0, b * self._scale) for b in (mean.low, mean.high)) if mean.n else (None, None)
            forms[name] = FormStop(evaluated=evaluated, documents=self.documents, why=why, low=low, high=high)
        return TaskStops(
            task=self.form_set.name,
            metric=self._metric,
            rule=self._rule,
            forms=forms,
            guarantee=guarantee,
            best=tuple(self.names[index] for index in best),
            worst=tuple(self.names[index] for index in worst),
            members=members,
        )
