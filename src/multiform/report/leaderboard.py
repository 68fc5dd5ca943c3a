"""The leaderboard of models: scores by form, how stable their order is, and their ranking by an average."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    cells, results_of = _collect(runs, of)
    models = sorted({model for model, _ in cells})
    forms = sorted({form for _, form in cells})
    for label in forms:
        _mark_tied(label, models, results_of, cells)
    reversals = [
        {**entry, "clear": all(_is_clear(entry, form, results_of, cells) for form in (entry["form"], entry["other"]))}
        for entry in _reversals(models, forms, cells)
    ]
    taus = _tau(models, forms, cells)
    stability = _stability(_count_cases(models, forms, cells), reversals, taus)
    return {
        "models": models,
        "forms": forms,
        "cells": [[cells.get((model, form)) for form in forms] for model in models],
        "reversals": reversals,
        "tau": taus,
        "stability": stability,
        "summary": _stability_words(stability),
    }


def _collect(
    runs: Mapping[str, Results], of: Callable[[Results], Sequence[Entry]]
) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[tuple[str, str], Entry]]:
    """The cells of the leaderboard by model and form, and what each was made of."""
    labels = model_labels(runs)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    entries: dict[tuple[str, str], Entry] = {}
    for key, results in runs.items():
        for entry in of(results):
            cell = labels[key], form_label(entry, results)
            cells[cell] = {**_cell(entry), "run": key}
            entries[cell] = entry
    return cells, entries


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


def _stability_words(stability: Mapping[str, Any]) -> str | None:
    """How stable the order of the models is, in a sentence; None where there is nothing to compare."""
    if not stability["compared"]:
        return None
    share = stability["reversed"] / stability["compared"]
    words = (
        f"the order of two models reverses between two forms of a task in {stability['reversed']} of "
        f"{stability['compared']} cases ({share:.0%}), clearly in {stability['clear']}"
    )
    if stability["mean_tau"] is None:
        return words
    tau = f"{stability['mean_tau']:.2f} ({stability['min_tau']:.2f} at least)"
    return f"{words}; Kendall's tau between two forms is {tau}"


def _stability(compared: int, reversals: Sequence[Any], taus: Sequence[Any]) -> dict[str, Any]:
    known = [entry["tau"] for entry in taus if entry["tau"] is not None]
    return {
        "compared": compared,
        "reversed": len(reversals),
        "clear": sum(entry["clear"] for entry in reversals),
        "mean_tau": sum(known) / len(known) if known else None,
        "min_tau": min(known, default=None),
    }


def _count_cases(models: list[str], forms: list[str], cells: Mapping[tuple[str, str], Any]) -> int:
    """How many pairs of models have scores under both of two forms of a task: the cases in which they may reverse."""
    number = 0
    for i, first in enumerate(models):
        for second in models[i + 1 :]:
            leads = [_lead(cells.get((first, form)), cells.get((second, form))) for form in forms]
            kinds = [lead[0] for lead in leads if lead is not None]
            number += sum(kinds[:index].count(kind) for index, kind in enumerate(kinds))
    return number


def _is_clear(
    entry: Mapping[str, Any],
    form: str,
    results_of: Mapping[tuple[str, str], Entry],
    cells: Mapping[tuple[str, str], Any],
) -> bool:
    """Whether two models differ under a form."""
    return _differ(entry["ahead"], entry["behind"], form, results_of, cells)


def _mark_tied(
    form: str,
    models: Sequence[str],
    results_of: Mapping[tuple[str, str], Entry],
    cells: Mapping[tuple[str, str], dict[str, Any]],
) -> None:
    """Mark the models that cannot be told from the best under a form, corrected for all pairs of models."""
    scored = [model for model in models if cells.get((model, form), {}).get("value") is not None]
    if len(scored) < 2:
        return
    sign = 1 if cells[scored[0], form]["higher"] else -1
    best = max(scored, key=lambda model: sign * cells[model, form]["value"])
    pairs = math.comb(len(scored), 2)
    for model in scored:
        differs = model != best and _differ(best, model, form, results_of, cells, comparisons=pairs)
        cells[model, form]["tied"] = not differs


def _differ(
    first_model: str,
    second_model: str,
    form: str,
    results_of: Mapping[tuple[str, str], Entry],
    cells: Mapping[tuple[str, str], Any],
    *,
    comparisons: int = 1,
) -> bool:
    """Whether two models differ: by the test of paired documents, else by intervals that lie apart."""
    ours, theirs = results_of[first_model, form], results_of[second_model, form]
    p = None
    with suppress(MultiformError):  # too few documents in common, or other ones
        if isinstance(ours, FormResult) and isinstance(theirs, FormResult):
            p = compare_form(ours, theirs).p
    if p is not None:
        return p * comparisons < ALPHA
    first, second = cells[first_model, form], cells[second_model, form]
    bounds = [first["low"], first["high"], second["low"], second["high"]]
    return None not in bounds and bool(first["low"] > second["high"] or second["low"] > first["high"])


def _cell(form: Entry) -> dict[str, Any]:
    key, estimate = next(iter(form.estimates.items()))
    metric = key.partition(",")[0]
    return {
        "task": form.task if isinstance(form, FormResult) else form.path,
        "metric": metric,
        "value": estimate.value if math.isfinite(estimate.value) else None,
        "low": estimate.low,
        "high": estimate.high,
        "n": form.n,
        "higher": bool(form.higher_is_better.get(metric, True)),
    }


def _reversals(models: list[str], forms: list[str], cells: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Pairs of models of which each is ahead under another form of the same task."""
    reversals = []
    for i, first in enumerate(models):
        for second in models[i + 1 :]:
            leads = {form: _lead(cells.get((first, form)), cells.get((second, form))) for form in forms}
            ahead = {form: lead for form, lead in leads.items() if lead is not None and lead[1] > 0}
            behind = {form: lead for form, lead in leads.items() if lead is not None and lead[1] < 0}
            for form, (kind, lead) in ahead.items():
                for other, (other_kind, deficit) in behind.items():
                    if kind == other_kind:
                        reversals.append(
                            {
                                "ahead": first,
                                "behind": second,
                                "form": form,
                                "lead": lead,
                                "other": other,
                                "deficit": deficit,
                            }
                        )
    return sorted(reversals, key=lambda entry: -min(entry["lead"], -entry["deficit"]))


def _lead(first: Any, second: Any) -> tuple[Kind, float] | None:
    """By how much the first model is better, with the task and the kind of metric."""
    if first is None or second is None or first["value"] is None or second["value"] is None:
        return None
    if _kind(first) != _kind(second):
        return None
    sign = 1 if first["higher"] else -1
    return _kind(first), sign * (first["value"] - second["value"])


def _kind(cell: Mapping[str, Any]) -> Kind:
    """The task and the kind of metric of a cell: only leads of one kind can reverse."""
    return cell["task"], "accuracy" if cell["metric"] in RIGHT_OR_WRONG else cell["metric"]


def _tau(models: list[str], forms: list[str], cells: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Kendall's tau between the orders of models under two forms of a task, where three or more models have both."""
    taus = []
    for i, form in enumerate(forms):
        for other in forms[i + 1 :]:
            pairs = [(cells.get((model, form)), cells.get((model, other))) for model in models]
            shared = [
                (a, b) for a, b in pairs if a and b and _kind(a) == _kind(b) and None not in (a["value"], b["value"])
            ]
            if len(shared) < 3:
                continue
            sign = [1 if cell["higher"] else -1 for cell in shared[0]]
            tau = kendall_tau([sign[0] * a["value"] for a, _ in shared], [sign[1] * b["value"] for _, b in shared])
            taus.append(
                {"form": form, "other": other, "models": len(shared), "tau": tau if math.isfinite(tau) else None}
            )
    return taus


def ranking(runs: Mapping[str, Results], columns: Sequence[str] | None) -> dict[str, Any]:
    """The models by their average over some columns, in tiers that can be told apart; best first.

    Without `columns`: those that the models have which share the most common one. Only columns of one kind of metric
    are averaged, that of most columns. Forms of one task have the same documents, so that their standard errors add up
    in full, while those of different tasks add up as independent ones do; models are compared as if their documents
    were different ones. Both make the intervals rather too wide than too narrow.
    """
    cells, entries = _collect(runs, headlines)
    models = sorted({model for model, _ in cells})
    known = {name: _column_kind(name, cells) for name in sorted({form for _, form in cells})}
    names = [name for name in (known if columns is None else columns) if name in known]
    kinds = [known[name] for name in names]
    names = [name for name in names if known[name] == max(kinds, key=kinds.count)]
    if columns is None:
        sharing = [{model for model in models if (model, name) in cells} for name in names]
        most = max(sharing, key=len, default=set())
        names = [name for name, having in zip(names, sharing, strict=True) if most <= having]
    lacking = {model: [name for name in names if (model, name) not in cells] for model in models}
    averages = {model: _average([entries[model, name] for name in names]) for model in models if not lacking[model]}
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
    estimates = [next(iter(entry.estimates.values())) for entry in entries]
    by_task: dict[str, list[float | None]] = {}
    for entry, estimate in zip(entries, estimates, strict=True):
        task = entry.task if isinstance(entry, FormResult) else entry.path
        by_task.setdefault(task, []).append(estimate.stderr)
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
