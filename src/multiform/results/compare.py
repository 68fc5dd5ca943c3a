"""Comparisons of the forms of each task and group, from the samples of a run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiform.errors import ConfigError, DataError
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.requests import LLOutput
from multiform.results.form_comparison import FormatPopulation, FormComparison, Scoring
from multiform.results.values import FormResult, GroupResult, metric_kind
from multiform.statistics.design import form_variance
from multiform.statistics.differences import paired_differences, spread_of
from multiform.statistics.means import DocumentScores, document_scores, form_means, pool_subjects
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
from multiform.statistics.wordings import MIN_WORDINGS, axis_effects, wording_population


@dataclass(frozen=True, slots=True)
class ScoredForm:
    """The samples of a form that have a value of a metric, by document, or by what `row` gives for each."""

    form: FormResult
    #: The metric and its scorer, such as ``acc,none``.
    key: str
    samples: dict[Hashable, ScoredSample]

    @classmethod
    def of(
        cls,
        form: FormResult,
        key: str | None = None,
        row: Callable[[ScoredSample], Hashable] = lambda sample: sample.doc_id,
    ) -> ScoredForm:
        """The form by this metric and scorer, or by its first."""
        key = next(iter(form.estimates), "") if key is None else key
        metric, _, scorer = key.partition(",")
        return cls(form, key, {row(s): s for s in form.samples if s.scorer == scorer and metric in s.values})

    @property
    def metric(self) -> str:
        return self.key.partition(",")[0]

    @property
    def values(self) -> dict[Hashable, Any]:
        """The value of each document."""
        return {row: sample.values[self.metric] for row, sample in self.samples.items()}

    @property
    def family(self) -> str | None:
        """The kind of comparable metrics; None where the score is not a mean over documents."""
        score, values = self.form.estimates.get(self.key), list(self.values.values())
        if score is None or self.metric == "bypass" or not values:
            return None
        if not all(isinstance(value, int | float) for value in values):
            return None
        is_their_mean = np.isclose(np.mean(values), score.value, rtol=1e-9, atol=1e-12)
        return metric_kind(self.metric) if is_their_mean else None

    def on(self, documents: Sequence[Hashable]) -> list[ScoredSample]:
        return [self.samples[doc_id] for doc_id in documents]


@dataclass(frozen=True, slots=True)
class _Column:
    """A form of a task, or of each task of a group: what is compared with other columns."""

    name: str
    parts: dict[str, ScoredForm]
    group: GroupResult | None = None

    @property
    def first(self) -> ScoredForm:
        return next(iter(self.parts.values()))

    @property
    def family(self) -> str | None:
        """The family of all its scores; None where they have none in common."""
        families = {scored.family for scored in self.parts.values()}
        return families.pop() if len(families) == 1 else None

    @property
    def is_mean(self) -> bool:
        """Whether its score is the mean of the documents or tasks."""
        group = self.group
        return group is None or is_mean(group, [scored.form for scored in self.parts.values()], group.primary)


def compare_forms(forms: Sequence[FormResult], groups: Sequence[GroupResult] = ()) -> list[FormComparison]:
    """Compare the forms of each task and of each group that was run under more than one; controls are left out."""
    compared = {form.name: form for form in forms if not form.control}
    controls = {form.name for form in forms if form.control}
    columns: dict[tuple[str, bool], list[_Column]] = {}
    for group in groups:
        if group.estimates and not controls.intersection(group.forms):
            inside = [compared[name] for name in group.forms if name in compared]
            parts = {form.task: ScoredForm.of(form, group.primary) for form in inside}
            columns.setdefault((group.path, True), []).append(_Column(group.name, parts, group))
    for form in compared.values():
        parts = {form.task: ScoredForm.of(form)} if form.estimates else {}
        columns.setdefault((form.task, False), []).append(_Column(form.name, parts))
    return [comparison for (name, _), alike in columns.items() for comparison in _comparisons(name, alike)]


def is_mean(group: GroupResult, forms: Sequence[FormResult], key: str) -> bool:
    """Whether a group's score is the mean of its documents or tasks.

    A group may define another aggregation, and the scores of forms need not be means.
    """
    if any(ScoredForm.of(form, key).family is None for form in forms):
        return False
    weights = [form.estimates[key].n if group.weight_by_size else 1 for form in forms]
    mean = np.average([form.estimates[key].value for form in forms], weights=weights)
    return bool(np.isclose(mean, group.estimates[key].value))


def form_table(form: FormResult, key: str) -> DocumentScores | None:
    """The scores of the documents of a form; None where its score is not their mean."""
    scored = ScoredForm.of(form, key)
    return None if scored.family is None else shared_scores([scored])


def group_table(group: GroupResult, forms: Sequence[FormResult], key: str) -> DocumentScores | None:
    """The scores of the documents of a group's forms; None where the group's score is not their mean."""
    if not forms or not is_mean(group, forms, key):
        return None
    return _pooled_table([[ScoredForm.of(form, key)] for form in forms], weight_by_size=group.weight_by_size)


def scoring_of(form: FormResult) -> Scoring:
    """Whether a form ranks choices by their log-likelihoods, or reads the answer from a generated completion."""
    output_type = str(form.config.get("output_type", ""))
    generated = output_type == "generate_until" or form.metric == "exact_match"
    return "generated" if generated else "ranked"


def _comparisons(name: str, columns: Sequence[_Column]) -> Iterator[FormComparison]:
    """The comparisons of a task or group: one for each family of metrics and what is scored, and one across the kinds.

    The tasks of a group are compared by the first metric that the group has a score of.
    """
    families: dict[str, list[_Column]] = {}
    for column in columns:
        if (family := column.family) is not None:
            families.setdefault(family, []).append(column)
    for family, members in families.items():
        kinds: dict[Scoring, list[_Column]] = {}
        for column in members:
            kinds.setdefault(scoring_of(column.first.form), []).append(column)
        for scoring, alike in (kinds if len(kinds) == 1 else {**kinds, "any": members}).items():
            group, tasks = alike[0].group, alike[0].parts.keys()
            if not all(column.parts.keys() == tasks and column.is_mean for column in alike):
                continue
            by_task = [[column.parts[task] for column in alike] for task in tasks]
            table = _pooled_table(by_task, weight_by_size=group is None or group.weight_by_size)
            if table is not None and (len(alike) > 1 or (table.clustered and group is None)):
                yield _comparison(name, family, scoring, alike, table, by_task)


def _pooled_table(by_task: Sequence[Sequence[ScoredForm]], *, weight_by_size: bool) -> DocumentScores | None:
    """The scores of forms on the documents that all of them have, each task of a group as a sample of its own.

    A run that stopped early may have a single document of a task. All are then one sample, if they count the same.
    """
    tables = [shared_scores(scored) for scored in by_task]
    known = [table for table in tables if table is not None]
    if len(known) == len(tables):
        return pool_subjects(known, [part.n if weight_by_size else 1 for part in known])
    if not weight_by_size:
        return None
    values, clusters = [], []
    for scored in by_task:
        documents = shared_documents(scored)
        values += _values(scored, documents)
        names = clusters_of(scored[0].form, scored[0].on(documents)) or documents
        clusters += [(scored[0].form.task, name) for name in names]
    return _scores_or_none(values, clusters)


def shared_documents(columns: Sequence[ScoredForm]) -> list[Any]:
    """The documents that all forms have a value for."""
    return sorted(set.intersection(*(set(scored.samples) for scored in columns)))


def shared_scores(columns: Sequence[ScoredForm]) -> DocumentScores | None:
    """The scores of forms on the documents that all have; None where they are too few for statistics."""
    documents = shared_documents(columns)
    return _scores_or_none(_values(columns, documents), clusters_of(columns[0].form, columns[0].on(documents)))


def _values(columns: Sequence[ScoredForm], documents: Sequence[Hashable]) -> list[tuple[Any, ...]]:
    """A row for each document with its value under each form."""
    values = [[sample.values[scored.metric] for sample in scored.on(documents)] for scored in columns]
    return list(zip(*values, strict=True))


def _scores_or_none(values: Sequence[Sequence[Any]], clusters: Sequence[Hashable] | None) -> DocumentScores | None:
    try:
        return document_scores(np.array(values, dtype=np.float64), clusters)
    except DataError:  # fewer than two documents or clusters, or a value that is not a number
        return None


def _comparison(
    name: str,
    family: str,
    scoring: Scoring,
    columns: Sequence[_Column],
    table: DocumentScores,
    by_task: Sequence[Sequence[ScoredForm]],
) -> FormComparison:
    """The comparison of some forms by their scores in the table, which has the samples of `by_task` in their order."""
    names = [column.name for column in columns]
    samples = [[s for scored in by_task for s in scored[i].on(shared_documents(scored))] for i in range(len(names))]
    means = form_means(table)
    metrics = {column.first.metric for column in columns}
    several = len(names) > 1
    codes = np.array([list(map(_choice_code, column)) for column in samples]).T
    readable = [column for column in range(len(names)) if (codes[:, column] != MISSING).any()]
    known = len(readable) > 1
    # What is counted over documents means nothing of a group whose documents have different weights.
    equal = bool(np.allclose(table.weights, table.weights[0]))
    clusters = table.clusters.tolist()
    differences = tuple(paired_differences(table))
    spread = spread_of(means) if several else None
    if spread is not None and len(differences) == 1:  # the same difference has the same p value
        spread = replace(spread, p=differences[0].p)
    return FormComparison(
        name=name,
        metric=metrics.pop() if len(metrics) == 1 else family,
        scoring=scoring,
        higher_is_better=columns[0].first.form.higher_is_better.get(columns[0].first.metric, True),
        forms=tuple(names),
        n=table.n,
        clusters=len(set(clusters)),
        means=tuple(means.estimates()),
        differences=differences,
        spread=spread,
        variance=form_variance(table, *zip(*map(_format_and_draw, names), strict=True)) if several else None,
        rightness=rightness(table) if several and table.binary else None,
        agreement=agreement(table, codes[:, readable]) if known else None,
        kappa=fleiss_kappa(codes[:, readable]) if known and equal else None,
        agreeing=tuple(readable) if known else (),
        populations=tuple(_populations(table, names)) if several else (),
        chances=tuple(chance_level(column) if equal and family == "accuracy" else None for column in samples),
        positions=tuple(position_bias_of(column, clusters) if equal else None for column in samples),
        calibrations=tuple(calibration_of(column, clusters) if equal else None for column in samples),
    )


def _populations(table: DocumentScores, names: Sequence[str]) -> Iterator[FormatPopulation]:
    """The wordings of each format that was run under several: its variations, and the format itself."""
    by_format: dict[str, list[int]] = {}
    axes: list[Mapping[str, str]] = []
    for index, name in enumerate(names):
        variation = _variation(name)
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
    variation = _variation(name)
    axes = {axis: value for axis, value in variation.choices.items() if axis != "draw"}
    return str(replace(variation, choices=axes)), variation.choices.get("draw", "0")


def _variation(name: str) -> Variation:
    """The format of a form or group, with its variation."""
    label = name.partition("@")[2]
    try:
        return Variation.parse(label)
    except ConfigError:  # a name that says more than the format, such as that of a run
        return Variation(label)


def _choice_code(sample: ScoredSample) -> int:
    """The index of the predicted choice in the document, whatever the order in which the prompt shows the choices."""
    picked, permutation = _choice_index(sample, sample.prediction), sample.sample.permutation
    if picked is None:
        return MISSING
    return picked if permutation is None else permutation[picked]


def _choice_index(sample: ScoredSample, answer: Any) -> int | None:
    """The index of an answer among the choices of a prompt; None where it is none of them."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    for choices in (sample.sample.labels, sample.sample.texts):
        named = [choice.strip().casefold() for choice in choices]
        if isinstance(answer, str) and answer.strip().casefold() in named:
            return named.index(answer.strip().casefold())
    return None


def position_bias_of(samples: Sequence[ScoredSample], clusters: Sequence[Hashable] | None) -> PositionBias | None:
    """The position bias of a form, from the documents that have a pick and one right choice.

    `clusters` holds the cluster of each sample. None where fewer than two documents or clusters are left.
    """
    pairs = [(_choice_index(sample, sample.prediction), _choice_index(sample, sample.gold)) for sample in samples]
    names = range(len(samples)) if clusters is None else clusters
    known = [(pick, gold, name) for (pick, gold), name in zip(pairs, names, strict=True) if None not in (pick, gold)]
    if len({name for *_, name in known}) < 2:
        return None
    picks, golds, remaining_clusters = zip(*known, strict=True)
    return position_bias(picks, golds, remaining_clusters)


def calibration_of(samples: Sequence[ScoredSample], clusters: Sequence[Hashable] | None) -> Calibration | None:
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


def position_bias_of_form(form: FormResult) -> PositionBias | None:
    """The position bias of all samples of a form; None where documents have different numbers of choices."""
    samples = form.primary_samples
    if len({len(sample.sample.texts or sample.sample.choices) for sample in samples}) != 1:
        return None
    return position_bias_of(samples, clusters_of(form, samples))


def calibration_of_form(form: FormResult) -> Calibration | None:
    """The calibration of all samples of a form that ranks choices."""
    return calibration_of(form.primary_samples, clusters_of(form, form.primary_samples))


def clusters_of(form: FormResult, samples: Sequence[ScoredSample]) -> list[str] | None:
    """The cluster of each sample of a form, such as its passage; None where samples are independent."""
    return None if form.cluster is None else [str(sample.doc.get(form.cluster)) for sample in samples]
