"""Comparisons of the forms of each task and group, from the samples of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from multiform.errors import DataError
from multiform.forms import ScoredSample
from multiform.requests import LLOutput
from multiform.results.comparison import FormComparison
from multiform.results.results import FormResult, GroupResult
from multiform.statistics.agreement import MISSING, agreement, fleiss_kappa, rightness
from multiform.statistics.calibration import Calibration, calibration
from multiform.statistics.means import form_means
from multiform.statistics.paired import paired_differences
from multiform.statistics.position import PositionBias, position_bias
from multiform.statistics.scores import DocumentScores, document_scores, pooled
from multiform.statistics.spread import spread_of
from multiform.statistics.variance import variance_split

#: Metrics that say whether a document is right: forms with different ones of them can be compared.
_RIGHT_OR_WRONG = (*("acc", "acc_norm", "acc_bytes", "acc_tokens", "acc_mutual_info", "acc_norm_full", "exact_match"),)


def compare_forms(forms: Sequence[FormResult], groups: Sequence[GroupResult] = ()) -> list[FormComparison]:
    """Compare the forms of each task and of each group that was run under more than one."""
    return [
        *(comparison for group in _same_groups(groups) for comparison in _group_comparisons(group, forms)),
        *(comparison for task in _same_tasks(forms) for comparison in _task_comparisons(task)),
    ]


def _same_tasks(forms: Sequence[FormResult]) -> Iterator[list[FormResult]]:
    for task in dict.fromkeys(form.task for form in forms):
        yield [form for form in forms if form.task == task]


def _same_groups(groups: Sequence[GroupResult]) -> Iterator[list[GroupResult]]:
    for path in dict.fromkeys(group.path for group in groups):
        yield [group for group in groups if group.path == path and group.estimates]


def _task_comparisons(forms: Sequence[FormResult]) -> Iterator[FormComparison]:
    for metric, comparable in _by_metric(forms).items():
        table = _table(comparable)
        if table is not None and (len(comparable) > 1 or table.clustered):
            yield _comparison(forms[0].task, metric, [form.name for form in comparable], table, comparable)


def _group_comparisons(groups: Sequence[GroupResult], forms: Sequence[FormResult]) -> Iterator[FormComparison]:
    """The comparisons over all subjects of a group that were run under each of the forms."""
    by_name = {form.name: form for form in forms}
    inside = [{by_name[name].task: by_name[name] for name in group.forms if name in by_name} for group in groups]
    tasks = [task for task in (inside[0] if inside else ()) if all(task in subjects for subjects in inside)]
    if len(groups) < 2 or any(len(subjects) != len(tasks) for subjects in inside):
        return
    for metric in dict.fromkeys(metric_family(form) for subjects in inside for form in subjects.values()):
        kept = [
            index
            for index, subjects in enumerate(inside)
            if all(metric_family(form) == metric for form in subjects.values())
        ]
        columns = [[inside[index][task] for index in kept] for task in tasks]
        tables = [_table(column) for column in columns]
        if metric is None or len(kept) < 2 or any(table is None for table in tables):
            continue
        known = [table for table in tables if table is not None]
        weights = [table.n if groups[0].weight_by_size else 1 for table in known]
        names = [groups[index].name for index in kept]
        shown = [form for column in columns for form in column]
        yield _comparison(groups[0].path, metric, names, pooled(known, weights), shown)


def _comparison(
    name: str, metric: str, names: Sequence[str], table: DocumentScores, forms: Sequence[FormResult]
) -> FormComparison:
    means = form_means(table)
    metrics = {_metric(form) for form in forms}
    samples = [_common(forms, form) for form in forms]
    of_task = len(forms) == len(names)
    picks = [[_picked_in_document(sample) for sample in column] for column in samples] if of_task else []
    several = len(names) > 1
    known = several and bool(picks) and all(any(pick is not None for pick in column) for column in picks)
    codes = np.array([[MISSING if pick is None else pick for pick in column] for column in picks]).T
    return FormComparison(
        name=name,
        metric=metrics.pop() if len(metrics) == 1 else metric,
        higher_is_better=forms[0].higher_is_better.get(_metric(forms[0]), True),
        forms=tuple(names),
        n=table.n,
        clusters=len(np.unique(table.clusters)),
        means=tuple(means.estimates()),
        differences=tuple(paired_differences(table)),
        spread=spread_of(means) if several else None,
        variance=variance_split(table.values) if several else None,
        rightness=rightness(table) if several and table.binary else None,
        agreement=agreement(table, codes) if known else None,
        kappa=fleiss_kappa(codes) if known else None,
        positions=tuple(position_bias_of(column) for column in samples) if of_task else (None,) * len(names),
        calibrations=tuple(calibration_of(column) for column in samples) if of_task else (None,) * len(names),
    )


def _by_metric(forms: Sequence[FormResult]) -> dict[str, list[FormResult]]:
    """The forms whose first metrics can be compared, by the metric."""
    families: dict[str, list[FormResult]] = {}
    for form in forms:
        family = metric_family(form)
        if family is not None:
            families.setdefault(family, []).append(form)
    return families


def metric_family(form: FormResult) -> str | None:
    """What a form's first metric can be compared with; None where its score is not a mean over documents."""
    if not form.estimates:
        return None
    values = list(document_values(form).values())
    estimate = form.estimates[form.primary]
    if not values or not all(isinstance(value, int | float) for value in values):
        return None
    if not np.isclose(np.mean(values), estimate.value, rtol=1e-9, atol=1e-12):
        return None
    return "accuracy" if _metric(form) in _RIGHT_OR_WRONG else _metric(form)


def _metric(form: FormResult) -> str:
    return form.primary.partition(",")[0]


def document_values(form: FormResult) -> dict[int, Any]:
    """The value of a form's first metric for each document."""
    metric, _, scorer = form.primary.partition(",")
    return {s.doc_id: s.values[metric] for s in form.samples if s.scorer == scorer and metric in s.values}


def _common(forms: Sequence[FormResult], form: FormResult) -> list[ScoredSample]:
    """The samples of a form on the documents that all forms of its task have, in the order of the documents."""
    shared = set.intersection(*(set(document_values(other)) for other in forms if other.task == form.task))
    scorer = form.primary.partition(",")[2]
    return sorted(
        (s for s in form.samples if s.scorer == scorer and s.doc_id in shared), key=lambda sample: sample.doc_id
    )


def _table(forms: Sequence[FormResult]) -> DocumentScores | None:
    """The scores of a task's forms on the documents that all of them have; None where these are too few."""
    columns = [_common(forms, form) for form in forms]
    values = [[sample.values[_metric(form)] for sample in column] for form, column in zip(forms, columns, strict=True)]
    column = forms[0].cluster
    clusters = None if column is None else [str(sample.doc.get(column)) for sample in columns[0]]
    try:
        return document_scores(np.array(values, dtype=np.float64).T, clusters)
    except DataError:  # one document or one cluster, which has no statistics
        return None


def _picked(sample: ScoredSample) -> int | None:
    """The index of the choice that a sample predicts; None where it predicts none."""
    return _choice_index(sample, sample.prediction)


def _picked_in_document(sample: ScoredSample) -> int | None:
    """The index of the predicted choice in the document, whatever the order in which the prompt shows the choices."""
    picked, permutation = _picked(sample), sample.sample.permutation
    return picked if picked is None or permutation is None else permutation[picked]


def _choice_index(sample: ScoredSample, answer: Any) -> int | None:
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    for choices in (sample.sample.labels, sample.sample.texts):
        named = [choice.strip().casefold() for choice in choices]
        if isinstance(answer, str) and answer.strip().casefold() in named:
            return named.index(answer.strip().casefold())
    return None


def position_bias_of(samples: Sequence[ScoredSample]) -> PositionBias | None:
    """The position bias of a form, from the samples whose prediction and right answer are choices."""
    pairs = [(_picked(sample), _choice_index(sample, sample.gold)) for sample in samples]
    known = [(pick, gold) for pick, gold in pairs if pick is not None and gold is not None]
    return position_bias(*zip(*known, strict=True)) if len(known) > 1 else None


def calibration_of(samples: Sequence[ScoredSample]) -> Calibration | None:
    """The calibration of a form that ranks choices, from the probabilities of the choices among each other."""
    confidences, right = [], []
    for sample in samples:
        likelihoods = [output.loglikelihood for output in sample.outputs if isinstance(output, LLOutput)]
        ranked = np.array(likelihoods[: len(sample.sample.choices)])
        if len(ranked) < 2 or len(sample.sample.choices) < 2 or not np.isfinite(ranked).all():
            return None
        weights = np.exp(ranked - ranked.max())
        confidences.append(float(weights.max() / weights.sum()))
        right.append(float(sample.prediction in sample.sample.gold))
    return calibration(confidences, right) if confidences else None
