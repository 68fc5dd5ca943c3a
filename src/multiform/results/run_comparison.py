"""Compare two runs, or the forms on the way from one to another: paired differences on the documents that both have,
and the documents that changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from multiform.errors import DataError, MultiformError, UsageError
from multiform.forms import ScoredSample
from multiform.results.compare import ScoredForm, is_mean, shared_scores
from multiform.results.values import FormResult, GroupResult, ResultsData, metric_kind, metric_label
from multiform.statistics.differences import holm, paired_difference, simultaneous_bounds
from multiform.statistics.estimates import LEVEL, Estimate, normal_estimate
from multiform.statistics.means import DocumentScores, form_means, pool_subjects
from multiform.statistics.wordings import MIN_WORDINGS, WordingPopulation, wording_population

#: The fields of a task that scores depend on beside the prompts.
_SETTINGS = ("generation_kwargs", "repeats", "filter_list", "metric_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChange:
    """One form or group of two runs: the score of each, and the second minus the first."""

    name: str
    metric: str
    first: Estimate
    second: Estimate
    difference: Estimate
    #: Whether the difference is over the same documents; only the scores can be compared without samples, and where
    #: they are not means over documents (perplexities, say).
    paired: bool
    #: The p value of the test that both are equally good, and after Holm's correction for all forms or all groups; None
    #: unpaired.
    p: float | None = None
    p_holm: float | None = None
    higher_is_better: bool
    #: Of how many comparisons this is one: the interval and the p value that hold for all of them at once account for
    #: that.
    comparisons: int = 1
    #: How many documents of the first and of the second run the other one does not have; they are not compared.
    left_out: tuple[int, int] = (0, 0)
    #: What else than the model is not the same in both runs, such as "num_fewshot (0 and 5)".
    settings: tuple[str, ...] = ()
    #: The documents with a higher and with a lower score in the second run; those of a group have their task's name.
    raised: tuple[int | str, ...] = ()
    lowered: tuple[int | str, ...] = ()

    @property
    def simultaneous(self) -> tuple[float, float]:
        """The bounds of the difference that hold for all comparisons at once; not numbers where they are not known."""
        return self._bounds(LEVEL)

    @property
    def p_simultaneous(self) -> float | None:
        """The p value that belongs to the simultaneous bounds."""
        return None if self.p is None else min(1.0, self.p * self.comparisons)

    def gain_bounds(self, confidence: float = LEVEL) -> tuple[float, float]:
        """One-sided bounds of the gain, for all comparisons at once: the least and the most that it is."""
        low, high = self._bounds(2 * confidence - 1)
        return (low, high) if self.higher_is_better else (-high, -low)

    def _bounds(self, level: float) -> tuple[float, float]:
        """The bounds of the difference for all comparisons at once, in the range of the metric."""
        low, high = simultaneous_bounds(self.difference, self.comparisons, level=level)
        most = 1.0 if metric_kind(self.metric) == "accuracy" else math.inf
        return (low, high) if math.isnan(low) else (max(-most, low), min(most, high))

    @property
    def gain(self) -> float:
        """The difference in the direction of better: negative where the second run is worse."""
        return self.difference.value if self.higher_is_better else -self.difference.value


def compare_runs(first: ResultsData, second: ResultsData, *, metric: str | None = None) -> list[FormChange]:
    """Every form that both runs have, on its first metric or on `metric`; two single forms are matched by their task.

    Scores are compared document by document. A document that differs between the runs is refused, as its scores do not
    belong together, and so are metrics of which a difference means nothing.
    """
    return _correct([compare_form(form, counterpart, metric) for form, counterpart in form_pairs(first, second)])


def compare_all_runs(runs: Sequence[ResultsData]) -> list[tuple[int, int, FormChange]]:
    """Every form that two of the runs have, with the numbers of the two runs; corrected for all of these at once.

    For two runs, these are the changes of `compare_runs`. What cannot be compared is left out.
    """
    pairs, changes = [], []
    for first, second in combinations(range(len(runs)), 2):
        counterparts = {form.name: form for form in runs[second].forms}
        for form in runs[first].forms:
            with suppress(MultiformError):
                if form.name in counterparts:
                    changes.append(compare_form(form, counterparts[form.name]))
                    pairs.append((first, second))
    return [(*pair, change) for pair, change in zip(pairs, _correct(changes), strict=True)]


def compare_groups(first: ResultsData, second: ResultsData, *, metric: str | None = None) -> list[FormChange]:
    """Every group with a score that both runs have: over the documents of its tasks, weighted as the group says.

    A group whose score is no mean, or whose tasks differ, is compared by its scores alone; a group without the score
    that `metric` names is left out.
    """
    changes = []
    second_groups = {group.name: group for group in second.groups}
    for group in first.groups:
        counterpart, key = second_groups.get(group.name), group.key(metric)
        if counterpart is not None and key is not None and key == counterpart.key(metric):
            changes.append(_compare_group((first, group), (second, counterpart), key))
    return _correct(changes)


def _correct(changes: Sequence[FormChange]) -> list[FormChange]:
    """The changes with p values after Holm's correction."""
    tests = [change.p for change in changes if change.p is not None]
    adjusted = iter(holm(tests) if tests else ())
    return [
        replace(change, comparisons=len(changes), p_holm=None if change.p is None else float(next(adjusted)))
        for change in changes
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordingChange:
    """Two runs over the same wordings of one format: the second minus the first, over the population of wordings."""

    name: str
    metric: str
    population: WordingPopulation
    #: How probably the order of the two runs reverses under another wording.
    reversal: float


def compare_wordings(first: ResultsData, second: ResultsData, *, metric: str | None = None) -> list[WordingChange]:
    """The difference between two runs over the wordings of each format of which both have three or more."""
    by_format: dict[tuple[str, str], list[tuple[FormResult, FormResult]]] = {}
    for form, counterpart in form_pairs(first, second):
        label = (form.format_label or "").partition("[")[0]
        by_format.setdefault((form.task, label), []).append((form, counterpart))
    changes = []
    for (task, label), pairs in by_format.items():
        if len(pairs) < MIN_WORDINGS:
            continue
        columns = [ScoredForm.of(form, _key(form, metric)) for pair in pairs for form in pair]
        if any(column.family is None for column in columns):
            continue
        if (table := shared_scores(columns)) is not None:
            differences = table.of(table.values[:, 1::2] - table.values[:, ::2])
            # Differences may be negative even if none was, so they are no rates.
            population = wording_population(replace(form_means(differences), rates=False))
            about: dict[str, Any] = {"name": f"{task}@{label}", "metric": columns[0].metric}
            changes.append(WordingChange(**about, population=population, reversal=population.reversal()))
    return changes


def only_in(first: ResultsData, second: ResultsData) -> list[str]:
    """The forms of the first run that have no counterpart in the second."""
    paired = {form.name for form, _ in form_pairs(first, second)}
    return [form.name for form in first.forms if form.name not in paired]


def form_pairs(first: ResultsData, second: ResultsData) -> list[tuple[FormResult, FormResult]]:
    """The forms of two runs that belong together, by name; two single forms by their task."""
    named = {form.name: form for form in second.forms}
    pairs = [(form, named[form.name]) for form in first.forms if form.name in named]
    if pairs:
        return pairs
    if len(first.forms) == len(second.forms) == 1 and first.forms[0].task == second.forms[0].task:
        return [(first.forms[0], second.forms[0])]
    listed = [", ".join(form.name for form in results.forms[:5]) or "nothing" for results in (first, second)]
    message = f"the runs have no form in common: the first has {listed[0]}, the second {listed[1]}"
    raise UsageError(message, where="compare", hint="compare runs of the same tasks")


def compare_form(first: FormResult, second: FormResult, metric: str | None = None) -> FormChange:
    """One form of two runs: the second minus the first, on the first metric or on `metric`."""
    keys = [_key(form, metric) for form in (first, second)]
    names = [key.partition(",")[0] for key in keys]
    if metric_kind(names[0]) != metric_kind(names[1]):
        message = f"{names[0]} of {first.name} and {names[1]} of {second.name} are not scores of the same kind"
        raise UsageError(message, where="compare", hint="name a score that both have with --metric")
    columns = [ScoredForm.of(form, key) for form, key in zip((first, second), keys, strict=True)]
    shared = None if any(column.family is None for column in columns) else _SharedDocuments.of(*columns)
    change = _change(
        first.name if first.name == second.name else f"{first.name} → {second.name}",
        names[0] if names[0] == names[1] else f"{names[0]} → {names[1]}",
        (first.estimates[keys[0]], second.estimates[keys[1]]),
        shared,
        higher_is_better=first.higher_is_better.get(names[0], True),
    )
    left_out = (0, 0) if shared is None else shared.left_out
    return replace(change, settings=tuple(_differing_settings(first, second)), left_out=left_out)


def _change(
    name: str,
    metric: str,
    scores: tuple[Estimate, Estimate],
    shared: _SharedDocuments | None,
    *,
    higher_is_better: bool,
) -> FormChange:
    """The change of a score on the documents that both runs have.

    Where these are not known, as if the documents were different ones, which is too wide an interval.
    """
    first, second = scores
    about: dict[str, Any] = {"name": name, "metric": metric, "higher_is_better": higher_is_better}
    if shared is None:
        errors = [estimate.stderr for estimate in scores if estimate.stderr is not None]
        error = math.hypot(*errors) if len(errors) == 2 else None
        difference = normal_estimate(second.value - first.value, error, min(first.n, second.n))
        return FormChange(**about, first=first, second=second, difference=difference, paired=False)
    paired, n = paired_difference(shared.table), shared.table.n
    after, before = form_means(shared.table).values.tolist()
    return FormChange(
        **about,
        # A run that has no other documents keeps its score, with its interval.
        first=Estimate(value=before, n=n) if shared.left_out[0] else first,
        second=Estimate(value=after, n=n) if shared.left_out[1] else second,
        difference=paired.estimate,
        paired=True,
        p=paired.p,
        raised=tuple(doc for doc, gain in shared.gains.items() if gain > 0),
        lowered=tuple(doc for doc, gain in shared.gains.items() if gain < 0),
    )


def _differing_settings(first: FormResult, second: FormResult) -> Iterator[str]:
    """By what else than the model the scores of a form may differ; two formats differ by name already."""
    if first.num_fewshot != second.num_fewshot:
        yield f"num_fewshot ({first.num_fewshot} and {second.num_fewshot})"
    if first.version != second.version:
        yield f"version of the task ({first.version} and {second.version})"
    if first.name != second.name:
        return
    prompts = {sample.doc_id: sample.sample.prompt for sample in first.samples}
    if any(prompts.get(sample.doc_id, sample.sample.prompt) != sample.sample.prompt for sample in second.samples):
        yield "prompts"
    yield from (key for key in _SETTINGS if first.config.get(key) != second.config.get(key))


@dataclass(frozen=True, slots=True)
class _SharedDocuments:
    """The documents of a form or group that both runs have."""

    #: The scores of the second and of the first run.
    table: DocumentScores
    #: How much higher each document scores in the second run; those of a group have their task's name.
    gains: dict[Any, float]
    #: How many documents only the first and only the second run has.
    left_out: tuple[int, int]

    @classmethod
    def of(cls, first: ScoredForm, second: ScoredForm) -> _SharedDocuments:
        _check_documents(first.form, second.form)
        before, after = first.values, second.values
        gains = {doc: after[doc] - before[doc] for doc in before if doc in after}
        table = shared_scores([first, second]) if len(gains) > 1 else None
        if table is None:
            number = f"{len(gains)} documents" if len(gains) < 2 else "one cluster of documents"
            hint = "compare runs over the same documents: the same --limit or --samples"
            raise DataError(f"the runs share {number} of {first.form.name}", where="compare", hint=hint)
        left_out = len(before) - len(gains), len(after) - len(gains)
        return cls(table.of(table.values[:, ::-1]), gains, left_out)

    @classmethod
    def pool(cls, members: Mapping[str, _SharedDocuments], *, weight_by_size: bool) -> _SharedDocuments:
        """The documents of the tasks of a group."""
        tables = [shared.table for shared in members.values()]
        gains = {f"{task}/{doc}": gain for task, shared in members.items() for doc, gain in shared.gains.items()}
        only_first, only_second = (sum(counts) for counts in zip(*(m.left_out for m in members.values()), strict=True))
        table = pool_subjects(tables, [part.n if weight_by_size else 1 for part in tables])
        return cls(table, gains, (only_first, only_second))


def _compare_group(
    first: tuple[ResultsData, GroupResult], second: tuple[ResultsData, GroupResult], key: str
) -> FormChange:
    sides = [(g, {form.name: form for form in run.forms if form.name in g.forms}) for run, g in (first, second)]
    (group, before), (other, after) = sides
    shared = None
    if set(before) == set(after) and all(is_mean(side, list(forms.values()), key) for side, forms in sides):
        members = {
            form.task: _SharedDocuments.of(ScoredForm.of(form, key), ScoredForm.of(after[name], key))
            for name, form in before.items()
        }
        shared = _SharedDocuments.pool(members, weight_by_size=group.weight_by_size)
    metric, scores = key.partition(",")[0], (group.estimates[key], other.estimates[key])
    return _change(group.name, metric, scores, shared, higher_is_better=group.higher_is_better.get(metric, True))


def _key(form: FormResult, metric: str | None) -> str:
    """The score to compare: the first, or the one that is named."""
    if not form.estimates:
        raise UsageError(f"{form.name} has no scores", where="compare", hint="run it without --predict_only")
    if (key := form.key(metric)) is None:
        listed = ", ".join(dict.fromkeys(key.partition(",")[0] for key in form.estimates))
        raise UsageError(f"{form.name} has no score '{metric}'", where="--metric", hint=f"there are: {listed}")
    return key


def _check_documents(first: FormResult, second: FormResult) -> None:
    documents = {sample.doc_id: sample for sample in first.samples}
    for sample in second.samples:
        counterpart = documents.get(sample.doc_id)
        if counterpart is not None and _text(counterpart) != _text(sample):
            message = f"document {sample.doc_id} of {first.name} is not the same in both runs"
            raise DataError(message, where="compare", hint="compare runs over the same version of the dataset")


def _text(sample: ScoredSample) -> Mapping[str, str]:
    """A document as the samples file has it; what is neither text nor number may differ in how it is written."""
    return {key: str(value) for key, value in sample.doc.items() if isinstance(value, str | int | bool)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEffect:
    """A step with the score after it, and what it changed."""

    what: str
    metric: str
    score: Estimate
    #: The score after the step minus that before; its interval and p value hold for all steps at once. None if the two
    #: scores are not of one kind, such as accuracy and bits per byte.
    change: FormChange | None

    def to_dict(self) -> dict[str, Any]:
        """The effect as plain data."""
        about = {"what": self.what, "metric": self.metric, "score": self.score.value, "documents": self.score.n}
        if self.change is None:
            return about
        low, high = self.change.simultaneous
        return {
            **about,
            "change": self.change.difference.value,
            "low": low,
            "high": high,
            "p": self.change.p_simultaneous,
            "paired": self.change.paired,
            "raised": len(self.change.raised),
            "lowered": len(self.change.lowered),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """The way from one form to another: the first score, the effect of every step, and of all steps together."""

    first: FormResult
    effects: tuple[StepEffect, ...]
    total: StepEffect
    #: Steps after which no prompt and no score of these documents was another one.
    idle: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        start = {"metric": metric_label(self.first.primary), "score": self.first.score.value}
        effects = [effect.to_dict() for effect in self.effects]
        return {"start": start, "steps": effects, "total": self.total.to_dict(), "without_effect": list(self.idle)}


def step_table(forms: Mapping[str, FormResult], start: str, steps: Sequence[tuple[str, str]]) -> StepTable:
    """The effects of steps, each what it is and the name of the form after it, on the scores of these forms."""
    previous, effects, idle = forms[start], [], []
    for what, name in steps:
        form = forms[name]
        if _outcomes(form) == _outcomes(previous):
            idle.append(what)
        else:
            effects.append(_effect(what, previous, form))
        previous = form
    effects = [
        e if e.change is None else replace(e, change=replace(e.change, comparisons=len(effects))) for e in effects
    ]
    total = _effect("all steps together", forms[start], previous)
    return StepTable(first=forms[start], effects=tuple(effects), total=total, idle=tuple(idle))


def _effect(what: str, before: FormResult, after: FormResult) -> StepEffect:
    change = None
    with suppress(UsageError):  # scores of two kinds
        try:
            change = compare_form(before, after)
        except DataError:  # other documents: only the scores can be compared
            change = compare_form(replace(before, samples=()), replace(after, samples=()))
    return StepEffect(what=what, metric=metric_label(after.primary), score=after.score, change=change)


def _outcomes(form: FormResult) -> dict[tuple[int, str], Any]:
    """The requests and the values of every sample."""
    return {(s.doc_id, s.scorer): ([instance.request for instance in s.instances], s.values) for s in form.samples}
