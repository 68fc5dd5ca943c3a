"""The data of a report: the main part, and blocks of samples that are decompressed when they are opened."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from multiform.report.forms import (
    form_entry,
    group_entry,
    primary_samples,
    question_heads,
    question_starts,
    sample_entry,
    short_formats,
    variation_table,
)
from multiform.report.overview import overview
from multiform.results.compare import compare_forms
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.notes import stop_lines
from multiform.results.provenance import usage_words
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_all_runs, compare_wordings
from multiform.statistics.estimates import Estimate
from multiform.statistics.paired import Difference
from multiform.statistics.spread import Spread
from multiform.statistics.wordings import WordingPopulation

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(runs: Sequence[Results], labels: Sequence[str], shorts: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each task and group with several forms, and for each form that several runs have.

    `shorts` are the labels of the formats in charts. Forms of a run are compared with each other, once for each kind of
    scoring; differences between runs are corrected for all forms, as `multiform compare` does.
    """
    within = [
        _entry(comparison, run, comparison.name, [_format(name, shorts) for name in comparison.forms])
        | {"pairs": [_form_pair(pair, comparison, shorts) for pair in _largest(comparison)]}
        for run, results in enumerate(runs)
        for comparison in results.comparisons
        if len(comparison.forms) > 1
    ]
    changes = compare_all_runs(runs)
    across = [
        _entry(comparison, None, _short_name(name, shorts), models)
        | _run_pairs([change for change in changes if change[2].name == name], labels)
        for name, comparison, models in _compare_across_runs(runs, labels)
    ]
    return [*across, *within]


def wording_entries(runs: Sequence[Results], labels: Sequence[str]) -> list[dict[str, Any]]:
    """A later run minus an earlier one over the wordings that both have, for each format with several."""
    pairs = itertools.combinations(zip(runs, labels, strict=True), 2)
    return [
        {
            "label": f"{second_label} − {first_label}",
            "name": change.name,
            "metric": change.metric,
            "reversal": change.reversal,
            **_population_numbers(change.population),
        }
        for (first, first_label), (second, second_label) in pairs
        if {form.name for form in first.forms} & {form.name for form in second.forms}
        for change in compare_wordings(first, second)
    ]


def _format(name: str, shorts: Mapping[str, str]) -> str:
    label = name.partition("@")[2] or name
    return shorts.get(label, label)


def _short_name(name: str, shorts: Mapping[str, str]) -> str:
    task, at, label = name.partition("@")
    return f"{task}{at}{shorts.get(label, label)}"


def _compare_across_runs(
    runs: Sequence[Results], labels: Sequence[str]
) -> Iterator[tuple[str, FormComparison, list[str]]]:
    """Each form that several runs have, compared as if the runs were its forms."""
    for name in dict.fromkeys(form.name for results in runs for form in results.forms):
        having = [
            (label, form)
            for label, results in zip(labels, runs, strict=True)
            for form in results.forms
            if form.name == name
        ]
        if len(having) > 1:
            renamed = [replace(form, form=f"{name} {number}") for number, (_, form) in enumerate(having)]
            for comparison in compare_forms(renamed):
                chosen = [having[int(form.rpartition(" ")[2])][0] for form in comparison.forms]
                yield name, comparison, chosen


def _entry(comparison: FormComparison, run: int | None, name: str, names: Sequence[str]) -> dict[str, Any]:
    shares, spread = comparison.rightness, comparison.spread
    within = run is not None
    return {
        "task": name,
        "run": run,
        "metric": comparison.metric,
        "scoring": comparison.scoring,
        "n": comparison.n,
        "clusters": comparison.clusters,
        "variance": None if comparison.variance is None or run is None else comparison.variance.shares,
        "compared": len(comparison.differences),
        "more": max(0, len(comparison.differences) - _PAIRS),
        "spread": _spread(spread) if within and spread is not None else None,
        "forms": [
            {"name": form, "label": label, "tied": index in comparison.tied_with_best}
            for index, (form, label) in enumerate(zip(comparison.forms, names, strict=True))
        ],
        "wordings": [_wordings(comparison, entry, names) for entry in comparison.populations] if within else [],
        "all": None if shares is None else shares.under_all.value,
        "some": None if shares is None else shares.under_some.value,
        "none": None if shares is None else shares.under_none.value,
    }


def _spread(spread: Spread) -> dict[str, float | None]:
    """Best minus worst, and what forms that are equally good would show."""
    return _numbers(spread.spread) | {"by_chance": spread.by_chance, "p": spread.p}


def _wordings(comparison: FormComparison, entry: FormatPopulation, names: Sequence[str]) -> dict[str, Any]:
    """The score over the wordings of a format, the effects of their axes, and the estimate of each wording."""
    population = entry.population
    return {
        "label": entry.label,
        **_population_numbers(population),
        "effects": [
            {"label": f"{effect.axis}={effect.value}", "wordings": effect.wordings, "p": effect.p}
            | _numbers(effect.effect)
            for effect in entry.effects
        ],
        "forms": [
            {"label": names[index], "raw": comparison.means[index].value} | _numbers(shrunken)
            for index, shrunken in zip(entry.forms, population.shrunken, strict=True)
        ],
    }


def _population_numbers(population: WordingPopulation) -> dict[str, Any]:
    return {
        "number": population.wordings,
        "mean": _numbers(population.mean),
        "observed": population.observed_deviation,
        "deviation": _numbers(population.deviation),
        "predicted": _numbers(population.predicted),
        "reliability": population.reliability,
    }


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _largest(comparison: FormComparison) -> list[Difference]:
    return sorted(comparison.differences, key=lambda pair: -abs(pair.estimate.value))[:_PAIRS]


def _form_pair(pair: Difference, comparison: FormComparison, shorts: Mapping[str, str]) -> dict[str, Any]:
    """The difference of two forms, the higher one minus the other, with interval and p value for all pairs at once."""
    sign = 1 if pair.estimate.value >= 0 else -1
    first, second = (_format(comparison.forms[index], shorts) for index in (pair.first, pair.second)[::sign])
    low, high = sorted(sign * bound for bound in pair.simultaneous.interval)
    difference = abs(pair.estimate.value)
    label = f"{first} − {second}"
    return {"label": label, "difference": difference, "low": low, "high": high, "p": pair.p_simultaneous}


def _run_pairs(changes: Sequence[tuple[int, int, FormChange]], labels: Sequence[str]) -> dict[str, Any]:
    """Later runs minus earlier ones; intervals and p values hold for all comparisons of runs at once."""
    largest = sorted(changes, key=lambda entry: -abs(entry[2].difference.value))[:_PAIRS]
    pairs = [
        {
            "label": f"{labels[second]} − {labels[first]}",
            "difference": change.difference.value,
            "low": change.simultaneous[0],
            "high": change.simultaneous[1],
            "p": change.p_simultaneous,
        }
        for first, second, change in largest
    ]
    return {"pairs": pairs, "compared": changes[0][2].comparisons if changes else 0}


#: Samples in a block.
BLOCK = 200
#: The longest name of a run that charts show whole.
_LONGEST_LABEL = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The data of a page: `main` is needed at once, each of `blocks` when a sample in it is opened or searched."""

    main: Mapping[str, Any]
    blocks: Sequence[Sequence[Mapping[str, Any]]]


def payload(runs: Sequence[Results], *, title: str) -> Payload:
    """The data of a report on these runs."""
    labels = run_labels(runs)
    short_labels = short_run_labels(labels)
    shorts = short_formats(form for results in runs for form in results.forms)
    forms: list[dict[str, Any]] = []
    blocks: list[list[dict[str, Any]]] = []
    heads: dict[str, dict[int, str]] = {}
    for number, results in enumerate(runs):
        for form in results.forms:
            samples = primary_samples(form)
            starts = question_starts(form, samples)
            entry = form_entry(form, number, samples, shorts[form.format_label or "as written"])
            forms.append({**entry, "first_block": len(blocks), "block_size": BLOCK})
            rows = [sample_entry(sample, start) for sample, start in zip(samples, starts, strict=True)]
            blocks += [rows[at : at + BLOCK] for at in range(0, len(rows), BLOCK)]
            for sample, head in zip(samples, question_heads(rows), strict=True):
                heads.setdefault(form.task, {}).setdefault(sample.doc_id, head)
    groups = [group_entry(group, n) for n, results in enumerate(runs) for group in results.groups if group.estimates]
    main = {
        "title": title,
        "runs": [_run(*run) for run in zip(runs, labels, short_labels, strict=True)],
        "forms": forms,
        "groups": groups,
        "tasks": task_entries(runs, short_labels, shorts),
        "wording_changes": wording_entries(runs, short_labels),
        "variations": variation_table(shorts),
        "heads": heads,
        "overview": overview(runs, short_labels),
    }
    return Payload(main=main, blocks=blocks)


def run_labels(runs: Sequence[Results]) -> list[str]:
    """The label of each run: its model, with the date where one model ran twice."""
    models = [_model(results) for results in runs]
    dates = [minute(results) for results in runs]
    labels = [m if models.count(m) == 1 else f"{m} {d}" for m, d in zip(models, dates, strict=True)]
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: n + 1].count(label)}"
        for n, label in enumerate(labels)
    ]


def short_run_labels(labels: Sequence[str]) -> list[str]:
    """The short label of each run in charts: its label, or a number where any of several labels is too long.

    >>> short_run_labels(["base", "tuned"]), short_run_labels(["base 2026-01-02 03:04", "base 2026-01-03 03:04"])
    (['base', 'tuned'], ['run 1', 'run 2'])
    """
    if len(labels) == 1 or all(len(label) <= _LONGEST_LABEL for label in labels):
        return list(labels)
    return [f"run {number}" for number in range(1, len(labels) + 1)]


def minute(results: Results) -> str:
    """When a run began, to the minute; lm-eval's files have seconds since 1970 alone."""
    date = results.provenance.get("date_iso") or results.provenance.get("date") or ""
    text = datetime.fromtimestamp(date).isoformat() if isinstance(date, int | float) else str(date)
    return text[:16].replace("T", " ")


def _model(results: Results) -> str:
    name = str(results.provenance.get("model_name") or results.run.get("model") or "model")
    return name if len(name) <= 40 else f"…{name[-39:]}"


def _run(results: Results, label: str, short_label: str) -> dict[str, Any]:
    about = results.provenance
    model = f"{results.run.get('model')} {arguments_text(results.run.get('model_args'))}".strip()
    name = str(about.get("model_name") or "")
    names = ("date_iso", "multiform_version", "lm_eval_version", "transformers_version", "git_hash", "model_identity")
    facts = [(name, about[name]) for name in names if about.get(name)]
    if results.status != "complete":
        facts.insert(0, ("status", f"partial: the run was {results.status}"))
    return {
        "label": label,
        "short": short_label,
        "model": model if name in model else f"{name} · {model}",
        "date": minute(results),
        "seconds": about.get("total_evaluation_time_seconds"),
        "facts": [("model", model), *facts],
        "config": dict(results.run),
        "environment": about.get("pretty_env_info"),
        "command": command(results),
        "usage": usage_words(about.get("usage")),
        "notes": [*stop_lines(results.run.get("budget") or ())],
    }


_SEEDS = ("random", "numpy", "torch", "fewshot")


def command(results: Results) -> str | None:
    """The command that reproduces the results; None where Multiform did not write them, or the tasks have no name.

    Older files do not record the options; there, the names of the forms and the known options are used.
    """
    if "multiform_version" not in results.provenance:
        return None
    run = results.run
    recorded = run.get("arguments")
    if recorded is None:
        chat = {"apply_chat_template": True} if results.provenance.get("chat_template") else {}
        recorded = {"tasks": _names(results), **chat}
    if not recorded.get("tasks"):
        return None
    named = {
        "model": run.get("model"),
        "model_args": arguments_text(run.get("model_args")),
        "num_fewshot": run.get("num_fewshot"),
        "limit": _number(run.get("limit")),
        "samples": json.dumps(run["samples"]) if run.get("samples") else None,
        "gen_kwargs": arguments_text(run.get("gen_kwargs")),
        "batch_size": run.get("batch_size"),
        "device": run.get("device"),
        "seed": ",".join(str(run.get(f"{name}_seed")) for name in _SEEDS),
    }
    options = {name: value for name, value in recorded.items() if name != "tasks"}
    words = ["multiform", "run", "--tasks", *recorded["tasks"]]
    for name, value in (named | options).items():
        words += _words(f"--{name}", value)
    return shlex.join(words)


def arguments_text(value: Any) -> str:
    """Arguments of a model or of generation as the command line takes them."""
    if not isinstance(value, Mapping):
        return str(value or "")
    plain = all(isinstance(part, str | int | float) and "," not in str(part) for part in value.values())
    return ",".join(f"{name}={part}" for name, part in value.items()) if plain else json.dumps(dict(value))


def _words(flag: str, value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, bool):
        return [flag] if value else [flag, "false"]
    if isinstance(value, Mapping):
        return [flag, arguments_text(value)]
    if isinstance(value, list | tuple):
        words = list(map(str, value))
        return [word for part in words for word in (flag, part)] if flag == "--include_path" else [flag, *words]
    return [flag, str(value)]


def _number(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _names(results: Results) -> list[str]:
    """The outermost groups, and the forms that are in none."""
    inside = {name for group in results.groups for name in group.members}
    groups = [group.name for group in results.groups if group.depth == 0]
    return [*groups, *(form.name for form in results.forms if form.name not in inside)]
