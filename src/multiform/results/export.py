"""Results and samples as lm-eval writes them, so that scripts which read those keep working."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError, UsageError
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, RollingRequest
from multiform.results.results import FormResult, Results
from multiform.tasks import ScoredDoc


def to_json(results: Results) -> dict[str, Any]:
    """The results object; `intervals` and `forms` are ours, the other keys lm-eval's."""
    forms = results.forms
    return {
        "results": {form.form: form.scores() for form in forms},
        "group_subtasks": {form.form: [] for form in forms},
        "configs": {form.form: dict(form.config) for form in forms},
        "versions": {form.form: form.version for form in forms},
        "n-shot": {form.form: form.num_fewshot for form in forms},
        "higher_is_better": {form.form: dict(form.higher_is_better) for form in forms},
        "n-samples": {form.form: {"original": form.total_docs, "effective": form.n} for form in forms},
        "config": dict(results.run),
        **results.provenance,
        "task_hashes": {form.form: _task_hash(form) for form in forms},
        "intervals": {form.form: _intervals(form) for form in forms},
        "forms": {form.form: _form(form) for form in forms},
    }


def sample_lines(form: FormResult) -> Iterator[dict[str, Any]]:
    """One object for each document and scorer."""
    for sample in form.samples:
        target = _target(sample)
        yield {
            "doc_id": sample.doc_id,
            "doc": dict(sample.doc),
            "target": target,
            "arguments": _arguments(sample),
            "resps": [[_response(output)] for output in sample.outputs],
            "filtered_resps": [_response(output) for output in sample.filtered],
            "filter": sample.scorer,
            "metrics": list(sample.values),
            "doc_hash": _sha256(json.dumps(dict(sample.doc), indent=2, default=str, ensure_ascii=False)),
            "prompt_hash": _sha256(_context(sample.instances[0].request)),
            "target_hash": _sha256(target),
            **sample.values,
        }


def prepare_output(path: Path) -> None:
    """Make sure, before a model is asked anything, that the results can be written."""
    folder = path.parent if path.suffix == ".json" else path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".multiform-{os.getpid()}"
        probe.write_text("", encoding="utf-8")
        probe.unlink()
    except OSError as error:
        what = f"cannot write to {folder}: {error.strerror}"
        raise UsageError(what, where="--output_path", hint="choose a folder that can be written") from error


def write_results(results: Results, path: Path, *, samples: bool) -> list[Path]:
    """Write ``results_<date>.json``, and a ``samples_<form>_<date>.jsonl`` for each form."""
    stamp = str(results.provenance["date_iso"]).replace(":", "-")
    if path.suffix == ".json":
        folder, main = path.parent, path.with_name(f"{path.stem}_{stamp}.json")
    else:
        folder = path / str(results.provenance["model_name_sanitized"])
        main = folder / f"results_{stamp}.json"
    document = json.dumps(to_json(results), indent=2, ensure_ascii=False, default=str)
    written = [_write(main, [document, "\n"])]
    if samples:
        for form in results.forms:
            name = folder / f"samples_{sanitized(form.form)}_{stamp}.jsonl"
            lines = (json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in sample_lines(form))
            written.append(_write(name, lines))
    return written


def sanitized(name: str) -> str:
    """A name that is safe in a path; ``@`` stays.

    >>> sanitized("org/model:1"), sanitized("arc_easy@mcq::gpqa")
    ('org__model_1', 'arc_easy@mcq__gpqa')
    """
    return re.sub(r"[\"<>:|\\?*\[\]\s]", "_", name.replace("/", "__"))


def _write(path: Path, parts: Iterable[str]) -> Path:
    """Write beside the path and rename, so that no file is ever half there."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(parts)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        what = f"could not write {path}: {error.strerror}"
        raise MultiformError(what, hint="free some space or choose another --output_path") from error
    return path


def _intervals(form: FormResult) -> dict[str, list[float | None]]:
    return {key: [estimate.low, estimate.high] for key, estimate in form.estimates.items()}


def _form(form: FormResult) -> dict[str, Any]:
    return {
        "task": form.task,
        "format": form.format,
        "identity": form.identity,
        "primary_metric": form.primary,
        "set_aside": list(form.set_aside),
    }


def _task_hash(form: FormResult) -> str:
    return _sha256("".join(x["doc_hash"] + x["prompt_hash"] + x["target_hash"] for x in sample_lines(form)))


def _target(sample: ScoredDoc) -> str:
    return str(sample.target)


def _arguments(sample: ScoredDoc) -> dict[str, dict[str, Any]]:
    return {f"gen_args_{i}": _argument(instance.request) for i, instance in enumerate(sample.instances)}


def _argument(request: Request) -> dict[str, Any]:
    if isinstance(request, LoglikelihoodRequest):
        return {"arg_0": request.context, "arg_1": request.continuation}
    if isinstance(request, GenerationRequest):
        return {"arg_0": request.context, "arg_1": request.gen_kwargs}
    return {"arg_0": request.text}


def _context(request: Request) -> str:
    return request.text if isinstance(request, RollingRequest) else request.context


def _response(output: Any) -> Any:
    if isinstance(output, LLOutput):
        return [str(output.loglikelihood), str(output.is_greedy)]
    return output.text if isinstance(output, Completion) else output


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain_json(value: Mapping[str, Any]) -> str:
    """A JSON document for standard output."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
