"""The tables that `multiform run` prints: a row for each form, and one for each group."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.results.results import FormResult, GroupResult, Results
from multiform.scoring.statistics import Estimate
from multiform.terminal import visible

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


def print_table(results: Results, console: Console) -> None:
    """Print the tables, then the task settings that formats override."""
    console.print(results_table(results))
    if any(group.estimates for group in results.groups):
        console.print(groups_table(results))
    for form in results.forms:
        if form.overridden:
            note = f"{form.form}: the format overrides {', '.join(form.overridden)}"
            console.print(visible(note), style="dim")


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
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
