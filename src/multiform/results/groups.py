"""The results of groups, from those of the forms in them."""

from __future__ import annotations

from collections.abc import Mapping

from multiform.catalog import Group, node_name
from multiform.results.results import FormResult, GroupResult
from multiform.scoring.groups import group_scores


def group_results(group: Group, forms: Mapping[str, FormResult], depth: int = 0) -> list[GroupResult]:
    """The result of a group, followed by those of the groups in it."""
    inside = [forms[task.form_name] for task in group.tasks() if task.form_name in forms]
    shots = {form.num_fewshot for form in inside}
    config = group.config
    made = GroupResult(
        name=group.name,
        alias=config.group_alias or group.name,
        depth=depth,
        members=[node_name(member) for member in group.members],
        version=str((config.metadata or {}).get("version", "N/A")),
        num_fewshot=shots.pop() if len(shots) == 1 else "mixed",
        estimates=group_scores(config.aggregates(), [form.estimates for form in inside]),
        higher_is_better={key: value for form in inside for key, value in form.higher_is_better.items()},
        n=sum(form.n for form in inside),
    )
    below = [
        one for member in group.members if isinstance(member, Group) for one in group_results(member, forms, depth + 1)
    ]
    return [made, *below]
