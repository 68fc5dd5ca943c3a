"""The policy of a gate: what a candidate may lose, must gain or must reach; and vLLM's accuracy files as a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, nearest, shorten
from multiform.results.values import FormResult, ResultsData
from multiform.statistics.estimates import LEVEL, Estimate
from multiform.tasks.parse import parse_yaml
from multiform.tasks.yaml import read_text

#: The number of documents of a score that is taken as exact: never the smaller of two.
_EXACT = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What forms or groups must keep; each of the four limits is one condition, and those that are None are none."""

    #: The most that the candidate may lose against the baseline, and the least that it must gain.
    max_loss: float | None = None
    min_gain: float | None = None
    #: The least and the most that the candidate's own score may be.
    min_score: float | None = None
    max_score: float | None = None
    #: With fewer documents, nothing is decided.
    min_n: int = 0
    #: The score: ``acc`` or ``acc,none``; by default the first one.
    metric: str | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The conditions by name."""
        names = ("max_loss", "min_gain", "min_score", "max_score")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of a gate. `confidence` holds for all conditions together."""

    confidence: float = LEVEL
    #: The rule of all forms and groups that no pattern of `tasks` names; None leaves them out.
    default: Rule | None = None
    #: Rules by the name of a form, task or group, or by a pattern such as ``mmlu_*``.
    tasks: Mapping[str, Rule]
    allow_missing: bool = False

    def rule(self, form: str, task: str) -> Rule | None:
        """The rule of a form or group: by its name, by its task, by the first pattern that fits, or the default."""
        for name in (form, task):
            if name in self.tasks:
                return self.tasks[name]
        return next((self.tasks[pattern] for pattern in self.tasks if matches(pattern, form, task)), self.default)


def matches(pattern: str, form: str, task: str) -> bool:
    """Whether a pattern of a policy names a form or its task."""
    return fnmatchcase(form, pattern) or fnmatchcase(task, pattern)


def read_policy(path: Path) -> Policy:
    """The policy of a YAML file; what is wrong in it is a ConfigError with its line."""
    data, place = _mapping_file(path, "write e.g. 'default: {max_loss: 0.02}'")
    keys = [field.name for field in fields(Policy)]
    for key in data:
        if key not in keys:
            raise ConfigError(f"unknown key '{key}'", where=place(key), hint=nearest(str(key), keys, listed="keys"))
    confidence = data.get("confidence", LEVEL)
    if not _is_number(confidence) or not 0.5 < confidence < 1:
        raise ConfigError(
            f"expected a share between 0.5 and 1, got {shorten(confidence)}",
            where=place("confidence"),
            hint="write e.g. 'confidence: 0.95'",
        )
    allow_missing = data.get("allow_missing", False)
    if not isinstance(allow_missing, bool):
        message = f"expected true or false, got {shorten(allow_missing)}"
        raise ConfigError(message, where=place("allow_missing"), hint="write e.g. 'allow_missing: true'")
    tasks = data.get("tasks") or {}
    if not isinstance(tasks, dict):
        hint = "write e.g. 'tasks: {arc_easy: {max_loss: 0.02}}'"
        raise ConfigError(f"expected a mapping of rules, got {shorten(tasks)}", where=place("tasks"), hint=hint)
    default = None if data.get("default") is None else _rule(data["default"], place("default"))
    # A rule of a task states what differs from the default.
    common = data.get("default") or {}
    rules = {str(name): _rule(rule, place("tasks", name), common) for name, rule in tasks.items()}
    if default is None and not rules:
        hint = "write e.g. 'default: {max_loss: 0.02}'"
        raise ConfigError("the policy has neither 'default' nor 'tasks'", where=place(), hint=hint)
    return Policy(confidence=float(confidence), default=default, tasks=rules, allow_missing=allow_missing)


def _rule(stated: Any, where: str, common: Mapping[str, Any] | None = None) -> Rule:
    names = [field.name for field in fields(Rule)]
    if not isinstance(stated, dict):
        message = f"expected a mapping of limits, got {shorten(stated)}"
        raise ConfigError(message, where=where, hint="write e.g. {max_loss: 0.02}")
    for key, value in stated.items():
        if key not in names:
            raise ConfigError(f"unknown limit '{key}'", where=where, hint=nearest(str(key), names, listed="limits"))
        if key == "metric":
            right, expected = isinstance(value, str), "the name of a score"
        elif key == "min_n":
            right, expected = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number"
        elif key == "max_loss":
            right, expected = _is_number(value) and value >= 0, "a number that is not negative"
        else:
            right, expected = _is_number(value), "a number"
        if not right and value is not None:
            message = f"{key}: expected {expected}, got {shorten(value)}"
            raise ConfigError(message, where=where, hint="a loss of two points is 0.02")
    rule = Rule(**{**(common or {}), **stated})
    if not rule.limits:
        hint = "give max_loss, min_gain, min_score or max_score"
        raise ConfigError("the rule has no limit", where=where, hint=hint)
    return rule


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _mapping_file(path: Path, hint: str) -> tuple[dict[str, Any], Any]:
    """The mapping in a YAML file, and a function that gives the place of a key."""
    parsed = parse_yaml(read_text(path), path)
    if parsed.notes:
        raise parsed.notes[0]
    if not isinstance(parsed.data, dict):
        raise ConfigError("expected a mapping", where=f"{path}:1", hint=hint)

    def place(*keys: Any) -> str:
        return ": ".join([str(parsed.positions.get(tuple(map(str, keys)), f"{path}:1")), *map(str, keys[-1:])])

    return parsed.data, place


def is_accuracy_file(path: Path) -> bool:
    """Whether a path is a YAML file, as those are with which vLLM's CI checks accuracy."""
    return path.suffix in (".yaml", ".yml") and path.is_file()


def read_accuracy_file(path: Path) -> ResultsData:
    """The scores of one of vLLM's accuracy files as a run without samples: each is taken as exact.

    ```yaml
    model_name: org/model
    tasks:
    - name: gsm8k
      metrics:
      - {name: "exact_match,strict-match", value: 0.755}
    limit: 1000
    num_fewshot: 5
    ```
    """
    data, place = _mapping_file(path, "name a results folder, or an accuracy file with model_name and tasks")
    num_fewshot, limit = data.get("num_fewshot"), data.get("limit")
    for key, value in (("num_fewshot", num_fewshot), ("limit", limit)):
        if value is not None and not _is_number(value):
            message = f"expected a number, got {shorten(value)}"
            raise ConfigError(message, where=place(key), hint=f"write e.g. '{key}: 5'")
    tasks = data.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        raise ConfigError("expected a list of tasks", where=place("tasks"), hint="see docs/guides/gate-in-ci.md")
    forms = [_reference_form(entry, place("tasks"), num_fewshot, limit) for entry in tasks]
    return ResultsData(forms=forms, run={"model": data.get("model_name"), "limit": limit}, provenance={})


def _reference_form(entry: Any, where: str, num_fewshot: Any, limit: Any) -> FormResult:
    name = entry.get("name") if isinstance(entry, dict) else None
    metrics = entry.get("metrics") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not isinstance(metrics, list):
        message = f"expected a name and metrics, got {shorten(entry)}"
        raise ConfigError(message, where=where, hint="write e.g. {name: gsm8k, metrics: [{name: acc, value: 0.7}]}")
    estimates = {}
    for metric in metrics:
        value: Any = metric.get("value") if isinstance(metric, dict) else None
        if not _is_number(value) or not isinstance(metric.get("name"), str):
            message = f"{name}: expected the name and the value of a metric, got {shorten(metric)}"
            raise ConfigError(message, where=where, hint='write e.g. {name: "acc,none", value: 0.7}')
        # No error of its own: the file says what the score is, not how sure it is.
        estimates[metric["name"]] = Estimate(value=float(value), n=_EXACT, stderr=0.0)
    return FormResult(
        form=name,
        task=name.partition("@")[0],
        alias=name,
        identity="",
        version=None,
        num_fewshot=num_fewshot,
        total_docs=int(limit) if limit is not None and limit >= 1 else 0,
        estimates=estimates,
        higher_is_better={},
        config={},
        mapping={},
        format=None,
        format_label=name.partition("@")[2] or None,
        overridden=(),
        samples=(),
    )


def listed_patterns(policy: Policy, names: Sequence[tuple[str, str]]) -> list[str]:
    """The patterns of a policy that name none of the forms and groups, each given with its task."""
    return [pattern for pattern in policy.tasks if not any(matches(pattern, *name) for name in names)]
