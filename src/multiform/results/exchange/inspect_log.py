"""Inspect's logs (`EvalLog`): a log for each form, and logs read back as a run.

A log that Multiform wrote has the lines of its samples in the metadata of each sample, and is read back as it was.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from multiform.errors import DataError
from multiform.hashing import short_hash
from multiform.paths import open_file, safe_name
from multiform.requests import Completion, GenerationRequest
from multiform.results.exchange.exporters import exported_model, is_number
from multiform.results.export import ending_time, to_json, write_json
from multiform.results.recorded import OF_FORMS, RecordedRun, document_line, failures_entry, results_file
from multiform.results.samples import sample_line
from multiform.results.values import FailedDoc, FormResult, ResultsData

_STATUS = {"complete": "success", "stopped": "cancelled", "failed": "error"}
#: The values of Inspect's scores that are words.
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def write_inspect_logs(results: ResultsData, folder: Path) -> list[Path]:
    """Write a JSON log for each form; all of them have the same `run_id`. Returns the files."""
    saved = to_json(results)
    created = ending_time(results).isoformat(timespec="seconds")
    run_id = short_hash([created, sorted(saved["results"]), saved.get("model_identity")])
    stamp = created.replace(":", "-")
    names = {form.name: f"{stamp}_{safe_name(form.name)}_{short_hash([run_id, form.name])}" for form in results.forms}
    return [
        write_json(folder / f"{names[form.name]}.json", _log(form, results, saved, created, run_id))
        for form in results.forms
    ]


def _log(form: FormResult, results: ResultsData, saved: Mapping[str, Any], created: str, run_id: str) -> dict[str, Any]:
    about = {key: saved[key][form.name] for key in OF_FORMS if form.name in (saved.get(key) or {})}
    failed = {doc.doc_id: doc for doc in form.failed}
    samples = _samples(form, failed)
    model = exported_model(results)
    source = f"{results.run.get('model')}/{model}"
    return {
        "version": 2,
        "status": _STATUS[results.status],
        "eval": {
            "run_id": run_id,
            "created": created,
            "task": form.name,
            "task_id": short_hash([run_id, form.name]),
            "task_version": form.version if isinstance(form.version, int | str) else 0,
            "task_args": {},
            "dataset": {
                "name": str(form.config.get("dataset_path") or form.task),
                "samples": form.total_docs,
                "sample_ids": [sample["id"] for sample in samples],
                "shuffled": False,
            },
            "model": source,
            "model_args": dict(results.run.get("model_args") or {}),
            "config": {"epochs": 1},
            "packages": {"multiform": str(results.provenance.get("multiform_version"))},
            "metadata": {"multiform": {"form": about, "status": results.status, "model": model}},
        },
        "plan": {"name": "plan", "steps": [{"solver": form.format_label or "task", "params": {}}], "config": {}},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples) - len(failed),
            "scores": [_score(form, key) for key in form.estimates],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
        "samples": samples,
    }


def _score(form: FormResult, key: str) -> dict[str, Any]:
    estimate = form.estimates[key]
    metric, _, scorer = key.partition(",")
    values = {"mean": estimate.value, "stderr": estimate.stderr, "low": estimate.low, "high": estimate.high}
    metrics: dict[str, Any] = {
        name: {"name": name, "value": value, "params": {}} for name, value in values.items() if is_number(value)
    }
    return {"name": metric, "scorer": scorer or "none", "scored_samples": estimate.n, "params": {}, "metrics": metrics}


def _samples(form: FormResult, failed: Mapping[int, FailedDoc]) -> list[dict[str, Any]]:
    """The samples, each document once with the scores of all scorers; failed documents have an error."""
    samples: dict[int, dict[str, Any]] = {}
    several = len({sample.scorer for sample in form.samples}) > 1
    for scored in form.samples:
        completions = [output.text for output in scored.outputs if isinstance(output, Completion)]
        answer = None if scored.prediction is None else str(scored.prediction)
        text = completions[0] if completions else answer or ""
        prompt = scored.sample.prompt
        contexts = [item.request.context for item in scored.instances if isinstance(item.request, GenerationRequest)]
        if len(set(contexts)) > 1 and len(contexts) == len(completions):  # a conversation, whole in its last prompt
            prompt, text = contexts[-1], completions[-1]
        entry = samples.setdefault(scored.doc_id, _sample(scored.doc_id, prompt, scored.target, text))
        if scored.sample.choices:
            entry["choices"] = list(scored.sample.choices)
        for name, value in scored.values.items():
            if is_number(value):
                key = f"{name},{scored.scorer}" if several else name
                entry["scores"][key] = {"value": float(value), "answer": answer}
        entry["metadata"]["multiform"].append(sample_line(scored, form.config))
    for doc_id, doc in failed.items():
        entry = samples.setdefault(doc_id, _sample(doc_id, doc.sample.prompt, "", ""))
        entry["error"] = {"message": doc.reason, "traceback": doc.reason, "traceback_ansi": doc.reason}
    return [samples[doc_id] for doc_id in sorted(samples)]


def _sample(doc_id: int, prompt: str, target: Any, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "source": "generate"}
    return {
        "id": doc_id,
        "epoch": 1,
        "input": prompt,
        "target": str(target),
        "messages": [*_messages(prompt), message],
        "output": {"model": "", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {},
        "metadata": {"multiform": []},
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
    }


def _messages(prompt: str) -> list[dict[str, Any]]:
    """The messages of a prompt: those of a chat, which is written as JSON, or one of the user.

    >>> _messages('[{"role": "user", "content": "Hi"}]'), _messages("[1]")
    ([{'role': 'user', 'content': 'Hi'}], [{'role': 'user', 'content': '[1]'}])
    """
    if prompt.startswith('[{"role": '):
        with suppress(ValueError, RecursionError):
            messages = json.loads(prompt)
            if all(isinstance(turn, dict) and isinstance(turn.get("content"), str) for turn in messages):
                return [{"role": turn["role"], "content": turn["content"]} for turn in messages]
    return [{"role": "user", "content": prompt}]


def is_inspect_log(value: Any) -> bool:
    """Whether a JSON document is a log of Inspect."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value and "version" in value


def read_eval_file(file: Path) -> dict[str, Any]:
    """An ``.eval`` file of Inspect, with its samples, as the JSON document that it stands for."""
    with suppress(ImportError):  # teaches zipfile the compression of newer logs; inspect-ai brings it
        import zipfile_zstd  # noqa: F401
    try:
        with open_file(file) as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            header = "header.json" if "header.json" in names else "_journal/start.json"
            log: dict[str, Any] = json.loads(archive.read(header))
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            log["samples"] = [json.loads(archive.read(name)) for name in samples]
    except NotImplementedError as error:  # a compression that this Python does not have
        hint = "pip install zipfile-zstd, or convert it: inspect log convert FILE --to json --output-dir DIR"
        raise DataError("the log is compressed with zstandard", where=str(file), hint=hint) from error
    except zipfile.BadZipFile as error:
        raise DataError(
            "is not an Inspect log: it is not an archive", where=str(file), hint="name a whole log"
        ) from error
    log.setdefault("status", "started")  # a log that Inspect is still writing
    log.setdefault("version", 2)
    return log


def read_inspect_logs(logs: list[dict[str, Any]], file: Path) -> RecordedRun:
    """The logs of one run of Inspect, each a task, as one run."""
    forms: dict[str, dict[str, Any]] = {}
    lines: dict[str, list[dict[str, Any]]] = {}
    for log in logs:
        spec = log["eval"]
        ours = (spec.get("metadata") or {}).get("multiform") or {}
        name = str(spec["task"])
        if ours.get("form"):
            lines[name] = [line for sample in log.get("samples") or () for line in sample["metadata"]["multiform"]]
            forms[name] = ours["form"]
        else:
            lines[name] = list(_lines(log))
            forms[name] = _foreign_form(log, lines[name])
    states = {value: key for key, value in _STATUS.items()}
    statuses = [states.get(log["status"], "failed") for log in logs]
    status = next((status for status in statuses if status != "complete"), "complete")
    model = str(ours.get("model") or spec["model"])
    results = results_file(forms, model=model, date=str(spec["created"]), source="inspect", status=status)
    return RecordedRun(file, results, lines)


def _foreign_form(log: Mapping[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The scores of a log: the mean or accuracy of each scorer under its name, other metrics under theirs."""
    results = log.get("results") or {}
    n = results.get("completed_samples") or len({line["doc_id"] for line in lines})
    scores: dict[str, Any] = {}
    for score in results.get("scores") or ():
        values = {name: metric.get("value") for name, metric in (score.get("metrics") or {}).items()}
        error = values.pop("stderr", None)
        for name, value in values.items():
            if is_number(value):
                key = score["name"] if name in ("accuracy", "mean") else f"{score['name']}/{name}"
                scores[f"{key},none"] = value
                if name in ("accuracy", "mean") and is_number(error):
                    scores[f"{key}_stderr,none"] = error
    samples = enumerate(log.get("samples") or ())
    failed = {number: sample["error"].get("message", "") for number, sample in samples if sample.get("error")}
    dataset = log["eval"].get("dataset") or {}
    return {
        "results": scores,
        "configs": {"task": log["eval"]["task"], "dataset_path": dataset.get("name") or dataset.get("location")},
        "versions": log["eval"].get("task_version"),
        "failures": failures_entry(failed),
        "n-samples": {"original": n, "effective": n},
    }


def _lines(log: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The samples of a log as lines of a samples file; with several epochs, a document has the mean of its scores."""
    by_id: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for number, sample in enumerate(log.get("samples") or ()):
        if not sample.get("error"):
            by_id.setdefault(str(sample["id"]), []).append((number, sample))
    for epochs in by_id.values():
        number, first = epochs[0]
        names = list(dict.fromkeys(name for _, sample in epochs for name in sample.get("scores") or ()))
        values = {name: _values(name, [sample for _, sample in epochs]) for name in names}
        means = {name: sum(found) / len(found) for name, found in values.items() if found}
        prompt, completions = _text(first["input"]), [_completion(sample) for _, sample in epochs]
        yield document_line(
            first["id"] if isinstance(first["id"], int) else number,
            {"id": first["id"], "input": prompt},
            _text(first.get("target")),
            prompt,
            completions,
            filtered_resps=completions,
            prediction=next((s.get("answer") for s in (first.get("scores") or {}).values()), None),
            metrics=list(means),
            **means,
        )


def _values(name: str, samples: list[Mapping[str, Any]]) -> list[float]:
    values = [((sample.get("scores") or {}).get(name) or {}).get("value") for sample in samples]
    numbers: list[Any] = [_GRADES.get(value, value) if isinstance(value, str) else value for value in values]
    return [float(value) for value in numbers if is_number(value)]


def _completion(sample: Mapping[str, Any]) -> str:
    choices = (sample.get("output") or {}).get("choices") or ()
    return _text(choices[0]["message"]["content"]) if choices else ""


def _text(content: Any) -> str:
    """The text of an input, a target or a message of Inspect."""
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, Mapping):
        return _text(content.get("content", content.get("text", "")))
    return "" if content is None else str(content)
