"""Contests: the forms that a budgeted run compares with each other, those of a task or of a whole group."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from multiform.forms import Form
from multiform.tasks import Group

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
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


def contests(tasks: Sequence[Form], groups: Sequence[Group]) -> list[Contest]:
    """A contest for each group whose score is a mean over its tasks, and one for each task that is in none of them."""
    remaining = {task.name: task for task in tasks}
    by_path: dict[str, list[Group]] = {}
    for group in groups:
        for scored in _scored(group):
            by_path.setdefault(scored.path, []).append(scored)
    pooled = []
    for same_path in by_path.values():
        contest = _pooled(same_path, remaining)
        if contest is None:
            logger.warning(
                "%s: the forms of its tasks cannot be pooled, so each task stops by itself", same_path[0].path
            )
        else:
            pooled.append(contest)
            for task in contest.tasks():
                del remaining[task.name]
    alone: dict[str, dict[str, Mapping[str, Form]]] = {}
    for task in remaining.values():
        alone.setdefault(task.task_name, {})[task.name] = {task.task_name: task}
    return [*pooled, *(Contest(name=name, forms=forms) for name, forms in alone.items())]


def _scored(group: Group) -> Iterator[Group]:
    """The outermost groups whose score is a mean; a custom aggregation function is not one."""
    aggregates = group.config.aggregates()
    if aggregates and aggregates[0].get("aggregation", "mean") == "mean":
        yield group
        return
    for member in group.members:
        if isinstance(member, Group):
            yield from _scored(member)


def _pooled(groups: Sequence[Group], tasks: Mapping[str, Form]) -> Contest | None:
    """The contest of a group's forms.

    None where they differ in subjects, share some with another contest, or are scored by another filter than the first.
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
    if filters is not None and any(tasks[name].scorer.scorers[0].name not in filters for name in members):
        return None
    return Contest(
        name=groups[0].path,
        forms=forms,
        metric=str(entry["metric"]),
        equal_subjects=not entry.get("weight_by_size", True),
    )
