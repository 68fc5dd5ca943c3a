"""The tables that `multiform run` prints, in each of the styles that `--table` names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.errors import UsageError, shorten
from multiform.results.extraction import extraction_of
from multiform.results.failures import result_notes
from multiform.results.frame import COLUMNS as FRAME_COLUMNS
from multiform.results.frame import frame_rows
from multiform.results.markdown import markdown
from multiform.results.pivot import Pivot, has_several_forms, latex, pivot
from multiform.results.results import FormResult, GroupResult, Results
from multiform.statistics.estimates import Estimate
from multiform.terminal import visible

#: long has a row for each form, pivot one for each task and a column for each form; markdown is lm-eval's table.
TableStyle = Literal["long", "pivot", "markdown", "csv", "latex"]

#: The widest table that is printed where nobody says otherwise.
WIDTH = 80
_DIFFERENCE = "Best − worst"

COLUMNS = ("Form", "n", "Shots", "Metric", "Score", "± SE", "95 % interval", "Also")


def results_table(results: Results) -> Table:
    """The table of forms: the first metric with its uncertainty, and the values of the others."""
    table = _table("Form")
    for form in results.forms:
        table.add_row(*row(form))
    return table


def groups_table(results: Results) -> Table:
    """The table of groups with scores, indented by their depth."""
    table = _table("Group")
    for group in results.groups:
        if group.estimates:
            name, *cells = row(group)
            table.add_row("  " * group.depth + name, *cells)
    return table


def default_style(results: Results) -> TableStyle:
    """The pivot where tasks have several forms, lm-eval's table where no form has a format, else a row for each."""
    if has_several_forms(results):
        return "pivot"
    return "markdown" if all(form.format is None for form in results.forms) else "long"


def table_text(results: Results, style: str | None = None, *, width: int = WIDTH, color: bool = False) -> str:
    """The results as a table; a long table is as wide as its cells, a pivot is split to fit the width."""
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
    wide = width if style == "pivot" else max(width, _needed_width(results)) if color else 1000
    console = Console(
        file=io.StringIO(), width=wide, markup=False, emoji=False, highlight=False, force_terminal=color or None
    )
    with console.capture() as captured:
        if style == "pivot":
            _print_pivot(pivot(results), console)
        else:
            _print_long(results, console)
        for note in _notes(results):
            console.print(visible(note), style="dim")
        for note in result_notes(results):
            console.print(visible(note), style="yellow")
    return captured.get()


def _notes(results: Results) -> Iterator[str]:
    """What was not read of completions, and the task settings that formats override."""
    for form in results.forms:
        extraction = extraction_of(form)
        if extraction is not None and (extraction.missing.value or extraction.lenient.value > extraction.right.value):
            yield f"{form.form}: {extraction}"
    for form in results.forms:
        if form.overridden:
            yield f"{form.form}: the format overrides {', '.join(form.overridden)}"


def _needed_width(results: Results) -> int:
    """The width of a long table in which only the last column is wrapped, and nothing cut."""
    rows = [COLUMNS, *(row(entry) for entry in results.entries if entry.estimates)]
    indent = 2 * max((group.depth for group in results.groups), default=0)
    return sum(max(map(len, cells)) + 3 for cells in list(zip(*rows, strict=True))[:-1]) + indent + 16


def _print_long(results: Results, console: Console) -> None:
    console.print(results_table(results))
    if any(group.estimates for group in results.groups):
        console.print(groups_table(results))


def _csv(results: Results) -> str:
    """A line for each metric and filter of each form and group, with the columns of the data frame."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FRAME_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(frame_rows(results))
    return text.getvalue()


def _print_pivot(table: Pivot, console: Console) -> None:
    """Print the table in as many parts as it takes to show every column whole, then its notes."""
    for start, stop, last in _parts(table, console.width):
        console.print(_part(table, start, stop, last))
    for note in table.notes:
        console.print(visible(note), style="dim")


def _part(table: Pivot, start: int, stop: int, last: bool) -> Table:
    """The table with the forms from `start` to `stop`, and in the last part with the differences."""
    part = _plain_table()
    part.add_column("Task", overflow="fold", max_width=_longest_name(table))
    part.add_column("n", justify="right", no_wrap=True)
    for heading, metric in table.headings[start:stop]:
        part.add_column(f"{visible(heading)}\n{metric}", justify="right", no_wrap=True)
    if last:
        part.add_column(f"{_DIFFERENCE}\n95 % interval", justify="left", no_wrap=True)
    for row in table.rows:
        # Scores line up whether they are marked or not.
        scores = [score if score.endswith("*") else f"{score} " for score in row.scores[start:stop]]
        part.add_row(visible(row.name), row.n, *scores, *([row.difference] if last else []))
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
    differences = max((len(row.difference) for row in table.rows), default=0)
    room, start, used = width - names, 0, 0
    for index, column in enumerate(widths):
        if index > start and used + column > room:
            yield start, index, False
            start, used = index, 0
        used += column
    if differences and used + max(differences, len("95 % interval")) + gap > room and start < len(widths):
        yield start, len(widths), False
        start = len(widths)
    if start < len(widths) or differences:
        yield start, len(widths), bool(differences)


def _plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _table(first: str) -> Table:
    table = _plain_table()
    table.add_column(first, no_wrap=True)
    for name in COLUMNS[1:3]:
        table.add_column(name, justify="right")
    table.add_column(COLUMNS[3], no_wrap=True)
    for name in COLUMNS[4:7]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(COLUMNS[7], style="dim")
    return table


def row(entry: FormResult | GroupResult) -> Sequence[str]:
    """The cells of a form or group, under `COLUMNS`."""
    first, *others = entry.estimates
    primary = entry.estimates[first]
    arrow = "↑" if entry.higher_is_better.get(first.partition(",")[0], True) else "↓"
    return (
        visible(entry.alias),
        str(primary.n),
        str(entry.num_fewshot),
        f"{_name(first)} {arrow}",
        f"{primary.value:.4f}",
        "" if primary.stderr is None else f"{primary.stderr:.4f}",
        _interval(primary),
        ", ".join(f"{_name(key)} {entry.estimates[key].value:.3f}" for key in others),
    )


def _name(key: str) -> str:
    metric, _, scorer = visible(key).partition(",")
    return metric if scorer == "none" else f"{metric} ({scorer})"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.4f} to {estimate.high:.4f}"
