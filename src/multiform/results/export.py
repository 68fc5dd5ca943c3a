"""Results and samples as lm-eval writes them, so that scripts which read those keep working."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError, UsageError, shorten
from multiform.media import Media, named
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Request, RollingRequest
from multiform.results.results import FormResult, Results
from multiform.scoring.statistics import Estimate
from multiform.tasks import ScoredDoc

#: Bytes of a name in a path; with a date and an ending it stays below the 255 that file systems allow.
_LONGEST_NAME = 180
#: What `str.splitlines` and others take for the end of a line and JSON leaves as it is.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def to_json(results: Results) -> dict[str, Any]:
    """The results object; `intervals` and `forms` are ours, the other keys lm-eval's."""
    forms, groups = results.forms, results.groups
    return {
        "results": {name: results[name] for name in results},
        **({"groups": {group.name: group.scores() for group in groups}} if groups else {}),
        "group_subtasks": {
            **{group.name: list(group.members) for group in groups},
            **{form.form: [] for form in forms},
        },
        "configs": {form.form: dict(form.config) for form in forms},
        "versions": {**{g.name: g.version for g in groups}, **{form.form: form.version for form in forms}},
        "n-shot": {**{g.name: g.num_fewshot for g in groups}, **{form.form: form.num_fewshot for form in forms}},
        "higher_is_better": {
            **{group.name: dict(group.higher_is_better) for group in groups},
            **{form.form: dict(form.higher_is_better) for form in forms},
        },
        "n-samples": {form.form: {"original": form.total_docs, "effective": form.n} for form in forms},
        "config": dict(results.run),
        **results.provenance,
        "task_hashes": {form.form: _task_hash(form) for form in forms},
        "intervals": {
            **{group.name: _intervals(group.estimates) for group in groups},
            **{form.form: _intervals(form.estimates) for form in forms},
        },
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
            "metrics": [name for name, value in sample.values.items() if not isinstance(value, str)],
            "doc_hash": _sha256(json.dumps(dict(sample.doc), indent=2, default=named, ensure_ascii=False)),
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
    except (OSError, ValueError) as error:  # a ValueError for a name that no folder can have
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = "a file is in the way"
        what = f"cannot write to {shorten(str(folder))}: {reason}"
        raise UsageError(what, where="--output_path", hint="choose a folder that can be written") from error


def write_results(results: Results, path: Path, *, samples: bool) -> list[Path]:
    """Write ``results_<date>.json``, and a ``samples_<form>_<date>.jsonl`` for each form."""
    stamp = str(results.provenance["date_iso"]).replace(":", "-")
    if path.suffix == ".json":
        folder, main = path.parent, path.with_name(f"{path.stem}_{stamp}.json")
    else:
        folder = path / str(results.provenance["model_name_sanitized"])
        main = folder / f"results_{stamp}.json"
    written = [_write(main, [plain_json(to_json(results)), "\n"])]
    for form in results.forms if samples else ():
        name = sanitized(form.form)
        # Different forms may be alike once sanitized; none may replace another.
        taken = (folder / f"samples_{name}_{stamp}.jsonl") in written
        file = folder / f"samples_{f'{name}_{form.identity}' if taken else name}_{stamp}.jsonl"
        written.append(_write(file, (json_line(line) + "\n" for line in sample_lines(form))))
    return written


def sanitized(name: str) -> str:
    """A name that is safe in a path, of at most 180 bytes; ``@`` stays.

    >>> sanitized("org/model:1"), sanitized("arc_easy@mcq::gpqa"), sanitized("..")
    ('org__model_1', 'arc_easy@mcq__gpqa', '__')
    """
    safe = re.sub(r"[\x00-\x1f\x7f\"<>:|\\?*\[\]\s]", "_", name.replace("/", "__"))
    safe = safe.encode("utf-8", "backslashreplace").decode("utf-8").replace("\\", "_")
    if not safe.strip("."):
        return "_" * len(safe)
    if len(safe.encode()) <= _LONGEST_NAME:
        return safe
    return safe.encode()[: _LONGEST_NAME - 9].decode("utf-8", "ignore") + "_" + _sha256(name)[:8]


def plain_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """A JSON document for standard output or a file."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False, default=named)


def json_line(value: Mapping[str, Any]) -> str:
    r"""A JSON document on one line, whatever a reader takes for the end of a line.

    >>> json_line({"text": "one\u2028two", "score": float("nan")})
    '{"text": "one\\u2028two", "score": null}'
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=named)
    return text.translate(_LINE_ENDS)


def _finite(value: Any) -> Any:
    """The value with names for keys, and null for the numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy or torch
        return _finite(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # A file inside a string is as binary as one outside.
    return named(value) if isinstance(value, str) and value.startswith(("data:image/", "data:audio/")) else value


def _write(path: Path, parts: Iterable[str]) -> Path:
    """Write beside the path and rename, so that no file is ever half there."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Half a surrogate pair, which UTF-8 does not have, becomes the escape that JSON has for it.
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(parts)
        partial.replace(path)
    except OSError as error:
        what = f"could not be written: {error.strerror or error}"
        hint = "free some space or choose another --output_path"
        raise MultiformError(what, where=str(path), hint=hint) from error
    finally:
        partial.unlink(missing_ok=True)
    return path


def _intervals(estimates: Mapping[str, Estimate]) -> dict[str, list[float | None]]:
    return {key: [estimate.low, estimate.high] for key, estimate in estimates.items()}


def _form(form: FormResult) -> dict[str, Any]:
    return {
        "task": form.task,
        "mapping": dict(form.mapping),
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
        return {"arg_0": request.context, "arg_1": request.continuation, **_media(request.media)}
    if isinstance(request, GenerationRequest):
        return {"arg_0": request.context, "arg_1": request.gen_kwargs, **_media(request.media)}
    return {"arg_0": request.text}


def _media(media: Sequence[Media]) -> dict[str, Any]:
    """The third argument that lm-eval has for images and sounds, where there are any."""
    kinds = {"visual": "image", "audio": "audio"}
    found = {name: [one.summary() for one in media if one.kind == kind] for name, kind in kinds.items()}
    return {"arg_2": {name: some for name, some in found.items() if some}} if media else {}


def _context(request: Request) -> str:
    return request.text if isinstance(request, RollingRequest) else request.context


def _response(output: Any) -> Any:
    """An answer as text, or nested lists of texts, as lm-eval writes it."""
    if isinstance(output, LLOutput):
        return [str(output.loglikelihood), str(output.is_greedy)]
    if isinstance(output, list | tuple):
        return [_response(part) for part in output]
    return output.text if isinstance(output, Completion) else str(output)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
