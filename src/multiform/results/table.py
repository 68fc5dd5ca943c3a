"""The table of a run: a row for each form."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from multiform.results.results import FormResult, Results
from multiform.scoring.statistics import Estimate


def results_table(results: Results) -> Table:
    """A row for each form: its first metric with its uncertainty, and the others in short."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("Form", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("Shots", justify="right")
    table.add_column("Metric", no_wrap=True)
    table.add_column("Score", justify="right", no_wrap=True)
    table.add_column("± SE", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("Also", style="dim")
    for form in results.forms:
        table.add_row(*_row(form))
    return table


def print_table(results: Results, console: Console) -> None:
    """Print the table, then what was set aside."""
    console.print(results_table(results))
    for form in results.forms:
        if form.set_aside:
            console.print(f"{form.form}: the format sets aside {', '.join(form.set_aside)}", style="dim")


def _row(form: FormResult) -> Sequence[str]:
    primary = form.estimates[form.primary]
    return (
        form.alias,
        str(primary.n),
        str(form.num_fewshot),
        _metric(form, form.primary),
        f"{primary.value:.4f}",
        "" if primary.stderr is None else f"{primary.stderr:.4f}",
        _interval(primary),
        ", ".join(_short(form, key) for key in form.estimates if key != form.primary),
    )


def _metric(form: FormResult, key: str) -> str:
    metric, _, scorer = key.partition(",")
    arrow = "↑" if form.higher_is_better.get(metric, True) else "↓"
    return f"{metric} {arrow}" if scorer == "none" else f"{metric} ({scorer}) {arrow}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.4f} to {estimate.high:.4f}"


def _short(form: FormResult, key: str) -> str:
    metric, _, scorer = key.partition(",")
    name = metric if scorer == "none" else f"{metric} ({scorer})"
    return f"{name} {form.estimates[key].value:.3f}"
