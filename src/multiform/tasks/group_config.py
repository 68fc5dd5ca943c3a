"""GroupConfig: a group of tasks that are run together, with scores over all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.tasks.check import check_keys, check_values
from multiform.tasks.config import task_keys
from multiform.tasks.functions import resolve_functions
from multiform.tasks.source import Source, StatedKeys, where

#: Keys of a group file that configure the group; all others override keys of its members.
_KEYS = ("group", "group_alias", "task", "subsets", "aggregate_metric_list", "metadata", "tag")
_AGGREGATE_KEYS = ("metric", "aggregation", "weight_by_size", "filter_list", "higher_is_better")


@dataclass(kw_only=True)
class GroupConfig:
    """Configuration of a group of tasks; `task` lists its members."""

    group: str
    group_alias: str | None = None
    #: Names of tasks, groups or tags, or mappings with a `task` or `group` and the keys to override in it.
    task: str | list[str | dict[str, Any]] = field(default_factory=list)
    #: The subsets of one dataset, for each of which `task` names a task: see `subset_tasks`.
    subsets: list[str] | dict[str, dict[str, Any] | None] | None = None
    #: Scores of the whole group: each entry names a metric, and how it is aggregated.
    aggregate_metric_list: list[dict[str, Any]] | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    tag: str | list[str] | None = None
    _source: Source | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(type(self), vars(self), self.where)
        for index, entry in enumerate(self.aggregates()):
            if "metric" not in entry:
                place = self.where("aggregate_metric_list", index)
                raise ConfigError("missing key 'metric'", where=place, hint="name a metric of the tasks")
            if entry.get("aggregation", "mean") != "mean" and not callable(entry["aggregation"]):
                message = f"aggregation: expected 'mean' or a function, got {shorten(entry['aggregation'])}"
                place = self.where("aggregate_metric_list", index)
                raise ConfigError(message, where=place, hint="write aggregation: mean")
            check_keys(
                "aggregate_metric_list",
                _AGGREGATE_KEYS,
                entry,
                lambda *path, i=index: self.where("aggregate_metric_list", i, *path),
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: Source | None = None) -> tuple[GroupConfig, dict[str, Any]]:
        """Build from the data of a file; also returns the keys that override those of the group's members."""
        group_keys = {key: value for key, value in data.items() if key in _KEYS}
        member_keys = {key: value for key, value in data.items() if key not in _KEYS}
        group = cls(**resolve_functions(group_keys), _source=source)
        check_keys("a group or its tasks", [*_KEYS, *task_keys()], member_keys, group.where)
        return group, member_keys

    def aggregates(self) -> list[dict[str, Any]]:
        """The entries of `aggregate_metric_list`, as a list even where the file has a single one without a list.

        Without entries, the score over all subsets of a dataset is that of its documents.
        """
        entries = self.aggregate_metric_list
        if entries is None and self.subsets:
            return [{"metric": "all", "weight_by_size": True}]
        return entries if isinstance(entries, list) else [entries] if entries else []

    def members(self) -> list[str | dict[str, Any]]:
        """The members, as a list even where the file has a single name."""
        return [self.task] if isinstance(self.task, str) else self.task

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self._source, self.group, *path)


def subset_tasks(stated: StatedKeys) -> dict[str, StatedKeys]:
    """What a group with `subsets` states of each of its tasks, by the task's name.

    In every key, ``<subset>`` stands for the subset, and ``<subset words>`` for the subset with blanks in place of
    underscores. A subset may have values of its own, which are named in the same way.

    >>> group = {"group": "m", "task": "m_<subset>", "subsets": ["us_law"], "dataset_name": "<subset>"}
    >>> subset_tasks(StatedKeys(group))["m_us_law"].data
    {'task': 'm_us_law', 'dataset_name': 'us_law'}
    >>> subsets = {"de": {"yes": "ja"}, "fr": {"yes": "oui"}}
    >>> subset_tasks(StatedKeys({"task": "m_<subset>", "subsets": subsets, "doc_to_choice": ["<yes>"]}))["m_fr"].data
    {'task': 'm_fr', 'doc_to_choice': ['oui']}
    """
    data, source = stated.data, stated.source
    subsets, name = data["subsets"], data.get("task")
    if not isinstance(name, str) or "<subset>" not in name:
        message = f"expected a name with <subset> in it, got {shorten(name)}"
        raise ConfigError(
            message, where=where(source, data.get("group"), "task"), hint="write e.g. task: mmlu_<subset>"
        )
    table = subsets if isinstance(subsets, dict) else dict.fromkeys(subsets)
    keys = {key: value for key, value in data.items() if key not in _KEYS or key in ("task", "metadata", "tag")}
    first = next(iter(table.values()), None) or {}
    tasks = {}
    for subset, values in table.items():
        if (values or {}).keys() != first.keys():
            message = f"'{subset}' has other values than the first subset: {', '.join(values or ()) or 'none'}"
            hint = f"give each subset the same: {', '.join(first) or 'none'}"
            raise ConfigError(message, where=where(source, data.get("group"), "subsets", str(subset)), hint=hint)
        texts = {"subset": str(subset), "subset words": str(subset).replace("_", " "), **(values or {})}
        task = {key: _fill_in(value, texts) for key, value in keys.items()}
        task["task"] = re.sub(r"\W+", "_", task["task"])
        tasks[task["task"]] = StatedKeys(task, source)
    return tasks


def _fill_in(value: Any, texts: Mapping[str, Any]) -> Any:
    """The value with the texts of a subset; a value that is nothing but a name keeps the type of what it names."""
    if isinstance(value, str):
        if value[:1] == "<" and value[1:-1] in texts and value[-1:] == ">":
            return texts[value[1:-1]]
        for name, text in texts.items():
            value = value.replace(f"<{name}>", str(text))
        return value
    if isinstance(value, list):
        return [_fill_in(item, texts) for item in value]
    if isinstance(value, dict):
        return {key: _fill_in(item, texts) for key, item in value.items()}
    return value
