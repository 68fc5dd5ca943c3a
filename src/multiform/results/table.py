"""The tables that `multiform run` prints, in each of the styles that `--table` names."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.errors import UsageError, shorten
from multiform.results.frame import COLUMNS as FRAME_COLUMNS
from multiform.results.frame import frame_rows
from multiform.results.notes import form_notes, result_notes
from multiform.results.pivot import Pivot, has_several_forms, latex, pivot
from multiform.results.results import FormResult, GroupResult, Results
from multiform.statistics.estimates import Estimate
from multiform.terminal import csv_cell, markdown_text, visible

_COLUMNS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
_RIGHT = (1, 3, 6)
_ARROWS: Mapping[bool | None, str] = {True: "↑", False: "↓", None: ""}


def markdown(results: Results) -> str:
    """A line about the run and a table of tasks, then a table of groups where there are any.

    |Tasks|Version|Filter|n-shot|Metric|   |Value |   |Stderr|
    |-----|------:|------|-----:|------|---|-----:|---|------|
    |mine |      1|none  |     0|acc   |↑  |0.2500|±  |0.0693|
    """
    about = {key: results.run.get(key) for key in ("gen_kwargs", "limit", "num_fewshot", "batch_size")}
    line = f"{results.run.get('model')} ({results.run.get('model_args')}), "
    line += f"gen_kwargs: ({about.pop('gen_kwargs')}), " + ", ".join(f"{key}: {value}" for key, value in about.items())
    tables = [_table("Tasks", list(_tasks(results)))]
    if any(group.estimates for group in results.groups):
        tables.append(_table("Groups", [row for group in results.groups for row in _rows(group, group.depth)]))
    return "\n".join([markdown_text(line), *tables, *map(markdown_text, result_notes(results))])


def _tasks(results: Results) -> Iterator[Sequence[str]]:
    """The rows of all groups by name, each with its members below it, and then of all other tasks."""
    by_name: dict[str, FormResult | GroupResult] = {form.name: form for form in results.forms}
    by_name |= {group.name: group for group in results.groups}
    shown: set[str] = set()

    def below(name: str, depth: int) -> Iterator[Sequence[str]]:
        entry = by_name.get(name)
        if entry is None or name in shown:
            return
        shown.add(name)
        yield from _rows(entry, depth)
        for member in sorted(entry.members) if isinstance(entry, GroupResult) else ():
            yield from below(member, depth + 1)

    inside = {member for group in results.groups for member in group.members}
    for name in sorted({group.name for group in results.groups} - inside):
        yield from below(name, 0)
    for name in sorted(form.name for form in results.forms):
        yield from below(name, 0)


def _rows(entry: FormResult | GroupResult, depth: int) -> Iterator[Sequence[str]]:
    name, version = f"{' ' * depth}- {entry.alias}" if depth else entry.alias, _number(entry.version)
    for key in sorted(entry.estimates):
        metric, _, scorer = key.partition(",")
        arrow = _ARROWS[entry.higher_is_better.get(metric)]
        yield name, version, scorer, str(entry.num_fewshot), metric, arrow, *_values(entry.estimates[key])
        name = version = ""


def _values(estimate: Estimate) -> Sequence[str]:
    return f"{estimate.value:.4f}", "±", "N/A" if estimate.stderr is None else f"{estimate.stderr:.4f}"


def _number(version: Any) -> str:
    """A version without a trailing ``.0``."""
    return str(version).removesuffix(".0")


def _table(first: str, rows: Sequence[Sequence[str]]) -> str:
    rows = [[markdown_text(cell) for cell in row] for row in rows]
    lines = [(first, *_COLUMNS), *rows]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(lines[0]))]
    rule = [f"{'-' * (width - 1)}:" if i in _RIGHT else "-" * width for i, width in enumerate(widths)]
    return "\n".join(_line(line, widths) for line in (lines[0], rule, *rows)) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if i in _RIGHT else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"|{'|'.join(padded)}|"


#: long has a row for each form, pivot one for each task and a column for each form; markdown is lm-eval's table.
TableStyle = Literal["long", "pivot", "markdown", "csv", "latex"]

#: The default maximum width of a table.
WIDTH = 80
_DIFFERENCE = "Best − worst"

COLUMNS = ("Form", "n", "Shots", "Metric", "Score", "± SE", "95 % interval")
_METRIC, _STDERR = COLUMNS.index("Metric"), COLUMNS.index("± SE")
#: The fewest columns that names of metrics get; longer ones are wrapped.
_SHORTEST_METRIC = 16


def results_table(results: Results, width: int = WIDTH) -> Table:
    """The table of forms: every metric with its uncertainty."""
    return _long_table([list(rows(form)) for form in results.forms if form.estimates], "Form", width)


def groups_table(results: Results, width: int = WIDTH) -> Table:
    """The table of groups with scores, indented by their depth."""
    groups = [group for group in results.groups if group.estimates]
    return _long_table([list(rows(group, indent="  " * group.depth)) for group in groups], "Group", width)


def default_style(results: Results) -> TableStyle:
    """The pivot where tasks have several forms, else a row for each metric of each task."""
    return "pivot" if has_several_forms(results) else "long"


def table_text(results: Results, style: str | None = None, *, width: int = WIDTH, color: bool = False) -> str:
    """The results as a table that fits the width: names in a long table are folded, a pivot is split."""
    style = default_style(results) if style is None else style
    if style not in get_args(TableStyle):
        hint = f"give one of {', '.join(get_args(TableStyle))}"
        raise UsageError(f"there is no table {shorten(style)}", where="table", hint=hint)
    if style == "markdown":
        return markdown(results) + "\n"
    if style == "csv":
        return _csv(results)
    if style == "latex":
        return latex(results) + "\n"
    # In a file or pipe nothing is wrapped; brackets and colons in names are not taken for markup.
    wide = width if style == "pivot" else max(width, WIDTH) if color else 1000
    console = Console(
        file=io.StringIO(), width=wide, markup=False, emoji=False, highlight=False, force_terminal=color or None
    )
    with console.capture() as captured:
        if style == "pivot":
            _print_pivot(pivot(results), console)
        else:
            _print_long(results, console)
        for note in form_notes(results):
            console.print(_note_lines(note, console.width), style="dim")
        for note in result_notes(results):
            console.print(_note_lines(note, console.width), style="yellow")
    return captured.get()


def _print_long(results: Results, console: Console) -> None:
    console.print(results_table(results, console.width))
    if any(group.estimates for group in results.groups):
        console.print(groups_table(results, console.width))


def _csv(results: Results) -> str:
    """A line for each metric and filter of each form and group, with the columns of the data frame."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FRAME_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in frame_rows(results))
    return text.getvalue()


def _print_pivot(table: Pivot, console: Console) -> None:
    """Print the table in as many parts as it takes to show every column whole, then its notes."""
    for start, stop, last in _parts(table, console.width):
        console.print(_part(table, start, stop, last))
    for note in table.notes:
        console.print(_note_lines(note, console.width), style="dim")


def _note_lines(note: str, width: int) -> str:
    """The note in lines of that width, broken at spaces and after the commas in the name of a variation.

    >>> print(_note_lines("[1] mcqa[labels=roman,wrap=(x),sep=space]", 30))
    [1] mcqa[labels=roman,
        wrap=(x),sep=space]
    """
    lines = [""]
    for part in re.split(r"(?<= )|(?<=,)(?=[a-z])", visible(note)):
        if lines[-1].strip() and len(lines[-1] + part.rstrip()) > width:
            lines.append(" " * 4)
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _part(table: Pivot, start: int, stop: int, last: bool) -> Table:
    """The table with the forms from `start` to `stop`, and in the last part with the differences."""
    part = _plain_table()
    part.add_column("Task", overflow="fold", max_width=_longest_name(table))
    part.add_column("n", justify="right", no_wrap=True)
    for heading, metric in table.headings[start:stop]:
        part.add_column(f"{visible(heading)}\n{metric}", justify="right", no_wrap=True)
    if last:
        part.add_column(f"{_DIFFERENCE}\n95 % interval, p", justify="left", no_wrap=True)
    for row in table.rows:
        # Scores line up whether they are marked or not.
        scores = [score if score.endswith("*") else f"{score} " for score in row.scores[start:stop]]
        part.add_row(visible(row.name), row.n, *scores, *(["\n".join(row.differences)] if last else []))
    return part


def _longest_name(table: Pivot) -> int:
    """The width of the names; longer ones are folded, never a score."""
    return min(30, max([len("Task"), *(len(visible(row.name)) for row in table.rows)]))


def _parts(table: Pivot, width: int) -> Iterator[tuple[int, int, bool]]:
    """The first and last column of each part, and whether it is the last part, such that each part fits."""
    gap = 3  # what a column of the table takes beside its text
    names = _longest_name(table) + gap + max((len(row.n) for row in table.rows), default=1) + gap
    widths = [
        max(len(heading), len(metric), *(len(row.scores[i].rstrip("*")) + 1 for row in table.rows)) + gap
        for i, (heading, metric) in enumerate(table.headings)
    ]
    differences = max((len(line) for row in table.rows for line in row.differences), default=0)
    room, start, used = width - names + 1, 0, 0  # the last column has one space after it instead of three
    for index, column in enumerate(widths):
        if index > start and used + column > room:
            yield start, index, False
            start, used = index, 0
        used += column
    if differences and used + max(differences, len("95 % interval, p")) + gap > room and start < len(widths):
        yield start, len(widths), False
        start = len(widths)
    if start < len(widths) or differences:
        yield start, len(widths), bool(differences)


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _long_table(entries: Sequence[Sequence[Sequence[str]]], first: str, width: int) -> Table:
    """The table of some entries, each the rows of its metrics.

    Where it does not fit, standard errors are left out, as intervals say the same, and names are wrapped.
    """
    headings = [first, *COLUMNS[1:]]
    columns = list(zip(headings, *(row for rows in entries for row in rows), strict=True))
    widths = [max(map(len, column)) for column in columns]
    shown = list(range(len(headings)))
    if _width(widths) > width:
        shown.remove(_STDERR)
    surplus = max(0, _width([widths[index] for index in shown]) - width)
    metric_width = max(min(widths[_METRIC], _SHORTEST_METRIC), widths[_METRIC] - surplus)
    table = _plain_table()
    for index in shown:
        is_name = index in (0, _METRIC)
        table.add_column(
            headings[index], justify="left" if is_name else "right", no_wrap=index != 0, overflow="fold", min_width=1
        )
    for rows in entries:
        lines = [line for row in rows for line in _wrapped(row, metric_width)]
        cells = ["\n".join(column).rstrip("\n") for column in zip(*lines, strict=True)]
        table.add_row(*(cells[index] for index in shown))
    return table


def _width(columns: Sequence[int]) -> int:
    """The width of a table whose columns have these widths."""
    return sum(columns) + 3 * (len(columns) - 1) + 2


def _wrapped(row: Sequence[str], metric_width: int) -> Iterator[Sequence[str]]:
    """A row as one line, and further ones for a metric's name that is longer than its column."""
    first, *further_lines = textwrap.wrap(row[_METRIC], metric_width, break_on_hyphens=False)
    yield [*row[:_METRIC], first, *row[_METRIC + 1 :]]
    for line in further_lines:
        yield [line if index == _METRIC else "" for index in range(len(row))]


def rows(entry: FormResult | GroupResult, *, indent: str = "") -> Iterator[Sequence[str]]:
    """The cells of a form or group, under `COLUMNS`: a row for each metric and filter, the first with the name."""
    name, shots, n = f"{indent}{visible(entry.alias)}", str(entry.num_fewshot), ""
    for key, estimate in entry.estimates.items():
        arrow = "↑" if entry.higher_is_better.get(key.partition(",")[0], True) else "↓"
        yield (
            name,
            "" if str(estimate.n) == n else str(estimate.n),
            shots,
            f"{_name(key)} {arrow}",
            f"{estimate.value:.4f}",
            "" if estimate.stderr is None else f"{estimate.stderr:.4f}",
            _interval(estimate),
        )
        name, shots, n = "", "", n or str(estimate.n)


def _name(key: str) -> str:
    metric, _, scorer = visible(key).partition(",")
    return metric if scorer == "none" else f"{metric} ({scorer})"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.4f} to {estimate.high:.4f}"
