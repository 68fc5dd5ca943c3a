"""HELM's run folders: one for each scenario and model, with ``run_spec.json``, ``stats.json`` and the requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.errors import DataError
from multiform.results.exchange.exporters import is_number
from multiform.results.recorded import RecordedRun, document_line, failures_entry, read_json, results_file
from multiform.statistics.estimates import mean_estimate

SPEC, STATS = "run_spec.json", "stats.json"
#: Scores of HELM that are about requests and not about answers.
_ABOUT_REQUESTS = re.compile(
    r"(num|inference|training|max|min|prompt|finish_reason|batch|estimated|logprob|perplexity|bits_per|logprob_per)_?"
)
#: The scores that HELM's tables show first, where a run has them.
_MAIN = (
    *("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match", "final_number_exact_match"),
    *("math_equiv_chain_of_thought", "math_equiv", "f1_score", "rouge_l", "rouge_2", "bleu_4", "RR@10", "pass"),
)
#: The score of a scenario without answers, which has the likelihoods of texts.
_OF_TEXTS = ("bits_per_byte",)
#: The splits that are evaluated, the preferred one first.
_SPLITS = ("test", "valid")


def is_helm_run(value: Any) -> bool:
    """Whether a JSON document is the ``run_spec.json`` of a run."""
    return isinstance(value, dict) and isinstance(value.get("adapter_spec"), dict) and "scenario_spec" in value


def helm_files(folder: Path) -> list[Path]:
    """The file that stands for each run of a folder, the newest last.

    The runs of one model in a suite are one run, for which the last ``run_spec.json`` stands; for the folder of a
    single scenario, its ``stats.json``.
    """
    if (folder / SPEC).is_file():
        return [folder / STATS]
    by_model: dict[tuple[Path, str], Path] = {}
    for file in sorted(folder.rglob(SPEC), key=lambda file: (file.stat().st_mtime, str(file))):
        spec = read_json(file)
        if is_helm_run(spec):
            by_model[(file.parent.parent, _model(spec))] = file
    return list(by_model.values())


def read_helm_run(file: Path) -> RecordedRun | None:
    """The run for which a file stands; None if it is not a file of HELM."""
    if file.name not in (SPEC, STATS) or not (file.parent / SPEC).is_file():
        return None
    spec = read_json(file.parent / SPEC)
    if not is_helm_run(spec):
        return None
    folders = (
        [file.parent] if file.name == STATS else sorted({path.parent for path in file.parent.parent.glob(f"*/{SPEC}")})
    )
    forms: dict[str, dict[str, Any]] = {}
    lines: dict[str, list[dict[str, Any]]] = {}
    for folder in folders:
        scenario = read_json(folder / SPEC)
        if is_helm_run(scenario) and _model(scenario) == _model(spec):
            name = _form_name(str(scenario.get("name") or folder.name))
            forms[name], lines[name] = _read_form(folder, scenario)
    date = datetime.fromtimestamp(file.stat().st_mtime).isoformat()
    return RecordedRun(file, results_file(forms, model=_model(spec), date=date, source="helm"), lines)


def _model(spec: Mapping[str, Any]) -> str:
    return str(spec["adapter_spec"].get("model_deployment") or spec["adapter_spec"].get("model"))


def _form_name(name: str) -> str:
    """The name of a run without its model, so that runs of two models have equal ones.

    >>> _form_name("mmlu:subject=anatomy,method=multiple_choice_joint,model=openai_gpt2")
    'mmlu:subject=anatomy;method=multiple_choice_joint'
    """
    scenario, _, arguments = name.partition(":")
    kept = [argument for argument in arguments.split(",") if argument and not argument.startswith("model")]
    return f"{scenario}:{';'.join(kept)}" if kept else scenario


def _read_form(folder: Path, spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if not (folder / STATS).is_file():
        raise DataError("the run of HELM has no stats.json: it is not finished", where=str(folder), hint="run it again")
    stats = [stat for stat in read_json(folder / STATS) if _is_plain(stat["name"])]
    splits = [stat["name"].get("split") for stat in stats]
    split = next((split for split in _SPLITS if split in splits), None)
    means = {str(stat["name"]["name"]): stat["mean"] for stat in stats if stat["name"].get("split") == split}
    names = [name for name, mean in means.items() if is_number(mean) and not _ABOUT_REQUESTS.match(name)]
    names.sort(key=lambda name: _MAIN.index(name) if name in _MAIN else len(_MAIN))
    names = names or [name for name in _OF_TEXTS if name in means]
    by_doc = _values(folder, split, names)
    scores: dict[str, Any] = {}
    intervals = {}
    for name in names:
        key = name.replace(",", ";")
        scores[f"{key},none"] = means[name]
        values = [values[name] for values in by_doc.values() if name in values]
        estimate = mean_estimate(values) if len(values) > 1 else None
        if estimate is not None and estimate.stderr is not None:
            scores[f"{key}_stderr,none"] = estimate.stderr
            intervals[f"{key},none"] = [estimate.low, estimate.high]
    requests = _requests(folder)
    failed = {
        _doc_id(id, number): reason
        for number, (id, states) in enumerate(requests.items())
        if (reason := _failure(states)) is not None
    }
    form = {
        "results": scores,
        "intervals": intervals,
        "higher_is_better": {name: False for name in names if name in _OF_TEXTS},
        "configs": {"task": str(spec.get("name", "")).partition(":")[0], "scenario": spec["scenario_spec"]},
        "n-shot": spec["adapter_spec"].get("max_train_instances"),
        "failures": failures_entry(failed),
        "n-samples": {"original": len(by_doc), "effective": len(by_doc)},
    }
    return form, list(_lines(by_doc, requests))


def _is_plain(name: Mapping[str, Any]) -> bool:
    """Whether a score is of the documents as they are, and of all of them."""
    return not name.get("perturbation") and not name.get("sub_split")


def _values(folder: Path, split: str | None, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The scores of each document by its id; with several draws of few-shot examples, their means."""
    file = folder / "per_instance_stats.json"
    by_doc: dict[str, dict[str, list[float]]] = {}
    for entry in read_json(file) if file.is_file() else ():
        if entry.get("perturbation"):
            continue
        for stat in entry["stats"]:
            about = stat["name"]
            if about["name"] in names and about.get("split", split) == split and _is_plain(about) and stat["count"]:
                value = stat.get("mean", stat["sum"] / stat["count"])
                by_doc.setdefault(str(entry["instance_id"]), {}).setdefault(about["name"], []).append(float(value))
    return {id: {name: sum(values) / len(values) for name, values in scores.items()} for id, scores in by_doc.items()}


def _requests(folder: Path) -> dict[str, list[Mapping[str, Any]]]:
    """The requests of each document in the first draw of few-shot examples, where the run has kept them."""
    file = folder / "scenario_state.json"
    requests: dict[str, list[Mapping[str, Any]]] = {}
    for state in (read_json(file).get("request_states") or ()) if file.is_file() else ():
        instance = state["instance"]
        if not instance.get("perturbation") and not state.get("train_trial_index"):
            requests.setdefault(str(instance.get("id")), []).append(state)
    return requests


def _failure(states: Sequence[Mapping[str, Any]]) -> str | None:
    results = [state.get("result") or {} for state in states]
    return next((str(result.get("error") or "it failed") for result in results if result.get("success") is False), None)


def _doc_id(id: str, number: int) -> int:
    """The number in HELM's id of a document, which is equal in all runs; else its place."""
    match = re.fullmatch(r"id(\d+)", id)
    return int(match[1]) if match else number


def _lines(
    by_doc: Mapping[str, Mapping[str, float]], requests: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """The documents as lines of a samples file."""
    for number, (id, scores) in enumerate(by_doc.items()):
        states = requests.get(id) or ()
        instance = states[0]["instance"] if states else {}
        answers = [ref for ref in instance.get("references") or () if "correct" in (ref.get("tags") or ())]
        prompts = [_prompt(state.get("request") or {}) for state in states] or [""]
        completions = [
            str(completion.get("text", ""))
            for state in states
            for completion in ((state.get("result") or {}).get("completions") or [{}])[:1]
        ] or [""]
        named = {name.replace(",", ";"): value for name, value in scores.items()}
        doc = {"id": id, "input": (instance.get("input") or {}).get("text", "")}
        target = "; ".join(str((ref.get("output") or {}).get("text", "")) for ref in answers)
        yield document_line(_doc_id(id, number), doc, target, prompts[0], completions, metrics=[*named], **named)


def _prompt(request: Mapping[str, Any]) -> str:
    messages = request.get("messages") or ()
    return str(request.get("prompt") or "\n".join(str(message.get("content", "")) for message in messages))
