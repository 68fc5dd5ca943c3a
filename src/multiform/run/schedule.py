"""Schedules: which documents of which forms a run evaluates, all of them or as many as a question needs, and how
small a difference these can show.

`--budget` searches the best and the worst form of each task or group within a number of evaluations (a document under a
form). `--until_ci` evaluates each form until its interval is narrow enough. Both evaluate documents in random order, in
rounds.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import comb
from typing import TypeAlias

from multiform.errors import UsageError
from multiform.forms import Form
from multiform.results.groups import TaskStops
from multiform.run.documents import Documents, RenderedSamples, by_task
from multiform.run.options import RunOptions
from multiform.run.runner import RunEndedError, Runner
from multiform.run.sequential import FormSet, SequentialEvaluation
from multiform.scoring.aggregations import item_kind
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.design import FLIP_RATE, POWER, Detectable, detectable_difference
from multiform.tasks.group import Group

logger = logging.getLogger("multiform")


#: Has a runner evaluate documents; returns where and why forms were stopped before their last one.
Schedule: TypeAlias = Callable[[Runner, Documents], Sequence[TaskStops]]


def make_schedule(options: RunOptions, forms: Sequence[Form], groups: Sequence[Group]) -> Schedule:
    """The schedule of a run, checked before a model is loaded."""
    if not options.stops_early:
        return run_all
    sets = form_sets(forms, groups)
    _check_budget(sets, options.budget)
    return partial(run_in_rounds, sets)


def run_all(runner: Runner, documents: Documents) -> Sequence[TaskStops]:
    """Evaluate all documents of all forms, in their order."""
    runner.run_all(documents)
    return ()


def run_in_rounds(sets: Sequence[FormSet], runner: Runner, documents: Documents) -> Sequence[TaskStops]:
    """Evaluate documents in random order, in rounds, and of each form as many as the budget or the interval needs."""
    samples, options = RenderedSamples(documents.chunks()), runner.options
    evaluations = [SequentialEvaluation(each, samples, runner) for each in sets]
    most = sum(len(evaluation.names) * evaluation.documents for evaluation in evaluations)
    stops: list[TaskStops] = []
    remaining = most if options.budget is None else options.budget
    runner.reporter.begin_rounds(min(most, remaining))
    try:
        for number, evaluation in enumerate(evaluations):
            if options.until_ci is not None:
                stops.append(evaluation.until(options.until_ci, of_dataset=options.ci_of == "dataset"))
            else:
                stops.append(evaluation.search(remaining // (len(evaluations) - number)))
                remaining -= evaluation.evaluations
    except RunEndedError:
        pass
    finally:
        runner.reporter.end()
    return stops


def _check_budget(form_sets: Sequence[FormSet], budget: int | None) -> None:
    """Refuse a budget too small for its forms, and metrics that are no means or of which less is better."""
    for form_set in form_sets:
        if budget is not None and budget // len(form_sets) < len(form_set.forms):
            message = (
                f"it is not enough for one document under each of {len(form_set.forms)} forms of '{form_set.name}'"
            )
            hint = f"give {20 * len(form_set.forms)} or more for each task or group"
            raise UsageError(message, where="--budget", hint=hint)
        for form in form_set.tasks():
            if budget is not None and form.format is not None and form.format.is_control:
                message = f"'{form.name}' is a control, and a budget searches for the best and the worst form"
                raise UsageError(message, where="--budget", hint="leave the form out, or use --until_ci")
            higher = form.higher_is_better
            metric = form_set.metric if form_set.metric in higher else next(iter(higher), None)
            if metric is not None and not higher[metric]:
                message = f"lower is better in the first metric of '{form.name}' ({metric})"
                hint = "leave the form out, and name others instead of @all"
                raise UsageError(message, where="--budget or --until_ci", hint=hint)
            first = next(iter(form.scorer.metrics), None)
            if first is not None and item_kind(first.aggregation) == "pair":  # such as BLEU or perplexity
                message = f"the first metric of '{form.name}' ({first.name}) is not a mean over documents"
                hint = "leave the form out, or name a metric like acc first"
                raise UsageError(message, where="--budget or --until_ci", hint=hint)


def form_sets(tasks: Sequence[Form], groups: Sequence[Group]) -> list[FormSet]:
    """A set for each group whose score is a mean over its tasks, and one for each task that is in none of them."""
    remaining = {task.name: task for task in tasks}
    by_path: dict[str, list[Group]] = {}
    for group in groups:
        for scored in _scored_groups(group):
            by_path.setdefault(scored.path, []).append(scored)
    sets = []
    for same_path in by_path.values():
        form_set = _pool(same_path, remaining)
        if form_set is None:
            logger.warning(
                "%s: the forms of its tasks cannot be pooled, so each task stops by itself", same_path[0].path
            )
        else:
            sets.append(form_set)
            for task in form_set.tasks():
                del remaining[task.name]
    for forms in by_task(list(remaining.values())):
        sets.append(FormSet(name=forms[0].task_name, forms={form.name: {form.task_name: form} for form in forms}))
    return sets


def _scored_groups(group: Group) -> Iterator[Group]:
    """The outermost groups whose score is a mean over tasks or documents; one over members or of a function is not."""
    first = next(iter(group.config.aggregates()), None)
    if first and first.get("aggregation", "mean") == "mean" and not first.get("weight_by_member"):
        yield group
        return
    for member in group.members:
        if isinstance(member, Group):
            yield from _scored_groups(member)


def _pool(groups: Sequence[Group], tasks: Mapping[str, Form]) -> FormSet | None:
    """The set of a group's forms.

    None where they differ in subjects, share some with another set, or are scored by another filter than the first.
    """
    forms: dict[str, dict[str, Form]] = {}
    for group in groups:
        names = [config.form_name for config in group.tasks()]
        if any(name not in tasks for name in names):
            return None
        forms[group.name] = {tasks[name].task_name: tasks[name] for name in names}
        if len(forms[group.name]) < len(names):
            return None
    first = next(iter(forms.values()))
    members = [task.name for subjects in forms.values() for task in subjects.values()]
    if any(set(subjects) != set(first) for subjects in forms.values()) or len(set(members)) < len(members):
        return None
    entry = groups[0].config.aggregates()[0]
    filters = entry.get("filter_list")
    if filters is not None and any(tasks[name].scoring.scorers[0].name not in filters for name in members):
        return None
    return FormSet(
        name=groups[0].path,
        forms=forms,
        metric=str(entry["metric"]),
        equal_subjects=not entry.get("weight_by_size", True),
    )


def detectable_differences(forms: Sequence[Form], documents: Mapping[str, int]) -> str | None:
    """The smallest difference between two forms that a run can detect; None if every task has one form.

    `documents` has the number of documents of each form. If tasks differ in it, the smallest and the largest task are
    named.
    """
    comparable = [form for form in forms if next(iter(form.higher_is_better), None) in RIGHT_OR_WRONG]
    multi_form = [task for task in by_task([form for form in comparable if form.name in documents]) if _pairs(task)]
    if not multi_form:
        return None
    smallest = [
        detectable_difference(min(_clusters(form, documents[form.name]) for form in task), comparisons=_pairs(task))
        for task in multi_form
    ]
    detectable = sorted(smallest, key=lambda each: each.n, reverse=True)
    best, worst = detectable[0], detectable[-1]
    if best.difference is None:
        of_tasks = f" of {len(multi_form)} tasks" if len(multi_form) > 1 else ""
        return f"no difference between two forms{of_tasks} can be detected with {POWER:.0%} power (n={best.n})"
    differences = " to ".join(dict.fromkeys([_words(best), _words(worst)]))
    tasks = f" in {len(multi_form)} tasks" if len(multi_form) > 1 else ""
    flips = max(each.flip_rate for each in detectable)
    assumed = f"if they differ on {FLIP_RATE:.0%} of the documents" + (
        "" if flips == FLIP_RATE else ", or on more if that is too few"
    )
    return (
        f"smallest difference between two forms that the run can detect: {differences}{tasks}, "
        f"with {POWER:.0%} power {assumed}"
    )


def _words(detectable: Detectable) -> str:
    return f"{'none' if detectable.difference is None else f'{detectable.difference:.3f}'} (n={detectable.n})"


def _clusters(form: Form, documents: int) -> int:
    """The number of a form's clusters; of its documents, where these are independent."""
    column = form.cluster
    return documents if column is None else len({str(doc.get(column)) for _, doc in form.docs()})


def _pairs(forms: Sequence[Form]) -> int:
    """How many pairs of forms are compared; those of one output type are compared with each other."""
    return sum(comb(number, 2) for number in Counter(form.output_type for form in forms).values())
