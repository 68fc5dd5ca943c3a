"""Charts drawn with Altair: they show themselves in a notebook and save as SVG, PNG or HTML, offline."""

from __future__ import annotations

import base64
import importlib.util
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.errors import MultiformError, UsageError, nearest
from multiform.paths import replace_output
from multiform.results.charts import CELLS, CHARTS, PALETTE, ChartAxis, ChartPanel, ChartSpec, short_formats
from multiform.results.values import ResultsData

if TYPE_CHECKING:
    from altair import Chart

_SUFFIXES = (".svg", ".png", ".html")


class Charts:
    """The charts of a run, with a method for each of `CHARTS`: ``results.chart.scores()`` and so on."""

    def __init__(self, results: ResultsData) -> None:
        self._results = results

    def __repr__(self) -> str:
        return f"<Charts: {', '.join(f'{name}()' for name in CHARTS)}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *CHARTS]

    def __getattr__(self, name: str) -> Callable[[], Chart]:
        if name not in CHARTS:
            raise AttributeError(f"no chart '{name}'; {nearest(name, CHARTS, listed='there are')}")

        def chart() -> Chart:
            return draw(CHARTS[name](self._results), self._results)

        chart.__doc__ = CHARTS[name].__doc__
        return chart


def save_chart(results: ResultsData, name: str, path: str | Path) -> Path:
    """Draw one of the charts into an SVG, PNG or HTML file; returns its path."""
    path = Path(path)
    if name not in CHARTS:
        raise UsageError(f"no chart '{name}'", where="--chart", hint=f"there are: {', '.join(CHARTS)}")
    if path.suffix not in _SUFFIXES:
        message = f"'{path.suffix}' is not a picture format that can be written"
        raise UsageError(message, where=str(path), hint=f"name a file that ends with {', '.join(_SUFFIXES)}")
    chart = draw(CHARTS[name](results), results)
    with replace_output(path) as file:
        chart.save(str(file), **({"inline": True} if path.suffix == ".html" else {}))
    return path


def chart_image(results: ResultsData) -> str:
    """The chart of the scores as an HTML image with a text alternative; empty where it cannot be drawn."""
    if not all(importlib.util.find_spec(package) for package in ("altair", "vl_convert")):
        return ""
    try:
        spec = CHARTS["scores"](results)
    except MultiformError:  # there are no scores
        return ""
    picture = io.StringIO()
    draw(spec, results).save(picture, format="svg")
    data = base64.b64encode(picture.getvalue().encode()).decode()
    return f'<img alt="{escape(spec.text)}" src="data:image/svg+xml;base64,{data}">'


def draw(spec: ChartSpec, results: ResultsData) -> Chart:
    """An Altair chart of a description of the results; below it is what the short labels of formats stand for."""
    try:
        import altair as alt
    except ImportError as error:
        raise UsageError("charts need the package altair", hint="pip install 'multiform[charts]'") from error
    shown, legend = _shorten_names(spec, results)
    marks = {"interval": _intervals, "cell": _cells, "bar": _bars, "line": _lines}
    panels = []
    for panel in shown.panels:
        chart = marks[panel.mark](alt, panel)
        panels.append(chart.properties(title=panel.title) if panel.title else chart)
    chart = panels[0] if len(panels) == 1 and not legend else alt.concat(*panels, columns=spec.columns)
    if legend:
        chart = chart.properties(
            title=alt.Title(legend, orient="bottom", anchor="start", fontSize=10, fontWeight="normal", offset=12)
        )
    return chart.properties(description=spec.text)


def _rows_chart(alt: Any, panel: ChartPanel) -> Any:
    return alt.Chart(alt.Data(values=[dict(row) for row in panel.rows]))


def _shorten_names(chart: ChartSpec, results: ResultsData) -> tuple[ChartSpec, list[str]]:
    """The chart with short labels in place of the long names of formats that are in it, and what they stand for."""
    text = str(chart.to_dict())
    shorts = {label: short for label, short in short_formats(results.forms).items() if label != short and label in text}

    def abbreviate(value: Any) -> Any:
        """A text, or the texts in a row or list, with the longest labels replaced first."""
        if isinstance(value, Mapping):
            return {key: abbreviate(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [abbreviate(item) for item in value]
        for label in sorted(shorts, key=len, reverse=True) if isinstance(value, str) else ():
            value = value.replace(label, shorts[label])
        return value

    panels = [
        replace(
            panel,
            title=abbreviate(panel.title),
            x=replace(panel.x, names=abbreviate(panel.x.names)),
            y=replace(panel.y, names=abbreviate(panel.y.names)),
            domain=abbreviate(panel.domain),
            rows=abbreviate(panel.rows),
        )
        for panel in chart.panels
    ]
    return replace(chart, panels=panels), [f"{short}: {label}" for label, short in shorts.items()]


def _encoding(alt: Any, axis: ChartAxis, channel: str) -> Any:
    """An axis of numbers with its fixed range, or one of names, which are never cut."""
    if axis.low is None:
        labels = alt.Axis(labelLimit=0, labelAngle=0 if channel == "Y" else -45)
        order = None if axis.names is None else list(axis.names)
        return getattr(alt, channel)(f"{axis.field}:N", title=axis.title, sort=order, axis=labels)
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False, zero=False)
    return getattr(alt, channel)(f"{axis.field}:Q", title=axis.title, scale=scale)


def _color(alt: Any, panel: ChartPanel) -> dict[str, Any]:
    if panel.color is None:
        return {}
    shown = panel.domain or list(dict.fromkeys(row[panel.color] for row in panel.rows))
    scale = alt.Scale(domain=list(shown), range=[PALETTE[index % len(PALETTE)] for index in range(len(shown))])
    several = len({row[panel.color] for row in panel.rows}) > 1
    legend = alt.Legend(labelLimit=0, title=None) if several else None
    return {"color": alt.Color(f"{panel.color}:N", scale=scale, legend=legend)}


def _intervals(alt: Any, panel: ChartPanel) -> Any:
    """Points with intervals, a line for each row, and the reference lines."""
    base, y, color = _rows_chart(alt, panel), _encoding(alt, panel.y, "Y"), _color(alt, panel)
    tips = [f"{name}:{'N' if isinstance(value, str) else 'Q'}" for name, value in panel.rows[0].items()]
    x = _encoding(alt, panel.x, "X")
    low = _encoding(alt, ChartAxis(field="low", title=panel.x.title, low=panel.x.low, high=panel.x.high), "X")
    default = {} if color else {"color": PALETTE[0]}
    layers = [
        base.mark_rule(clip=True, **default).encode(x=low, x2="high:Q", y=y, **color),
        base.mark_circle(size=70, opacity=1, **default).encode(x=x, y=y, tooltip=tips, **color),
    ]
    if panel.tick is not None:
        layers.append(base.mark_tick(color="black", thickness=2).encode(x=f"{panel.tick}:Q", y=y))
    for name, value in (panel.lines or {}).items():
        line = alt.Chart(alt.Data(values=[{"line": name, "at": value}]))
        layers.append(line.mark_rule(strokeDash=[4, 4], color="gray").encode(x="at:Q", tooltip="line:N"))
    return alt.layer(*layers).properties(width=420, height=alt.Step(20))


def _cells(alt: Any, panel: ChartPanel) -> Any:
    """A map of cells that are wide enough for their numbers, in a colour that can be read on them."""
    value = panel.value or panel.x
    base = _rows_chart(alt, panel).encode(x=_encoding(alt, panel.x, "X"), y=_encoding(alt, panel.y, "Y"))
    low, high = value.low or 0.0, 1.0 if value.high is None else value.high
    scale = alt.Scale(domain=[low, high], range=list(CELLS))
    cells = base.mark_rect().encode(color=alt.Color(f"{value.field}:Q", title=value.title, scale=scale))
    dark = f"datum[{value.field!r}] > {(low + high) / 2}"
    text = alt.Text(f"{value.field}:Q", format=".3f") if panel.label is None else alt.Text(f"{panel.label}:N")
    texts = base.mark_text().encode(text=text, color=alt.condition(dark, alt.value("white"), alt.value("black")))
    return (cells + texts).properties(width=alt.Step(64), height=alt.Step(30))


def _bars(alt: Any, panel: ChartPanel) -> Any:
    base = _rows_chart(alt, panel).encode(x=alt.X(f"{panel.x.field}:O", title=panel.x.title, sort=None))
    bars = base.mark_bar(opacity=0.6, color=PALETTE[0]).encode(y=_encoding(alt, panel.y, "Y"))
    ticks = base.mark_tick(color="black", thickness=2).encode(y=f"{panel.tick}:Q")
    return (bars + ticks).properties(width=140, height=140)


def _lines(alt: Any, panel: ChartPanel) -> Any:
    """Lines through points, and the diagonal on which both axes agree."""
    base = _rows_chart(alt, panel).encode(
        x=_encoding(alt, panel.x, "X"), y=_encoding(alt, panel.y, "Y"), **_color(alt, panel)
    )
    legend = alt.Legend(title="documents", tickCount=3, format="d")
    ideal = alt.Chart(alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    diagonal = ideal.mark_line(strokeDash=[4, 4], color="gray").encode(x="x:Q", y="y:Q")
    return base.mark_line() + base.mark_circle().encode(size=alt.Size("n:Q", legend=legend)) + diagonal
