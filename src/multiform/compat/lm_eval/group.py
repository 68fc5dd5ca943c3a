"""Groups of tasks, as `TaskManager.load` gives them and as scripts build them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from multiform.compat.errors import convert_errors
from multiform.compat.lm_eval.config import AggMetricConfig, GroupConfig
from multiform.errors import UsageError
from multiform.forms import Task
from multiform.scoring.aggregations import group_scores
from multiform.statistics.estimates import Estimate
from multiform.tasks import Group as OurGroup
from multiform.tasks import GroupConfig as OurGroupConfig

eval_logger = logging.getLogger(__name__)

#: The scores of each task by name: numbers by ``metric,filter``, and `sample_len`.
TaskMetrics = Mapping[str, Mapping[str, Any]]


@dataclass(eq=False)
class Group:
    """A group with its tasks and groups, each under its name."""

    name: str
    alias: str | None = None
    aggregate_metric_list: list[AggMetricConfig] | None = None
    metadata: dict[str, Any] | None = None
    _children: dict[str, Task | Group] = field(default_factory=dict, repr=False)
    _config: GroupConfig | None = field(default=None, repr=False)

    def add(self, item: Task | Group) -> None:
        """Add a task or group; one of the same name has to be removed first."""
        name = child_name(item)
        if self._children.setdefault(name, item) is not item:
            hint = "rename one of them, or pop the first"
            with convert_errors(ValueError):
                raise UsageError(f"there is another '{name}' in the group", where=self.name, hint=hint)

    def get(self, name: str) -> Task | Group | None:
        """The member of that name."""
        return self._children.get(name)

    def pop(self, name: str) -> Task | Group | None:
        """Remove a member, and return it."""
        return self._children.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[Task | Group]:
        return iter(self._children.values())

    def __len__(self) -> int:
        return len(self._children)

    @property
    def child_names(self) -> list[str]:
        return list(self._children)

    def get_all_tasks(self, recursive: bool = True) -> list[Task]:
        """All tasks below it, or its own."""
        tasks: list[Task] = []
        for item in self:
            if isinstance(item, Task):
                tasks.append(item)
            elif recursive:
                tasks += item.get_all_tasks()
        return tasks

    def get_all_groups(self, recursive: bool = True) -> list[Group]:
        """All groups below it, or its own."""
        groups: list[Group] = []
        for item in self:
            if isinstance(item, Group):
                groups += [item, *(item.get_all_groups() if recursive else [])]
        return groups

    @property
    def version(self) -> str:
        return str((self.metadata or {}).get("version", "N/A"))

    @property
    def has_aggregation(self) -> bool:
        return bool(self.aggregate_metric_list)

    def aggregate(self, task_metrics: TaskMetrics) -> dict[str, Any]:
        """The group's scores, from those of its tasks; with `sample_count`, how many documents each is about."""
        scores: dict[str, Any] = {"alias": self.alias or self.name, "name": self.name}
        if not self.aggregate_metric_list:
            return scores
        names = [child_name(task) for task in self.get_all_tasks()]
        present = [task_metrics[name] for name in names if name in task_metrics]
        scores["sample_len"] = sum(metrics.get("sample_len", 0) for metrics in present)
        counts: dict[str, int] = {}
        for entry in self.aggregate_metric_list:
            filters = entry.filter_list
            if filters is None:
                filters = self._discover_filters_for_metric(entry.metric, task_metrics)
            for key in (f"{entry.metric},{name}" for name in filters):
                self._warn_of_missing(key, names, task_metrics)
                tasks = [_estimates(metrics, key) for metrics in present]
                for found, estimate in group_scores([{**asdict(entry), "filter_list": None}], tasks).items():
                    metric, _, name = found.partition(",")
                    scores[found] = estimate.value
                    scores[f"{metric}_stderr,{name}"] = "N/A" if estimate.stderr is None else estimate.stderr
                    counts[found] = estimate.n
        return {**scores, "sample_count": counts} if counts else scores

    def _discover_filters_for_metric(self, metric_name: str, task_metrics: TaskMetrics) -> list[str]:
        """The filters under which the group's tasks have a metric."""
        names = {child_name(task) for task in self.get_all_tasks()}
        keys = {key for name in names for key in task_metrics.get(name, {})}
        return sorted(key.partition(",")[2] for key in keys if key.partition(",")[0] == metric_name and "," in key)

    def _warn_of_missing(self, key: str, names: Sequence[str], task_metrics: TaskMetrics) -> None:
        missing = [name for name in names if key not in task_metrics.get(name, {})]
        if len(missing) == len(names):
            eval_logger.warning("group '%s': no values found for metric '%s' in any task", self.name, key)
        elif missing:
            message = "group '%s': metric '%s' is missing in %d/%d tasks: %s"
            eval_logger.warning(message, self.name, key, len(missing), len(names), ", ".join(missing[:5]))

    def to_dict(self) -> dict[str, Any]:
        """What the group's file says about it."""
        if self._config is not None:
            return self._config.to_dict()
        values = {
            "group": self.name,
            "task": self.child_names,
            "group_alias": self.alias,
            "aggregate_metric_list": [asdict(entry) for entry in self.aggregate_metric_list or ()],
            "metadata": self.metadata,
        }
        return {key: value for key, value in values.items() if value}

    @classmethod
    def from_config(cls, config: GroupConfig | OurGroupConfig | dict[str, Any]) -> Group:
        """The group that a configuration describes, without members yet."""
        group_config = _config(config)
        return cls(
            name=group_config.group,
            alias=group_config.group_alias,
            aggregate_metric_list=group_config.aggregate_metric_list,
            metadata=group_config.metadata,
            _config=group_config,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, {len(self)} children: {', '.join(self.child_names)})"


class ConfigurableGroup(Group):
    """A group that is created from its configuration; groups of the same name are equal."""

    def __init__(self, config: GroupConfig | dict[str, Any] | None = None) -> None:
        vars(self).update(vars(Group.from_config(config or {})))

    @classmethod
    def from_group(cls, group: Group) -> ConfigurableGroup:
        """The same group under this class."""
        copied = cls.__new__(cls)
        vars(copied).update(vars(group))
        return copied

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, ConfigurableGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def group(self) -> str:
        return self.name

    @property
    def group_alias(self) -> str | None:
        return self.alias

    @property
    def group_name(self) -> str:
        return self.name

    @property
    def config(self) -> dict[str, Any]:
        return self.to_dict()


def child_name(item: Task | Group) -> str:
    """The name of a member: a task may have one that is not that of its configuration."""
    return str(item.task_name if hasattr(item, "task_name") else item.name)


def as_node(group: Group) -> OurGroup:
    """The group as Multiform scores it, with the configurations of the tasks that are in it now."""
    config = OurGroupConfig(
        group=group.name,
        group_alias=group.alias,
        task=[*group.child_names],
        aggregate_metric_list=[asdict(entry) for entry in group.aggregate_metric_list or ()],
        metadata=group.metadata,
    )
    return OurGroup(config, tuple(as_node(item) if isinstance(item, Group) else item.config for item in group))


def _config(config: GroupConfig | OurGroupConfig | dict[str, Any]) -> GroupConfig:
    if isinstance(config, GroupConfig):
        return config
    if isinstance(config, OurGroupConfig):
        scores = [
            {key: value for key, value in entry.items() if key != "higher_is_better"} for entry in config.aggregates()
        ]
        return GroupConfig(config.group, config.group_alias, config.members(), scores or None, config.metadata)
    return GroupConfig(**config)


def _estimates(metrics: Mapping[str, Any], key: str) -> dict[str, Estimate]:
    """The score that a key stands for, if there is one."""
    if key not in metrics:
        return {}
    metric, _, name = key.partition(",")
    stderr = metrics.get(f"{metric}_stderr,{name}")
    error = None if isinstance(stderr, str) else stderr
    return {key: Estimate(value=metrics[key], n=metrics.get("sample_len", 0), stderr=error)}
