"""The scores of groups, and the intervals of a run: computed once, for tables, files, reports, comparisons and gates.

A score that is a mean over documents has the interval of `FormMeans`, which counts clusters instead of documents and
pools the subjects of a group as the group weighs them. Where a run stopped early, the interval accounts for that.
Standard errors stay those of lm-eval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from multiform.results.values import FormResult, GroupResult
from multiform.scoring.aggregations import TaskEstimates, group_scores
from multiform.statistics.estimates import LEVEL, STOPPED_LEVEL, Estimate, recorded_estimate
from multiform.tasks.group import Group, node_name

if TYPE_CHECKING:  # it needs numpy, which a run of one form does not
    from multiform.statistics.means import DocumentScores

_Result = TypeVar("_Result", FormResult, GroupResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormStop:
    """How many documents of a form were evaluated, and why no more.

    The interval of a form under a budget is that of a confidence sequence, which holds wherever the run stops.
    """

    evaluated: int
    documents: int
    why: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStops:
    """Where a budgeted run stopped each form of a task or group, and what it guarantees."""

    task: str
    metric: str
    forms: Mapping[str, FormStop]
    guarantee: str
    #: What stopped it: a budget of evaluations, or intervals that are narrow enough.
    rule: Literal["budget", "until_ci"] = "budget"
    #: The best and the worst form as far as can be told within the budget, and the best minus the worst, measured on
    #: documents that took no part in picking the two.
    picked: tuple[str, str] | None = None
    spread: float | None = None
    #: The forms that may be the best and the worst, where they were searched.
    best: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()
    #: The forms of a group's tasks.
    members: Mapping[str, FormStop] = field(default_factory=dict)


def group_results(group: Group, forms: Mapping[str, FormResult], depth: int = 0) -> list[GroupResult]:
    """The result of a group, followed by the results of the groups in it; `forms` has the results of all forms."""
    inside = _forms_of(group, forms)
    shots = {form.num_fewshot for form in inside}
    config = group.config
    result = GroupResult(
        name=group.name,
        alias=config.group_alias or group.name,
        depth=depth,
        members=[node_name(member) for member in group.members],
        version=str((config.metadata or {}).get("version", "N/A")),
        num_fewshot=shots.pop() if len(shots) == 1 else "mixed",
        estimates=_scores(group, forms, lambda form: form.estimates),
        higher_is_better={key: value for form in inside for key, value in form.higher_is_better.items()},
        n=sum(form.n for form in inside),
        path=group.path,
        forms=[form.name for form in inside],
        weight_by_size=all(
            entry.get("weight_by_size", True) and not entry.get("weight_by_member") for entry in config.aggregates()[:1]
        ),
        failed=sum(len(form.failed) for form in inside),
        bounds=_group_bounds(group, forms) if any(form.failed for form in inside) else {},
    )
    groups = (member for member in group.members if isinstance(member, Group))
    return [result, *(inner for member in groups for inner in group_results(member, forms, depth + 1))]


def _aggregates(group: Group, forms: Sequence[FormResult]) -> list[dict[str, Any]]:
    """How a group's scores are aggregated: by its `aggregate_metric_list`.

    Where the format that was selected for the group has replaced all of these metrics, by the first of its forms.
    """
    aggregates = group.config.aggregates()
    metrics = {form.metric for form in forms if form.estimates}
    known = group_scores(aggregates, [form.estimates for form in forms])
    if known or not aggregates or group.label is None or len(metrics) != 1:
        return aggregates
    return [{**{key: value for key, value in aggregates[0].items() if key != "filter_list"}, "metric": metrics.pop()}]


def _forms_of(group: Group, forms: Mapping[str, FormResult]) -> list[FormResult]:
    return [forms[task.form_name] for task in group.tasks() if task.form_name in forms]


def _scores(
    group: Group, forms: Mapping[str, FormResult], estimates_of: Callable[[FormResult], TaskEstimates]
) -> dict[str, Estimate]:
    """The scores of a group over its tasks, or over its members, of which a group counts as one."""
    inside = _forms_of(group, forms)
    scores: dict[str, Estimate] = {}
    for entry in _aggregates(group, inside):
        if entry.get("weight_by_member"):
            parts: list[TaskEstimates] = [
                _scores(member, forms, estimates_of) if isinstance(member, Group) else estimates_of(forms[node])
                for member in group.members
                if (node := node_name(member)) in forms or isinstance(member, Group)
            ]
            scores |= group_scores([{**entry, "weight_by_size": False}], parts)
        else:
            scores |= group_scores([entry], [estimates_of(form) for form in inside])
    return scores


def _group_bounds(group: Group, forms: Mapping[str, FormResult]) -> dict[str, tuple[float, float]]:
    """The bounds of a group's scores, aggregated from those of its forms; where one has none, neither has the group."""
    inside = _forms_of(group, forms)
    unknown = {key for form in inside if form.failed for key in form.estimates if key not in form.bounds}
    low, high = (_scores(group, forms, partial(_bounding, side=side, unknown=unknown)) for side in (0, 1))
    return {key: (low[key].value, high[key].value) for key in low}


def _bounding(form: FormResult, side: int, unknown: set[str]) -> dict[str, Estimate]:
    """The scores of a form with all failed documents wrong (side 0) or right (side 1)."""
    evaluated = len({sample.doc_id for sample in form.samples} | {doc.doc_id for doc in form.failed})
    return {
        key: Estimate(value=form.bounds[key][side] if key in form.bounds else estimate.value, n=evaluated)
        for key, estimate in form.estimates.items()
        if key not in unknown
    }


def with_intervals(
    forms: Sequence[FormResult], groups: Sequence[GroupResult], stops: Sequence[Mapping[str, Any]] = ()
) -> tuple[list[FormResult], list[GroupResult]]:
    """The forms and groups of a run with their intervals.

    `stops` is the key `budget` of a run's settings: where it was stopped early. The first metric of a form under a
    budget has the interval of a confidence sequence. If the width of an interval stopped the run, or that of a group's
    interval the tasks in it, intervals are of a higher level.
    """
    by_name = {form.name: form for form in forms}
    stopped = {name: stop for task in stops for name, stop in (task["forms"] | task["members"]).items()}

    def level(name: str) -> float:
        return STOPPED_LEVEL if name in stopped and stopped[name].get("low") is None else LEVEL

    of_forms = [_with_form_intervals(form, level(form.name)) for form in forms]
    of_groups = [_with_group_intervals(group, by_name, level(group.name)) for group in groups]
    return (
        [_with_sequence(form, stopped.get(form.name, {})) for form in of_forms],
        [_with_sequence(group, stopped.get(group.name, {})) for group in of_groups],
    )


def dataset_interval(
    form: FormResult, key: str, total: int, *, level: float = LEVEL, whole_clusters: bool = True
) -> Estimate | None:
    """A score with the interval of what all `total` documents would give, of which a random part was evaluated.

    None if the score is not a mean over documents. `whole_clusters` says that whole clusters were drawn; documents that
    were drawn one by one are independent draws, whatever cluster they are in.
    """
    from multiform.results.compare import form_table
    from multiform.statistics.means import dataset_estimates

    table = form_table(form if whole_clusters else replace(form, cluster=None), key)
    return None if table is None else dataset_estimates(table, total, level=level)[0]


def _with_form_intervals(form: FormResult, level: float) -> FormResult:
    """The form with the intervals of its clusters or of another level; otherwise its scores have theirs already."""
    if form.cluster is None and level == LEVEL:
        return form
    from multiform.results.compare import form_table

    estimates = {key: _with_interval(score, form_table(form, key), level) for key, score in form.estimates.items()}
    return replace(form, estimates=estimates)


def _with_group_intervals(group: GroupResult, forms: Mapping[str, FormResult], level: float) -> GroupResult:
    """The group with the intervals of the pooled documents of its forms, where its score is their mean."""
    if not group.estimates:
        return group
    from multiform.results.compare import group_table

    inside = [forms[name] for name in group.forms if name in forms]
    estimates = {}
    for key, score in group.estimates.items():
        # A group's score is over the forms that have the metric.
        members = [form for form in inside if key in form.estimates]
        table = group_table(group, members, key)
        if table is None:
            estimates[key] = _without_documents(score, [form.estimates[key] for form in members])
        else:
            estimates[key] = _with_interval(score, table, level)
    return replace(group, estimates=estimates)


def _without_documents(score: Estimate, members: Sequence[Estimate]) -> Estimate:
    """A group's score that is not a mean over documents: the interval of its only form, or one within its range."""
    if score.stderr is None and score.low is not None:
        return score
    if len(members) == 1:
        return replace(score, low=members[0].low, high=members[0].high)
    bounded = recorded_estimate(score.value, score.stderr, score.n)
    if bounded.low is not None and all(member.value >= 0 for member in members):
        return replace(bounded, low=max(0.0, bounded.low))
    return bounded


def _with_interval(score: Estimate, table: DocumentScores | None, level: float) -> Estimate:
    """The score with the interval of the mean of its documents; as it is if they are not known."""
    if table is None:
        return score
    from multiform.statistics.means import form_means

    (mean,) = form_means(table).estimates(level)
    return replace(score, low=mean.low, high=mean.high)


def _with_sequence(result: _Result, stop: Mapping[str, Any]) -> _Result:
    """The form or group with the confidence sequence of its first metric, where a budget stopped it."""
    low, high = stop.get("low"), stop.get("high")
    if low is None or high is None or not result.estimates:
        return result
    key, first = result.primary, result.score
    # A group that weighs subjects equally has the mean of their means, which may be a little beside the interval.
    bounded = replace(first, low=min(low, first.value), high=max(high, first.value))
    return replace(result, estimates={**result.estimates, key: bounded})
