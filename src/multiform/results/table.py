"""The tables that `multiform run` prints, in each of the styles that `--table` names."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal, get_args

from multiform.errors import UsageError, excerpt
from multiform.results.export import SCORE_COLUMNS, frame_rows
from multiform.results.notes import form_notes, result_notes
from multiform.results.pivot import Pivot, latex, pivot
from multiform.results.values import FormResult, GroupResult, ResultsData, metric_label
from multiform.terminal import csv_cell, markdown_text, visible

if TYPE_CHECKING:  # not all styles need it
    from rich.console import Console
    from rich.table import Table

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
    """The pivot where tasks have several forms, which it compares, else a row for each metric of each task."""
    return "pivot" if len({form.task for form in results.forms}) < len(results.forms) else "long"


def table_text(results: ResultsData, style: str | None = None, *, width: int | None = None, color: bool = False) -> str:
    """The results as a table; with a `width`, a long table or pivot folds names and moves columns, so that it fits."""
    style = default_style(results) if style is None else style
    if style not in get_args(TableStyle):
        hint = f"give one of {', '.join(get_args(TableStyle))}"
        raise UsageError(f"there is no table {excerpt(style)}", where="table", hint=hint)
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
    from rich.console import Console

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
        about = [replace(column, cells=[column.cells[row] for row in compared]) for column in (tasks, numbers, spread)]
        yield _fold_names(about, width)


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
    from rich import box
    from rich.table import Table

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
    shots = "" if entry.num_fewshot is None else str(entry.num_fewshot)
    name, n = f"{indent}{visible(entry.alias)}", ""
    for key, estimate in entry.estimates.items():
        arrow = _ARROWS[entry.higher_is_better.get(key.partition(",")[0])]
        yield (
            name,
            "" if str(estimate.n) == n else str(estimate.n),
            shots,
            f"{metric_label(visible(key))} {arrow}".rstrip(),
            f"{estimate.value:.4f}",
            "" if estimate.stderr is None else f"{estimate.stderr:.4f}",
            estimate.interval_text(4),
        )
        name, shots, n = "", "", n or str(estimate.n)


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


def markdown(results: ResultsData) -> str:
    """A line about the run and a table of tasks, then a table of groups where there are any.

    |Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|
    |-----|------:|------|-----:|------|---|----:|---|-----:|
    |mine |      1|none  |     0|acc   |↑  | 0.25|±  |0.0693|
    """
    about = {key: results.run.get(key) for key in ("gen_kwargs", "limit", "num_fewshot", "batch_size")}
    line = f"{results.run.get('model')} ({results.run.get('model_args')}), "
    line += f"gen_kwargs: ({about.pop('gen_kwargs')}), " + ", ".join(f"{key}: {value}" for key, value in about.items())
    entries = results.entries
    saved = {
        "results": {entry.name: entry.scores() for entry in entries},
        "groups": {group.name: group.scores() for group in results.groups if group.estimates},
        "group_subtasks": {group.name: group.members for group in results.groups},
        "versions": {entry.name: entry.version for entry in entries},
        "n-shot": {entry.name: entry.num_fewshot for entry in entries},
        "higher_is_better": {entry.name: entry.higher_is_better for entry in entries},
    }
    tables = [make_table(saved, column) for column in ("results", "groups") if saved[column] or column == "results"]
    return "\n".join([markdown_text(line), *tables, *map(markdown_text, result_notes(results))])


_NOT_METRICS = ("name", "alias", "sample_len", "sample_count")
#: The columns that may hold numbers.
_NUMBERS = ("Version", "n-shot", "Value", "Stderr")


def make_table(result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False) -> str:
    """A row for each metric of each task, or of each group with ``column="groups"``."""
    headers = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "",
               "Stderr"]  # fmt: skip
    order = _depths(result_dict.get("group_subtasks", {}), list(result_dict[column]))
    names = sorted(result_dict[column]) if sort_results else order
    rows = [row for name in names for row in _rows(name, order.get(name, 0), result_dict, column)]
    # A column of numbers stands to the right, with as many decimals as its longest number needs.
    columns = [_column(header, [markdown_text(row[index]) for row in rows]) for index, header in enumerate(headers)]
    return "".join(f"|{'|'.join(line)}|\n" for line in zip(*columns, strict=True))


def _depths(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, int]:
    """The names in the order of the table, groups first and members below their groups, each with how deep it is."""
    inside = {member for members in groups.values() for member in members}
    depths: dict[str, int] = {}

    def add(name: str, depth: int) -> None:
        if name in names and name not in depths:
            depths[name] = depth
            for member in sorted(groups.get(name, ())):
                add(member, depth + 1)

    for name in sorted(names, key=lambda name: (name in inside, not groups.get(name), name)):
        add(name, 0)
    return depths


def _rows(name: str, depth: int, results: Mapping[str, Any], column: str) -> list[list[str]]:
    scores = results[column][name]
    shown = " " * depth + "- " * bool(depth) + str(scores.get("alias", name))
    version, shots = str(results["versions"].get(name, "    N/A")), str(results.get("n-shot", {}).get(name, " "))
    better = results.get("higher_is_better", {}).get(name, {})
    rows: list[list[str]] = []
    for key in sorted(key for key in scores if key not in _NOT_METRICS):
        metric, _, filtered = key.partition(",")
        if metric.endswith("_stderr"):
            continue
        error = scores.get(f"{metric}_stderr,{filtered}", "")
        first = [shown, version] if not rows else ["", ""]
        arrow, sign = _ARROWS[better.get(metric)], "" if error == "" else "±"
        rows.append([*first, filtered, shots, metric, arrow, _score(scores[key]), sign, _score(error)])
    return rows


def _score(value: Any) -> str:
    if value == "N/A":
        return "   N/A"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _column(header: str, cells: Sequence[str]) -> list[str]:
    """The header, the rule below it and the cells, all of one width.

    >>> _column("Value", ["0.2500", "3.0", ""]), _column("Version", ["1.0", "N/A"])
    (['Value', '----:', ' 0.25', ' 3.00', '     '], ['Version', '-------', '      1', 'N/A    '])
    """
    numbers = [(cell, _number(cell) if header in _NUMBERS else None) for cell in cells]
    filled = [number for cell, number in numbers if cell.strip()]
    if filled and None not in filled:
        decimals = max(len(cell.partition(".")[2].rstrip("0")) for cell in cells)
        texts = [cell if number is None else _spell_number(number, decimals) for cell, number in numbers]
        width = max(3, len(header), *map(len, texts))
        return [f"{header:^{width}}", "-" * (width - 1) + ":", *(f"{text:>{width}}" for text in texts)]
    width = max(3, len(header), *map(len, cells), 0)
    # Among texts, whole numbers such as versions stand to the right.
    placed = [
        f"{cell:<{width}}" if number is None or not number.is_integer() else f"{int(number):>{width}}"
        for cell, number in numbers
    ]
    return [f"{header:^{width}}", "-" * width, *placed]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _spell_number(number: float, decimals: int) -> str:
    return f"{number:.{decimals}f}" if math.isfinite(number) else "NaN" if math.isnan(number) else "Infinity"
