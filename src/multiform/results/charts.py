"""Charts: a function for each, which returns its description as a `ChartSpec`, data with its encoding.

`results/drawing.py` makes an Altair chart of any of them, and the page draws the same descriptions. A new chart
is a function here and an entry of `CHARTS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from typing import Any, Literal

from multiform.errors import DataError, quantity
from multiform.results.compare import ScoredForm, calibration_of_form, chance_level, position_bias_of_form, scoring_of
from multiform.results.extraction import extraction_of
from multiform.results.form_comparison import FormComparison
from multiform.results.pivot import best_forms, named_comparisons, shown_comparisons
from multiform.results.samples import choices_and_labels
from multiform.results.values import FormResult, GroupResult, ResultsData, direction_words
from multiform.statistics.predictions import Calibration, PositionBias

#: The colours of categories, which colour-blind readers can tell apart (Okabe and Ito), and of the lowest and highest
#: value of cells.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CELLS = ("#f7fbff", "#08519c")
#: The most rows that a text alternative has.
_TEXT_ROWS = 20
#: Metrics without an upper bound, and those of another range than 0 to 1.
_UNBOUNDED = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_byte_mean")
_RANGES = {"mcc": (-1.0, 1.0), "bleu": (0.0, 100.0), "chrf": (0.0, 100.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """A column of the rows, and its axis: from `low` to `high` for numbers, else `names` or those of the rows."""

    field: str
    title: str | None = None
    low: float | None = None
    high: float | None = None
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """One coordinate system with its data.

    An interval is a point at `x` with a line from the columns `low` to `high`; a cell is coloured by `value`; a bar
    begins at 0; a line joins points whose size is the column `n`.
    """

    mark: Literal["interval", "cell", "bar", "line"]
    x: ChartAxis
    y: ChartAxis
    rows: Sequence[Mapping[str, Any]]
    title: str | None = None
    #: The column whose values have different colours, and these values in the order of the palette; by default, the
    #: order of the rows.
    color: str | None = None
    domain: Sequence[str] | None = None
    #: The axis of the cells' colours, and the column that is written into them; by default, the value itself.
    value: ChartAxis | None = None
    label: str | None = None
    #: A column that is marked by a tick on the axis of numbers, such as what chance alone would show.
    tick: str | None = None
    #: Reference lines across the axis of numbers, by what they mean, such as the chance level.
    lines: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A chart: its panels, and a text that says what it shows."""

    name: str
    panels: Sequence[ChartPanel]
    text: str
    columns: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON."""
        return {**asdict(self), "palette": PALETTE}


#: What stands for the format of a task's own prompt.
_AS_WRITTEN = "as written"
#: The longest name of a format that charts show whole.
_LONGEST = 24


def short_formats(forms: Iterable[FormResult]) -> dict[str, str]:
    """The short label of each format in charts: its name, or a number where a variation's name is too long."""
    labels = dict.fromkeys(form.format_label or _AS_WRITTEN for form in forms)
    long = [label for label in labels if len(label) > _LONGEST]
    numbers = {label: f"{label.partition('[')[0][:_LONGEST]} [{at}]" for at, label in enumerate(long, start=1)}
    return {label: numbers.get(label, label) for label in labels}


def metric_axis(metric: str, rows: Sequence[Mapping[str, Any]]) -> ChartAxis:
    """The axis of a metric, which does not depend on the scores where the metric has a range.

    >>> axis = metric_axis("accuracy", [{"score": 0.43, "low": 0.41, "high": 0.45}])
    >>> axis.low, axis.high
    (0.0, 1.0)
    """
    values = [row[name] for row in rows for name in ("score", "low", "high") if row.get(name) is not None]
    low, high = _RANGES.get(metric, (0.0, 1.0))
    if metric in _UNBOUNDED or not all(low <= value <= high for value in values):
        low, high = -_ceiling(-min(values)) if min(values) < 0 else 0.0, _ceiling(max(values))
    return ChartAxis(field="score", title=metric, low=low, high=high)


def _ceiling(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 and so on."""
    steps = (factor * 10.0**power for power in range(9) for factor in (1, 2, 5))
    return next((step for step in steps if value <= step), value)


def difference_end(rows: Iterable[Mapping[str, Any]], field: str) -> float:
    """The end of an axis of differences: a tenth, a fifth, half or all of the range, so that charts can be compared."""
    bounds = [abs(row[name]) for row in rows for name in (field, "low", "high") if row.get(name) is not None]
    largest = max(bounds, default=0.0)
    return next((step for step in (0.1, 0.2, 0.5) if largest <= step), _ceiling(largest))


def describe_chart(name: str, title: str, panels: Sequence[ChartPanel], *, columns: int = 1) -> ChartSpec:
    """A chart with a text that says what it shows."""
    lines = [_row_words(panel, row) for panel in panels for row in panel.rows]
    more = [f"and {len(lines) - _TEXT_ROWS} more"] if len(lines) > _TEXT_ROWS else []
    text = f"{title}: {'; '.join([*lines[:_TEXT_ROWS], *more])}"
    return ChartSpec(name=name, panels=panels, text=text, columns=columns)


def _row_words(panel: ChartPanel, row: Mapping[str, Any]) -> str:
    """What a row of a panel shows, in words."""
    number = panel.value or (panel.x if panel.mark == "interval" else panel.y)
    places = [row[axis.field] for axis in (panel.y, panel.x) if axis is not number]
    where = ", ".join(f"{place:.2f}" if isinstance(place, float) else str(place) for place in places)
    low, high = row.get("low"), row.get("high")
    interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
    return f"{where}: {row[number.field]:.3f}{interval}"


#: The most differences that are drawn, and the most forms of groups.
_PAIRS = _FORMS = 60
#: What is scored, in the order of the palette.
SCORINGS = ("ranked", "generated", "likelihood")


def overview_chart(results: ResultsData) -> ChartSpec:
    """Every score on one axis for each metric: a row for each form of a single task, else for each group and task."""
    return describe_chart("overview", "scores with 95 % intervals", _score_panels(results))


def scores_chart(results: ResultsData) -> ChartSpec:
    """The first score of every form with its 95 % interval, the best of each task first; the chance level as a line.

    Of many forms those in groups are left out, for whom their groups stand.
    """
    tasks = list(dict.fromkeys(form.task for form in results.forms))
    panels = []
    for panel in _score_panels(results):
        sign = -1 if (panel.title or "").endswith("↑") else 1
        rows = [row for row in panel.rows if row["kind"] == "form"]
        rows.sort(key=lambda row: (tasks.index(row["task"]), sign * row["score"]))
        title, inside = panel.title, sum(row["parent"] is not None for row in rows)
        if inside and len(rows) > _FORMS:
            groups = [row for row in panel.rows if row["kind"] == "group"]
            rows = [*groups, *(row for row in rows if row["parent"] is None)]
            title = f"{title}, without the {inside} forms in groups"
        if rows:
            panels.append(replace(panel, title=title, y=ChartAxis(field="form"), rows=rows))
    return describe_chart("scores", "scores with 95 % intervals", panels)


def _score_panels(results: ResultsData) -> list[ChartPanel]:
    """A panel for each family of metrics, with the scores of groups, then those of forms, the best first.

    A single task or group has a row for each of its forms, several have one for each task and group. Rows name the
    group that they belong to in `parent`, which is the number of its tasks where the group has no row of its own.
    `missing` is the share of completions without an extracted answer, if all forms of the row generate, and `best` says
    that a form cannot be told from the best one.
    """
    forms = [form for form in results.forms if form.has_score]
    if not forms:
        raise DataError("there are no scores to draw", where="chart", hint="run without --predict_only")
    by_name = {form.name: form for form in forms}
    groups = [group for group in results.groups if group.estimates and any(name in by_name for name in group.forms)]
    inside = {name for group in groups for name in group.forms}
    outermost = {group.path for group in groups if group.depth == 0}
    outermost |= {form.task for form in forms if form.name not in inside}
    single = outermost if len(outermost) == 1 else set()
    parents = {name: group.path for group in sorted(groups, key=lambda group: group.depth) for name in group.forms}
    parents |= {inner: group.path for group in groups for inner in group.members if inner not in by_name}
    best = {name for comparison in shown_comparisons(results) for name in best_forms(comparison)}
    chances = {form.name: chance_level(form.samples) for form in forms if ScoredForm.of(form).family == "accuracy"}
    read = {form.name: extraction for form in forms if (extraction := extraction_of(form)) is not None}
    families: dict[str, list[dict[str, Any]]] = {}
    entries: list[FormResult | GroupResult] = [*groups, *forms]
    # Its only row is a better name for a task or group than "as written", which tells it from other forms.
    lone = _AS_WRITTEN if sum(entry.base in single for entry in entries) == 1 else None
    for entry in entries:
        members = [entry] if isinstance(entry, FormResult) else [by_name[n] for n in entry.forms if n in by_name]
        estimate, label = entry.score, _format_name(entry)
        if not math.isfinite(estimate.value):
            continue
        missing = [read[form.name].missing.value * form.n for form in members if form.name in read]
        family = ScoredForm.of(members[0]).family if members[0].metric == entry.metric else None
        families.setdefault(family or entry.metric, []).append(
            {
                "row": label if entry.base in single and label != lone else entry.base,
                "form": entry.name,
                "task": entry.base,
                "format": label,
                "metric": direction_words(entry.metric, entry.higher),
                "scoring": "likelihood" if entry.metric in _UNBOUNDED else scoring_of(members[0]),
                "score": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": entry.n,
                "missing": sum(missing) / sum(form.n for form in members) if len(missing) == len(members) else None,
                "best": entry.name in best,
                "chance": chances.get(entry.name),
                "kind": "form" if isinstance(entry, FormResult) else "group",
                "parent": parents.get(entry.name),
            }
        )
    for rows in families.values():
        tasks = len({row["task"] for row in rows if row["kind"] == "form" and row["parent"] is not None})
        for row in rows:
            if row["parent"] in single:
                row["parent"] = f"{quantity(tasks, 'task')} of {row['parent']}"
    return [_score_panel(family, rows) for family, rows in families.items()]


def _score_panel(family: str, rows: list[dict[str, Any]]) -> ChartPanel:
    """The scores of one family of metrics; chance levels are a line where all forms have the same, else ticks."""
    higher = not any(row["metric"].endswith("↓") for row in rows)
    best: dict[str, float] = {}
    for row in rows:
        score = -row["score"] if higher else row["score"]
        best[row["row"]] = min(score, best.get(row["row"], score))
    rows.sort(key=lambda row: (row["kind"] == "form", best[row["row"]]))
    chances = {row["chance"] for row in rows if row["chance"] is not None}
    return ChartPanel(
        mark="interval",
        title=direction_words(family, higher),
        x=metric_axis(family, rows),
        y=ChartAxis(field="row", names=list(dict.fromkeys(row["row"] for row in rows))),
        color="scoring",
        domain=SCORINGS,
        rows=rows,
        lines={"chance": chances.pop()} if len(chances) == 1 else None,
        tick="chance" if len(chances) > 1 else None,
    )


def spread_chart(results: ResultsData) -> ChartSpec:
    """How much better the best form of each task is than the worst; a tick is what equally good forms would show."""
    rows = [
        {"task": name, "scoring": comparison.scoring, "spread": spread.spread.value, "low": spread.spread.low}
        | {"high": spread.spread.high, "by_chance": spread.by_chance, "p": spread.p}
        for name, comparison in named_comparisons(results)
        if (spread := comparison.spread) is not None
    ]
    if not rows:
        raise _nothing_to_compare()
    panel = ChartPanel(
        mark="interval",
        x=ChartAxis(field="spread", title="best − worst", low=0.0, high=difference_end(rows, "spread")),
        y=ChartAxis(field="task"),
        color="scoring",
        tick="by_chance",
        rows=rows,
    )
    return describe_chart("spread", "best minus worst form with 95 % intervals", [panel])


def heatmap_chart(results: ResultsData) -> ChartSpec:
    """Scores by task and format, darker where they are higher; of the metric that most forms have."""
    forms = {form.name: index for index, form in enumerate(results.forms)}
    panels = [(panel.x, [row for row in panel.rows if row["form"] in forms]) for panel in _score_panels(results)]
    axis, rows = max(panels, key=lambda panel: len(panel[1]))
    rows.sort(key=lambda row: forms[row["form"]])
    x, y = ChartAxis(field="format"), ChartAxis(field="task")
    panel = ChartPanel(mark="cell", title=axis.title, x=x, y=y, value=axis, rows=rows)
    return describe_chart("heatmap", f"{axis.title} by task and format", [panel])


def differences_chart(results: ResultsData) -> ChartSpec:
    """The paired differences between the forms of each task or group, of many the largest.

    The intervals hold for all pairs of a task at once, as the p values do.
    """
    comparisons = [comparison for comparison in shown_comparisons(results) if len(comparison.forms) > 1]
    if not comparisons:
        raise _nothing_to_compare()
    rows = [row for comparison in comparisons for row in difference_rows(comparison)]
    largest = sorted(rows, key=lambda row: -abs(row["difference"]))[:_PAIRS]
    drawn = [row for row in rows if row in largest]
    title = None if len(drawn) == len(rows) else f"the {len(drawn)} largest of {len(rows):,} differences"
    panel = difference_panel(drawn, title=title)
    return describe_chart("differences", "differences between forms", [panel])


def difference_rows(comparison: FormComparison, name: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """A row for each pair of forms, the higher score minus the other; `name` is how a form is called."""
    rows = []
    for pair in comparison.differences:
        sign = 1 if pair.estimate.value >= 0 else -1
        first, second = (name(comparison.forms[index]) for index in (pair.first, pair.second)[::sign])
        low, high = sorted(sign * bound for bound in pair.simultaneous.interval)
        row = {"pair": f"{first} − {second}", "task": comparison.name, "difference": abs(pair.estimate.value)}
        rows.append({**row, "low": low, "high": high, "p": pair.p_simultaneous})
    return rows


def difference_panel(
    rows: Sequence[Mapping[str, Any]], *, field: str = "pair", title: str | None = None, end: float | None = None
) -> ChartPanel:
    """Differences on an axis from -`end` to `end`, by default as far as they go; `field` has their names."""
    end = difference_end(rows, "difference") if end is None else end
    axis = ChartAxis(field="difference", title="difference", low=-end, high=end)
    y = ChartAxis(field=field)
    return ChartPanel(mark="interval", title=title, x=axis, y=y, rows=rows, lines={"no difference": 0.0})


def flips_chart(results: ResultsData) -> ChartSpec:
    """How many documents one form gets right and another wrong, for each pair of forms, over all tasks together."""
    right: dict[str, set[tuple[str, Any]]] = {}
    wrong: dict[str, set[tuple[str, Any]]] = {}
    for form in results.forms:
        scored = ScoredForm.of(form)
        if scored.family == "accuracy" and form.higher and not form.control:
            label = _format_name(form)
            values = scored.values.items()
            right.setdefault(label, set()).update((form.task, doc) for doc, value in values if value == 1)
            wrong.setdefault(label, set()).update((form.task, doc) for doc, value in values if value == 0)
    rows = []
    for first, second in permutations(right, 2):
        shared = len((right[first] | wrong[first]) & (right[second] | wrong[second]))
        if shared:
            number = len(right[first] & wrong[second])
            rows.append({"right": first, "wrong": second, "documents": number, "share": number / shared})
    if not rows:
        raise _nothing_to_compare()
    names = [label for label in right if any(row["right"] == label for row in rows)]
    x, y = (ChartAxis(field=field, title=field, names=names) for field in ("wrong", "right"))
    value = ChartAxis(field="share", title="share of documents", low=0.0, high=1.0)
    panel = ChartPanel(mark="cell", x=x, y=y, value=value, label="documents", rows=rows)
    return describe_chart("flips", "share of documents that are right under one form and wrong under another", [panel])


def position_bias_chart(results: ResultsData) -> ChartSpec:
    """How often each position among the choices is picked (bars), and how often it is right (ticks)."""
    panels = [position_panel(form, bias) for form, bias in _measures(results, position_bias_of_form)]
    return describe_chart("position_bias", "how often each position is picked", panels, columns=4)


def position_panel(form: FormResult, bias: PositionBias) -> ChartPanel:
    """How often each position is picked and right under one form, by the labels of its choices."""
    labels = choices_and_labels(form.samples[0].sample)[1]
    rows = [
        {
            "position": labels[index] if index < len(labels) else str(index + 1),
            "picked": position.picked.value,
            "right": position.gold.value,
        }
        for index, position in enumerate(bias.positions)
    ]
    y = ChartAxis(field="picked", title="share of documents", low=0.0, high=1.0)
    x = ChartAxis(field="position", title="position")
    return ChartPanel(mark="bar", title=form.name, x=x, y=y, tick="right", rows=rows)


def calibration_chart(results: ResultsData) -> ChartSpec:
    """How often the picked choice is right, by how sure the model is of it."""
    panels = [calibration_panel(form, result) for form, result in _measures(results, calibration_of_form)]
    if len(panels) > len(PALETTE):
        panels = [replace(panel, title=panel.rows[0]["form"]) for panel in panels]
    else:
        panels = [replace(panels[0], rows=[row for panel in panels for row in panel.rows])]
    return describe_chart("calibration", "accuracy by confidence", panels, columns=4)


def calibration_panel(form: FormResult, result: Calibration) -> ChartPanel:
    """How often the picked choice of one form is right, in bins of its probability."""
    name = f"{form.name} (ECE {result.error.value:.3f}, {result.error.interval_text()})"
    rows = [
        {"form": name, "confidence": part.confidence, "accuracy": part.accuracy, "n": part.n}
        for part in result.bins
        if part.n
    ]
    x = ChartAxis(field="confidence", title="probability of the picked choice", low=0.0, high=1.0)
    y = ChartAxis(field="accuracy", title="share that is right", low=0.0, high=1.0)
    return ChartPanel(mark="line", x=x, y=y, color="form", rows=rows)


#: The charts of a run by their names, also on the command line.
CHARTS: Mapping[str, Callable[[ResultsData], ChartSpec]] = {
    "scores": scores_chart,
    "heatmap": heatmap_chart,
    "spread": spread_chart,
    "differences": differences_chart,
    "flips": flips_chart,
    "position_bias": position_bias_chart,
    "calibration": calibration_chart,
}


def _nothing_to_compare() -> DataError:
    message = "no task has two forms with scores of the same documents"
    return DataError(message, where="chart", hint="run a task under several formats, e.g. quiz@mcqa+cloze")


def _measures(results: ResultsData, measure: Callable[..., Any]) -> list[tuple[FormResult, Any]]:
    """A measure of each form that has it."""
    known = [(form, value) for form in results.forms if (value := measure(form)) is not None]
    if not known:
        message = "no form ranks choices of equal number on enough documents"
        raise DataError(message, where="chart", hint="run a task with choices, e.g. quiz@mcqa")
    return known


def _format_name(entry: FormResult | GroupResult) -> str:
    label = entry.format_label if isinstance(entry, FormResult) else entry.name.partition("@")[2]
    return label or _AS_WRITTEN
