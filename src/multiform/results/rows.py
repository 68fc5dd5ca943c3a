"""Samples as flat rows, one for each document, form and filter: for data frames, Parquet files and reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from multiform.forms import ScoredSample
from multiform.paths import replace_output
from multiform.requests import Completion, LLOutput
from multiform.results.results import FormResult
from multiform.results.samples import choices_and_labels

#: The columns of every row; those of the metrics follow.
COLUMNS = (
    *("form", "task", "format", "filter", "doc_id", "prompt", "choices", "labels", "loglikelihoods"),
    *("gold", "picked", "raw", "extracted", "truncated"),
)


def sample_rows(forms: Sequence[FormResult]) -> Iterator[dict[str, Any]]:
    """A row for each sample of each form: its prompt, the model's response and its scores."""
    for form in forms:
        about = {"form": form.name, "task": form.task, "format": form.format_label}
        for sample in form.samples:
            yield {**about, **sample_row(sample)}


def sample_row(sample: ScoredSample) -> dict[str, Any]:
    """The columns of one sample, and a column for each of its metrics."""
    scores = [output.loglikelihood for output in sample.outputs if isinstance(output, LLOutput)]
    completions = [output for output in sample.outputs if isinstance(output, Completion)]
    rendered = sample.sample
    choices, labels = choices_and_labels(rendered)
    return {
        "filter": sample.scorer,
        "doc_id": sample.doc_id,
        "prompt": rendered.prompt,
        "choices": choices or None,
        "labels": labels or None,
        "loglikelihoods": scores or None,
        "gold": sample.gold,
        "picked": sample.prediction if scores and rendered.choices else None,
        "raw": [completion.text for completion in completions] or None,
        "extracted": sample.prediction if completions else None,
        "truncated": any(completion.truncated for completion in completions),
        **sample.values,
    }


def write_parquet(forms: Sequence[FormResult], path: Path) -> Path:
    """Write the rows to a Parquet file; values that differ in type from row to row are written as JSON."""
    import pyarrow
    import pyarrow.parquet

    rows = list(sample_rows(forms))
    names = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    with replace_output(path) as file:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return path


def _column(values: list[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        return pyarrow.array([None if value is None else json.dumps(value, default=str) for value in values])
