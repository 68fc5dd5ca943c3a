"""Charts of results, as Altair objects: they show themselves in a notebook and save as SVG, PNG or HTML, offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.errors import DataError, UsageError
from multiform.paths import replace_output
from multiform.results.compare import calibration_of, document_values, metric_family, position_bias_of
from multiform.results.form_comparison import FormComparison
from multiform.results.pivot import shown_comparisons
from multiform.results.results import FormResult, Results

if TYPE_CHECKING:
    from altair import Chart

#: The charts by their names on the command line.
CHARTS = ("scores", "heatmap", "differences", "flips", "position_bias", "calibration")
#: The most differences that are drawn.
_PAIRS = 60
_SUFFIXES = (".svg", ".png", ".html")
#: Axes cut no name: those of variations begin alike.
_WHOLE_NAMES = {"labelLimit": 0}


class Charts:
    """The charts of a run: ``results.chart.scores()`` and so on."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def __repr__(self) -> str:
        return f"<Charts: {', '.join(f'{name}()' for name in CHARTS)}>"

    def scores(self) -> Chart:
        """The first score of every form with its 95 % interval."""
        rows = [
            {
                "form": form.name,
                "task": form.task,
                "metric": _metric(form),
                "score": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
            }
            for form in self._scored()
            for estimate in [form.estimates[form.primary]]
        ]
        return _intervals(rows, x="score", y="form", facet="metric")

    def heatmap(self) -> Chart:
        """Scores by task and format, darker where they are higher; of the metric that most forms have."""
        alt = _altair()
        families = [metric_family(form) or _metric(form) for form in self._scored()]
        shown = max(dict.fromkeys(families), key=families.count)
        rows = [
            {
                "task": form.task,
                "format": form.format_label or "as it is",
                "metric": _metric(form),
                "score": form.estimates[form.primary].value,
            }
            for form, family in zip(self._scored(), families, strict=True)
            if family == shown
        ]
        base = alt.Chart(_data(rows)).encode(
            x=alt.X("format:N", title=None, axis=_WHOLE_NAMES), y=alt.Y("task:N", title=None, axis=_WHOLE_NAMES)
        )
        cells = base.mark_rect().encode(
            color=alt.Color("score:Q"), tooltip=["task:N", "format:N", "metric:N", "score:Q"]
        )
        return _cells(cells, base.mark_text().encode(text=alt.Text("score:Q", format=".3f"))).properties(title=shown)

    def differences(self) -> Chart:
        """The paired differences between the forms of each task or group, with 95 % intervals; of many, the largest."""
        alt = _altair()
        rows: list[dict[str, Any]] = [
            {
                "pair": f"{comparison.forms[pair.first]} − {comparison.forms[pair.second]}",
                "task": comparison.name,
                "difference": pair.estimate.value,
                "low": pair.estimate.low,
                "high": pair.estimate.high,
                "p_holm": pair.p_holm,
            }
            for comparison in self._comparisons()
            for pair in comparison.differences
        ]
        largest = sorted(rows, key=lambda row: -abs(row["difference"]))[:_PAIRS]
        drawn = [row for row in rows if row in largest]
        zero = alt.Chart(_data([{"zero": 0}])).mark_rule(strokeDash=[4, 4]).encode(x="zero:Q")
        chart = _intervals(drawn, x="difference", y="pair") + zero
        if len(drawn) == len(rows):
            return chart
        return chart.properties(title=f"the {len(drawn)} largest of {len(rows):,} differences")

    def flips(self) -> Chart:
        """The share of documents that are right under one form and wrong under the other, for each pair of forms."""
        alt = _altair()
        rows = []
        scores = self._document_scores()
        for comparison in self._comparisons():
            for first, second in permutations(comparison.forms, 2):
                a, b = scores.get(first, {}), scores.get(second, {})
                shared = [doc for doc in a if doc in b]
                if shared:
                    share = sum(a[doc] != b[doc] for doc in shared) / len(shared)
                    rows.append({"form": first, "other": second, "flips": share})
        base = alt.Chart(_data(rows)).encode(
            x=alt.X("form:N", title=None, axis=_WHOLE_NAMES), y=alt.Y("other:N", title=None, axis=_WHOLE_NAMES)
        )
        cells = base.mark_rect().encode(color=alt.Color("flips:Q", title="flip rate"))
        return _cells(cells, base.mark_text().encode(text=alt.Text("flips:Q", format=".2f")))

    def position_bias(self) -> Chart:
        """How often each position among the choices is picked (bars), and how often it is right (ticks)."""
        alt = _altair()
        rows = []
        for form, bias in self._ranked(position_bias_of):
            for index, position in enumerate(bias.positions):
                where = {"form": form.name, "position": index + 1}
                rows.append({**where, "picked": position.picked.value, "right": position.gold.value})
        base = alt.Chart(_data(rows)).encode(x=alt.X("position:O"))
        bars = base.mark_bar(opacity=0.5).encode(y=alt.Y("picked:Q", title="share of documents"))
        ticks = base.mark_tick(color="black", thickness=2).encode(y="right:Q")
        return (bars + ticks).properties(width=140, height=140).facet("form:N", columns=4)

    def calibration(self) -> Chart:
        """How often the picked choice is right, by how sure the model is of it."""
        alt = _altair()
        rows = []
        for form, result in self._ranked(calibration_of):
            low, high = result.error.interval
            name = f"{form.name} (ECE {result.error.value:.3f}, {low:.3f} to {high:.3f})"
            for part in result.bins:
                rows.append({"form": name, "confidence": part.confidence, "accuracy": part.accuracy, "n": part.n})
        scale = alt.Scale(domain=[0, 1])
        base = alt.Chart(_data(rows)).encode(
            x=alt.X("confidence:Q", scale=scale),
            y=alt.Y("accuracy:Q", scale=scale),
            color=alt.Color("form:N", title=None),
        )
        ideal = alt.Chart(_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(strokeDash=[4, 4], color="gray")
        diagonal = ideal.encode(x=alt.X("x:Q", title="confidence"), y=alt.Y("y:Q", title="accuracy"))
        return base.mark_line() + base.mark_circle().encode(size="n:Q") + diagonal

    def _document_scores(self) -> dict[str, dict[tuple[str, int], Any]]:
        """The score of each document under every form, and under every group's forms."""
        scores = {
            form.name: {(form.task, doc): value for doc, value in document_values(form).items()}
            for form in self._results.forms
            if form.estimates
        }
        pooled = {}
        for group in self._results.groups:
            members = [scores[name] for name in group.forms if name in scores]
            pooled[group.name] = {doc: value for part in members for doc, value in part.items()}
        return scores | pooled

    def _scored(self) -> list[FormResult]:
        forms = [form for form in self._results.forms if form.estimates]
        if not forms:
            raise DataError("there are no scores to draw", where="chart", hint="run without --predict_only")
        return forms

    def _comparisons(self) -> list[FormComparison]:
        comparisons = [comparison for comparison in shown_comparisons(self._results) if len(comparison.forms) > 1]
        if not comparisons:
            message = "no task has two forms with scores of the same documents"
            raise DataError(message, where="chart", hint="run a task under several formats, e.g. quiz@mcqa+cloze")
        return comparisons

    def _ranked(self, measure: Any) -> list[tuple[FormResult, Any]]:
        measured = [(form, measure(form.samples)) for form in self._results.forms]
        known = [(form, value) for form, value in measured if value is not None]
        if not known:
            message = "no form ranks choices of equal number on enough documents"
            raise DataError(message, where="chart", hint="run a task with choices, e.g. quiz@mcqa")
        return known


def save_chart(results: Results, name: str, path: str | Path) -> Path:
    """Draw one of the charts into an SVG, PNG or HTML file; returns its path."""
    path = Path(path)
    if name not in CHARTS:
        raise UsageError(f"no chart '{name}'", where="--chart", hint=f"there are: {', '.join(CHARTS)}")
    if path.suffix not in _SUFFIXES:
        message = f"'{path.suffix}' is no kind of picture that can be written"
        raise UsageError(message, where=str(path), hint=f"name a file that ends with {', '.join(_SUFFIXES)}")
    chart = getattr(Charts(results), name)()
    with replace_output(path) as file:
        chart.save(str(file), **({"inline": True} if path.suffix == ".html" else {}))
    return path


def _altair() -> Any:
    try:
        import altair
    except ImportError as error:
        raise UsageError("charts need the package altair", hint="pip install 'multiform[charts]'") from error
    return altair


def _data(rows: Sequence[Mapping[str, Any]]) -> Any:
    return _altair().Data(values=[dict(row) for row in rows])


def _cells(cells: Any, texts: Any) -> Any:
    """A map of cells that are wide enough for their numbers."""
    alt = _altair()
    return (cells.encode(color=cells.encoding.color.scale(scheme="blues")) + texts).properties(
        width=alt.Step(64), height=alt.Step(30)
    )


def _metric(form: FormResult) -> str:
    metric = form.primary.partition(",")[0]
    return f"{metric} {'↑' if form.higher_is_better.get(metric, True) else '↓'}"


def _intervals(rows: Sequence[Mapping[str, Any]], *, x: str, y: str, facet: str | None = None) -> Any:
    """Points with intervals, a line for each row; a part of its own for each value of `facet`."""
    alt = _altair()
    where = alt.Y(f"{y}:N", title=None, sort=None, axis=_WHOLE_NAMES)
    data = _data(rows)
    tips = [f"{name}:{'N' if isinstance(value, str) else 'Q'}" for name, value in rows[0].items()]
    rules = alt.Chart(data).mark_rule().encode(x=alt.X("low:Q", title=x), x2="high:Q", y=where)
    points = alt.Chart(data).mark_circle(size=70, opacity=1).encode(x=alt.X(f"{x}:Q", title=x), y=where, tooltip=tips)
    if facet is None or len({row[facet] for row in rows}) == 1:
        return rules + points
    layered = alt.layer(rules, points, data=data)
    return layered.facet(row=alt.Row(f"{facet}:N", title=None)).resolve_scale(x="independent", y="independent")
