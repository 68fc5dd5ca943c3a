"""The gate: PASS, FAIL or INCONCLUSIVE for two runs under a policy, from the intervals of `run_comparison`.

A policy says what a candidate may lose, must gain or must reach. A condition is "the gain is at least this" or "the
score is at least this". It passes if the lower one-sided bound keeps the limit, fails if the upper bound misses it, and
is open otherwise. The bounds hold for all conditions at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic needs these before 3.12

from multiform.errors import ConfigError, UsageError, excerpt, nearest
from multiform.results.run_comparison import FormChange, compare_form, compare_groups, form_pairs, only_in
from multiform.results.values import FormResult, ResultsData
from multiform.schema import has_type
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.differences import simultaneous_bounds
from multiform.statistics.estimates import LEVEL, Estimate, exact_bounds, wilson_interval
from multiform.tasks.yaml import read_mapping

Verdict: TypeAlias = Literal["PASS", "FAIL", "INCONCLUSIVE"]
#: The exit codes of the verdicts.
EXIT_CODES: dict[Verdict, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}
#: The number of documents of a score that is taken as exact: never the smaller of two.
_EXACT = 1 << 53
#: The limits of a rule, each of which is a condition.
_LIMITS = ("max_loss", "min_gain", "min_score", "max_score")


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
        return {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}


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
        return next((self.tasks[pattern] for pattern in self.tasks if _matches(pattern, form, task)), self.default)


def _matches(pattern: str, form: str, task: str) -> bool:
    """Whether a pattern of a policy names a form or its task."""
    return fnmatchcase(form, pattern) or fnmatchcase(task, pattern)


_NUMBER = Annotated[float, Field(allow_inf_nan=False)]
#: The keys of a policy and of a rule: the type of each, in words, and an example.
_POLICY_KEYS = {
    "confidence": (Annotated[float, Field(gt=0.5, lt=1)], "a share between 0.5 and 1", "0.95"),
    "default": (Any, "", ""),
    "tasks": (dict, "a mapping of rules", "{arc_easy: {max_loss: 0.02}}"),
    "allow_missing": (bool, "true or false", "true"),
}
_RULE_KEYS = {
    **dict.fromkeys(("min_gain", "min_score", "max_score"), (_NUMBER, "a number", "0.02 for two points")),
    "max_loss": (Annotated[_NUMBER, Field(ge=0)], "a number that is not negative", "0.02 for two points"),
    "min_n": (Annotated[int, Field(ge=0)], "a whole number", "100"),
    "metric": (str, "the name of a score", "acc"),
}


def read_policy(path: Path) -> Policy:
    """The policy of a YAML file; what is wrong in it is a ConfigError with its line."""
    data, place = _mapping_file(path, "write e.g. 'default: {max_loss: 0.02}'")
    for key, value in data.items():
        _check_value(key, value, _POLICY_KEYS, place(key))
    # A rule of a task states what differs from the default.
    common = data.get("default") or {}
    default = None if data.get("default") is None else _rule(common, place("default"))
    tasks = {str(name): _rule(rule, place("tasks", name), common) for name, rule in (data.get("tasks") or {}).items()}
    if default is None and not tasks:
        hint = "write e.g. 'default: {max_loss: 0.02}'"
        raise ConfigError("the policy has neither 'default' nor 'tasks'", where=place(), hint=hint)
    confidence = float(data.get("confidence") or LEVEL)
    return Policy(confidence=confidence, default=default, tasks=tasks, allow_missing=bool(data.get("allow_missing")))


def _rule(stated: Any, where: str, common: Mapping[str, Any] | None = None) -> Rule:
    if not isinstance(stated, dict):
        message = f"expected a mapping of limits, got {excerpt(stated)}"
        raise ConfigError(message, where=where, hint="write {max_loss: 0.02}")
    for key, value in stated.items():
        _check_value(key, value, _RULE_KEYS, where)
    rule = Rule(**{**(common or {}), **stated})
    if not rule.limits:
        hint = "give max_loss, min_gain, min_score or max_score"
        raise ConfigError("the rule has no limit", where=where, hint=hint)
    return rule


def _check_value(key: Any, value: Any, keys: Mapping[str, tuple[Any, str, str]], where: str) -> None:
    """Raise a ConfigError for an unknown key, or a value that is neither of its type nor null."""
    if key not in keys:
        raise ConfigError(f"unknown key '{key}'", where=where, hint=nearest(str(key), keys, listed="keys"))
    kind, words, example = keys[key]
    if value is not None and not has_type(value, kind):
        message = f"{key}: expected {words}, got {excerpt(value)}"
        raise ConfigError(message, where=where, hint=f"write e.g. {key}: {example}")


def _mapping_file(path: Path, hint: str) -> tuple[dict[str, Any], Callable[..., str]]:
    """The mapping in a YAML file, and a function that gives the place of a key."""
    data, positions = read_mapping(path, "a mapping", hint)

    def place(*keys: Any) -> str:
        return ": ".join([str(positions.get(tuple(map(str, keys)), f"{path}:1")), *map(str, keys[-1:])])

    return data, place


class _Metric(TypedDict):
    name: str
    value: _NUMBER


class _Accuracy(TypedDict):
    name: str
    metrics: list[_Metric]


_ACCURACY_KEYS = {
    "tasks": (list[_Accuracy], "a list of tasks", "[{name: gsm8k, metrics: [{name: 'acc,none', value: 0.7}]}]"),
    "num_fewshot": (_NUMBER, "a number", "5"),
    "limit": (_NUMBER, "a number", "1000"),
}


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
    for key in _ACCURACY_KEYS:
        _check_value(key, data.get(key), _ACCURACY_KEYS, place(key))
    if not data.get("tasks"):
        raise ConfigError("expected a list of tasks", where=place("tasks"), hint="see multiform docs guides/gate-in-ci")
    limit = data.get("limit")
    forms = [_reference_form(entry, data.get("num_fewshot"), limit) for entry in data["tasks"]]
    return ResultsData(forms=forms, run={"model": data.get("model_name"), "limit": limit}, provenance={})


def _reference_form(entry: _Accuracy, num_fewshot: Any, limit: Any) -> FormResult:
    name = entry["name"]
    return FormResult(
        name=name,
        task=name.partition("@")[0],
        alias=name,
        num_fewshot=num_fewshot,
        total_docs=int(limit) if limit is not None and limit >= 1 else 0,
        # No error of its own: the file says what the score is, not how sure it is.
        estimates={
            metric["name"]: Estimate(value=float(metric["value"]), n=_EXACT, stderr=0.0) for metric in entry["metrics"]
        },
        format_label=name.partition("@")[2] or None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCondition:
    """One limit of a policy for one form or group, with what is known of the gain or score that it is about."""

    name: str
    metric: str
    #: Which key of the rule it is: max_loss, min_gain, min_score or max_score.
    kind: str
    #: The limit as the rule states it.
    limit: float
    #: The gain or score, and its one-sided bounds; not numbers where there is no interval.
    value: float
    low: float
    high: float
    n: int
    verdict: Verdict
    #: How many more documents would decide if the value stays as it is; None where no number can be given.
    more: int | None = None
    #: How many documents the whole dataset has; 0 where that is not known.
    total: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """All conditions of a policy, and the baseline's forms that the candidate lacks, in whole or in part."""

    conditions: tuple[GateCondition, ...]
    missing: tuple[str, ...]
    confidence: float
    #: What beside the model differs between the runs.
    cautions: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """FAIL if a condition fails or something is missing, INCONCLUSIVE if a condition is open, else PASS."""
        verdicts = {condition.verdict for condition in self.conditions}
        if self.missing or "FAIL" in verdicts:
            return "FAIL"
        return "INCONCLUSIVE" if "INCONCLUSIVE" in verdicts or not verdicts else "PASS"


def judge(low: float, high: float, value: float, limit: float) -> Verdict:
    """The verdict on "the value is at least the limit" from its bounds; without bounds, a value below it fails.

    >>> judge(-0.01, 0.03, 0.01, -0.02), judge(-0.05, -0.03, -0.04, -0.02), judge(-0.05, 0.01, -0.02, -0.02)
    ('PASS', 'FAIL', 'INCONCLUSIVE')
    """
    if math.isnan(high):
        return "INCONCLUSIVE" if value >= limit else "FAIL"  # FAIL also for a score that is not a number
    if not high >= limit:
        return "FAIL"
    return "PASS" if low >= limit else "INCONCLUSIVE"


def gate(changes: Sequence[FormChange], limit: float) -> dict[Verdict, list[FormChange]]:
    """The forms by their verdicts under a limit of the gain, such as -0.02, with an error of 5 % for all together.

    A form fails if its gain is below the limit with 95 % confidence. A score without an interval fails if it is below,
    and is not open otherwise.
    """
    verdicts: dict[Verdict, list[FormChange]] = {"PASS": [], "FAIL": [], "INCONCLUSIVE": []}
    for change in (replace(change, comparisons=len(changes)) for change in changes):
        low, high = change.gain_bounds()
        verdict = judge(low, high, change.gain, limit)
        verdicts["PASS" if verdict == "INCONCLUSIVE" and math.isnan(high) else verdict].append(change)
    return verdicts


@dataclass(frozen=True, slots=True)
class _Subject:
    """A form or group under a rule, with its change from the baseline."""

    rule: Rule
    change: FormChange
    #: How many documents the whole dataset has; 0 where that is not known.
    total: int
    #: Whether the score is the share of documents that are right.
    is_rate: bool


def check_policy(policy: Policy, base: ResultsData, candidate: ResultsData) -> GateReport:
    """Check every condition of a policy on the forms and groups that both runs have.

    Forms and documents that only the baseline has are missing, unless the policy allows that.
    """
    names = [(entry.name, entry.base) for run in (base, candidate) for entry in run.entries]
    for pattern in policy.tasks:
        if not any(_matches(pattern, *name) for name in names):
            hint = nearest(pattern, dict.fromkeys(name for name, _ in names), listed="the runs have")
            raise UsageError(f"no form, task or group of the runs is called '{pattern}'", where="policy", hint=hint)
    subjects = list(_subjects(policy, base, candidate))
    if not subjects:
        message = "no form or group that both runs have falls under a rule"
        raise UsageError(message, where="policy", hint="add a 'default' rule, or name forms of the runs under 'tasks'")
    number = sum(len(subject.rule.limits) for subject in subjects)
    conditions = [
        _condition(subject, kind, limit, number, policy.confidence)
        for subject in subjects
        for kind, limit in subject.rule.limits.items()
    ]
    missing = []
    if not policy.allow_missing:
        tasks = {form.name: form.task for form in base.forms}
        lacking = [name for name in only_in(base, candidate) if policy.rule(name, tasks[name]) is not None]
        missing = [*lacking, *dict.fromkeys(s.change.name for s in subjects if s.change.left_out[0])]
    cautions = [f"{s.change.name}: not the same in both runs: {', '.join(s.change.settings)}" for s in subjects
                if s.change.settings]  # fmt: skip
    return GateReport(
        conditions=tuple(conditions),
        missing=tuple(missing),
        confidence=policy.confidence,
        cautions=tuple(dict.fromkeys([*cautions, *_reference_cautions(base, subjects)])),
    )


def _subjects(policy: Policy, base: ResultsData, candidate: ResultsData) -> Iterator[_Subject]:
    """The groups, then the forms, that both runs have and a rule is about."""
    for group in base.groups:
        if (rule := policy.rule(group.name, group.base)) is not None:
            for change in compare_groups(replace(base, groups=[group]), candidate, metric=rule.metric):
                yield _Subject(rule, change, 0, change.metric in RIGHT_OR_WRONG)
    for form, counterpart in form_pairs(base, candidate):
        rule = policy.rule(form.name, form.task)
        if rule is None:
            continue
        # Scores of a file are compared by their whole names: its first may not be the first of the candidate.
        metrics = [rule.metric] if rule.metric or not _is_reference(form) else list(form.estimates)
        for metric in metrics:
            change = compare_form(form, counterpart, metric)
            yield _Subject(rule, change, counterpart.total_docs, _is_rate(counterpart, change.metric))


def _is_rate(form: FormResult, key: str) -> bool:
    """Whether a score is the share of documents that are right: each of them has 0 or 1."""
    metric, _, scorer = key.partition(",")
    values = [sample.values.get(metric) for sample in form.samples if scorer in ("", sample.scorer)]
    return all(value in (0, 1) for value in values) if values else metric in RIGHT_OR_WRONG


def _is_reference(form: FormResult) -> bool:
    """Whether the scores of a form are stated ones, without documents or errors."""
    return not form.samples and all(estimate.stderr == 0.0 for estimate in form.estimates.values())


def _reference_cautions(base: ResultsData, subjects: Sequence[_Subject]) -> Iterator[str]:
    limits = {form.name: form.total_docs for form in base.forms if _is_reference(form) and form.total_docs}
    for subject in subjects:
        limit = limits.get(subject.change.name.partition(" → ")[0])
        if limit is not None and limit != (n := subject.change.second.n):
            yield f"{subject.change.name}: the baseline is over {limit:,} documents, the candidate over {n:,}"


def _condition(subject: _Subject, kind: str, limit: float, number: int, confidence: float) -> GateCondition:
    """One condition; its bounds are those of `number` conditions at once."""
    change, score = subject.change, subject.change.second
    if kind in ("max_loss", "min_gain"):
        value, n = change.gain, change.difference.n
        low, high = replace(change, comparisons=number).gain_bounds(confidence)
        at_least = -limit if kind == "max_loss" else limit
    else:
        value, n = score.value, score.n
        low, high = score_bounds(score, number, confidence, is_rate=subject.is_rate)
        at_least = limit
    # At most the limit is the same as at least, with all signs turned.
    turned = kind == "max_score"
    verdict = judge(-high, -low, -value, -limit) if turned else judge(low, high, value, at_least)
    note = "there is no interval: log samples of both runs" if math.isnan(high) else ""
    more = _more_documents(value, at_least, (high - low) / 2, n) if verdict == "INCONCLUSIVE" else None
    if n < subject.rule.min_n:
        verdict, note = "INCONCLUSIVE", f"fewer than min_n = {subject.rule.min_n:,} documents"
        more = max(subject.rule.min_n - n, more or 0)
    return GateCondition(
        name=change.name,
        metric=change.metric,
        kind=kind,
        limit=limit,
        value=value,
        low=low,
        high=high,
        n=n,
        verdict=verdict,
        more=more,
        total=subject.total,
        note=note,
    )


def score_bounds(score: Estimate, number: int, confidence: float, *, is_rate: bool) -> tuple[float, float]:
    """The one-sided bounds of a score, which hold for `number` scores at once.

    Those of a rate are exact (Clopper and Pearson), over as many independent documents as its interval has.

    >>> low, high = score_bounds(Estimate(value=0.9, n=100, low=0.8256, high=0.9448), 1, 0.95, is_rate=True)
    >>> round(low, 4), round(high, 4)
    (0.8362, 0.9448)
    """
    if not is_rate or score.low is None or score.high is None:
        return simultaneous_bounds(score, number, level=2 * confidence - 1)
    return exact_bounds(score.value, _independent_documents(score), (1 - confidence) / number)


def _independent_documents(score: Estimate) -> float:
    """The number of independent documents whose Wilson interval is as wide as that of a rate.

    Fewer than there are, if documents of one cluster are alike, or the run stopped at an interval.
    """
    low, high = score.interval

    def is_wider(n: float) -> bool:
        bounds = wilson_interval(score.value, n)
        return bounds[1] - bounds[0] > (high - low) * (1 + 1e-9)

    if not is_wider(score.n):
        most, least = float(score.n), 0.0
        for _ in range(60):
            middle = (least + most) / 2
            least, most = (middle, most) if is_wider(middle) else (least, middle)
        return most
    return float(score.n)


def _more_documents(value: float, limit: float, half: float, n: int) -> int | None:
    """How many more documents make the interval narrow enough, if the value stays; None where it is at the limit.

    The half-width shrinks with the square root of the number of documents.

    >>> _more_documents(0.01, -0.01, 0.04, 100)
    300
    """
    distance = abs(value - limit)
    if not n or math.isnan(half) or distance < 1e-9:
        return None
    return max(1, math.ceil(n * (half / distance) ** 2) - n)
