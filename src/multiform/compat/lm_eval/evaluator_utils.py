"""From the values of documents to the scores of tasks and groups, for scripts that put results together."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from multiform.compat.lm_eval.api.group import Group
from multiform.compat.lm_eval.api.metrics import mean, stderr_for_metric
from multiform.compat.lm_eval.result_schema import EvalResults, _SampleCount, _TaskMetrics

eval_logger = logging.getLogger(__name__)

#: Metrics whose resamples take so long that lm-eval makes no more than this many.
_SLOW, _FEW = ("bleu", "chrf", "chrf++", "ter"), 100


class ResultAcc(TypedDict):
    """A task with the values of its documents, by metric and filter."""

    task: Any
    raw_metrics: dict[tuple[str, str], list[Any]]
    logged_samples: list[Any]


def get_sample_size(task: Any, limit: float | None) -> int | None:
    """How many documents a limit means: so many, or that part of all."""
    if limit is None:
        return None
    return math.ceil(len(task.eval_docs) * limit) if limit < 1.0 else int(limit)


def print_writeout(task: Any) -> None:
    """Log the prompt and target of the first document."""
    first = next((instance for instance in task.instances if instance.doc_id is not None and instance.doc_id < 1), None)
    if first is not None:
        message = "task %s, document %d, prompt:\n%s\ntarget:\n%s"
        eval_logger.info(message, task, first.doc_id, first.args[0], task.doc_to_target(first.doc))


@dataclass
class EvalAcc:
    """The scores of tasks and groups by name, and what is said about them."""

    metrics: dict[str, _TaskMetrics] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    num_fewshot: dict[str, int] = field(default_factory=dict)
    higher_is_better: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: dict[str, list[Any]] = field(default_factory=dict)
    n_samples: dict[str, _SampleCount] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def collect(self) -> tuple[dict[str, _TaskMetrics], dict[str, _TaskMetrics]]:
        """All scores, and those of the groups that have scores of their own."""
        every = {name: dict(metrics) for name, metrics in self.metrics.items()}
        scored = [name for name in every if name in self.groups and self.groups[name].has_aggregation]
        return every, {name: dict(every[name]) for name in scored}

    def _to_eval_results(self, *, samples: dict[str, list[Any]] | None = None) -> EvalResults:
        """The results as `evaluate` returns them."""
        every, scored = self.collect()
        groups = list(self.groups.values())
        better, shots = dict(self.higher_is_better), dict(self.num_fewshot)
        _propagate_higher_is_better(groups, better)
        _propagate_num_fewshot(groups, shots)
        results: EvalResults = {
            "results": every,
            "group_subtasks": {group.name: group.child_names for group in groups},
            "configs": dict(sorted(self.configs.items())),
            "versions": dict(sorted(self.versions.items())),
            "n-shot": dict(sorted(shots.items())),
            "higher_is_better": dict(sorted(better.items())),
            "n-samples": dict(self.n_samples),
        }
        if scored:
            results["groups"] = scored
        if samples is not None:
            results["samples"] = dict(samples)
        return results


def aggregate_groups(results: EvalAcc) -> EvalAcc:
    """The results with the scores of their groups, inner groups first."""
    for group in _collect_groups_bottom_up(results.groups):
        results.metrics[group.name] = group.aggregate(results.metrics)
        results.versions[group.name] = group.version
    return results


def _process_results(
    eval_results_acc: Mapping[str, ResultAcc],
    groups: dict[str, Group] | None = None,
    bootstrap_iters: int | None = 100000,
) -> EvalAcc:
    """The scores of tasks and groups from the values of documents."""
    return aggregate_groups(_collect_results(eval_results_acc, groups, bootstrap_iters))


def _collect_results(
    eval_results_acc: Mapping[str, ResultAcc],
    groups: dict[str, Group] | None = None,
    bootstrap_iters: int | None = 100000,
) -> EvalAcc:
    results = EvalAcc(groups=groups or {})
    for name, acc in eval_results_acc.items():
        task = acc["task"]
        scores, number = _compute_task_aggregations(task, acc["raw_metrics"], bootstrap_iters)
        config = dict(task.dump_config())
        results.metrics[name] = {
            "name": name,
            "alias": config.get("task_alias") or name,
            "sample_len": number,
            **scores,
        }
        results.configs[name] = config
        results.versions[name] = getattr(task, "VERSION", None)
        shots = (config.get("metadata") or {}).get("num_fewshot", config.get("num_fewshot"))
        results.num_fewshot[name] = shots or 0
        results.higher_is_better[name] = dict(task.higher_is_better())
        results.samples[name] = acc["logged_samples"]
        results.n_samples[name] = {"original": len(task.eval_docs), "effective": number}
    return results


def _compute_task_aggregations(
    task: Any, raw_metrics: Mapping[tuple[str, str], Sequence[Any]], bootstrap_iters: int | None = 100000
) -> tuple[dict[str, Any], int]:
    """The scores of a task with their standard errors, and the number of its documents."""
    functions = task.aggregation()
    scores: dict[str, Any] = {}
    for (metric, name), values in raw_metrics.items():
        if metric not in functions:
            eval_logger.warning("%s: no aggregation is known for '%s'; its mean is taken", task.task_name, metric)
        function = functions.get(metric, mean)
        iterations = min(bootstrap_iters or 0, _FEW) if metric in _SLOW else bootstrap_iters or 0
        error = stderr_for_metric(function, iterations) if len(values) > 1 else None
        stderr = error(values) if error is not None else None
        scores[f"{metric},{name}"] = function(values)
        scores[f"{metric}_stderr,{name}"] = "N/A" if stderr is None else stderr
    sizes = {f"{metric},{name}": len(values) for (metric, name), values in raw_metrics.items()}
    if len(set(sizes.values())) > 1:
        eval_logger.warning("%s: metrics are about different numbers of documents: %s", task.task_name, sizes)
    return scores, max(sizes.values(), default=0)


def _get_root_groups(groups: Mapping[str, Group]) -> list[Group]:
    """The groups that are in no other."""
    inner = {below.name for group in groups.values() for below in group.get_all_groups(recursive=False)}
    return [group for name, group in groups.items() if name not in inner]


def _collect_groups_bottom_up(groups: Mapping[str, Group]) -> list[Group]:
    """All groups, each after those that are in it."""
    visited: dict[str, Group] = {}

    def visit(group: Group) -> None:
        for inner in group.get_all_groups(recursive=False):
            visit(inner)
        visited.setdefault(group.name, group)

    for root in _get_root_groups(groups):
        visit(root)
    return list(visited.values())


def _propagate_num_fewshot(all_groups: Sequence[Group], num_fewshot: dict[str, int]) -> None:
    """Give each group the number of few-shot examples that all of its members have."""
    for group in all_groups:
        numbers = {num_fewshot[name] for name in group.child_names if name in num_fewshot}
        if len(numbers) == 1:
            num_fewshot[group.name] = numbers.pop()


def _propagate_higher_is_better(all_groups: Sequence[Group], higher_is_better: dict[str, dict[str, Any]]) -> None:
    """Give each group the direction of its members' metrics; None where they do not agree."""
    for group in all_groups:
        merged: dict[str, Any] = {}
        for name in group.child_names:
            for metric, better in higher_is_better.get(name, {}).items():
                if merged.setdefault(metric, better) != better:
                    eval_logger.warning("%s: whether more '%s' is better is not consistent", group.name, metric)
                    merged[metric] = None
        if merged:
            higher_is_better[group.name] = merged
