"""Results: what `evaluate` and `read_results` return, with its tables, data frames, charts and files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multiform.errors import MultiformError, RunInterrupted, UsageError, nearest
from multiform.results.values import FormResult, GroupResult
from multiform.terminal import screen_width

if TYPE_CHECKING:
    from pandas import DataFrame

    from multiform.results.drawing import Charts
    from multiform.results.form_comparison import FormComparison


class NoSuchResultError(UsageError, KeyError):
    """There is no form, group or metric of that name; also a KeyError, as for any mapping."""


class Scores(dict[str, Any]):
    """The scores of a form or group, keyed ``metric,filter``; ``metric`` is enough if there is one filter.

    ``metric_interval`` is the 95 % interval, which lm-eval's keys, over which this iterates, do not have.

    >>> scores = Scores("quiz@mcqa", {"acc,none": 0.5, "acc_stderr,none": 0.1}, {"acc,none": (0.3, 0.7)})
    >>> scores["acc"], scores["acc_stderr"], scores["acc_interval"], scores.get("f1"), "acc" in scores
    (0.5, 0.1, (0.3, 0.7), None, True)
    >>> scores["accuracy"]
    Traceback (most recent call last):
    multiform.results.results.NoSuchResultError: quiz@mcqa: no score 'accuracy'; there are: acc
    """

    def __init__(
        self, name: str, values: dict[str, Any], intervals: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        super().__init__(values)
        self.name = name
        self._intervals = {key.replace(",", "_interval,", 1): bounds for key, bounds in (intervals or {}).items()}

    def __missing__(self, key: str) -> Any:
        if key in self._intervals:
            return self._intervals[key]
        keys = self._keys_of(key)
        if len(keys) == 1:
            return self[keys[0]]
        if keys:
            message, hint = f"'{key}' has several filters", f"ask for {' or '.join(map(repr, keys))}"
            raise NoSuchResultError(message, where=self.name, hint=hint)
        metrics = [name.partition(",")[0] for name in self if "," in name]
        listed = [name for name in dict.fromkeys(metrics) if not name.endswith("_stderr")]
        raise NoSuchResultError(f"no score '{key}'", where=self.name, hint=f"there are: {', '.join(listed) or 'none'}")

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and len(self._keys_of(key)) == 1)

    def _keys_of(self, metric: str) -> list[str]:
        return [key for key in (*self, *self._intervals) if key.partition(",")[0] == metric and "," in key]


def no_such_form(name: str, names: Iterable[str]) -> NoSuchResultError:
    """The error for a form or group that was not run, with those that were."""
    known = list(names)
    hint = f"there are: {', '.join(known)}" if len(known) <= 20 else nearest(str(name), known, listed="there are")
    return NoSuchResultError(f"no form or group '{name}'", where="results", hint=hint)


#: The largest number of lines of a `repr`.
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Results(Mapping[str, Scores]):
    """The results of a run: a mapping of forms and groups to scores, as in ``results["arc_easy@mcqa"]["acc"]``."""

    forms: Sequence[FormResult]
    #: The settings of the run: model, arguments, seeds and so on.
    run: Mapping[str, Any]
    #: When, where and with which software the run was done.
    provenance: Mapping[str, Any]
    groups: Sequence[GroupResult] = ()
    #: The forms of each task and group that was run under several, compared on the same documents.
    comparisons: Sequence[FormComparison] = ()
    #: "complete", or why they are partial: "stopped" by a signal, "failed", or still "running".
    status: Literal["complete", "stopped", "failed", "running"] = "complete"
    #: The files that the run has written.
    files: Sequence[Path] = field(default=(), compare=False)
    #: What kept the run from being complete.
    problem: MultiformError | RunInterrupted | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> Scores:
        for entry in self.entries:
            if entry.name == name:
                return Scores(name, entry.scores(), {key: e.interval for key, e in entry.estimates.items()})
        raise no_such_form(name, self)

    @property
    def entries(self) -> list[FormResult | GroupResult]:
        """All forms, then all groups."""
        return [*self.forms, *self.groups]

    @property
    def headlines(self) -> list[FormResult | GroupResult]:
        """The outermost groups with a score, then the forms with one that are in none of them."""
        groups = [group for group in self.groups if group.has_score and group.depth == 0]
        inside = {name for group in groups for name in group.forms}
        return [*groups, *(form for form in self.forms if form.name not in inside and form.has_score)]

    @property
    def model_name(self) -> str:
        """What the model is called: by the label of a sweep, by its own name, or by its kind."""
        return str(self.run.get("label") or self.provenance.get("model_name") or self.run.get("model") or "model")

    def __iter__(self) -> Iterator[str]:
        yield from (group.name for group in self.groups)
        yield from (form.name for form in self.forms)

    def __len__(self) -> int:
        return len(self.forms) + len(self.groups)

    def samples(self, name: str | None = None) -> list[dict[str, Any]]:
        """The samples of a form, as lines of a samples file: documents with their prompts, responses and values.

        Without a name: a flat row for each sample of every form, as in `to_pandas`.
        """
        from multiform.results.export import sample_rows
        from multiform.results.samples import sample_lines

        if name is None:
            return list(sample_rows(self.forms))
        forms = {form.name: form for form in self.forms}
        if name not in forms:
            raise no_such_form(name, forms)
        return list(sample_lines(forms[name]))

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

    def __repr__(self) -> str:
        if "plan" in self.run:
            return f"<Results: plan only; {self.run['plan']}>"
        lines = [f"  {entry.summary}" for entry in self.entries if entry.estimates]
        more = [f"  and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        kind = "Results" if self.status == "complete" else f"Partial results ({self.status})"
        return "\n".join([f"<{kind} of {self.run.get('model')}: {len(self.forms)} forms>", *lines[:_SHOWN], *more])

    def __str__(self) -> str:
        """The table, as `print(results)` shows it, in a terminal in lines that fit."""
        return repr(self) if "plan" in self.run else self.table(width=screen_width(sys.stdout)).rstrip("\n")

    def _repr_html_(self) -> str:
        """What a notebook shows: the table, the spread over forms, notes, and a chart where Altair is installed."""
        from multiform.results.drawing import chart_image
        from multiform.results.table import html_text

        return html_text(self) + chart_image(self)
