"""Results: what `evaluate` and `read_results` return, with its tables, data frames, charts and files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multiform.results.values import ResultsData, no_such_form
from multiform.terminal import screen_width

if TYPE_CHECKING:
    from pandas import DataFrame

    from multiform.results.drawing import Charts


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Results(ResultsData):
    """The results of a run: a mapping of forms and groups to scores, as in ``results["arc_easy@mcqa"]["acc"]``."""

    def samples(self, name: str | None = None) -> list[dict[str, Any]]:
        """The samples of a form, as lines of a samples file: documents with their prompts, responses and values.

        Without a name: a flat row for each sample of every form, as in `to_pandas`.
        """
        from multiform.results.export import sample_rows
        from multiform.results.samples import sample_lines

        if name is None:
            return list(sample_rows(self.forms))
        for form in self.forms:
            if form.name == name:
                return list(sample_lines(form))
        raise no_such_form(name, [form.name for form in self.forms])

    def save(self, path: str | Path, *, samples: bool = True) -> list[Path]:
        """Write the results, and the samples of each form, to a folder or .json file; returns the written files."""
        from multiform.results.export import write_results

        return write_results(self, Path(path), samples=samples)

    def table(self, style: str | None = None, *, width: int | None = None) -> str:
        """The scores as text: a "long", "pivot", "markdown", "csv" or "latex" table, as the command line prints it.

        With a `width`, names are folded and columns moved to a next part, so that no line is longer.
        """
        from multiform.results.table import table_text

        return table_text(self, style, width=width)

    def to_pandas(self, table: Literal["samples", "scores"] = "samples") -> DataFrame:
        """A data frame with a row for each sample of each form: its prompt, choices, log-likelihoods, gold, scores.

        `table="scores"` has a row for each metric and filter of each form and group.
        """
        from multiform.results.export import data_frame

        return data_frame(self, table)

    @property
    def chart(self) -> Charts:
        """The charts of the run, as Altair objects: ``results.chart.scores()``, ``.heatmap()`` and so on."""
        from multiform.results.drawing import Charts

        return Charts(self)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the rows of `to_pandas` to a Parquet file; returns its path."""
        from multiform.results.export import write_parquet

        return write_parquet(self.forms, Path(path))

    def __str__(self) -> str:
        """The table, as `print(results)` shows it, in a terminal in lines that fit."""
        return repr(self) if "plan" in self.run else self.table(width=screen_width(sys.stdout)).rstrip("\n")

    def _repr_html_(self) -> str:
        """What a notebook shows: the table, the spread over forms, notes, and a chart where Altair is installed."""
        from multiform.results.drawing import chart_image
        from multiform.results.table import html_text

        return html_text(self) + chart_image(self)
