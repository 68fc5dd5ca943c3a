"""The pivot table: the first score of every form of every task, and the difference between the best and the worst.

Tasks are rows and forms columns, or the other way round where there are more forms than tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multiform.results.values import FormResult, GroupResult, ResultsData, direction_words
from multiform.statistics.estimates import ALPHA, Estimate
from multiform.terminal import latex_text, one_line

if TYPE_CHECKING:
    from multiform.results.form_comparison import FormComparison

#: The longest names of forms that head a column and a row; longer ones are numbered, and listed below the table.
_LONGEST_HEADING = 14
_LONGEST_ROW = 40
_LONGEST_METRIC = 24
BEST = "*"
LEGEND = f"{BEST} cannot be told from the best form (at 5 %, corrected for all pairs of forms)"
SPREAD_LEGEND = (
    "best − worst: the interval accounts for choosing the best and worst form after seeing the scores; p is how often "
    "equally good forms would be this far apart"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PivotRow:
    """A task, or a group with the number of tasks that are folded into it."""

    name: str
    n: str
    #: The score of each form, or None, and whether it cannot be told from the best.
    scores: Sequence[Estimate | None]
    best: Sequence[bool]
    #: How much better the best form is than the worst, with interval and p value: a line for each kind of scoring.
    differences: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """The cells of the table, for any renderer."""

    #: The name of each form's format, and the metric that is shown.
    headings: Sequence[tuple[str, str]]
    rows: Sequence[PivotRow]
    notes: Sequence[str]
    #: Whether forms are shown as rows.
    turned: bool

    def cells(self, row: PivotRow) -> list[str]:
        """The scores of a row with their standard errors, aligned whether they are marked or not."""
        blank = " " if any(any(line.best) for line in self.rows) else ""
        cells = []
        for score, is_best in zip(row.scores, row.best, strict=True):
            error = "" if score is None or score.stderr is None else f" ± {score.stderr:.3f}"
            cells.append("" if score is None else f"{score.value:.4f}{error}{BEST if is_best else blank}")
        return cells


def pivot(results: ResultsData, *, turned: bool | None = None) -> Pivot:
    """Arrange the first score of every form; the tasks of a group with scores are folded into one row.

    Forms are rows where `turned` is true; by default, where there are more forms than tasks.
    """
    entries = list(_row_entries(results))
    labels = list(dict.fromkeys(_label(entry) for members in entries for entry in members))
    comparisons: dict[str, list[FormComparison]] = {}
    for comparison in shown_comparisons(results):
        comparisons.setdefault(comparison.name, []).append(comparison)
    rows = [_row(members, labels, comparisons.get(members[0].base, ())) for members in entries]
    metrics = {label: _shown_metrics(label, entries) for label in labels}
    turned = len(labels) > len(rows) if turned is None else turned
    long = [label for label in labels if len(label) > (_LONGEST_ROW if turned else _LONGEST_HEADING)]
    short = {label: f"[{long.index(label) + 1}]" if label in long else label for label in labels}
    legend = [f"{short[label]} {label}" for label in long]
    return Pivot(
        headings=[(short[label], metrics[label]) for label in labels],
        rows=rows,
        turned=turned,
        notes=[
            *legend,
            *([LEGEND] if any(any(row.best) for row in rows) else []),
            *([SPREAD_LEGEND] if any(row.differences for row in rows) else []),
            *(
                f"{entry.name}: the group has no score; see --table long"
                for members in entries
                for entry in members
                if not entry.estimates
            ),
            *_shared_notes(results),
            *_chance_notes(results, short),
            *_right_notes(results),
        ],
    )


def _row_entries(results: ResultsData) -> Iterator[list[FormResult | GroupResult]]:
    """The entries of each row: all forms of a task, or of a group whose scores stand for its tasks."""
    scored = {group.path for group in results.groups if group.estimates}
    outer = [group for group in results.groups if group.path in scored]
    inside = {name for group in outer for name in group.forms}
    shown = [
        group
        for group in outer
        if not any(group.depth > other.depth and set(group.forms) <= set(other.forms) for other in outer)
    ]
    for path in dict.fromkeys(group.path for group in shown):
        yield [group for group in shown if group.path == path]
    alone = [form for form in results.forms if form.name not in inside and form.estimates]
    for task in dict.fromkeys(form.task for form in alone):
        yield [form for form in alone if form.task == task]


def _label(entry: FormResult | GroupResult) -> str:
    """The format of a form or group; the task's own prompt has none."""
    return entry.name.removeprefix(entry.base).removeprefix("@") or "as written"


def _row(
    members: Sequence[FormResult | GroupResult], labels: Sequence[str], comparisons: Sequence[FormComparison]
) -> PivotRow:
    by_label = {_label(entry): entry for entry in members if entry.estimates}
    entries = [by_label.get(label) for label in labels]
    best = {name for comparison in comparisons for name in best_forms(comparison)}
    counts = dict.fromkeys(str(entry.score.n) for entry in members if entry.estimates)
    compared = [(comparison.scoring, spread) for comparison in comparisons if (spread := comparison.spread) is not None]
    differences = [
        (f"{scoring} " if len(compared) > 1 else "")  # which tells the lines of a row apart
        + f"{spread.spread.value:.4f} ({spread.spread.interval_text()}), p {p_text(spread.p)}"
        for scoring, spread in compared
    ]
    first = members[0]
    name = first.alias.partition("@")[0] if isinstance(first, FormResult) else first.path
    tasks = f" ({len(first.forms)} tasks)" if isinstance(first, GroupResult) else ""
    return PivotRow(
        name=name + tasks,
        n="/".join(counts),
        scores=[None if entry is None else entry.score for entry in entries],
        best=[entry is not None and entry.name in best for entry in entries],
        differences=differences,
    )


def best_forms(comparison: FormComparison) -> list[str]:
    """The forms that cannot be told from the best; none where no form can."""
    tied = comparison.tied_with_best
    return [comparison.forms[index] for index in tied] if len(tied) < len(comparison.forms) else []


def p_text(p: float) -> str:
    """A p value as tables show it.

    >>> p_text(0.59512), p_text(0.0001)
    ('0.60', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def p_words(p: float) -> str:
    """A p value in a sentence.

    >>> p_words(0.59512), p_words(0.0001)
    ('p = 0.60', 'p < 0.001')
    """
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _shown_metrics(label: str, entries: Sequence[Sequence[FormResult | GroupResult]]) -> str:
    """The metric of a column with its direction; several where tasks have different ones, on lines if they are long."""
    scored = (entry for members in entries for entry in members if entry.estimates and _label(entry) == label)
    metrics = dict.fromkeys(direction_words(entry.metric, entry.higher) for entry in scored)
    shown = " or ".join(metrics)
    return shown if len(shown) <= _LONGEST_METRIC else " or\n".join(metrics)


def shown_comparisons(results: ResultsData) -> list[FormComparison]:
    """The comparisons of the rows: those of groups, and those of tasks that are not folded into one.

    Ranked choices and generated answers are compared with each other in the results file alone.
    """
    shown = {members[0].base for members in _row_entries(results)}
    return [
        comparison for comparison in results.comparisons if comparison.name in shown and comparison.scoring != "any"
    ]


def named_comparisons(results: ResultsData) -> Iterator[tuple[str, FormComparison]]:
    """The comparisons of the rows by their names, with the kind of scoring where a row has several."""
    shown = shown_comparisons(results)
    for comparison in shown:
        several = sum(other.name == comparison.name and other.spread is not None for other in shown) > 1
        yield f"{comparison.name} ({comparison.scoring})" if several else comparison.name, comparison


def _shared_notes(results: ResultsData) -> Iterator[str]:
    """Where forms have different numbers of documents, over how many of them they are compared."""
    numbers = {entry.name: entry.n for entry in results.entries}
    for name, comparison in named_comparisons(results):
        counts = [numbers[form] for form in comparison.forms if form in numbers]
        if max(counts, default=comparison.n) > comparison.n:
            yield f"{name}: best minus worst is over the {comparison.n} documents that all forms have"


def _chance_notes(results: ResultsData, short: Mapping[str, str]) -> Iterator[str]:
    """What equal forms and a random choice would show, so that noise is not read as a finding.

    `short` has the headings of the columns.
    """
    for name, comparison in named_comparisons(results):
        spread = comparison.spread
        if spread is not None and spread.p >= ALPHA:
            yield (
                f"{name}: best − worst of {spread.spread.value:.3f} is no finding: equally good forms would be "
                f"{spread.by_chance:.3f} apart on average ({p_words(spread.p)})"
            )
        guessed = [
            form
            for form, mean, chance in zip(comparison.forms, comparison.means, comparison.chances, strict=False)
            if chance is not None and mean.covers(chance)
        ]
        if guessed:
            level = next(chance for chance in comparison.chances if chance is not None)
            labels = [form.removeprefix(comparison.name).removeprefix("@") or "as written" for form in guessed]
            named = ", ".join(short.get(label, label) for label in labels)
            which = "all forms" if len(guessed) == len(comparison.forms) else named
            yield f"{name}: a random choice scores {level:.3f}; not distinguishable from that: {which}"


def _right_notes(results: ResultsData) -> Iterator[str]:
    """How the forms of each row get single documents right."""
    for name, comparison in named_comparisons(results):
        right = comparison.rightness
        if right is not None:
            yield (
                f"{name}: right under all forms {right.under_all.value:.3f}, "
                f"some {right.under_some.value:.3f}, none {right.under_none.value:.3f}; "
                f"two forms differ on {right.flip_rate.value:.3f} of the documents"
            )


def latex(results: ResultsData) -> str:
    """The pivot table in LaTeX, for the package booktabs."""
    table = pivot(results, turned=False)
    columns = "lr" + "r" * len(table.headings) + ("l" if any(row.differences for row in table.rows) else "")
    heads = ["", "", *(latex_text(heading) for heading, _ in table.headings)]
    metrics = ["Task", "$n$", *(latex_text(metric) for _, metric in table.headings)]
    if columns.endswith("l"):
        heads, metrics = [*heads, "Best $-$ worst"], [*metrics, r"(95\,\% interval)"]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(row) + r" \\" for row in (heads, metrics)]
    lines.append(r"\midrule")
    for row in table.rows:
        values = ["" if score is None else f"{score.value:.4f}" for score in row.scores]
        scores = [rf"\textbf{{{text}}}" if is_best else text for text, is_best in zip(values, row.best, strict=True)]
        cells = [latex_text(row.name), row.n, *scores, *(["; ".join(row.differences)] if columns.endswith("l") else [])]
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {one_line(note)}" for note in table.notes)])
