"""The leaderboard of models: scores by form, how stable their order is, and their ranking by an average."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, product
from typing import Any, TypeAlias

from multiform.errors import MultiformError
from multiform.report.command import arguments_text
from multiform.results.results import Results
from multiform.results.run_comparison import compare_form
from multiform.results.values import FormResult, GroupResult
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.estimates import ALPHA, Estimate, normal_estimate
from multiform.statistics.spread import kendall_tau

Entry: TypeAlias = FormResult | GroupResult
#: A task and a kind of metric.
Kind: TypeAlias = tuple[str, str]


def headlines(results: Results) -> list[Entry]:
    """The outermost groups with a score, and the forms that are in none; of the wordings of a format, the first.

    >>> from multiform import evaluate
    >>> [entry.name for entry in headlines(evaluate(model="dummy", tasks="quiz@mcqa~3+cloze", limit=4))]
    ['quiz@mcqa', 'quiz@cloze']
    """
    groups = [group for group in results.groups if group.estimates and group.depth == 0]
    inside = {name for group in groups for name in group.forms}
    entries: list[Entry] = [*groups, *(f for f in results.forms if f.name not in inside and f.estimates)]
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.name.partition("[")[0], entry)
    return list(first.values())


def all_forms(results: Results) -> list[Entry]:
    """Every form with a score."""
    return [form for form in results.forms if form.estimates]


def leaderboard(runs: Mapping[str, Results], *, of: Callable[[Results], Sequence[Entry]] = all_forms) -> dict[str, Any]:
    """The scores of all models under all forms, and the pairs of models whose order reverses between two forms.

    `runs` has the oldest run first: a later run of the same model and form replaces its score. A model with other
    arguments is another model, and a form with other few-shot examples or a chat template another form. `of` gives the
    columns that a run has.
    """
    board = _Board(runs, of)
    for form in board.forms:
        board.mark_tied(form)
    leads = {pair: board.leads(*pair) for pair in combinations(board.models, 2)}
    compared = sum(
        math.comb(n, 2) for found in leads.values() for n in Counter(kind for kind, _ in found.values()).values()
    )
    reversals = sorted(board.reversals(leads), key=lambda entry: -min(entry["lead"], -entry["deficit"]))
    taus = list(board.taus())
    return {
        "models": board.models,
        "forms": board.forms,
        "cells": [[board.cells.get((model, form)) for form in board.forms] for model in board.models],
        "reversals": reversals,
        "tau": taus,
        **_stability(compared, reversals, [entry["tau"] for entry in taus if entry["tau"] is not None]),
    }


class _Board:
    """The scores of models under forms, as cells by model and form, and what each cell was made of."""

    def __init__(self, runs: Mapping[str, Results], of: Callable[[Results], Sequence[Entry]]) -> None:
        self.cells: dict[tuple[str, str], dict[str, Any]] = {}
        self.entries: dict[tuple[str, str], Entry] = {}
        labels = model_labels(runs)
        for key, results in runs.items():
            for entry in of(results):
                place = labels[key], form_label(entry, results)
                self.cells[place] = {**score_cell(entry), "run": key}
                self.entries[place] = entry
        self.models = sorted({model for model, _ in self.cells})
        self.forms = sorted({form for _, form in self.cells})

    def scored_cells(self, form: str) -> dict[str, dict[str, Any]]:
        """The cells of a form that have a score, by model."""
        cells = {model: self.cells.get((model, form)) for model in self.models}
        return {model: cell for model, cell in cells.items() if cell is not None and cell["value"] is not None}

    def mark_tied(self, form: str) -> None:
        """Mark the models that cannot be told from the best under a form, corrected for all pairs of models."""
        scored = self.scored_cells(form)
        if len(scored) < 2:
            return
        best = max(scored, key=lambda model: _signed_score(scored[model]))
        pairs = math.comb(len(scored), 2)
        for model, cell in scored.items():
            cell["tied"] = model == best or not self.differ(best, model, form, comparisons=pairs)

    def differ(self, first: str, second: str, form: str, *, comparisons: int = 1) -> bool:
        """Whether two models differ: by the test of paired documents, else by intervals that lie apart."""
        ours, theirs = self.entries[first, form], self.entries[second, form]
        p = None
        with suppress(MultiformError):  # too few documents in common, or other ones
            if isinstance(ours, FormResult) and isinstance(theirs, FormResult):
                p = compare_form(ours, theirs).p
        if p is not None:
            return p * comparisons < ALPHA
        a, b = self.cells[first, form], self.cells[second, form]
        bounds = [a["low"], a["high"], b["low"], b["high"]]
        return None not in bounds and bool(a["low"] > b["high"] or b["low"] > a["high"])

    def leads(self, first: str, second: str) -> dict[str, tuple[Kind, float]]:
        """By how much the first model is better under each form that both have, with the task and kind of metric."""
        leads = {}
        for form in self.forms:
            scored = self.scored_cells(form)
            if first in scored and second in scored and _kind(scored[first]) == _kind(scored[second]):
                leads[form] = _kind(scored[first]), _signed_score(scored[first]) - _signed_score(scored[second])
        return leads

    def reversals(self, leads: Mapping[tuple[str, str], Mapping[str, tuple[Kind, float]]]) -> Iterator[dict[str, Any]]:
        """Pairs of models of which each is ahead under another form of the same task."""
        for (first, second), by_form in leads.items():
            for (form, (kind, lead)), (other, (other_kind, deficit)) in product(by_form.items(), repeat=2):
                if kind == other_kind and lead > 0 > deficit:
                    yield {
                        "ahead": first,
                        "behind": second,
                        "form": form,
                        "lead": lead,
                        "other": other,
                        "deficit": deficit,
                        "clear": self.differ(first, second, form) and self.differ(first, second, other),
                    }

    def taus(self) -> Iterator[dict[str, Any]]:
        """Kendall's tau between the orders of models under two forms of a task that three or more models have."""
        for form, other in combinations(self.forms, 2):
            first, second = self.scored_cells(form), self.scored_cells(other)
            shared = [model for model in first if model in second and _kind(first[model]) == _kind(second[model])]
            if len(shared) >= 3:
                tau = kendall_tau(*([_signed_score(cells[model]) for model in shared] for cells in (first, second)))
                number = tau if math.isfinite(tau) else None
                yield {"form": form, "other": other, "models": len(shared), "tau": number}


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
    shots = f" · {form.num_fewshot}-shot" if form.num_fewshot else ""
    return f"{form.name}{shots}{' · chat' if results.provenance.get('chat_template') else ''}"


def _stability(compared: int, reversals: Sequence[Any], taus: Sequence[float]) -> dict[str, Any]:
    """How stable the order of the models is, in numbers and in a sentence; None where there is nothing to compare."""
    numbers = {
        "compared": compared,
        "reversed": len(reversals),
        "clear": sum(entry["clear"] for entry in reversals),
        "mean_tau": sum(taus) / len(taus) if taus else None,
        "min_tau": min(taus, default=None),
    }
    words = None
    if compared:
        words = (
            f"the order of two models reverses between two forms of a task in {len(reversals)} of {compared} cases "
            f"({len(reversals) / compared:.0%}), clearly in {numbers['clear']}"
        )
        if taus:
            words += (
                f"; Kendall's tau between two forms is {numbers['mean_tau']:.2f} ({numbers['min_tau']:.2f} at least)"
            )
    return {"stability": numbers, "summary": words}


def score_cell(entry: Entry) -> dict[str, Any]:
    """The first score of a form or group, as pages show it."""
    score = entry.score
    return {
        "task": entry.base,
        "metric": entry.metric,
        "value": score.value if math.isfinite(score.value) else None,
        "low": score.low,
        "high": score.high,
        "n": entry.n,
        "higher": entry.higher,
    }


def _signed_score(cell: Mapping[str, Any]) -> float:
    """The score of a cell, such that more is better."""
    return float(cell["value"] if cell["higher"] else -cell["value"])


def _kind(cell: Mapping[str, Any]) -> Kind:
    """The task and the kind of metric of a cell: only leads of one kind can reverse."""
    return cell["task"], "accuracy" if cell["metric"] in RIGHT_OR_WRONG else cell["metric"]


def ranking(runs: Mapping[str, Results], columns: Sequence[str] | None) -> dict[str, Any]:
    """The models by their average over some columns, in tiers that can be told apart; best first.

    Without `columns`: those that the models have which share the most common one. Only columns of one kind of metric
    are averaged, that of most columns. Forms of one task have the same documents, so that their standard errors add up
    in full, while those of different tasks add up as independent ones do; models are compared as if their documents
    were different ones. Both make the intervals rather too wide than too narrow.
    """
    board = _Board(runs, headlines)
    models, cells = board.models, board.cells
    known = {name: _column_kind(name, cells) for name in board.forms}
    names = [name for name in (known if columns is None else columns) if name in known]
    kinds = [known[name] for name in names]
    names = [name for name in names if known[name] == max(kinds, key=kinds.count)]
    if columns is None:
        sharing = [{model for model in models if (model, name) in cells} for name in names]
        most = max(sharing, key=len, default=set())
        names = [name for name, having in zip(names, sharing, strict=True) if most <= having]
    lacking = {model: [name for name in names if (model, name) not in cells] for model in models}
    averages = {
        model: _average([board.entries[model, name] for name in names]) for model in models if not lacking[model]
    }
    higher = not names or known[names[0]][1]
    order = sorted(averages, key=lambda model: -averages[model].value if higher else averages[model].value)
    tiers = _tiers([averages[model] for model in order])
    return {
        "columns": names,
        "ranking": [
            {"model": model, "tier": tier, "value": a.value, "low": a.low, "high": a.high}
            for model, tier in zip(order, tiers, strict=True)
            for a in [averages[model]]
        ]
        if names
        else [],
        "unranked": [{"model": model, "lacks": lacks} for model, lacks in lacking.items() if lacks],
    }


def _column_kind(name: str, cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[str, bool]:
    """The kind of metric of a column, and whether more is better."""
    cell = next(cell for (_, form), cell in cells.items() if form == name)
    return _kind(cell)[1], cell["higher"]


def _average(entries: Sequence[Entry]) -> Estimate:
    """The mean of some scores, each with the same weight."""
    estimates = [entry.score for entry in entries]
    by_task: dict[str, list[float | None]] = {}
    for entry in entries:
        by_task.setdefault(entry.base, []).append(entry.score.stderr)
    value = sum(estimate.value for estimate in estimates) / len(estimates) if estimates else math.nan
    errors = [sum(found) if None not in (found := errors) else None for errors in by_task.values()]  # type: ignore[arg-type]
    known = [error for error in errors if error is not None]
    stderr = math.hypot(*known) / len(estimates) if estimates and len(known) == len(errors) else None
    return normal_estimate(value, stderr, min((estimate.n for estimate in estimates), default=0))


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
