"""Every Eval Ever 0.3.0: one record of all scores of a run, and one line for each document and score."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.hashing import sha256
from multiform.paths import safe_name
from multiform.requests import Completion
from multiform.results.exchange.exporters import exported_model, is_number
from multiform.results.export import ending_time, json_line, to_json, write_json, write_lines
from multiform.results.recorded import RecordedRun, document_line, results_file
from multiform.results.values import FormResult, ResultsData

SCHEMA_VERSION = "0.3.0"


def write_every_eval(results: ResultsData, folder: Path) -> list[Path]:
    """Write ``data/multiform/<developer>/<model>/<uuid>.json`` and its ``<uuid>_samples.jsonl``; returns the files."""
    model = exported_model(results)
    developer, _, short = model.rpartition("/")
    place = Path("data", "multiform", safe_name(developer or "unknown"), safe_name(short or model))
    saved = to_json(results)
    seed = sha256(json.dumps([saved["results"], saved.get("date_iso"), model], default=str, sort_keys=True))
    name = str(uuid.UUID(seed[:32], version=4))
    record = _record(results, saved, model, name)
    files = [folder / place / f"{name}.json"]
    if lines := list(_instances(results, model, name)):
        files.append(write_lines(folder / place / f"{name}_samples.jsonl", lines))
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": (place / files[1].name).as_posix(),
            "hash_algorithm": "sha256",
            "checksum": sha256(files[1].read_text(encoding="utf-8")),
            "total_rows": len(lines),
        }
    write_json(files[0], record)
    return files


def _record(results: ResultsData, saved: Mapping[str, Any], model: str, name: str) -> dict[str, Any]:
    stamp = str(ending_time(results).timestamp())
    version = str(results.provenance.get("multiform_version") or "unknown")
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"multiform/{model}/{name}",
        "evaluation_timestamp": stamp,
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "multiform",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {"status": results.status},
        },
        "eval_library": {"name": "multiform", "version": version},
        "model_info": {
            "name": model,
            "id": model,
            "inference_engine": {"name": str(results.run.get("model"))},
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "model_args": json.dumps(dict(results.run.get("model_args") or {}), default=str),
            },
        },
        "evaluation_results": [
            _result(form, key, saved) for form in results.forms for key in form.estimates
            if is_number(form.estimates[key].value)
        ],
    }  # fmt: skip


def _result(form: FormResult, key: str, saved: Mapping[str, Any]) -> dict[str, Any]:
    estimate, (metric, _, scorer) = form.estimates[key], key.partition(",")
    uncertainty: dict[str, Any] = {"num_samples": estimate.n}
    if is_number(estimate.stderr):
        uncertainty["standard_error"] = {"value": estimate.stderr, "method": "multiform"}
    if is_number(estimate.low) and is_number(estimate.high):
        bounds = {"lower": estimate.low, "upper": estimate.high, "confidence_level": 0.95}
        uncertainty["confidence_interval"] = {**bounds, "method": "multiform"}
    values = [sample.values.get(metric) for sample in form.samples if sample.scorer == scorer]
    binary = bool(values) and all(value in (0, 1) for value in values)
    return {
        "evaluation_result_id": f"{form.name}/{key}",
        "evaluation_name": form.name,
        "source_data": {
            "dataset_name": str(form.config.get("dataset_path") or form.task),
            "source_type": "other",
            "additional_details": {"split": str(form.config.get("test_split") or "unknown")},
        },
        "metric_config": {
            "metric_id": metric,
            "metric_name": metric,
            "lower_is_better": not form.higher_is_better.get(metric, True),
            **({"score_type": "binary"} if binary else {}),
            "additional_details": {"filter": scorer or "none"},
        },
        "score_details": {
            "score": estimate.value,
            "uncertainty": uncertainty,
            "details": {"failed_documents": str(len(form.failed)), "total_documents": str(form.total_docs)},
        },
        "generation_config": {
            "generation_args": {"prompt_template": _template(form)},
            "additional_details": {
                "form": form.name,
                "identity": form.identity,
                "num_fewshot": str(form.num_fewshot),
                "version": str(form.version),
                "form_entry": json.dumps(saved["forms"][form.name], default=str),
                "config": json.dumps(dict(form.config), default=str),
            },
        },
    }


def _template(form: FormResult) -> str:
    """The form: its format's fields, or the templates of its task."""
    parts = {"format": form.format} if form.format is not None else {}
    parts |= {key: form.config[key] for key in ("doc_to_text", "doc_to_target", "doc_to_choice") if key in form.config}
    return json.dumps(parts, default=str, ensure_ascii=False)


def _instances(results: ResultsData, model: str, name: str) -> Iterator[dict[str, Any]]:
    """A line for each document, scorer and score; failed documents have a line with an error, which has no score."""
    for form in results.forms:
        common = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": f"multiform/{model}/{name}",
            "model_id": model,
            "evaluation_name": form.name,
            "interaction_type": "single_turn",
        }
        for sample in form.samples:
            raw = [output.text for output in sample.outputs if isinstance(output, Completion)]
            prediction = "" if sample.prediction is None else str(sample.prediction)
            reference = [*map(str, sample.target if isinstance(sample.target, list | tuple) else [sample.target])]
            for metric, value in sample.values.items():
                if is_number(value):
                    yield {
                        **common,
                        "evaluation_result_id": f"{form.name}/{metric},{sample.scorer}",
                        "sample_id": str(sample.doc_id),
                        "sample_hash": sha256(sample.sample.prompt + "".join(reference)),
                        "input": {
                            "raw": sample.sample.prompt,
                            "formatted": sample.sample.prompt,
                            "reference": reference,
                            "choices": list(sample.sample.choices) or None,
                        },
                        "output": {"raw": raw or [prediction]},
                        "answer_attribution": _attribution(sample, prediction),
                        "evaluation": {"score": float(value), "is_correct": value >= 1},
                        "metadata": {
                            "metric": metric,
                            "filter": sample.scorer,
                            "doc": json_line(dict(sample.doc)),
                            "gold": json.dumps(sample.gold, default=str),
                            "prediction": json.dumps(sample.prediction, default=str),
                        },
                        "error": sample.failure,
                    }


def _attribution(sample: Any, prediction: str) -> list[dict[str, Any]]:
    """The steps that took the answer from the completion; a choice by its log-likelihood is one step."""
    steps = [(step.name, "" if step.value is None else str(step.value)) for step in sample.steps]
    steps = steps or [(sample.scorer if sample.scorer != "none" else "highest score", prediction)]
    last = len(steps) - 1
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": value,
            "extraction_method": method,
            "is_terminal": number == last,
        }
        for number, (method, value) in enumerate(steps)
    ]


def is_every_eval(value: Any) -> bool:
    """Whether a JSON document is a record of Every Eval Ever."""
    return isinstance(value, dict) and "schema_version" in value and isinstance(value.get("evaluation_results"), list)


def read_every_eval(record: Mapping[str, Any], file: Path) -> RecordedRun:
    """A record as a run, with the samples of the file beside it."""
    forms: dict[str, dict[str, Any]] = {}
    for result in record["evaluation_results"]:
        config, details = result["metric_config"], result["score_details"]
        name = str(result["evaluation_name"])
        generation = result.get("generation_config") or {}
        extra = generation.get("additional_details") or {}
        form = forms.setdefault(
            name, {"results": {}, "intervals": {}, "higher_is_better": {}, "n-samples": {"original": 0, "effective": 0}}
        )
        metric = str(config.get("metric_id") or config.get("metric_name") or "score").replace(",", ";")
        key = f"{metric},{(config.get('additional_details') or {}).get('filter', 'none')}"
        uncertainty = details.get("uncertainty") or {}
        form["results"][key] = details["score"]
        if (error := uncertainty.get("standard_error")) is not None:
            form["results"][f"{key.replace(',', '_stderr,', 1)}"] = error["value"]
        if (interval := uncertainty.get("confidence_interval")) and interval.get("confidence_level", 0.95) == 0.95:
            form["intervals"][key] = [interval["lower"], interval["upper"]]
        form["higher_is_better"][metric] = not config["lower_is_better"]
        n = max(form["n-samples"]["effective"], int(uncertainty.get("num_samples") or 0))
        form["n-samples"] = {"original": n, "effective": n}
        form["configs"] = {"task": name, "dataset_path": (result.get("source_data") or {}).get("dataset_name")}
        if "form_entry" in extra and "config" in extra:  # written by Multiform
            form |= {"forms": json.loads(extra["form_entry"]), "configs": json.loads(extra["config"])}
            form["versions"] = form["configs"].get("metadata", {}).get("version", extra.get("version"))
        if re.fullmatch(r"\d+", str(extra.get("num_fewshot"))):
            form["n-shot"] = int(extra["num_fewshot"])
    lines: dict[str, list[dict[str, Any]]] = {}
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    if samples.is_file():
        with samples.open(encoding="utf-8") as stream:
            lines = _sample_lines(json.loads(line) for line in stream if line.strip())
    source = record.get("source_metadata") or {}
    status = (source.get("additional_details") or {}).get("status", "complete")
    status = status if status in ("complete", "stopped", "failed") else "complete"
    model = str((record.get("model_info") or {}).get("id"))
    date = str(record.get("evaluation_timestamp") or record.get("retrieved_timestamp") or "")
    with suppress(ValueError, OverflowError, OSError):  # seconds since 1970
        date = datetime.fromtimestamp(float(date)).isoformat()
    return RecordedRun(
        file, results_file(forms, model=model, date=date, source="every_eval_ever", status=status), lines
    )


def _sample_lines(instances: Iterator[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The lines of each form, a line for each document and filter with all of its scores."""
    forms: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for entry in instances:
        about = entry.get("metadata") or {}
        lines = forms.setdefault(str(entry["evaluation_name"]), {})
        scorer = str(about.get("filter", "none"))
        sample_id = str(entry["sample_id"])
        known = len({key for key, _ in lines})
        line = lines.setdefault((sample_id, scorer), {})
        if not line:
            given, raw = entry["input"], [*map(str, (entry.get("output") or {}).get("raw") or [""])]
            line |= document_line(
                int(sample_id) if sample_id.isdigit() else known,
                json.loads(about["doc"]) if "doc" in about else {"id": sample_id, "input": given["raw"]},
                "; ".join(given["reference"]),
                given.get("formatted") or given["raw"],
                raw,
                filter=scorer,
                metrics=[],
            )
            if "gold" in about:
                line |= {"gold": json.loads(about["gold"]), "prediction": json.loads(about["prediction"])}
        name = str(about.get("metric") or "score")
        line["metrics"].append(name)
        line[name] = entry["evaluation"]["score"]
    return {form: list(lines.values()) for form, lines in forms.items()}
