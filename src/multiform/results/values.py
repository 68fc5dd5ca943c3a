"""The values of results: the scores of forms and groups, failed documents, and all that a run found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from multiform.errors import MultiformError, RunInterrupted, UsageError, nearest, quantity
from multiform.forms import Sample, ScoredSample
from multiform.requests import Completion, Ending, FailedRequest, Output
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.estimates import Estimate

if TYPE_CHECKING:
    from multiform.results.form_comparison import FormComparison

#: The order in which lm-eval writes the metrics of an output type, whatever that of `metric_list`.
_METRIC_ORDER = {
    "multiple_choice": ("acc", "f1", "mcc", "acc_norm", "acc_bytes", "exact_match", "brier_score", "likelihood",
                        "acc_mutual_info"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDoc:
    """A document that has no scores, because one of its requests failed; `reason` is that of the first."""

    sample: Sample
    reason: str
    retried: int = 0
    #: How many of its requests failed.
    requests: int = 1

    @property
    def doc_id(self) -> int:
        return self.sample.doc_id

    @classmethod
    def of(cls, sample: Sample, outputs: Iterable[Output | FailedRequest]) -> FailedDoc:
        """A document of whose requests one or more failed."""
        failed = [output for output in outputs if isinstance(output, FailedRequest)]
        return cls(sample=sample, reason=failed[0].reason, retried=failed[0].retried, requests=len(failed))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScoredEntry:
    """What forms and groups have in common: scores by ``metric,filter``, of which the first stands for the others."""

    #: What results are keyed by.
    name: str
    alias: str
    estimates: Mapping[str, Estimate]
    #: By metric; more is better where nothing is said.
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    version: Any = None
    #: The number of few-shot examples as shown, which the task's metadata may override.
    num_fewshot: Any = None
    #: The lowest and highest value that a score can have, whatever the failed documents would have got.
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def primary(self) -> str:
        """The key of the first metric, which tables show first."""
        return next(iter(self.estimates))

    def key(self, metric: str | None) -> str | None:
        """The key of a score, by its metric or by ``metric,filter``; without a name, of the first; None without it."""
        return next((key for key in self.estimates if metric in (None, key, key.partition(",")[0])), None)

    @property
    def metric(self) -> str:
        """The name of the first metric."""
        return self.primary.partition(",")[0]

    @property
    def score(self) -> Estimate:
        """The estimate of the first metric."""
        return self.estimates[self.primary]

    @property
    def higher(self) -> bool:
        """Whether more of the first metric is better."""
        return bool(self.higher_is_better.get(self.metric, True))

    @property
    def signed_score(self) -> float:
        """The value of the first metric, with the sign with which more is better."""
        return self.score.value if self.higher else -self.score.value

    @property
    def has_score(self) -> bool:
        """Whether the first metric has a value; what --predict_only writes instead of one is none."""
        return bool(self.estimates) and self.metric != "bypass" and math.isfinite(self.score.value)

    @property
    def summary(self) -> str:
        """The name with the first score, on one line."""
        if not self.estimates:
            return f"{self.name}: no scores"
        error = "" if self.score.stderr is None else f" ± {self.score.stderr:.4f}"
        return f"{self.name}: {self.metric} {self.score.value:.4f}{error} (n={self.score.n})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.summary}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FormResult(ScoredEntry):
    """The scores and samples of one form: a task under one format."""

    task: str
    #: Short hash of the resolved format, few-shot setting and overrides; empty where it is not known.
    identity: str = ""
    total_docs: int = 0
    #: The task's configuration with the exact templates of its prompts.
    config: Mapping[str, Any] = field(default_factory=dict)
    #: The fields of the question, choices and answer, before any format.
    mapping: Mapping[str, Any] = field(default_factory=dict)
    format: Mapping[str, Any] | None = None
    #: The name of the format after ``@``, or in the task's `formats`.
    format_label: str | None = None
    overridden: Sequence[str] = ()
    samples: Sequence[ScoredSample] = ()
    #: The column whose equal values make documents dependent, such as the passage of several questions.
    cluster: str | None = None
    #: The documents whose requests failed.
    failed: Sequence[FailedDoc] = ()
    #: Whether the form is a control, which is shown beside the others and not compared with them.
    control: bool = False
    #: How answers were extracted from completions, as a results file records it; None where it is to be computed.
    extraction: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def form(self) -> str:
        """The name, by which rows and files call it."""
        return self.name

    @property
    def base(self) -> str:
        """The name without the format."""
        return self.task

    @property
    def n(self) -> int:
        """The number of documents that were evaluated."""
        if not self.samples:  # read from a results file without its samples
            return max((estimate.n for estimate in self.estimates.values()), default=0)
        return len({sample.doc_id for sample in self.samples})

    @property
    def primary_samples(self) -> list[ScoredSample]:
        """The samples under the filter of the first metric, or under the first filter there is."""
        scorers = dict.fromkeys(sample.scorer for sample in self.samples)
        named = self.primary.partition(",")[2] if self.estimates else None
        chosen = named if named in scorers else next(iter(scorers), None)
        return [sample for sample in self.samples if sample.scorer == chosen]

    @property
    def truncated_contexts(self) -> int:
        """The number of documents whose prompts lost their beginning, as they do not fit into the model's context."""
        return len({sample.doc_id for sample in self.samples if sample.context_truncated})

    @property
    def ties(self) -> int:
        """The number of documents in which several choices share the best log-likelihood."""
        return len({sample.doc_id for sample in self.samples if sample.tied_choices})

    @property
    def endings(self) -> dict[str, int]:
        """The number of documents with a completion that was refused, filtered, cut off, or ended in another way."""
        by_doc = {sample.doc_id: sample.endings for sample in self.samples}
        counts = {ending: sum(ending in endings for endings in by_doc.values()) for ending in get_args(Ending)}
        return {ending: number for ending, number in counts.items() if number}

    @property
    def has_completions(self) -> bool:
        """Whether the model generated something for the documents."""
        return any(isinstance(output, Completion) for sample in self.samples for output in sample.outputs)

    @property
    def has_budget(self) -> bool:
        """Whether thoughts end at a budget, after which the answer is generated or the choices are scored."""
        return bool((self.config.get("generation_kwargs") or {}).get("thinking_budget"))

    def answers(self, sample: ScoredSample) -> list[Completion]:
        """The completions of a sample that are answers, and not thoughts that the form has generated first."""
        completions = [output for output in sample.outputs if isinstance(output, Completion)]
        if sample.is_ranked:
            return []
        follow_thoughts = self.has_budget and sample.sample.conversation is None
        return completions[-self.config.get("repeats", 1) :] if follow_thoughts else completions

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        estimates = {key: self.estimates[key] for key in metrics_in_order(self.estimates, self.config)}
        return {"name": self.name, "alias": self.alias, "sample_len": self.n, **lm_eval_scores(estimates)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GroupResult(ScoredEntry):
    """The scores of a group of forms."""

    #: How many groups this one is nested in.
    depth: int
    #: Names of the tasks and groups in the group.
    members: Sequence[str]
    n: int
    #: The name without the format.
    path: str = ""
    #: Names of all forms below the group.
    forms: Sequence[str] = ()
    #: Whether the group's first metric weighs tasks by their numbers of documents.
    weight_by_size: bool = True
    #: How many documents of its forms failed.
    failed: int = 0

    @property
    def base(self) -> str:
        """The name without the format."""
        return self.path or self.name

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        named = {"alias": self.alias, "name": self.name}
        if not self.estimates:
            return named
        counts = {key: estimate.n for key, estimate in self.estimates.items()}
        return {**named, "sample_len": self.n, **lm_eval_scores(self.estimates), "sample_count": counts}


def metric_kind(metric: str) -> str:
    """The comparable metrics that a metric is one of: all that say right or wrong are "accuracy"."""
    return "accuracy" if metric in RIGHT_OR_WRONG else metric


def direction_words(metric: str, higher_is_better: bool) -> str:
    """A metric with an arrow in the direction that is better."""
    return f"{metric} {'↑' if higher_is_better else '↓'}"


def metric_label(key: str) -> str:
    """A score by its metric, and by its scorer where that has a name.

    >>> metric_label("acc,none"), metric_label("exact_match,strict")
    ('acc', 'exact_match (strict)')
    """
    metric, _, scorer = key.partition(",")
    return metric if scorer in ("none", "") else f"{metric} ({scorer})"


def metrics_in_order(keys: Iterable[str], config: Mapping[str, Any]) -> list[str]:
    """Names of metrics, or ``metric,scorer``, in the order in which lm-eval writes them for a task's configuration.

    >>> metrics_in_order(["exact_match", "acc_norm", "acc"], {"output_type": "multiple_choice"})
    ['acc', 'acc_norm', 'exact_match']
    """
    order = () if config.get("process_results") else _METRIC_ORDER.get(str(config.get("output_type")), ())
    scorers: dict[str, int] = {}

    def place(key: str) -> tuple[int, int]:
        metric, _, scorer = key.partition(",")
        return scorers.setdefault(scorer, len(scorers)), order.index(metric) if metric in order else len(order)

    return sorted(keys, key=place)


def lm_eval_scores(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Scores with their standard errors, as lm-eval writes them."""
    values: dict[str, Any] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        values[key] = estimate.value
        values[f"{metric}_stderr,{scorer}"] = "N/A" if estimate.stderr is None else estimate.stderr
    return values


class NoSuchResultError(UsageError, KeyError):
    """There is no form, group or metric of that name; also a KeyError, as for any mapping."""


class Scores(dict[str, Any]):
    """The scores of a form or group, keyed ``metric,filter``; ``metric`` is enough if there is one filter.

    ``metric_interval`` is the 95 % interval, which lm-eval's keys, over which this iterates, do not have.

    >>> scores = Scores("quiz@mcqa", {"acc,none": 0.5, "acc_stderr,none": 0.1}, {"acc,none": (0.3, 0.7)})
    >>> scores["acc"], scores["acc_stderr"], scores["acc_interval"], scores.get("f1"), "acc" in scores
    (0.5, 0.1, (0.3, 0.7), None, True)
    >>> scores["accuracy"]
    Traceback (most recent call last):
    multiform.results.values.NoSuchResultError: quiz@mcqa: no score 'accuracy'; there are: acc
    """

    def __init__(
        self, name: str, values: dict[str, Any], intervals: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        super().__init__(values)
        self.name = name
        self._intervals = {key.replace(",", "_interval,", 1): bounds for key, bounds in (intervals or {}).items()}

    def __missing__(self, key: str) -> Any:
        if key in self._intervals:
            return self._intervals[key]
        keys = self._keys_of(key)
        if len(keys) == 1:
            return self[keys[0]]
        if keys:
            message, hint = f"'{key}' has several filters", f"ask for {' or '.join(map(repr, keys))}"
            raise NoSuchResultError(message, where=self.name, hint=hint)
        metrics = [name.partition(",")[0] for name in self if "," in name]
        listed = [name for name in dict.fromkeys(metrics) if not name.endswith("_stderr")]
        raise NoSuchResultError(f"no score '{key}'", where=self.name, hint=f"there are: {', '.join(listed) or 'none'}")

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and len(self._keys_of(key)) == 1)

    def _keys_of(self, metric: str) -> list[str]:
        return [key for key in (*self, *self._intervals) if key.partition(",")[0] == metric and "," in key]


def no_such_form(name: str, names: Iterable[str]) -> NoSuchResultError:
    """The error for a form or group that was not run, with those that were."""
    known = list(names)
    hint = f"there are: {', '.join(known)}" if len(known) <= 20 else nearest(str(name), known, listed="there are")
    return NoSuchResultError(f"no form or group '{name}'", where="results", hint=hint)


#: The largest number of lines of a `repr`.
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsData(Mapping[str, Scores]):
    """All that a run found: a mapping of forms and groups to scores. `Results` adds what a user can do with it."""

    forms: Sequence[FormResult]
    #: The settings of the run: model, arguments, seeds and so on.
    run: Mapping[str, Any]
    #: When, where and with which software the run was done.
    provenance: Mapping[str, Any]
    groups: Sequence[GroupResult] = ()
    #: The forms of each task and group that was run under several, compared on the same documents.
    comparisons: Sequence[FormComparison] = ()
    #: "complete", or why they are partial: "stopped" by a signal, "failed", or still "running".
    status: Literal["complete", "stopped", "failed", "running"] = "complete"
    #: The files that the run has written.
    files: Sequence[Path] = field(default=(), compare=False)
    #: What kept the run from being complete.
    problem: MultiformError | RunInterrupted | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Scores:
        for entry in self.entries:
            if entry.name == name:
                return Scores(name, entry.scores(), {key: e.interval for key, e in entry.estimates.items()})
        raise no_such_form(name, self)

    @property
    def entries(self) -> list[FormResult | GroupResult]:
        """All forms, then all groups."""
        return [*self.forms, *self.groups]

    @property
    def headlines(self) -> list[FormResult | GroupResult]:
        """The outermost groups with a score, then the forms with one that are in none of them."""
        groups = [group for group in self.groups if group.has_score and group.depth == 0]
        inside = {name for group in groups for name in group.forms}
        return [*groups, *(form for form in self.forms if form.name not in inside and form.has_score)]

    @property
    def model_name(self) -> str:
        """What the model is called: by the label of a sweep, by its own name, or by its kind."""
        return str(self.run.get("label") or self.provenance.get("model_name") or self.run.get("model") or "model")

    def __iter__(self) -> Iterator[str]:
        yield from (group.name for group in self.groups)
        yield from (form.name for form in self.forms)

    def __len__(self) -> int:
        return len(self.forms) + len(self.groups)

    def __repr__(self) -> str:
        if "plan" in self.run:
            return f"<Results: plan only; {self.run['plan']}>"
        lines = [f"  {entry.summary}" for entry in self.entries if entry.estimates]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        kind = "Results" if self.status == "complete" else f"Partial results ({self.status})"
        return "\n".join(
            [f"<{kind} of {self.run.get('model')}: {quantity(len(self.forms), 'form')}>", *lines[:_SHOWN], *more]
        )
