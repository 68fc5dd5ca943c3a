"""Scores as Markdown tables with lm-eval's columns: a row for each metric and filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.results.failures import result_notes
from multiform.results.results import FormResult, GroupResult, Results
from multiform.statistics.estimates import Estimate
from multiform.terminal import markdown_text

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
