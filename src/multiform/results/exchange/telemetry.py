"""Results for dashboards: OpenTelemetry as lines of OTLP-JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.hashing import sha256
from multiform.results.exchange.exporters import exported_model, is_number
from multiform.results.export import frame_rows, write_lines
from multiform.results.values import FormResult, ResultsData


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
        records = [*_records(form, _time(results))]
        scoped = {"scope": {"name": "multiform"}, "logRecords": records}
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
    severity = {"severityNumber": 17 if "error.type" in attributes else 9}
    return {
        "timeUnixNano": time,
        "eventName": name,
        "traceId": trace,
        **severity,
        "attributes": _attributes(attributes),
    }


def _time(results: ResultsData) -> str:
    date = datetime.fromisoformat(str(results.provenance.get("date_iso") or "1970-01-01"))
    return str(int(date.timestamp() * 1_000_000) * 1000)


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
