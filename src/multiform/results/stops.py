"""Where a budgeted run stopped, and why; in values for the results, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


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


def stop_lines(stops: Sequence[Mapping[str, Any]]) -> list[str]:
    """The report of a budgeted run, from the plain values of `TaskStops` in the results."""
    lines = []
    for task in stops:
        forms = task["forms"]
        evaluated, total = (sum(form[key] for form in forms.values()) for key in ("evaluated", "documents"))
        lines.append(
            f"{task['task']}: {evaluated} of {total} evaluations, by {task['metric']}, documents in random order"
        )
        lines += [_candidates(which, task[which]) for which in ("best", "worst") if task[which]]
        if task.get("picked") and task.get("spread") is not None:
            best, worst = task["picked"]
            lines.append(f"  {best} looks best and {worst} worst, {task['spread']:.4f} apart on documents of their own")
        for name, form in forms.items():
            may_be = [which for which in ("best", "worst") if len(task[which]) > 1 and name in task[which]]
            candidate = f"; it may be the {' or the '.join(may_be)}" if may_be else ""
            lines.append(f"  {name}: {form['evaluated']} documents, {form['why']}{candidate}")
        lines.append(f"  {task['guarantee']}")
    return lines


def _candidates(which: str, names: Sequence[str]) -> str:
    return f"  {which}: {names[0] if len(names) == 1 else f'not known yet, one of {len(names)} forms'}"
