"""Comparisons of the forms of each task and group, from the samples of a run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from multiform.errors import ConfigError, DataError
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.requests import LLOutput
from multiform.results.form_comparison import FormatPopulation, FormComparison, Scoring
from multiform.results.values import FormResult, GroupResult
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.design import form_variance
from multiform.statistics.estimates import Estimate
from multiform.statistics.means import DocumentScores, document_scores, form_means, pool_subjects
from multiform.statistics.paired import paired_differences
from multiform.statistics.predictions import (
    MISSING,
    Calibration,
    PositionBias,
    agreement,
    calibration,
    fleiss_kappa,
    position_bias,
    rightness,
)
from multiform.statistics.spread import spread_of
from multiform.statistics.wordings import MIN_WORDINGS, axis_effects, wording_population


@dataclass(frozen=True, slots=True)
class _Scored:
    """The samples of a form that have a value of one metric, by document."""

    form: FormResult
    metric: str
    samples: dict[int, ScoredSample]

    @classmethod
    def of(cls, form: FormResult, key: str) -> _Scored:
        """The samples of a form by a key of its scores, such as ``acc,none``."""
        metric, _, scorer = key.partition(",")
        samples = {s.doc_id: s for s in form.samples if s.scorer == scorer and metric in s.values}
        return cls(form, metric, samples)

    def family(self, score: Estimate | None) -> str | None:
        """The comparable metrics, by the name of their family; None where the score is not a mean over documents."""
        values = [sample.values[self.metric] for sample in self.samples.values()]
        if (
            score is None
            or self.metric == "bypass"
            or not values
            or not all(isinstance(value, int | float) for value in values)
        ):
            return None
        if not np.isclose(np.mean(values), score.value, rtol=1e-9, atol=1e-12):
            return None
        return "accuracy" if self.metric in RIGHT_OR_WRONG else self.metric

    def on(self, documents: Sequence[int]) -> list[ScoredSample]:
        return [self.samples[doc_id] for doc_id in documents]


def compare_forms(forms: Sequence[FormResult], groups: Sequence[GroupResult] = ()) -> list[FormComparison]:
    """Compare the forms of each task and of each group that was run under more than one; controls are left out."""
    controls = {form.name for form in forms if form.control}
    forms = [form for form in forms if not form.control]
    scored = [group for group in groups if group.estimates and not controls.intersection(group.forms)]
    paths = dict.fromkeys(group.path for group in scored)
    tasks = dict.fromkeys(form.task for form in forms)
    return [
        *(c for path in paths for c in _of_group([group for group in scored if group.path == path], forms)),
        *(c for task in tasks for c in _of_task([form for form in forms if form.task == task])),
    ]


def metric_family(form: FormResult, key: str | None = None) -> str | None:
    """The family of comparable metrics of a form's first metric, or of `key`; None for no mean over documents."""
    if not form.estimates:
        return None
    key = form.primary if key is None else key
    return _Scored.of(form, key).family(form.estimates[key])


def is_mean(group: GroupResult, forms: Sequence[FormResult], key: str | None = None) -> bool:
    """Whether a group's first score, or that of `key`, is the mean of its documents or tasks.

    A group may define another aggregation, and the scores of forms need not be means.
    """
    key = group.primary if key is None else key
    if any(key not in form.estimates or metric_family(form, key) is None for form in forms):
        return False
    weights = [form.estimates[key].n if group.weight_by_size else 1 for form in forms]
    mean = np.average([form.estimates[key].value for form in forms], weights=weights)
    return bool(np.isclose(mean, group.estimates[key].value))


def form_table(forms: Sequence[FormResult], key: str) -> DocumentScores | None:
    """The scores of documents that all forms have, a column for each form; None where a score is not their mean."""
    columns = [_Scored.of(form, key) for form in forms]
    if any(scored.family(scored.form.estimates.get(key)) is None for scored in columns):
        return None
    return _table(columns, _common(columns))


def group_table(group: GroupResult, forms: Sequence[FormResult], key: str) -> DocumentScores | None:
    """The scores of the documents of a group's forms; None where the group's score is not their mean."""
    if not forms or not is_mean(group, forms, key):
        return None
    return _group_table([[_Scored.of(form, key)] for form in forms], weight_by_size=group.weight_by_size)


def can_be_compared(metric: str, other: str) -> bool:
    """Whether two metrics are comparable: they are the same, or both are right or wrong."""
    return metric == other or {metric, other} <= set(RIGHT_OR_WRONG)


def document_values(form: FormResult, key: str | None = None) -> dict[int, Any]:
    """The value of a form's first metric, or of `key`, for each document."""
    scored = _Scored.of(form, form.primary if key is None else key)
    return {doc_id: sample.values[scored.metric] for doc_id, sample in scored.samples.items()}


def _of_task(forms: Sequence[FormResult]) -> Iterator[FormComparison]:
    families: dict[str, list[_Scored]] = {}
    for form in forms:
        family = metric_family(form)
        if family is not None:
            families.setdefault(family, []).append(_Scored.of(form, form.primary))
    for family, columns in families.items():
        for scoring, alike in _by_scoring(columns, lambda scored: scored.form).items():
            documents = _common(alike)
            table = _table(alike, documents)
            if table is not None and (len(alike) > 1 or table.clustered):
                names = [scored.form.name for scored in alike]
                samples = [scored.on(documents) for scored in alike]
                yield _comparison(forms[0].task, family, scoring, names, table, alike, samples)


_Column = TypeVar("_Column")


def _by_scoring(columns: Sequence[_Column], form_of: Callable[[_Column], FormResult]) -> dict[Scoring, list[_Column]]:
    """The forms by what is scored; those of several kinds are also compared across all kinds."""
    kinds: dict[Scoring, list[_Column]] = {}
    for column in columns:
        kinds.setdefault(scoring_of(form_of(column)), []).append(column)
    return kinds if len(kinds) == 1 else {**kinds, "any": list(columns)}


def scoring_of(form: FormResult) -> Scoring:
    """Whether a form ranks choices by their log-likelihoods, or reads the answer from a generated completion."""
    output_type = str(form.config.get("output_type", ""))
    generated = output_type == "generate_until" or form.metric == "exact_match"
    return "generated" if generated else "ranked"


def _of_group(groups: Sequence[GroupResult], forms: Sequence[FormResult]) -> Iterator[FormComparison]:
    """The comparisons over all subjects of a group, by the first metric that the group has a score of."""
    by_name = {form.name: form for form in forms}
    families: dict[str, list[tuple[GroupResult, dict[str, _Scored]]]] = {}
    for group in groups:
        key = group.primary
        inside = [by_name[name] for name in group.forms if name in by_name]
        subjects = {form.task: _Scored.of(form, key) for form in inside}
        kinds = {scored.family(scored.form.estimates.get(key)) for scored in subjects.values()}
        family = kinds.pop() if len(kinds) == 1 else None
        if family is not None:
            families.setdefault(family, []).append((group, subjects))
    alike = [
        (family, scoring, columns)
        for family, entries in families.items()
        for scoring, columns in _by_scoring(entries, lambda entry: next(iter(entry[1].values())).form).items()
    ]
    for family, scoring, columns in alike:
        first, tasks = columns[0]
        if len(columns) < 2 or any(set(subjects) != set(tasks) for _, subjects in columns):
            continue
        by_task = [[subjects[task] for _, subjects in columns] for task in tasks]
        table = _group_table(by_task, weight_by_size=first.weight_by_size)
        if table is not None and all(is_mean(group, [s.form for s in scored.values()]) for group, scored in columns):
            names = [group.name for group, _ in columns]
            samples = [[s for scored in by_task for s in scored[i].on(_common(scored))] for i in range(len(names))]
            yield _comparison(first.path, family, scoring, names, table, by_task[0], samples)


def _group_table(by_task: Sequence[Sequence[_Scored]], *, weight_by_size: bool) -> DocumentScores | None:
    """The scores of a group's forms on the documents that all of them have, each subject as a sample of its own.

    A run that stopped early may have a single document of a subject. All are then one sample, if they count the same.
    """
    tables = [_table(scored, _common(scored)) for scored in by_task]
    known = [table for table in tables if table is not None]
    if len(known) == len(tables):
        return pool_subjects(known, [part.n if weight_by_size else 1 for part in known])
    if not weight_by_size:
        return None
    values, clusters = [], []
    for scored in by_task:
        documents = _common(scored)
        rows, names = _values(scored, documents), _clusters(scored, documents)
        values += rows
        clusters += [(scored[0].form.task, name) for name in names or documents]
    return _scores_or_none(values, clusters)


def _common(columns: Sequence[_Scored]) -> list[int]:
    """The documents that all forms have a value for."""
    return sorted(set.intersection(*(set(scored.samples) for scored in columns)))


def _table(columns: Sequence[_Scored], documents: Sequence[int]) -> DocumentScores | None:
    """The scores of a task's forms on these documents; None where they are too few for statistics."""
    return _scores_or_none(_values(columns, documents), _clusters(columns, documents))


def _values(columns: Sequence[_Scored], documents: Sequence[int]) -> list[tuple[Any, ...]]:
    """A row for each document with its value under each form."""
    values = [[sample.values[scored.metric] for sample in scored.on(documents)] for scored in columns]
    return list(zip(*values, strict=True))


def _clusters(columns: Sequence[_Scored], documents: Sequence[int]) -> list[str] | None:
    """What documents belong together by; None where they are independent."""
    return clusters_of(columns[0].form, columns[0].on(documents))


def _scores_or_none(values: Sequence[Sequence[Any]], clusters: Sequence[Hashable] | None) -> DocumentScores | None:
    try:
        return document_scores(np.array(values, dtype=np.float64), clusters)
    except DataError:  # fewer than two documents or clusters, or a value that is not a number
        return None


def _comparison(
    name: str,
    family: str,
    scoring: Scoring,
    names: Sequence[str],
    table: DocumentScores,
    columns: Sequence[_Scored],
    samples: Sequence[Sequence[ScoredSample]],
) -> FormComparison:
    """The comparison of some forms, with their samples in the order of the table; `columns` say the metric of each."""
    means = form_means(table)
    metrics = {scored.metric for scored in columns}
    is_list = len(names) > 1
    codes = np.array([[_choice_code(sample) for sample in column] for column in samples]).T
    readable = [column for column in range(len(names)) if (codes[:, column] != MISSING).any()]
    known = len(readable) > 1
    # What is counted over documents means nothing of a group whose documents have different weights.
    equal = bool(np.allclose(table.weights, table.weights[0]))
    clusters = table.clusters.tolist()
    return FormComparison(
        name=name,
        metric=metrics.pop() if len(metrics) == 1 else family,
        scoring=scoring,
        higher_is_better=columns[0].form.higher_is_better.get(columns[0].metric, True),
        forms=tuple(names),
        n=table.n,
        clusters=len(set(clusters)),
        means=tuple(means.estimates()),
        differences=tuple(paired_differences(table)),
        spread=spread_of(means) if is_list else None,
        variance=form_variance(table, *zip(*map(_format_and_draw, names), strict=True)) if is_list else None,
        rightness=rightness(table) if is_list and table.binary else None,
        agreement=agreement(table, codes[:, readable]) if known else None,
        kappa=fleiss_kappa(codes[:, readable]) if known and equal else None,
        agreeing=tuple(readable) if known else (),
        populations=tuple(_populations(table, names)) if is_list else (),
        chances=tuple(chance_level(column) if equal and family == "accuracy" else None for column in samples),
        positions=tuple(position_bias_of(column, clusters) if equal else None for column in samples),
        calibrations=tuple(calibration_of(column, clusters) if equal else None for column in samples),
    )


def _populations(table: DocumentScores, names: Sequence[str]) -> Iterator[FormatPopulation]:
    """The wordings of each format that was run under several: its variations, and the format itself."""
    by_format: dict[str, list[int]] = {}
    axes: list[Mapping[str, str]] = []
    for index, name in enumerate(names):
        try:
            variation = Variation.parse(name.partition("@")[2])
        except ConfigError:  # a name that says more than the format, such as that of a run
            variation = Variation(name)
        axes.append(variation.choices)
        by_format.setdefault(variation.label, []).append(index)
    for label, indexes in by_format.items():
        if len(indexes) >= MIN_WORDINGS:
            means = form_means(table.of(table.values[:, indexes]))
            chosen = [axes[index] for index in indexes]
            every = dict.fromkeys(axis for choices in chosen for axis in choices)
            described = [{axis: choices.get(axis, "default") for axis in every} for choices in chosen]
            yield FormatPopulation(
                label=label,
                forms=tuple(indexes),
                population=wording_population(means),
                effects=tuple(axis_effects(means, described)),
            )


def chance_level(samples: Sequence[ScoredSample]) -> float | None:
    """How often a random choice is right; None for documents without choices."""
    shares = []
    for scored in samples:
        sample = scored.sample
        number = len(sample.choices or sample.texts or sample.labels)
        if number < 2:
            return None
        shares.append(max(1, len(sample.gold)) / number)
    return sum(shares) / len(shares) if shares else None


def _format_and_draw(name: str) -> tuple[str, str]:
    """The format of a form or group, and which draw of few-shot examples it has.

    >>> _format_and_draw("quiz@mcqa[labels=roman,draw=2]"), _format_and_draw("quiz")
    (('mcqa[labels=roman]', '2'), ('', '0'))
    """
    label = name.partition("@")[2]
    try:
        variation = Variation.parse(label)
    except ConfigError:  # a name that says more than the format, such as that of a run
        return label, "0"
    axes = {axis: value for axis, value in variation.choices.items() if axis != "draw"}
    return str(replace(variation, choices=axes)), variation.choices.get("draw", "0")


def _picked_choice(sample: ScoredSample) -> int | None:
    """The index of the choice that a sample predicts; None where it predicts none."""
    return _choice_index(sample, sample.prediction)


def _choice_code(sample: ScoredSample) -> int:
    """The index of the predicted choice in the document, whatever the order in which the prompt shows the choices."""
    picked, permutation = _picked_choice(sample), sample.sample.permutation
    if picked is None:
        return MISSING
    return picked if permutation is None else permutation[picked]


def _choice_index(sample: ScoredSample, answer: Any) -> int | None:
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    for choices in (sample.sample.labels, sample.sample.texts):
        named = [choice.strip().casefold() for choice in choices]
        if isinstance(answer, str) and answer.strip().casefold() in named:
            return named.index(answer.strip().casefold())
    return None


def position_bias_of(
    samples: Sequence[ScoredSample], clusters: Sequence[Hashable] | None = None
) -> PositionBias | None:
    """The position bias of a form, from the documents that have a pick and one right choice.

    `clusters` holds the cluster of each sample. None where fewer than two documents or clusters are left.
    """
    pairs = [(_picked_choice(sample), _choice_index(sample, sample.gold)) for sample in samples]
    names = range(len(samples)) if clusters is None else clusters
    known = [(pick, gold, name) for (pick, gold), name in zip(pairs, names, strict=True) if None not in (pick, gold)]
    if len({name for *_, name in known}) < 2:
        return None
    picks, golds, remaining_clusters = zip(*known, strict=True)
    return position_bias(picks, golds, remaining_clusters)


def calibration_of(samples: Sequence[ScoredSample], clusters: Sequence[Hashable] | None = None) -> Calibration | None:
    """The calibration of a form that ranks choices, from the probabilities of the choices among each other.

    `clusters` holds the cluster of each sample.
    """
    confidences, right = [], []
    for sample in samples:
        likelihoods = [output.loglikelihood for output in sample.outputs if isinstance(output, LLOutput)]
        ranked = np.array(likelihoods[: len(sample.sample.choices)])
        if len(ranked) < 2 or not np.isfinite(ranked).all():
            return None
        weights = np.exp(ranked - ranked.max())
        confidences.append(float(weights.max() / weights.sum()))
        right.append(float(sample.prediction in sample.sample.gold))
    return calibration(confidences, right, clusters) if confidences else None


def clusters_of(form: FormResult, samples: Sequence[ScoredSample]) -> list[str] | None:
    """The cluster of each sample of a form, such as its passage; None where samples are independent."""
    return None if form.cluster is None else [str(sample.doc.get(form.cluster)) for sample in samples]
