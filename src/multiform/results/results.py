"""Results: the scores of all forms and groups of a run, with what is needed to reproduce them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from multiform.errors import MultiformError, RunInterrupted, UsageError, shorten
from multiform.forms import ScoredSample
from multiform.requests import Ending
from multiform.results.failures import FailedDoc
from multiform.results.scores import Scores, no_such_form
from multiform.scoring.groups import group_scores
from multiform.statistics.estimates import Estimate
from multiform.tasks import Group, node_name

if TYPE_CHECKING:
    from pandas import DataFrame

    from multiform.results.charts import Charts
    from multiform.results.form_comparison import FormComparison

#: The order in which lm-eval writes the metrics of an output type, whatever that of `metric_list`.
_METRIC_ORDER = {
    "multiple_choice": ("acc", "f1", "mcc", "acc_norm", "acc_bytes", "exact_match", "brier_score", "likelihood",
                        "acc_mutual_info"),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FormResult:
    """The scores and samples of one form: a task under one format."""

    form: str
    task: str
    alias: str
    #: Short hash of the resolved format, few-shot setting and overrides.
    identity: str
    version: Any
    #: The number of few-shot examples as shown, which the task's metadata may override.
    num_fewshot: Any
    total_docs: int
    estimates: Mapping[str, Estimate]
    higher_is_better: Mapping[str, bool]
    #: The task's configuration with the exact templates of its prompts.
    config: Mapping[str, Any]
    #: The fields of the question, choices and answer, before any format.
    mapping: Mapping[str, Any]
    format: Mapping[str, Any] | None
    #: The name of the format after ``@``, or in the task's `formats`.
    format_label: str | None
    overridden: Sequence[str]
    samples: Sequence[ScoredSample]
    #: The column whose equal values make documents dependent, such as the passage of several questions.
    cluster: str | None = None
    #: The documents whose requests failed.
    failed: Sequence[FailedDoc] = ()
    #: The lowest and highest value that a score can have, whatever the failed documents would have got.
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the form, which results are keyed by."""
        return self.form

    @property
    def n(self) -> int:
        """The number of documents that were evaluated."""
        if not self.samples:  # read from a results file without its samples
            return max((estimate.n for estimate in self.estimates.values()), default=0)
        return len({sample.doc_id for sample in self.samples})

    @property
    def truncated_contexts(self) -> int:
        """The number of documents whose prompts lost their beginning, as they do not fit into the model's context."""
        return len({sample.doc_id for sample in self.samples if sample.context_truncated})

    @property
    def ties(self) -> int:
        """The number of documents in which several choices share the best log-likelihood."""
        return len({sample.doc_id for sample in self.samples if sample.tied})

    @property
    def endings(self) -> dict[str, int]:
        """The number of documents with a completion that was refused, filtered, cut off, or ended in another way."""
        by_doc = {sample.doc_id: sample.endings for sample in self.samples}
        counts = {ending: sum(ending in endings for endings in by_doc.values()) for ending in get_args(Ending)}
        return {ending: number for ending, number in counts.items() if number}

    @property
    def primary(self) -> str:
        """The key of the form's first metric, which tables show first."""
        return next(iter(self.estimates))

    def __repr__(self) -> str:
        return f"<FormResult of {_line(self)}>"

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        estimates = {key: self.estimates[key] for key in metrics_in_order(self.estimates, self.config)}
        return {"name": self.name, "alias": self.alias, "sample_len": self.n, **_scores(estimates)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The scores of a group of forms."""

    name: str
    alias: str
    #: How many groups this one is nested in.
    depth: int
    #: Names of the tasks and groups in the group.
    members: Sequence[str]
    version: Any
    num_fewshot: Any
    estimates: Mapping[str, Estimate]
    higher_is_better: Mapping[str, bool]
    n: int
    #: The name without the format.
    path: str = ""
    #: Names of all forms below the group.
    forms: Sequence[str] = ()
    #: Whether the group's first metric weighs tasks by their numbers of documents.
    weight_by_size: bool = True
    #: How many documents of its forms failed.
    failed: int = 0
    #: The lowest and highest value that a score can have, whatever the failed documents would have got.
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<GroupResult of {_line(self)}>"

    def scores(self) -> dict[str, Any]:
        """The scores as lm-eval writes them."""
        named = {"alias": self.alias, "name": self.name}
        if not self.estimates:
            return named
        counts = {key: estimate.n for key, estimate in self.estimates.items()}
        return {**named, "sample_len": self.n, **_scores(self.estimates), "sample_count": counts}


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


def _scores(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        values[key] = estimate.value
        values[f"{metric}_stderr,{scorer}"] = "N/A" if estimate.stderr is None else estimate.stderr
    return values


#: The largest number of lines of a `repr`.
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Mapping[str, Scores]):
    """The results of a run: a mapping of forms and groups to scores, as in ``results["arc_easy@mcqa"]["acc"]``."""

    forms: Sequence[FormResult]
    #: The settings of the run: model, arguments, seeds and so on.
    run: Mapping[str, Any]
    #: When, where and with which software the run was done.
    provenance: Mapping[str, Any]
    groups: Sequence[GroupResult] = ()
    #: The forms of each task and group that was run under several, compared on the same documents.
    comparisons: Sequence[FormComparison] = ()
    #: "complete", or why they are partial: "stopped" by a signal, or "failed".
    status: Literal["complete", "stopped", "failed"] = "complete"
    #: The files that the run has written.
    files: Sequence[Path] = field(default=(), compare=False)
    #: What kept the run from being complete.
    problem: MultiformError | RunInterrupted | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Scores:
        for entry in self.entries:
            if entry.name == name:
                return Scores(name, entry.scores())
        raise no_such_form(name, self)

    @property
    def entries(self) -> list[FormResult | GroupResult]:
        """All forms, then all groups."""
        return [*self.forms, *self.groups]

    def __iter__(self) -> Iterator[str]:
        yield from (group.name for group in self.groups)
        yield from (form.name for form in self.forms)

    def __len__(self) -> int:
        return len(self.forms) + len(self.groups)

    def samples(self, name: str | None = None) -> list[dict[str, Any]]:
        """The samples of a form, as lines of a samples file: documents with their prompts, responses and values.

        Without a name: a flat row for each sample of every form, as in `to_pandas`.
        """
        from multiform.results.rows import sample_rows
        from multiform.results.samples import sample_lines

        if name is None:
            return list(sample_rows(self.forms))
        for form in self.forms:
            if form.name == name:
                return list(sample_lines(form))
        raise no_such_form(name, [form.name for form in self.forms])

    def save(self, path: str | Path, *, samples: bool = True) -> list[Path]:
        """Write the results, and the samples of each form, to a folder or .json file; returns the written files."""
        from multiform.results.export import write_results

        return write_results(self, Path(path), samples=samples)

    def table(self, style: str | None = None, *, width: int = 80) -> str:
        """The scores as text: a "long", "pivot", "markdown", "csv" or "latex" table, as the command line prints it."""
        from multiform.results.table import table_text

        return table_text(self, style, width=width)

    def to_pandas(self, table: Literal["samples", "scores"] = "samples") -> DataFrame:
        """A data frame with a row for each sample of each form: its prompt, choices, log-likelihoods, gold, scores.

        `table="scores"` has a row for each metric and filter of each form and group.
        """
        from multiform.results.frame import samples_frame, scores_frame

        if table not in ("samples", "scores"):
            hint = "give 'samples' or 'scores'"
            raise UsageError(f"expected one of two tables, got {shorten(table)}", where="to_pandas", hint=hint)
        return samples_frame(self) if table == "samples" else scores_frame(self)

    @property
    def chart(self) -> Charts:
        """The charts of the run, as Altair objects: ``results.chart.scores()``, ``.heatmap()`` and so on."""
        from multiform.results.charts import Charts

        return Charts(self)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the rows of `to_pandas` to a Parquet file; returns its path."""
        from multiform.results.rows import write_parquet

        return write_parquet(self.forms, Path(path))

    def __repr__(self) -> str:
        if "plan" in self.run:
            return f"<Results: plan only; {self.run['plan']}>"
        lines = [f"  {_line(entry)}" for entry in self.entries if entry.estimates]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        kind = "Results" if self.status == "complete" else f"Partial results ({self.status})"
        return "\n".join([f"<{kind} of {self.run.get('model')}: {len(self.forms)} forms>", *lines[:_SHOWN], *more])

    def _repr_html_(self) -> str:
        from multiform.results.frame import html_table

        return html_table(self)


def _line(entry: FormResult | GroupResult) -> str:
    """A form or group on one line, with its first score."""
    if not entry.estimates:
        return f"{entry.name}: no scores"
    key, estimate = next(iter(entry.estimates.items()))
    error = "" if estimate.stderr is None else f" ± {estimate.stderr:.4f}"
    return f"{entry.name}: {key.partition(',')[0]} {estimate.value:.4f}{error} (n={estimate.n})"


def group_results(group: Group, forms: Mapping[str, FormResult], depth: int = 0) -> list[GroupResult]:
    """The result of a group, followed by the results of the groups in it; `forms` has the results of all forms."""
    inside = [forms[task.form_name] for task in group.tasks() if task.form_name in forms]
    shots = {form.num_fewshot for form in inside}
    config = group.config
    result = GroupResult(
        name=group.name,
        alias=config.group_alias or group.name,
        depth=depth,
        members=[node_name(member) for member in group.members],
        version=str((config.metadata or {}).get("version", "N/A")),
        num_fewshot=shots.pop() if len(shots) == 1 else "mixed",
        estimates=group_scores(_aggregates(group, inside), [form.estimates for form in inside]),
        higher_is_better={key: value for form in inside for key, value in form.higher_is_better.items()},
        n=sum(form.n for form in inside),
        path=group.path,
        forms=[form.name for form in inside],
        weight_by_size=all(entry.get("weight_by_size", True) for entry in config.aggregates()[:1]),
        failed=sum(len(form.failed) for form in inside),
        bounds=_group_bounds(group, inside) if any(form.failed for form in inside) else {},
    )
    below = [
        inner
        for member in group.members
        if isinstance(member, Group)
        for inner in group_results(member, forms, depth + 1)
    ]
    return [result, *below]


def _aggregates(group: Group, forms: Sequence[FormResult]) -> list[dict[str, Any]]:
    """How a group's scores are aggregated: by its `aggregate_metric_list`.

    Where the format that was selected for the group has replaced all of these metrics, by the first of its forms.
    """
    aggregates = group.config.aggregates()
    metrics = {form.primary.partition(",")[0] for form in forms if form.estimates}
    known = group_scores(aggregates, [form.estimates for form in forms])
    if known or not aggregates or group.label is None or len(metrics) != 1:
        return aggregates
    return [{**{key: value for key, value in aggregates[0].items() if key != "filter_list"}, "metric": metrics.pop()}]


def _group_bounds(group: Group, forms: Sequence[FormResult]) -> dict[str, tuple[float, float]]:
    """The bounds of a group's scores, aggregated from those of its forms; where one has none, neither has the group."""
    unknown = {key for form in forms if form.failed for key in form.estimates if key not in form.bounds}
    low, high = (
        group_scores(_aggregates(group, forms), [_bounding(form, side, unknown) for form in forms]) for side in (0, 1)
    )
    return {key: (low[key].value, high[key].value) for key in low}


def _bounding(form: FormResult, side: int, unknown: set[str]) -> dict[str, Estimate]:
    """The scores of a form with all failed documents wrong (side 0) or right (side 1)."""
    evaluated = len({sample.doc_id for sample in form.samples} | {doc.doc_id for doc in form.failed})
    return {
        key: Estimate(value=form.bounds[key][side] if key in form.bounds else estimate.value, n=evaluated)
        for key, estimate in form.estimates.items()
        if key not in unknown
    }
