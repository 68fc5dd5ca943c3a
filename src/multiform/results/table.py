"""The tables that `multiform run` prints, in each of the styles that `--table` names."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.errors import UsageError, shorten
from multiform.results.export import SCORE_COLUMNS, frame_rows
from multiform.results.markdown import markdown
from multiform.results.notes import form_notes, result_notes
from multiform.results.pivot import Pivot, has_several_forms, latex, pivot
from multiform.results.values import FormResult, GroupResult, ResultsData
from multiform.terminal import csv_cell, visible

_ARROWS: Mapping[bool | None, str] = {True: "↑", False: "↓", None: ""}


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
#: The fewest characters that names of forms and of metrics get; longer ones are wrapped.
_SHORTEST_NAME, _SHORTEST_METRIC = 12, 16


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
    limit = width or _UNLIMITED
    parts, notes = _parts(results, style, limit)
    tables = [_rich_table(columns) for columns in parts]
    measure = _console(_UNLIMITED, color=False)
    # A terminal that is narrower than the numbers wraps them; nothing is cut.
    widest = max((table.__rich_measure__(measure, measure.options).minimum for table in tables), default=0)
    console = _console(max(limit, widest), color=color)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
        for note in [*notes, *form_notes(results)]:
            console.print(_note_lines(note, width), style="dim")
        for note in result_notes(results):
            console.print(_note_lines(note, width), style="yellow")
    return captured.get()


def _console(width: int, *, color: bool) -> Console:
    """A console that takes no brackets and colons in names for markup."""
    return Console(
        file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, force_terminal=color or None
    )


def _parts(results: ResultsData, style: str, width: int) -> tuple[list[list[Column]], Sequence[str]]:
    """The columns of each part of a long table or pivot, and what is noted of them."""
    if style == "pivot":
        arranged = pivot(results)
        return list(_pivot_parts(arranged, width)), arranged.notes
    groups = [row for group in results.groups for row in long_rows(group, indent="  " * group.depth)]
    forms = [row for form in results.forms for row in long_rows(form)]
    return [_long_columns(forms, "Form", width), *([_long_columns(groups, "Group", width)] if groups else [])], ()


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
class Column:
    """A column of a table: the lines of its heading, and its cells; what is wider than `widest` is folded."""

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "left"
    widest: int = _UNLIMITED

    @property
    def width(self) -> int:
        longest = max(len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))
        return min(longest, self.widest)

    def of_rows(self, indexes: Sequence[int]) -> Column:
        """The column with these rows alone."""
        return replace(self, cells=[self.cells[index] for index in indexes])

    def above(self, other: Column) -> Column:
        """This column and another one below it, as one."""
        cells = [f"{cell}\n{below}" for cell, below in zip(self.cells, other.cells, strict=True)]
        return replace(self, heading=f"{self.heading}\n{other.heading}", cells=cells)


def columns_text(columns: Sequence[Column], width: int | None) -> str:
    """A table as text, without notes; the names of its first column are folded if it does not fit the width."""
    shown = columns if width is None else _fold_names(columns, width)
    console = _console(total_width(shown), color=False)
    with console.capture() as captured:
        console.print(_rich_table(shown))
    return captured.get().removesuffix("\n")


def _pivot_parts(table: Pivot, width: int) -> Iterator[list[Column]]:
    """The pivot in as many parts as it takes to show every column whole; the first column of each has the names."""
    tasks = Column("Task", [visible(row.name) for row in table.rows])
    numbers = Column("n", [row.n for row in table.rows], "right")
    spread = Column("Best − worst\n95 % interval, p", ["\n".join(row.differences) for row in table.rows])
    compared = [index for index, row in enumerate(table.rows) if row.differences]
    by_task = [table.cells(row) for row in table.rows]
    if table.turned:
        about = [
            Column("Form", [visible(heading) for heading, _ in table.headings]),
            Column("Metric", [metric for _, metric in table.headings]),
        ]
        heads = [f"{_fold(visible(row.name))}\nn = {row.n}" for row in table.rows]
        columns = [Column(head, cells, "right") for head, cells in zip(heads, by_task, strict=True)]
    else:
        about = [tasks, numbers]
        heads = [f"{visible(heading)}\n{metric}" for heading, metric in table.headings]
        columns = [Column(head, [cells[index] for cells in by_task], "right") for index, head in enumerate(heads)]
    room = width - min(about[0].width, _WIDEST_NAME) - about[1].width - 2 * _GAP + 1
    *parts, last = _split(columns, room)
    yield from (_fold_names([*about, *part], width) for part in parts)
    if not table.turned and compared and total_width([*last, spread]) <= room:
        last, compared = [*last, spread], []
    yield _fold_names([*about, *last], width)
    if compared:
        yield _fold_names([column.of_rows(compared) for column in (tasks, numbers, spread)], width)


def _fold_names(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns of a part, whose names are folded where they do not fit; never a score."""
    names, *others = columns
    return [replace(names, widest=max(_SHORTEST_NAME, width - total_width(others) - 2)), *others]


def _fold(name: str) -> str:
    """A name in lines that are no wider than the heading of a column."""
    return "\n".join(name[start : start + _WIDEST_HEADING] for start in range(0, len(name), _WIDEST_HEADING))


def total_width(columns: Sequence[Column]) -> int:
    """The width of a table with these columns."""
    return sum(column.width + _GAP for column in columns)


def _split(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """The columns of each part, such that each part fits."""
    parts: list[list[Column]] = [[]]
    for column in columns:
        if parts[-1] and total_width([*parts[-1], column]) > room:
            parts.append([])
        parts[-1].append(column)
    return parts


def _rich_table(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.heading, justify=column.justify, overflow="fold", min_width=column.width, max_width=column.width
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


def _long_columns(rows: Sequence[Sequence[str]], first: str, width: int) -> list[Column]:
    """The table of some forms or groups, a row for each of their metrics.

    Where it does not fit, standard errors are left out, then the numbers of few-shot examples and of documents, and
    names are wrapped.
    """
    headings = [first, *COLUMNS[1:]]
    cells = [[row[index] for row in rows] for index in range(len(headings))]
    columns = [
        Column(heading, texts, "left" if heading in (first, "Metric") else "right")
        for heading, texts in zip(headings, cells, strict=True)
    ]
    for heading, is_folded in (("± SE", False), ("Shots", True), ("n", True)):  # intervals say the same as errors
        names = min(columns[0].width, _SHORTEST_NAME) if is_folded else columns[0].width
        if names + total_width(columns[1:]) + 2 > width:
            columns = [column for column in columns if column.heading != heading]
    for heading, shortest in (("Metric", _SHORTEST_METRIC), (first, _SHORTEST_NAME)):
        surplus = max(0, total_width(columns) - 1 - width)
        columns = [
            replace(column, widest=max(shortest, column.width - surplus)) if column.heading == heading else column
            for column in columns
        ]
    return columns


def long_rows(entry: FormResult | GroupResult, *, indent: str = "") -> Iterator[Sequence[str]]:
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
    parts, notes = _parts(results, default_style(results), _UNLIMITED)
    shown = [*notes, *form_notes(results), *result_notes(results)]
    return "".join([*map(_html_table, parts), *(f"<p>{escape(note)}</p>" for note in shown)])


def _html_table(columns: Sequence[Column]) -> str:
    def cells(tag: str, texts: Iterable[str]) -> str:
        return "".join(f"<{tag}>{escape(text).replace(chr(10), '<br>')}</{tag}>" for text in texts)

    rows = zip(*(column.cells for column in columns), strict=True)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', (c.heading for c in columns))}</tr></thead><tbody>{body}</tbody></table>"
