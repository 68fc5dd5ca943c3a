"""The runs in a folder: complete, running, stopped or killed; and the leaderboard of their models."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from multiform.errors import MultiformError, reason, shorten
from multiform.hashing import sha256
from multiform.report.payload import Payload, arguments_text, minute, payload
from multiform.results.export import json_line
from multiform.results.read import (
    MALFORMED,
    partial_results_files,
    read_json,
    recorded_run,
    results_files,
    results_of_run,
)
from multiform.results.results import Results
from multiform.results.run_comparison import compare_form
from multiform.results.values import FormResult
from multiform.statistics.estimates import ALPHA
from multiform.statistics.spread import kendall_tau

#: What tells whether a file has changed: its time and size; None where it cannot be read.
Stamp = tuple[int, int] | None


class UnknownPageError(Exception):
    """There is no page or run of this name."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A results file: its line in the list, and its results; None where the line says what is wrong with it."""

    stamp: Stamp
    line: Mapping[str, Any]
    results: Results | None = None


class Runs:
    """The runs below a folder, read lazily and again when their files change. Writes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: dict[Path, _Run] = {}
        self._payloads: dict[tuple[tuple[str, Stamp], ...], Payload] = {}
        self._lock = Lock()

    def files(self) -> dict[str, Path]:
        """The results files by their key, which the viewer's addresses use: those of runs that were stopped or failed,
        then the others, the newest last."""
        partial = partial_results_files(self.folder) if self.folder.is_dir() else []
        return {sha256(self._name(file))[:12]: file for file in dict.fromkeys([*partial, *results_files(self.folder)])}

    def run_lines(self) -> list[Mapping[str, Any]]:
        """A line for each complete run: model, date and scores, or what is wrong with its file; the newest first."""
        return [self._run(key, file).line for key, file in reversed(self.files().items())]

    def unfinished_lines(self) -> list[dict[str, Any]]:
        """The states of runs that are not complete, as they write them into their output folders."""
        states = [_state(file) for file in sorted(self.folder.rglob("run_*.json"))]
        return [state for state in states if state is not None]

    def all_results(self) -> dict[str, Results]:
        """Every readable run without its samples, by its key."""
        read = {key: self._run(key, file).results for key, file in self.files().items()}
        return {key: results for key, results in read.items() if results is not None}

    def check(self, keys: Sequence[str]) -> Mapping[str, Path]:
        """The results files; an error where one of the keys has none."""
        files = self.files()
        if not keys or any(key not in files for key in keys):
            raise UnknownPageError(",".join(keys))
        return files

    def payload(self, keys: Sequence[str]) -> Payload:
        """The data of a report on the runs with these keys; the last few stay in memory."""
        files = self.check(keys)
        stamp = tuple((key, _stamp(files[key])) for key in keys)
        with self._lock:  # one at a time: a report on large runs takes memory
            if stamp not in self._payloads:
                while len(self._payloads) >= 3:
                    self._payloads.pop(next(iter(self._payloads)))
                runs = [results_of_run(recorded_run(files[key])) for key in keys]
                title = ", ".join(dict.fromkeys(form.task for results in runs for form in results.forms))[:80]
                self._payloads[stamp] = payload(runs, title=title)
            return self._payloads[stamp]

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder)) if file != self.folder else file.name

    def _run(self, key: str, file: Path) -> _Run:
        """A results file as it is now."""
        stamp = _stamp(file)
        known = self._runs.get(file)
        if known is None or known.stamp != stamp:
            known = self._runs[file] = self._read_run(key, file, stamp)
        return known

    def _read_run(self, key: str, file: Path, stamp: Stamp) -> _Run:
        about = {"key": key, "file": self._name(file)}
        try:
            results = results_of_run(recorded_run(file), samples=False)
            line = {**about, **_summary(results)}
            json_line(line), json_line(leaderboard({key: results}))  # what the pages will show of it
        except MultiformError as error:
            return _Run(stamp, {**about, "problem": str(error)})
        except MALFORMED as error:  # whatever is wrong with one file, the others are shown
            return _Run(stamp, {**about, "problem": f"the results cannot be shown: {reason(error)}"})
        return _Run(stamp, line, results)


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _summary(results: Results) -> dict[str, Any]:
    """What the list of runs shows of one."""
    about = results.provenance
    seconds = about.get("total_evaluation_time_seconds")
    return {
        "model": str(about.get("model_name") or results.run.get("model")),
        "arguments": arguments_text(results.run.get("model_args")),
        "date": minute(results),
        "seconds": None if seconds is None else float(seconds),
        "status": str(results.status),
        "harness": "multiform" if "multiform_version" in about else "lm-eval",
        "scores": [_score(form.name, form) for form in results.forms[:8] if form.estimates],
        "forms": len(results.forms),
    }


def _score(name: str, form: FormResult) -> Mapping[str, Any]:
    estimate = form.estimates[form.primary]
    bounds = [None if bound is None or not math.isfinite(bound) else bound for bound in (estimate.low, estimate.high)]
    low, high = bounds if None not in bounds else (None, None)
    metric = form.primary.partition(",")[0]
    return {"form": name, "metric": metric, "value": estimate.value, "low": low, "high": high}


def _state(file: Path) -> dict[str, Any] | None:
    """The state of a run that is not complete, or what is wrong with the file; None for files of another kind."""
    try:
        state = read_json(file)
        if not isinstance(state, dict) or not {"forms", "status"} <= state.keys():
            return None
        forms = {name: _counts(counts, ("scored", "documents")) for name, counts in _object(state["forms"]).items()}
        requests = _counts(state.get("requests") or {}, ("needed", "cached", "answered", "failed"))
        status, host, pid = str(state["status"]), state.get("host"), state.get("pid")
        named = {key: str(state[key]) for key in ("model", "updated") if state.get(key) is not None}
    except MALFORMED as error:
        return {"file": file.name, "problem": f"the state of a run cannot be read: {reason(error)}"}
    killed = status == "running" and _has_ended(host, pid)
    return {"file": file.name, "status": "killed" if killed else status, **named, "forms": forms, "requests": requests}


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {shorten(value)}")
    return value


def _counts(counts: Any, names: Sequence[str]) -> dict[str, int]:
    """The numbers of these names, of those that there are."""
    numbers = {name: int(number) for name, number in _object(counts).items() if name in names}
    if not all(0 <= number < 2**53 for number in numbers.values()):
        raise ValueError(f"impossible numbers: {shorten(numbers)}")
    return numbers


def _has_ended(host: Any, pid: Any) -> bool:
    """Whether the process of a run is no more; those of other machines are taken to be there."""
    if host != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)  # signal 0 asks whether the process is there, and does nothing to it
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


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
        return p * comparisons < ALPHA
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
