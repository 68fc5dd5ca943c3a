"""The leaderboard of models: scores by form, how stable their order is, their ranking by an average, and scores over
checkpoints or dates."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, product
from typing import Any, TypeAlias

from multiform.errors import MultiformError
from multiform.report.page import minute, setting_words
from multiform.results.charts import ChartAxis, ChartPanel, ChartSpec, describe_chart, metric_axis
from multiform.results.provenance import arguments_text
from multiform.results.results import Results
from multiform.results.run_comparison import compare_form
from multiform.results.values import FormResult, GroupResult, metric_kind
from multiform.statistics.differences import kendall_tau
from multiform.statistics.estimates import ALPHA, Estimate, normal_estimate

Entry: TypeAlias = FormResult | GroupResult
#: By how much a model is better than another under each form that both have.
Leads: TypeAlias = dict[str, float]


def headlines(results: Results) -> list[Entry]:
    """The outermost groups with a score, and the forms that are in none; of the wordings of a format, the first.

    >>> from multiform import evaluate
    >>> [entry.name for entry in headlines(evaluate(model="dummy", tasks="quiz@mcqa~3+cloze", limit=4))]
    ['quiz@mcqa', 'quiz@cloze']
    """
    first: dict[str, Entry] = {}
    for entry in results.headlines:
        first.setdefault(entry.name.partition("[")[0], entry)
    return list(first.values())


def all_forms(results: Results) -> list[Entry]:
    """Every form with a score."""
    return [form for form in results.forms if form.has_score]


class Leaderboard:
    """The newest score of every model under every form or group, and the run that it is from.

    `runs` has the oldest run first: a later run of the same model and form replaces its score. A model with other
    arguments is another model, and a form with other few-shot examples or a chat template another form. `of` gives the
    columns that a run has.
    """

    def __init__(self, runs: Mapping[str, Results], of: Callable[[Results], Sequence[Entry]] = all_forms) -> None:
        entries: dict[tuple[str, str], Entry] = {}
        self._runs: dict[tuple[str, str], str] = {}
        labels = model_labels(runs)
        for key, results in runs.items():
            for entry in of(results):
                place = labels[key], form_label(entry, results)
                entries[place], self._runs[place] = entry, key
        self.models = sorted({model for model, _ in entries})
        self.forms = sorted({form for _, form in entries})
        #: The scores under each form, by model.
        self._columns = {
            form: {model: entries[model, form] for model in self.models if (model, form) in entries}
            for form in self.forms
        }

    def to_dict(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """The leaderboard as JSON: scores, how stable the order of models is, and the ranking over some columns."""
        tied = {form: self._tied_with_best(form) for form in self.forms}
        cells = [[self._cell(model, form, tied[form]) for form in self.forms] for model in self.models]
        return {
            "models": self.models,
            "forms": self.forms,
            "cells": cells,
            **self._stability(),
            **self._ranking(columns),
        }

    def _cell(self, model: str, form: str, tied: set[str] | None) -> dict[str, Any] | None:
        if (entry := self._columns[form].get(model)) is None:
            return None
        known = {} if tied is None else {"tied": model in tied}
        return {**score_cell(entry), "run": self._runs[model, form], **known}

    def _tied_with_best(self, form: str) -> set[str] | None:
        """The models that cannot be told from the best under a form, corrected for all pairs of models."""
        column = self._columns[form]
        if len(column) < 2:
            return None
        best = max(column, key=lambda model: column[model].signed_score)
        pairs = math.comb(len(column), 2)
        return {model for model in column if model == best or not self._differ(best, model, form, comparisons=pairs)}

    def _differ(self, first: str, second: str, form: str, *, comparisons: int = 1) -> bool:
        """Whether two models differ: by the test of paired documents, else by intervals that lie apart."""
        ours, theirs = self._columns[form][first], self._columns[form][second]
        p = None
        with suppress(MultiformError):  # too few documents in common, or other ones
            if isinstance(ours, FormResult) and isinstance(theirs, FormResult):
                p = compare_form(ours, theirs).p
        if p is not None:
            return p * comparisons < ALPHA
        (low, high), (other_low, other_high) = ours.score.interval, theirs.score.interval
        return low > other_high or other_low > high

    def _leads(self, first: str, second: str) -> dict[tuple[str, str], Leads]:
        """The leads of a model over another, by task and kind of metric: only leads of one kind can reverse."""
        leads: dict[tuple[str, str], Leads] = {}
        for form, column in self._columns.items():
            if first in column and second in column and _kind(column[first]) == _kind(column[second]):
                lead = column[first].signed_score - column[second].signed_score
                leads.setdefault(_kind(column[first]), {})[form] = lead
        return leads

    def _reversals(self, first: str, second: str, leads: Leads) -> Iterator[dict[str, Any]]:
        """Pairs of forms of a task under which each of two models is ahead."""
        for (form, lead), (other, deficit) in product(leads.items(), repeat=2):
            if lead > 0 > deficit:
                yield {
                    "ahead": first,
                    "behind": second,
                    "form": form,
                    "lead": lead,
                    "other": other,
                    "deficit": deficit,
                    "clear": self._differ(first, second, form) and self._differ(first, second, other),
                }

    def _taus(self) -> Iterator[dict[str, Any]]:
        """Kendall's tau between the orders of models under two forms of a task that three or more models have."""
        for (form, first), (other, second) in combinations(self._columns.items(), 2):
            shared = [model for model in first if model in second and _kind(first[model]) == _kind(second[model])]
            if len(shared) >= 3:
                tau = kendall_tau(*([column[model].signed_score for model in shared] for column in (first, second)))
                number = tau if math.isfinite(tau) else None
                yield {"form": form, "other": other, "models": len(shared), "tau": number}

    def _stability(self) -> dict[str, Any]:
        """How stable the order of the models is, in numbers and in a sentence; None where nothing can be compared."""
        pairs = {pair: self._leads(*pair).values() for pair in combinations(self.models, 2)}
        reversals = [r for pair, kinds in pairs.items() for leads in kinds for r in self._reversals(*pair, leads)]
        reversals.sort(key=lambda entry: -min(entry["lead"], -entry["deficit"]))
        taus = list(self._taus())
        known = [entry["tau"] for entry in taus if entry["tau"] is not None]
        numbers = {
            "compared": sum(math.comb(len(leads), 2) for kinds in pairs.values() for leads in kinds),
            "reversed": len(reversals),
            "clear": sum(entry["clear"] for entry in reversals),
            "mean_tau": sum(known) / len(known) if known else None,
            "min_tau": min(known, default=None),
        }
        words = None
        if compared := numbers["compared"]:
            words = (
                f"the order of two models reverses between two forms of a task in {len(reversals)} of {compared} cases "
                f"({len(reversals) / compared:.0%}), clearly in {numbers['clear']}"
            )
            if known:
                mean, least = numbers["mean_tau"], numbers["min_tau"]
                words += f"; Kendall's tau between two forms is {mean:.2f} ({least:.2f} at least)"
        return {"reversals": reversals, "tau": taus, "stability": numbers, "summary": words}

    def _ranking(self, columns: Sequence[str] | None) -> dict[str, Any]:
        """The models by their average over some columns, in tiers that can be told apart; best first.

        Without `columns`: those that the models have which share the most common one. Only columns of one kind of
        metric are averaged, that of most columns. Forms of one task have the same documents, so that their standard
        errors add up in full, while those of different tasks add up as independent ones do; models are compared as if
        their documents were different ones. Both make the intervals rather too wide than too narrow.
        """
        first = {form: next(iter(column.values())) for form, column in self._columns.items()}
        kinds = {form: (metric_kind(entry.metric), entry.higher) for form, entry in first.items()}
        names = [name for name in (kinds if columns is None else columns) if name in kinds]
        most_common = Counter(kinds[name] for name in names).most_common(1)
        names = [name for name in names if kinds[name] == most_common[0][0]]
        if columns is None:
            sharing = {name: set(self._columns[name]) for name in names}
            most = max(sharing.values(), key=len, default=set())
            names = [name for name, having in sharing.items() if most <= having]
        lacking = {model: [name for name in names if model not in self._columns[name]] for model in self.models}
        averages = {
            model: _average([self._columns[name][model] for name in names])
            for model in self.models
            if names and not lacking[model]
        }
        sign = -1 if names and kinds[names[0]][1] else 1
        order = sorted(averages, key=lambda model: sign * averages[model].value)
        tiers = _tiers([averages[model] for model in order])
        return {
            "columns": names,
            "ranking": [
                {"model": model, "tier": tier, **averages[model].numbers()}
                for model, tier in zip(order, tiers, strict=True)
            ],
            "unranked": [{"model": model, "lacks": lacks} for model, lacks in lacking.items() if lacks],
        }


def model_labels(runs: Mapping[str, Results]) -> dict[str, str]:
    """The label of each run's model: its name, with its arguments where the same name has several."""
    names = {key: results.model_name for key, results in runs.items()}
    # A label tells models apart, whatever their arguments.
    arguments = {
        key: "" if results.run.get("label") else arguments_text(results.run.get("model_args"))
        for key, results in runs.items()
    }
    ambiguous = {name for name in names.values() if len({arguments[key] for key in names if names[key] == name}) > 1}
    return {
        key: f"{name} ({arguments[key] or 'no arguments'})" if name in ambiguous else name
        for key, name in names.items()
    }


def form_label(form: Entry, results: Results) -> str:
    """The name of a column: a form or group, with its few-shot examples and chat template."""
    return " · ".join([form.name, *setting_words([form], results)])


def score_cell(entry: Entry) -> dict[str, Any]:
    """The first score of a form or group, as pages show it."""
    about = {"task": entry.base, "metric": entry.metric, "n": entry.n, "higher": entry.higher}
    return {**about, **entry.score.numbers()}


def _kind(entry: Entry) -> tuple[str, str]:
    """The task of a score and the kind of its metric."""
    return entry.base, metric_kind(entry.metric)


def _average(entries: Sequence[Entry]) -> Estimate:
    """The mean of some scores, each with the same weight."""
    by_task: dict[str, list[float]] = {}
    for entry in entries:
        error = math.nan if entry.score.stderr is None else entry.score.stderr
        by_task.setdefault(entry.base, []).append(error)
    value = sum(entry.score.value for entry in entries) / len(entries)
    stderr = math.hypot(*map(sum, by_task.values())) / len(entries)
    return normal_estimate(value, None if math.isnan(stderr) else stderr, min(entry.score.n for entry in entries))


def _tiers(averages: Sequence[Estimate]) -> list[int]:
    """The tier of each average, best first: the first that differs from the leader of a tier leads the next."""
    pairs = max(1, math.comb(len(averages), 2))
    tiers: list[int] = []
    leader, tier = 0, 0
    for index, average in enumerate(averages):
        if _are_apart(averages[leader], average, pairs):
            leader, tier = index, tier + 1
        tiers.append(tier)
    return tiers


def _are_apart(first: Estimate, second: Estimate, comparisons: int) -> bool:
    if first.stderr is None or second.stderr is None:
        return False
    error = math.hypot(first.stderr, second.stderr)
    if error == 0:
        return first.value != second.value
    return math.erfc(abs(first.value - second.value) / error / math.sqrt(2)) * comparisons < ALPHA


#: How names and arguments of models say which checkpoint they are.
_STEP = re.compile(r"(?:global_?step|step|checkpoint|ckpt|iter)[-_=]?(\d+)([kKmM]?)\b")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
#: The most series of a chart.
_SERIES = 7


def checkpoint(label: str) -> tuple[str, int] | None:
    """The family of a model and its step; None for a model that names none.

    >>> checkpoint("pythia-70m (revision=step3000)"), checkpoint("pythia-70m")
    (('pythia-70m (revision=step…)', 3000), None)
    """
    match = _STEP.search(label)
    if match is None:
        return None
    family = label[: match.start(1)] + "…" + label[match.end() :]
    return family, int(match.group(1)) * _FACTORS[match.group(2).lower()]


def history_charts(runs: Mapping[str, Results]) -> list[ChartSpec]:
    """A chart for each family of checkpoints, and for each model that ran more than once, of the scores that recur."""
    families: dict[str, list[tuple[Any, str, str, Results]]] = {}
    for key, label in model_labels(runs).items():
        found = checkpoint(label)
        family, at = (label, minute(runs[key])) if found is None else found
        families.setdefault(family, []).append((at, key, f"{at:,}" if isinstance(at, int) else at, runs[key]))
    return [
        chart
        for family, points in families.items()
        if len({at for at, *_ in points}) > 1
        for chart in _charts(family, sorted(points, key=lambda point: point[0]))
    ]


def _charts(family: str, points: list[tuple[Any, str, str, Results]]) -> Iterator[ChartSpec]:
    by_metric: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for _, key, at, results in points:
        for entry in headlines(results):
            label, score = form_label(entry, results), entry.score
            row = {"at": at, "series": label, "score": score.value, "low": score.low, "high": score.high}
            by_metric.setdefault(metric_kind(entry.metric), {}).setdefault(label, []).append({**row, "run": key})
    panels = []
    for metric, series in by_metric.items():
        recurring = [rows for rows in series.values() if len(rows) > 1]
        rows = [row for some in recurring[:_SERIES] for row in some]
        more = f" (the first {_SERIES} of {len(recurring)} columns)" if len(recurring) > _SERIES else ""
        if rows:
            panels.append(
                ChartPanel(
                    mark="line",
                    title=metric + more,
                    x=ChartAxis(field="at", names=list(dict.fromkeys(at for _, _, at, _ in points))),
                    y=metric_axis(metric, rows),
                    color="series",
                    rows=rows,
                )
            )
    if panels:
        yield describe_chart(family, f"scores of {family}", panels)
