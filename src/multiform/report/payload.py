"""The data of a report: the main part, and blocks of samples that are decompressed when they are opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiform.engine.stops import stop_lines
from multiform.forms import ScoredSample
from multiform.report.command import arguments_text, command
from multiform.report.forms import form_entry, group_entry, primary_samples, short_formats, variation_table
from multiform.report.tasks import task_entries, wording_entries
from multiform.results.failures import result_notes
from multiform.results.results import FormResult, Results
from multiform.results.rows import sample_row
from multiform.results.usage import usage_words

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
