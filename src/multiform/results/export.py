"""Results files in the layout of lm-eval, so that scripts which read its files keep working."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from inspect import getsource
from pathlib import Path
from typing import Any

from multiform.errors import UsageError, shorten
from multiform.formats.variation import Variation
from multiform.forms import Form
from multiform.paths import replace_output, sanitized
from multiform.prompts.media import binary_summary
from multiform.results.extraction import extraction_of
from multiform.results.notes import failures_of
from multiform.results.results import FormResult, GroupResult, Results
from multiform.results.samples import sample_lines, task_hash
from multiform.statistics.estimates import Estimate
from multiform.tasks.fewshot import FewshotConfig
from multiform.tasks.keys import plain
from multiform.tasks.source import display

#: Line separators that JSON does not escape, but `str.splitlines` and others split at.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def to_json(results: Results) -> dict[str, Any]:
    """The results as the JSON object that lm-eval writes; docs/results.md lists the keys that Multiform adds."""
    forms, groups = results.forms, results.groups
    scored = [group for group in groups if group.estimates]
    all_results: list[FormResult | GroupResult] = [*forms, *groups]
    by_name = sorted(all_results, key=lambda entry: entry.name)
    about = list(results.provenance.items())
    model = next((i for i, (key, _) in enumerate(about) if key == "model_source"), len(about))
    return {
        "results": {entry.name: entry.scores() for entry in all_results},
        **({"groups": {group.name: group.scores() for group in scored}} if scored else {}),
        "group_subtasks": {group.name: list(group.members) for group in groups},
        "configs": {form.name: dict(form.config) for form in sorted(forms, key=lambda form: form.name)},
        "versions": {entry.name: entry.version for entry in by_name},
        "n-shot": {entry.name: entry.num_fewshot for entry in by_name},
        "higher_is_better": {entry.name: dict(entry.higher_is_better) for entry in by_name},
        "n-samples": {form.name: {"original": form.total_docs, "effective": form.n} for form in forms},
        "config": dict(results.run),
        **dict(about[:model]),
        "task_hashes": {form.name: task_hash(form) for form in forms},
        **dict(about[model:]),
        "intervals": {entry.name: _intervals(entry.estimates) for entry in all_results},
        "forms": {form.name: _form(form) for form in forms},
        **({"weight_by_size": {group.name: group.weight_by_size for group in scored}} if scored else {}),
        **({"across_forms": _across_forms(results)} if results.comparisons else {}),
        "status": results.status,
        "failures": {entry.name: failures_of(entry) for entry in all_results if entry.failed},
    }


def prepare_output(path: Path) -> None:
    """Check, before the model runs, that results can be written to a folder or .json file."""
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
        message = f"cannot write to {shorten(str(folder))}: {reason}"
        raise UsageError(message, where="--output_path", hint="choose a folder that can be written") from error


def output_folder(path: Path, model_name: str) -> Path:
    """The folder of a run's files: one for the model, or that of the .json file."""
    return path.parent if path.suffix == ".json" else path / model_name


def write_results(results: Results, path: Path, *, samples: bool) -> list[Path]:
    """Write ``results_<date>.json``, and with `samples` a ``samples_<form>_<date>.jsonl`` for each form.

    `path` is a folder, or a .json file whose name replaces ``results``. Returns the written files.
    """
    stamp = str(results.provenance["date_iso"]).replace(":", "-")
    folder = output_folder(path, str(results.provenance["model_name_sanitized"]))
    main = path.stem if path.suffix == ".json" else "results"
    written = [folder / f"{main}_{stamp}.json"]
    # All files are written before the first gets its name, and the results get theirs last, as the stack is unwound.
    with ExitStack() as files:
        files.enter_context(_replacing(written[0], [plain_json(to_json(results)), "\n"]))
        for form in results.forms if samples else ():
            name = sanitized(form.name)
            # Two forms may have the same sanitized name; the hash of the form keeps their files apart.
            is_taken = (folder / f"samples_{name}_{stamp}.jsonl") in written
            file = folder / f"samples_{f'{name}_{form.identity}' if is_taken else name}_{stamp}.jsonl"
            files.enter_context(_replacing(file, (json_line(line) + "\n" for line in sample_lines(form))))
            written.append(file)
    return written


def write_json(path: Path, value: Mapping[str, Any]) -> Path:
    """Write a JSON document, whole or not at all."""
    with _replacing(path, [plain_json(value), "\n"]):
        return path


def plain_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """A JSON document for standard output or a file."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False, default=binary_summary)


def json_line(value: Mapping[str, Any]) -> str:
    r"""A JSON document on one line, with all line separators escaped.

    >>> json_line({"text": "one\u2028two", "score": float("nan")})
    '{"text": "one\\u2028two", "score": null}'
    """
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=binary_summary)
    return text.translate(_LINE_ENDS)


def _finite(value: Any) -> Any:
    """The value with strings as keys, and None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy or torch
        return _finite(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # A data URL holds a whole file, which is replaced by its summary.
    return (
        binary_summary(value) if isinstance(value, str) and value.startswith(("data:image/", "data:audio/")) else value
    )


@contextmanager
def _replacing(path: Path, chunks: Iterable[str]) -> Iterator[None]:
    """Write text that replaces a file when the context ends without an error."""
    with replace_output(path) as partial:
        # Half a surrogate pair, which UTF-8 does not have, becomes the escape that JSON has for it.
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(chunks)
        yield


def _across_forms(results: Results) -> Mapping[str, Any]:
    from multiform.results.form_comparison import by_name  # which needs numpy

    return by_name(results.comparisons)


def _intervals(estimates: Mapping[str, Estimate]) -> dict[str, list[float | None]]:
    return {key: [estimate.low, estimate.high] for key, estimate in estimates.items()}


def _variation(label: str | None) -> dict[str, Any]:
    """The axes of a form's variation and the hash of its name; nothing for a form without one."""
    variation = Variation.parse(label or "")
    return {"variation": {"hash": variation.hash, "axes": dict(variation.choices)}} if variation.choices else {}


def _form(form: FormResult) -> dict[str, Any]:
    extraction = extraction_of(form)
    return {
        "task": form.task,
        "mapping": dict(form.mapping),
        "format": form.format,
        "identity": form.identity,
        **_variation(form.format_label),
        "primary_metric": form.primary,
        "overridden": list(form.overridden),
        **({} if extraction is None else {"extraction": extraction.to_dict()}),
        "truncated_contexts": form.truncated_contexts,
        "ties": form.ties,
        "endings": form.endings,
    }


_ORDER = (
    *("task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name", "dataset_kwargs"),
    *("training_split", "validation_split", "test_split", "fewshot_split", "process_docs", "doc_to_text"),
    *("doc_to_target", "doc_to_image", "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results", "use_prompt"),
    *("description", "target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot", "metric_list"),
    *("output_type", "generation_kwargs", "repeats", "filter_list", "should_decontaminate"),
    *("doc_to_decontamination_query", "gen_prefix", "metadata"),
)
#: Keys that are left out where they are empty or false, as lm-eval does.
_ONLY_SET = ("tag", "dataset_kwargs", "generation_kwargs", "metric_list", "filter_list",
             "multiple_inputs", "multiple_targets", "keep_description", "lint_ignore", "known_errors")  # fmt: skip

#: Arguments of `datasets.load_dataset` that hold keys.
_SECRETS = ("token", "use_auth_token", "storage_options")


def described_config(form: Form, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a form as it was run: its exact templates, its few-shot settings, and its metadata.

    `arguments` are the model arguments, which lm-eval adds to the metadata.
    """
    values = {**form.to_dict(), **form.templates()}
    values |= {key: _source_code(function) for key, function in form.functions.items() if key in values}
    functions = form.metric_functions
    values["metric_list"] = [
        {**entry, "metric": _source_code(functions[name])} if (name := entry["metric"]) in functions else entry
        for entry in values.get("metric_list", ())
    ]
    values["dataset_kwargs"] = _without_secrets(values.get("dataset_kwargs"))
    values["fewshot_config"] = _fewshot(form.fewshot)
    values["metadata"] = plain({**form.metadata, **arguments, **_source(form)})
    described = {key: value for key, value in values.items() if value or key not in _ONLY_SET}
    first = {key: described.pop(key) for key in _ORDER if key in described}
    return {**first, **described}


def _without_secrets(kwargs: Any) -> Any:
    """The arguments of a dataset, with keys and tokens hidden."""
    if not isinstance(kwargs, Mapping):
        return kwargs
    return {key: "***" if key in _SECRETS and not isinstance(value, bool) else value for key, value in kwargs.items()}


def _fewshot(config: FewshotConfig) -> dict[str, Any]:
    """All keys of lm-eval, also those that are not set, and Multiform's own where they are set."""
    values = {f.name: plain(getattr(config, f.name, None)) for f in fields(FewshotConfig)}
    return {key: value for key, value in values.items() if value is not None or key != "doc_to_rationale"}


def _source_code(function: Any) -> str:
    """The source code of a function, or its name where the source cannot be read."""
    try:
        return getsource(function)
    except (OSError, TypeError):
        return str(plain(function))


def _source(form: Form) -> dict[str, str]:
    return {} if form.file is None else {"config_source": display(form.file)}
