"""The exporters by name, functions that write the results of a run for another tool, and what they share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from multiform.hashing import sha256
from multiform.registry import Registry
from multiform.results.export import ending_time, frame_rows, write_lines
from multiform.results.results import Results
from multiform.results.values import FormResult, ResultsData

#: Writes results into a folder, and returns the files. The results have no secrets.
Exporter: TypeAlias = Callable[[Results, Path], list[Path]]

_HERE = "multiform.results.exchange"
exporters: Registry[Exporter] = Registry(
    "exporter",
    {
        "eee": f"{_HERE}.every_eval:write_every_eval",
        "inspect": f"{_HERE}.inspect_log:write_inspect_logs",
        "lm-eval": f"{_HERE}.exporters:write_lm_eval",
        "eval-results": f"{_HERE}.hub:write_eval_results",
        "parquet": f"{_HERE}.exporters:write_samples_table",
        "otel": f"{_HERE}.exporters:write_telemetry",
    },
    group="multiform.exporters",
)


#: A decorator that registers an exporter under one or more names, for ``multiform export --to NAME``.
register_exporter = exporters.register


def write_lm_eval(results: Results, folder: Path) -> list[Path]:
    """Write a results file, and a samples file for each form, as lm-eval does."""
    return results.save(folder)


def write_samples_table(results: Results, folder: Path) -> list[Path]:
    """Write ``samples.parquet``: a row for each sample of each form."""
    return [results.to_parquet(folder / "samples.parquet")]


R = TypeVar("R", bound=ResultsData)

#: The ends of the names of arguments whose values are never passed on; a number or truth value is no secret.
_SECRET = re.compile(r"(key|token|secret|password|authorization|header|cookie|credential)s?$", re.IGNORECASE)


def exported_model(results: ResultsData) -> str:
    """The name of the model, whatever label a sweep has for it."""
    return str(results.provenance.get("model_name") or results.run.get("model"))


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; a truth value is one."""
    return isinstance(value, int | float) and math.isfinite(value)


def without_secrets(value: Any) -> Any:
    """A value without the entries whose names look like those of secrets.

    >>> without_secrets({"model": "m", "api_key": "sk-1", "extra": {"auth_token": "t", "add_bos_token": True}})
    {'model': 'm', 'extra': {'add_bos_token': True}}
    """
    if isinstance(value, Mapping):
        return {
            key: without_secrets(item)
            for key, item in value.items()
            if isinstance(item, int | float | None) or not _SECRET.search(str(key))
        }
    return [without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def shareable(results: R) -> R:
    """The results without secrets, for whoever is not the user: those of the run, and of the metadata of each form.

    The metadata have the arguments of the model.
    """
    forms = [
        replace(form, config={k: without_secrets(v) if k == "metadata" else v for k, v in form.config.items()})
        for form in results.forms
    ]
    return replace(results, run=without_secrets(dict(results.run)), forms=forms)


def write_telemetry(results: ResultsData, folder: Path) -> list[Path]:
    """Write ``metrics.jsonl`` (a gauge for each score) and ``logs.jsonl`` (an event for each sample); the files."""
    lines = {"metrics": [_metrics(results)], "logs": _logs(results)}
    return [write_lines(folder / f"{name}.jsonl", listed) for name, listed in lines.items()]


def _metrics(results: ResultsData) -> dict[str, Any]:
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in frame_rows(results):
        attributes = {key: row[key] for key in ("name", "kind", "task", "format", "filter", "n") if row.get(key)}
        for suffix, value in (("", row["value"]), (".low", row["low"]), (".high", row["high"])):
            if is_number(value):
                point = {"timeUnixNano": _time(results), "asDouble": value, "attributes": _attributes(attributes)}
                by_metric.setdefault(f"multiform.score.{row['metric']}{suffix}", []).append(point)
    metrics = [{"name": name, "unit": "1", "gauge": {"dataPoints": points}} for name, points in by_metric.items()]
    scoped = {"scope": {"name": "multiform"}, "metrics": metrics}
    return {"resourceMetrics": [{"resource": _resource(results), "scopeMetrics": [scoped]}]}


def _logs(results: ResultsData) -> Iterator[dict[str, Any]]:
    """A line for each form: its samples and failed documents as records of GenAI's evaluation event."""
    for form in results.forms:
        scoped = {"scope": {"name": "multiform"}, "logRecords": [*_records(form, _time(results))]}
        yield {"resourceLogs": [{"resource": _resource(results), "scopeLogs": [scoped]}]}


def _records(form: FormResult, time: str) -> Iterator[dict[str, Any]]:
    for sample in form.samples:
        trace = sha256(f"{form.identity}/{sample.doc_id}")[:32]
        for metric, value in sample.values.items():
            if is_number(value):
                about = {
                    "gen_ai.evaluation.name": f"{form.name}/{metric}",
                    "gen_ai.evaluation.score.value": float(value),
                    "multiform.form": form.name,
                    "multiform.doc_id": sample.doc_id,
                    "multiform.filter": sample.scorer,
                }
                yield _record("gen_ai.evaluation.result", about, time, trace)
    for doc in form.failed:
        about = {"multiform.form": form.name, "multiform.doc_id": doc.doc_id, "error.type": doc.reason}
        yield _record("multiform.failure", about, time, sha256(f"{form.identity}/{doc.doc_id}")[:32])


def _record(name: str, attributes: Mapping[str, Any], time: str, trace: str) -> dict[str, Any]:
    return {
        "timeUnixNano": time,
        "eventName": name,
        "traceId": trace,
        "severityNumber": 17 if "error.type" in attributes else 9,
        "attributes": _attributes(attributes),
    }


def _time(results: ResultsData) -> str:
    return str(int(ending_time(results).timestamp() * 1_000_000) * 1000)


def _resource(results: ResultsData) -> dict[str, Any]:
    version, model = str(results.provenance.get("multiform_version")), exported_model(results)
    about = {"service.name": "multiform", "service.version": version, "gen_ai.request.model": model}
    return {"attributes": _attributes({**about, "multiform.status": results.status})}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items()]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # OTLP-JSON has 64-bit numbers as text
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}
