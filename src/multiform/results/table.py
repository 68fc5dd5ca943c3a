"""The tables that `multiform run` prints, in each of the styles that `--table` names."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.errors import UsageError, shorten
from multiform.results.export import SCORE_COLUMNS, frame_rows
from multiform.results.notes import form_notes, result_notes
from multiform.results.pivot import Pivot, has_several_forms, latex, pivot
from multiform.results.values import FormResult, GroupResult, ResultsData
from multiform.statistics.estimates import Estimate
from multiform.terminal import csv_cell, markdown_text, visible

_COLUMNS = ("Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr")
_RIGHT = (1, 3, 6)
_ARROWS: Mapping[bool | None, str] = {True: "↑", False: "↓", None: ""}


def markdown(results: ResultsData) -> str:
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


def _tasks(results: ResultsData) -> Iterator[Sequence[str]]:
    """The rows of all groups by name, each with its members below it, and then of all other tasks."""
    by_name: dict[str, FormResult | GroupResult] = {form.name: form for form in results.forms}
    by_name |= {group.name: group for group in results.groups}
    shown: set[str] = set()

    def member_rows(name: str, depth: int) -> Iterator[Sequence[str]]:
        entry = by_name.get(name)
        if entry is None or name in shown:
            return
        shown.add(name)
        yield from _rows(entry, depth)
        for member in sorted(entry.members) if isinstance(entry, GroupResult) else ():
            yield from member_rows(member, depth + 1)

    inside = {member for group in results.groups for member in group.members}
    for name in sorted({group.name for group in results.groups} - inside):
        yield from member_rows(name, 0)
    for name in sorted(form.name for form in results.forms):
        yield from member_rows(name, 0)


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


#: long has a row for each form, pivot one for each task and a column for each form, or the other way round where there
#: are more forms than tasks; markdown is lm-eval's table.
TableStyle = Literal["long", "pivot", "markdown", "csv", "latex"]

#: The width of what is not limited: in a file or pipe nothing is wrapped or split.
_UNLIMITED = 100_000
#: The widest column of names, and the widest name of a task that heads a column; longer names are folded.
_WIDEST_NAME, _WIDEST_HEADING = 30, 24
#: What a column takes beside its text.
_GAP = 3

COLUMNS = ("Form", "n", "Shots", "Metric", "Score", "± SE", "95 % interval")
_METRIC = COLUMNS.index("Metric")
#: The columns that a narrow table leaves out, in this order; intervals say the same as standard errors.
_DISPENSABLE = tuple(map(COLUMNS.index, ("± SE", "Shots", "n")))
#: The fewest characters that names of forms and of metrics get; longer ones are wrapped.
_SHORTEST_NAME, _SHORTEST_METRIC = 12, 16


def results_table(results: ResultsData, width: int = _UNLIMITED) -> Table:
    """The table of forms: every metric with its uncertainty."""
    return _long_table([list(rows(form)) for form in results.forms if form.estimates], "Form", width)


def groups_table(results: ResultsData, width: int = _UNLIMITED) -> Table:
    """The table of groups with scores, indented by their depth."""
    groups = [group for group in results.groups if group.estimates]
    return _long_table([list(rows(group, indent="  " * group.depth)) for group in groups], "Group", width)


def default_style(results: ResultsData) -> TableStyle:
    """The pivot where tasks have several forms, else a row for each metric of each task."""
    return "pivot" if has_several_forms(results) else "long"


def table_text(results: ResultsData, style: str | None = None, *, width: int | None = None, color: bool = False) -> str:
    """The results as a table; with a `width`, a long table or pivot folds names and moves columns, so that it fits."""
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
    arranged = pivot(results) if style == "pivot" else None
    limit = width or _UNLIMITED
    tables = (
        list(_long_tables(results, limit))
        if arranged is None
        else [_part_table(part, limit) for part in _pivot_parts(arranged, limit)]
    )
    measure = _console(_UNLIMITED, color=False)
    # A terminal that is narrower than the numbers wraps them; nothing is cut.
    widest = max((table.__rich_measure__(measure, measure.options).minimum for table in tables), default=0)
    console = _console(max(limit, widest), color=color)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
        for note in [*([] if arranged is None else arranged.notes), *form_notes(results)]:
            console.print(_note_lines(note, width), style="dim")
        for note in result_notes(results):
            console.print(_note_lines(note, width), style="yellow")
    return captured.get()


def _console(width: int, *, color: bool) -> Console:
    """A console that takes no brackets and colons in names for markup."""
    return Console(
        file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, force_terminal=color or None
    )


def _long_tables(results: ResultsData, width: int) -> Iterator[Table]:
    yield results_table(results, width)
    if any(group.estimates for group in results.groups):
        yield groups_table(results, width)


def _csv(results: ResultsData) -> str:
    """A line for each metric and filter of each form and group, with the columns of the data frame."""
    text = io.StringIO()
    writer = csv.DictWriter(text, SCORE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in frame_rows(results))
    return text.getvalue()


def _note_lines(note: str, width: int | None) -> str:
    """The note in lines of that width, broken at spaces and after the commas in the name of a variation.

    >>> print(_note_lines("[1] mcqa[labels=roman,wrap=(x),sep=space]", 30))
    [1] mcqa[labels=roman,
        wrap=(x),sep=space]
    """
    if width is None:
        return visible(note)
    lines = [""]
    for part in re.split(r"(?<= )|(?<=,)(?=[a-z])", visible(note)):
        if lines[-1].strip() and len(lines[-1] + part.rstrip()) > width:
            lines.append(" " * 4)
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the pivot: the lines of its heading, and its cells."""

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "left"

    @property
    def width(self) -> int:
        return max(len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))

    def of_rows(self, indexes: Sequence[int]) -> _Column:
        """The column with these rows alone."""
        return replace(self, cells=[self.cells[index] for index in indexes])


def _pivot_parts(table: Pivot, width: int) -> Iterator[list[_Column]]:
    """The pivot in as many parts as it takes to show every column whole; the first column of each has the names."""
    tasks = _Column("Task", [visible(row.name) for row in table.rows])
    numbers = _Column("n", [row.n for row in table.rows], "right")
    spread = _Column("Best − worst\n95 % interval, p", ["\n".join(row.differences) for row in table.rows])
    compared = [index for index, row in enumerate(table.rows) if row.differences]
    by_task = [table.cells(row) for row in table.rows]
    if table.turned:
        about = [
            _Column("Form", [visible(heading) for heading, _ in table.headings]),
            _Column("Metric", [metric for _, metric in table.headings]),
        ]
        heads = [f"{_fold(visible(row.name))}\nn = {row.n}" for row in table.rows]
        columns = [_Column(head, cells, "right") for head, cells in zip(heads, by_task, strict=True)]
    else:
        about = [tasks, numbers]
        heads = [f"{visible(heading)}\n{metric}" for heading, metric in table.headings]
        columns = [_Column(head, [cells[index] for cells in by_task], "right") for index, head in enumerate(heads)]
    room = width - min(about[0].width, _WIDEST_NAME) - about[1].width - 2 * _GAP + 1
    *parts, last = _split(columns, room)
    yield from ([*about, *part] for part in parts)
    if not table.turned and compared and _total_width([*last, spread]) <= room:
        last, compared = [*last, spread], []
    yield [*about, *last]
    if compared:
        yield [column.of_rows(compared) for column in (tasks, numbers, spread)]


def _fold(name: str) -> str:
    """A name in lines that are no wider than the heading of a column."""
    return "\n".join(name[start : start + _WIDEST_HEADING] for start in range(0, len(name), _WIDEST_HEADING))


def _total_width(columns: Sequence[_Column]) -> int:
    return sum(column.width + _GAP for column in columns)


def _split(columns: Sequence[_Column], room: int) -> list[list[_Column]]:
    """The columns of each part, such that each part fits."""
    parts: list[list[_Column]] = [[]]
    for column in columns:
        if parts[-1] and _total_width([*parts[-1], column]) > room:
            parts.append([])
        parts[-1].append(column)
    return parts


def _part_table(columns: Sequence[_Column], width: int) -> Table:
    """A part of the pivot; names are folded where they do not fit, never a score."""
    names, *others = columns
    name_width = min(names.width, max(_SHORTEST_NAME, width - _total_width(others) - 2))
    table = _plain_table()
    table.add_column(names.heading, overflow="fold", min_width=name_width, max_width=name_width)
    for column in others:
        table.add_column(column.heading, justify=column.justify, min_width=column.width)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _long_table(entries: Sequence[Sequence[Sequence[str]]], first: str, width: int) -> Table:
    """The table of some entries, each the rows of its metrics.

    Where it does not fit, standard errors are left out, then the numbers of few-shot examples and of documents, and
    names are wrapped.
    """
    headings = [first, *COLUMNS[1:]]
    columns = list(zip(headings, *(row for rows in entries for row in rows), strict=True))
    widths = [max(map(len, column)) for column in columns]
    smallest = [min(widths[0], _SHORTEST_NAME), *widths[1:]]
    shown = list(range(len(headings)))
    for index, enough in zip(_DISPENSABLE, (widths, smallest, smallest), strict=True):
        if _width([enough[place] for place in shown]) > width:
            shown.remove(index)
    surplus = max(0, _width([widths[index] for index in shown]) - width)
    metric_width = max(min(widths[_METRIC], _SHORTEST_METRIC), widths[_METRIC] - surplus)
    surplus -= widths[_METRIC] - metric_width
    widths[0], widths[_METRIC] = max(smallest[0], widths[0] - surplus), metric_width
    table = _plain_table()
    for index in shown:
        justify: Literal["left", "right"] = "left" if index in (0, _METRIC) else "right"
        table.add_column(
            headings[index], justify=justify, overflow="fold", min_width=widths[index], max_width=widths[index]
        )
    for rows in entries:
        lines = [line for row in rows for line in _row_lines(row, metric_width)]
        cells = ["\n".join(column).rstrip("\n") for column in zip(*lines, strict=True)]
        table.add_row(*(cells[index] for index in shown))
    return table


def _width(columns: Sequence[int]) -> int:
    """The width of a table whose columns have these widths."""
    return sum(columns) + 3 * (len(columns) - 1) + 2


def _row_lines(row: Sequence[str], metric_width: int) -> Iterator[Sequence[str]]:
    """A row as one line, and further ones for a metric's name that is longer than its column."""
    first, *further_lines = textwrap.wrap(row[_METRIC], metric_width, break_on_hyphens=False)
    yield [*row[:_METRIC], first, *row[_METRIC + 1 :]]
    for line in further_lines:
        yield [line if index == _METRIC else "" for index in range(len(row))]


def rows(entry: FormResult | GroupResult, *, indent: str = "") -> Iterator[Sequence[str]]:
    """The cells of a form or group, under `COLUMNS`: a row for each metric and filter, the first with the name."""
    name, shots, n = f"{indent}{visible(entry.alias)}", str(entry.num_fewshot), ""
    for key, estimate in entry.estimates.items():
        arrow = _ARROWS[entry.higher_is_better.get(key.partition(",")[0])]
        yield (
            name,
            "" if str(estimate.n) == n else str(estimate.n),
            shots,
            f"{_name(key)} {arrow}".rstrip(),
            f"{estimate.value:.4f}",
            "" if estimate.stderr is None else f"{estimate.stderr:.4f}",
            estimate.interval_text(4),
        )
        name, shots, n = "", "", n or str(estimate.n)


def _name(key: str) -> str:
    metric, _, scorer = visible(key).partition(",")
    return metric if scorer == "none" else f"{metric} ({scorer})"


def html_text(results: ResultsData) -> str:
    """The results for a notebook: the table, the spread over forms, and the notes."""
    if default_style(results) == "pivot":
        arranged = pivot(results)
        tables = [
            _html_table([column.heading for column in part], zip(*(column.cells for column in part), strict=True))
            for part in _pivot_parts(arranged, _UNLIMITED)
        ]
        notes = list(arranged.notes)
    else:
        tables = [_html_table(COLUMNS, (row for entry in results.entries for row in rows(entry)))]
        notes = []
    notes += [*form_notes(results), *result_notes(results)]
    return "".join([*tables, *(f"<p>{escape(note)}</p>" for note in notes)])


def _html_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(f"<{tag}>{escape(text).replace(chr(10), '<br>')}</{tag}>" for text in texts)

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<table><thead><tr>{cells('th', headings)}</tr></thead><tbody>{body}</tbody></table>"
