"""Results as a pandas data frame, and as an HTML table for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from multiform.errors import UsageError
from multiform.results.results import FormResult, GroupResult, Results
from multiform.results.rows import COLUMNS as SAMPLE_COLUMNS
from multiform.results.rows import sample_rows

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = (
    *("name", "kind", "task", "format", "metric", "filter", "value", "stderr", "low", "high"),
    *("n", "num_fewshot", "higher_is_better", "chance", "above_chance"),
)


def scores_frame(results: Results) -> DataFrame:
    """A data frame with a row for each metric and filter of each form and group."""
    return _frame(list(frame_rows(results)), COLUMNS)


def samples_frame(results: Results) -> DataFrame:
    """A data frame with a row for each sample of each form."""
    rows = list(sample_rows(results.forms))
    return _frame(rows, dict.fromkeys([*SAMPLE_COLUMNS, *(name for row in rows for name in row)]))


def _frame(rows: list[dict[str, Any]], columns: Iterable[str]) -> DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise UsageError("to_pandas needs the package pandas", hint="pip install pandas") from error
    return pandas.DataFrame(rows, columns=list(columns))


def frame_rows(results: Results) -> Iterator[dict[str, Any]]:
    """A row for each metric and filter of each form and group."""
    chances = {
        name: (chance, comparison.above_chance(index))
        for comparison in results.comparisons
        for index, (name, chance) in enumerate(zip(comparison.forms, comparison.chances, strict=False))
    }
    for entry in results.entries:
        for number, row in enumerate(_rows(entry)):
            chance, above = chances.get(entry.name, (None, None)) if number == 0 else (None, None)
            yield {**row, "chance": chance, "above_chance": above}


def _rows(entry: FormResult | GroupResult) -> Iterator[dict[str, Any]]:
    about: dict[str, Any] = {"name": entry.name, "kind": "group", "num_fewshot": entry.num_fewshot}
    if isinstance(entry, FormResult):
        about |= {"kind": "form", "task": entry.task, "format": entry.format_label}
    for key, estimate in entry.estimates.items():
        metric, _, scorer = key.partition(",")
        yield about | {
            "metric": metric,
            "filter": scorer,
            "value": estimate.value,
            "stderr": estimate.stderr,
            "low": estimate.low,
            "high": estimate.high,
            "n": estimate.n,
            "higher_is_better": entry.higher_is_better.get(metric),
        }


def html_table(results: Results) -> str:
    """The results as an HTML table, a row for each metric of each form, then of each group; then the notes."""
    from multiform.results.notes import result_notes
    from multiform.results.table import COLUMNS, rows

    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    shown = [row for entry in results.entries for row in rows(entry)]
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown)
    notes = "".join(f"<p>{escape(note)}</p>" for note in result_notes(results))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{notes}"
