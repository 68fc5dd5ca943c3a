"""The data of a report: the main part, and blocks of samples that are decompressed when they are opened."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from multiform.forms import ScoredSample
from multiform.report.command import arguments_text, command
from multiform.report.forms import form_entry, group_entry, primary_samples, short_formats, variation_table
from multiform.results.compare import compare_forms
from multiform.results.export import sample_row
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.notes import result_notes, stop_lines
from multiform.results.provenance import usage_words
from multiform.results.results import Results
from multiform.results.run_comparison import compare_wordings
from multiform.results.values import FormResult
from multiform.statistics.estimates import Estimate
from multiform.statistics.paired import Difference, simultaneous_bounds
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
    compared = list(_across(runs, labels))
    number = sum(math.comb(_having(runs, name), 2) for name in {form.name for run in runs for form in run.forms})
    across = [
        _entry(comparison, None, _short_name(name, shorts), models)
        | {"pairs": [_run_pair(pair, models, number) for pair in _largest(comparison)], "compared": number}
        for name, comparison, models in compared
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


def _having(runs: Sequence[Results], name: str) -> int:
    return sum(form.name == name for results in runs for form in results.forms)


def _format(name: str, shorts: Mapping[str, str]) -> str:
    label = name.partition("@")[2] or name
    return shorts.get(label, label)


def _short_name(name: str, shorts: Mapping[str, str]) -> str:
    task, at, label = name.partition("@")
    return f"{task}{at}{shorts.get(label, label)}"


def _across(runs: Sequence[Results], labels: Sequence[str]) -> Iterator[tuple[str, FormComparison, list[str]]]:
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


def _run_pair(pair: Difference, names: Sequence[str], number: int) -> dict[str, Any]:
    """A later run minus an earlier one, with interval and p value for all `number` comparisons of runs at once."""
    low, high = sorted(-bound for bound in simultaneous_bounds(pair.estimate, number))
    label = f"{names[pair.second]} − {names[pair.first]}"
    p = min(1.0, pair.p * number)
    return {"label": label, "difference": -pair.estimate.value, "low": low, "high": high, "p": p}


#: Samples in a block.
BLOCK = 200
#: Characters of a document that the list of documents shows.
_HEAD = 110
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
            rows = [_row(sample, start) for sample, start in zip(samples, starts, strict=True)]
            blocks += [rows[at : at + BLOCK] for at in range(0, len(rows), BLOCK)]
            for sample, head in zip(samples, _heads(rows), strict=True):
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
        "notes": [*result_notes(results), *stop_lines(results.run.get("budget") or ())],
    }


def _row(sample: ScoredSample, question_start: int) -> dict[str, Any]:
    row = sample_row(sample)
    names = ("prompt", "choices", "labels", "loglikelihoods", "gold", "picked", "raw", "extracted")
    steps = [
        {"step": step.name, "text": _plain(step.value)} for step in sample.steps[1:]
    ]  # the first is the completion
    return {
        **{name: row[name] for name in names},
        "target": None if sample.target is None else str(sample.target),
        "scores": dict(sample.values),
        "question_start": question_start,
        **({"steps": steps} if steps else {}),
    }


def _plain(value: Any) -> str:
    """What a step left, as text: of one completion that alone."""
    if isinstance(value, list | tuple) and len(value) == 1:
        return _plain(value[0])
    return "nothing" if value is None else str(value)


def _heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How each question begins, without the lines that all of them begin with, such as an instruction."""
    questions = [row["prompt"][row["question_start"] :] for row in rows]
    first, last = min(questions, default=""), max(questions, default="")
    start = first.rfind("\n", 0, _shared(first, last)) + 1 if first != last else 0
    return [" ".join(question[start : start + 4 * _HEAD].split())[:_HEAD] for question in questions]


def question_starts(form: FormResult, samples: Sequence[ScoredSample]) -> list[int]:
    """Where the question begins in each prompt, after the description and the few-shot examples; 0 where unknown.

    The task's delimiter says it where it stands between the examples alone. Elsewhere, as in chats, it is what the
    prompts before and after have in common, up to a line's end.
    """
    prompts = [sample.sample.prompt for sample in samples]
    shots = form.num_fewshot if isinstance(form.num_fewshot, int) else 0
    delimiter = str(form.config.get("fewshot_delimiter") or "\n\n")
    description = str(form.config.get("description") or "")
    return [_start(prompts, position, shots, delimiter, description) for position in range(len(prompts))]


def _start(prompts: Sequence[str], position: int, shots: int, delimiter: str, description: str) -> int:
    prompt = prompts[position]
    skipped = len(description) if description and prompt.startswith(description) else 0
    if not shots:
        return skipped
    if prompt.count(delimiter, skipped) == shots:
        return prompt.rfind(delimiter) + len(delimiter)
    neighbours = [prompts[near] for near in (position - 1, position + 1) if 0 <= near < len(prompts)]
    return prompt.rfind("\n", 0, max((_shared(prompt, neighbour) for neighbour in neighbours), default=0)) + 1


def _shared(text: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
