"""The tables of a run: a row for each form, and one for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.results.results import Results
from multiform.scoring.statistics import Estimate


def results_table(results: Results) -> Table:
    """A row for each form: its first metric with its uncertainty, and the others in short."""
    table = _table("Form")
    for form in results.forms:
        table.add_row(*_row(form.alias, form.num_fewshot, form.estimates, form.higher_is_better))
    return table


def groups_table(results: Results) -> Table:
    """The same for the groups, each below the one that it is in."""
    table = _table("Group")
    for group in results.groups:
        if group.estimates:
            alias = "  " * group.depth + group.alias
            table.add_row(*_row(alias, group.num_fewshot, group.estimates, group.higher_is_better))
    return table


def print_table(results: Results, console: Console) -> None:
    """Print the tables, then what was set aside."""
    console.print(results_table(results))
    if any(group.estimates for group in results.groups):
        console.print(groups_table(results))
    for form in results.forms:
        if form.overridden:
            console.print(f"{form.form}: the format overrides {', '.join(form.overridden)}", style="dim")


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("Shots", justify="right")
    table.add_column("Metric", no_wrap=True)
    table.add_column("Score", justify="right", no_wrap=True)
    table.add_column("± SE", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("Also", style="dim")
    return table


def _row(
    alias: str, shots: object, estimates: Mapping[str, Estimate], higher_is_better: Mapping[str, bool]
) -> Sequence[str]:
    first, *others = estimates
    primary = estimates[first]
    arrow = "↑" if higher_is_better.get(first.partition(",")[0], True) else "↓"
    return (
        alias,
        str(primary.n),
        str(shots),
        f"{_name(first)} {arrow}",
        f"{primary.value:.4f}",
        "" if primary.stderr is None else f"{primary.stderr:.4f}",
        _interval(primary),
        ", ".join(f"{_name(key)} {estimates[key].value:.3f}" for key in others),
    )


def _name(key: str) -> str:
    metric, _, scorer = key.partition(",")
    return metric if scorer == "none" else f"{metric} ({scorer})"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.4f} to {estimate.high:.4f}"
