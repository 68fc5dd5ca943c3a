"""Models by tasks: the newest score of every model and form, and whether the order of models depends on the form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import MultiformError
from multiform.report.command import arguments_text
from multiform.results.results import FormResult, Results
from multiform.results.run_comparison import compare_form
from multiform.statistics.spread import kendall_tau

#: The level at which a lead is clear.
_ALPHA = 0.05


def leaderboard(runs: Mapping[str, Results]) -> dict[str, Any]:
    """The scores of all models under all forms, and the pairs of models whose order reverses between two forms.

    `runs` has the oldest run first: a later run of the same model and form replaces its score. A model with other
    arguments is another model, and a form with other few-shot examples or a chat template another form.
    """
    labels = model_labels(runs)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    results_of: dict[tuple[str, str], FormResult] = {}
    for key, results in runs.items():
        for form in results.forms:
            if form.estimates:
                cell = labels[key], _form_label(form, results)
                cells[cell] = {**_cell(form), "run": key}
                results_of[cell] = form
    models = sorted({model for model, _ in cells})
    forms = sorted({form for _, form in cells})
    for label in forms:
        _mark_tied(label, models, results_of, cells)
    reversals = [
        {**entry, "clear": all(_is_clear(entry, form, results_of, cells) for form in (entry["form"], entry["other"]))}
        for entry in _reversals(models, forms, cells)
    ]
    taus = _tau(models, forms, cells)
    stability = _stability(_compared(models, forms, cells), reversals, taus)
    return {
        "models": models,
        "forms": forms,
        "cells": [[cells.get((model, form)) for form in forms] for model in models],
        "reversals": reversals,
        "tau": taus,
        "stability": stability,
        "summary": _summary(stability),
    }


def model_labels(runs: Mapping[str, Results]) -> dict[str, str]:
    """The label of each run's model: its name, with its arguments where the same name has several."""
    names = {
        key: str(results.provenance.get("model_name") or results.run.get("model")) for key, results in runs.items()
    }
    arguments = {key: arguments_text(results.run.get("model_args")) for key, results in runs.items()}
    ambiguous = {name for name in names.values() if len({arguments[key] for key in names if names[key] == name}) > 1}
    return {
        key: f"{name} ({arguments[key] or 'no arguments'})" if name in ambiguous else name
        for key, name in names.items()
    }


def _form_label(form: FormResult, results: Results) -> str:
    shots = f" · {form.num_fewshot}-shot" if form.num_fewshot else ""
    return f"{form.name}{shots}{' · chat' if results.provenance.get('chat_template') else ''}"


def _summary(stability: Mapping[str, Any]) -> str | None:
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


def _compared(models: list[str], forms: list[str], cells: Mapping[tuple[str, str], Any]) -> int:
    """How many pairs of models have scores under both of two forms of a task: the cases in which they may reverse."""
    number = 0
    for i, first in enumerate(models):
        for second in models[i + 1 :]:
            leads = [_lead(cells.get((first, form)), cells.get((second, form))) for form in forms]
            tasks = [lead[0] for lead in leads if lead is not None]
            number += sum(tasks[:index].count(task) for index, task in enumerate(tasks))
    return number


def _is_clear(
    entry: Mapping[str, Any],
    form: str,
    results_of: Mapping[tuple[str, str], FormResult],
    cells: Mapping[tuple[str, str], Any],
) -> bool:
    """Whether two models differ under a form."""
    return _differ(entry["ahead"], entry["behind"], form, results_of, cells)


def _mark_tied(
    form: str,
    models: Sequence[str],
    results_of: Mapping[tuple[str, str], FormResult],
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
    results_of: Mapping[tuple[str, str], FormResult],
    cells: Mapping[tuple[str, str], Any],
    *,
    comparisons: int = 1,
) -> bool:
    """Whether two models differ: by the test of paired documents, else by intervals that lie apart."""
    try:
        p = compare_form(results_of[first_model, form], results_of[second_model, form]).p
    except MultiformError:  # too few documents in common, or other ones
        p = None
    if p is not None:
        return p * comparisons < _ALPHA
    first, second = cells[first_model, form], cells[second_model, form]
    bounds = [first["low"], first["high"], second["low"], second["high"]]
    return None not in bounds and bool(first["low"] > second["high"] or second["low"] > first["high"])


def _cell(form: FormResult) -> dict[str, Any]:
    estimate = form.estimates[form.primary]
    metric = form.primary.partition(",")[0]
    return {
        "task": form.task,
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
            for form, (task, lead) in ahead.items():
                for other, (other_task, deficit) in behind.items():
                    if task == other_task:
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


def _lead(first: Any, second: Any) -> tuple[str, float] | None:
    """By how much the first model is better, with the task."""
    if first is None or second is None or first["value"] is None or second["value"] is None:
        return None
    sign = 1 if first["higher"] else -1
    return first["task"], sign * (first["value"] - second["value"])


def _tau(models: list[str], forms: list[str], cells: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Kendall's tau between the orders of models under two forms of a task, where three or more models have both."""
    taus = []
    for i, form in enumerate(forms):
        for other in forms[i + 1 :]:
            pairs = [(cells.get((model, form)), cells.get((model, other))) for model in models]
            shared = [
                (a, b) for a, b in pairs if a and b and a["task"] == b["task"] and None not in (a["value"], b["value"])
            ]
            if len(shared) < 3:
                continue
            sign = [1 if cell["higher"] else -1 for cell in shared[0]]
            tau = kendall_tau([sign[0] * a["value"] for a, _ in shared], [sign[1] * b["value"] for _, b in shared])
            taus.append(
                {"form": form, "other": other, "models": len(shared), "tau": tau if math.isfinite(tau) else None}
            )
    return taus
