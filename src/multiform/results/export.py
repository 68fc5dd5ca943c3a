"""Results as files and data frames: lm-eval's JSON and samples files, Parquet, and pandas."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from multiform.errors import UsageError, excerpt
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.paths import replace_output, safe_name
from multiform.prompts.media import binary_summary
from multiform.requests import Completion, LLOutput
from multiform.results.extraction import extraction_of
from multiform.results.notes import failures_of
from multiform.results.samples import Sidecars, choices_and_labels, sample_lines, task_hash
from multiform.results.values import FormResult, ResultsData

if TYPE_CHECKING:
    from pandas import DataFrame

    from multiform.results.form_comparison import FormComparison

#: Line separators that JSON does not escape, but `str.splitlines` and others split at.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


_DATA_URLS = ("data:image/", "data:audio/")


def to_json(results: ResultsData) -> dict[str, Any]:
    """The results as the JSON object that lm-eval writes; docs/results.md lists the keys that Multiform adds."""
    from multiform.results.languages import language_spreads

    forms, entries = results.forms, results.entries
    scored = [group for group in results.groups if group.estimates]
    by_name = sorted(entries, key=lambda entry: entry.name)
    spreads = {spread.name: spread.to_dict() for spread in language_spreads(results)}
    about = list(results.provenance.items())
    model = next((i for i, (key, _) in enumerate(about) if key == "model_source"), len(about))
    return {
        "results": {entry.name: entry.scores() for entry in entries},
        **({"groups": {group.name: group.scores() for group in scored}} if scored else {}),
        "group_subtasks": {group.name: list(group.members) for group in results.groups},
        "configs": {form.name: dict(form.config) for form in sorted(forms, key=lambda form: form.name)},
        "versions": {entry.name: entry.version for entry in by_name},
        "n-shot": {entry.name: entry.num_fewshot for entry in by_name},
        "higher_is_better": {entry.name: dict(entry.higher_is_better) for entry in by_name},
        "n-samples": {form.name: {"original": form.total_docs, "effective": form.n} for form in forms},
        "config": dict(results.run),
        **dict(about[:model]),
        "task_hashes": {form.name: task_hash(form) for form in forms},
        **dict(about[model:]),
        "intervals": {
            entry.name: {key: [estimate.low, estimate.high] for key, estimate in entry.estimates.items()}
            for entry in entries
        },
        "forms": {form.name: _form(form) for form in forms},
        **({"weight_by_size": {group.name: group.weight_by_size for group in scored}} if scored else {}),
        **({"across_forms": _across_forms(results.comparisons)} if results.comparisons else {}),
        **({"across_languages": spreads} if spreads else {}),
        "status": results.status,
        "failures": {entry.name: failures_of(entry) for entry in entries if entry.failed},
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
        message = f"cannot write to {excerpt(str(folder))}: {reason}"
        raise UsageError(message, where="--output_path", hint="choose a folder that can be written") from error


def output_folder(path: Path, model_name: str) -> Path:
    """The folder of a run's files: one for the model, or that of the .json file."""
    return path.parent if path.suffix == ".json" else path / model_name


def ending_time(results: ResultsData) -> datetime:
    """When the run ended; lm-eval's files say when it began. Now, if the file of another tool has no date."""
    date = results.provenance.get("date_iso") or results.provenance.get("date")
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(date, int | float):
            return datetime.fromtimestamp(date).astimezone()
        return datetime.fromisoformat(str(date)).astimezone()
    return datetime.now().astimezone()


def write_results(results: ResultsData, path: Path, *, samples: bool) -> list[Path]:
    """Write ``results_<date>.json``, and with `samples` a ``samples_<form>_<date>.jsonl`` for each form.

    `path` is a folder, or a .json file whose name replaces ``results``. Returns the written files.
    """
    stamp = ending_time(results).replace(tzinfo=None).isoformat().replace(":", "-")
    folder = output_folder(path, str(results.provenance.get("model_name_sanitized") or safe_name(results.model_name)))
    main = path.stem if path.suffix == ".json" else "results"
    written, sidecars = [folder / f"{main}_{stamp}.json"], Sidecars(folder, stamp)
    # All files are written before the first gets its name, and the results get theirs last, as the stack is unwound.
    with ExitStack() as files:
        files.enter_context(_replacing(written[0], [plain_json(to_json(results)), "\n"]))
        for form in results.forms if samples else ():
            name = safe_name(form.name)
            # Two forms may have the same sanitized name; the hash of the form keeps their files apart.
            is_taken = (folder / f"samples_{name}_{stamp}.jsonl") in written
            file = folder / f"samples_{f'{name}_{form.identity}' if is_taken else name}_{stamp}.jsonl"
            files.enter_context(_replacing(file, (json_line(line) + "\n" for line in sample_lines(form, sidecars))))
            sidecars.write_costs()
            written.append(file)
    return written


def write_json(path: Path, value: Mapping[str, Any]) -> Path:
    """Write a JSON document, whole or not at all."""
    with _replacing(path, [plain_json(value), "\n"]):
        return path


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write a JSON Lines file, whole or not at all."""
    with _replacing(path, (f"{json_line(line)}\n" for line in lines)):
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


def compact_json(value: Any) -> str:
    """A JSON value without spaces, as pages get it."""
    return json.dumps(
        _finite(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=binary_summary
    )


def _finite(value: Any) -> Any:
    """The value with strings as keys, and None for numbers that JSON does not have."""
    # Of most values, which are many, the type itself is asked: `isinstance` takes several times as long.
    if type(value) in (str, int, bool, NoneType):
        return binary_summary(value) if type(value) is str and value.startswith(_DATA_URLS) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy or torch
        return _finite(value.item())
    # A data URL holds a whole file, which is replaced by its summary.
    return binary_summary(value) if isinstance(value, str) and value.startswith(_DATA_URLS) else value


@contextmanager
def _replacing(path: Path, chunks: Iterable[str]) -> Iterator[None]:
    """Write text that replaces a file when the context ends without an error."""
    with replace_output(path) as partial:
        # Half a surrogate pair, which UTF-8 does not have, becomes the escape that JSON has for it.
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(chunks)
        yield


def _across_forms(comparisons: Sequence[FormComparison]) -> Mapping[str, dict[str, Any]]:
    """For each task and group, the metrics by which its forms were compared."""
    nested: dict[str, dict[str, Any]] = {}
    for comparison in comparisons:
        by_metric = nested.setdefault(comparison.name, {})
        # Two kinds of scoring may have the metric of one name.
        taken = comparison.metric in by_metric
        by_metric[f"{comparison.metric} ({comparison.scoring})" if taken else comparison.metric] = comparison.to_dict()
    return nested


def _form(form: FormResult) -> dict[str, Any]:
    extraction, variation = extraction_of(form), Variation.parse(form.format_label or "")
    return {
        "task": form.task,
        "mapping": dict(form.mapping),
        "format": form.format,
        "identity": form.identity,
        **({"variation": {"hash": variation.hash, "axes": dict(variation.choices)}} if variation.choices else {}),
        "primary_metric": form.primary,
        "overridden": list(form.overridden),
        **({"control": True} if form.control else {}),
        **({} if extraction is None else {"extraction": extraction.to_dict()}),
        "truncated_contexts": form.truncated_contexts,
        "ties": form.ties,
        "endings": form.endings,
    }


#: The columns of every row; those of the metrics follow.
SAMPLE_COLUMNS = (
    *("form", "task", "format", "filter", "doc_id", "prompt", "choices", "labels", "loglikelihoods"),
    *("gold", "picked", "raw", "extracted", "truncated"),
)


def sample_rows(forms: Sequence[FormResult]) -> Iterator[dict[str, Any]]:
    """A row for each sample of each form: its prompt, the model's response and its scores."""
    for form in forms:
        about = {"form": form.name, "task": form.task, "format": form.format_label}
        for sample in form.samples:
            yield {**about, **sample_row(sample)}


def sample_row(sample: ScoredSample) -> dict[str, Any]:
    """The columns of one sample, and a column for each of its metrics."""
    scores = [output.loglikelihood for output in sample.outputs if isinstance(output, LLOutput)]
    completions = [output for output in sample.outputs if isinstance(output, Completion)]
    rendered = sample.sample
    choices, labels = choices_and_labels(rendered)
    return {
        "filter": sample.scorer,
        "doc_id": sample.doc_id,
        "prompt": rendered.prompt,
        "choices": choices or None,
        "labels": labels or None,
        "loglikelihoods": scores or None,
        "gold": sample.gold,
        "picked": sample.prediction if scores and rendered.choices else None,
        "raw": [completion.text for completion in completions] or None,
        "extracted": sample.prediction if completions else None,
        "truncated": any(completion.truncated for completion in completions),
        **sample.values,
    }


def write_parquet(forms: Sequence[FormResult], path: Path) -> Path:
    """Write the rows to a Parquet file; values that differ in type from row to row are written as JSON."""
    import pyarrow
    import pyarrow.parquet

    rows = list(sample_rows(forms))
    columns = {name: _column([row.get(name) for row in rows]) for name in _column_names(rows)}
    with replace_output(path) as file:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return path


def _column_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys([*SAMPLE_COLUMNS, *(name for row in rows for name in row)]))


def _column(values: list[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        return pyarrow.array([None if value is None else json.dumps(value, default=str) for value in values])


SCORE_COLUMNS = (
    *("name", "kind", "task", "format", "metric", "filter", "value", "stderr", "low", "high"),
    *("n", "num_fewshot", "higher_is_better", "chance", "above_chance"),
)


def data_frame(results: ResultsData, table: str) -> DataFrame:
    """A data frame with a row for each sample of each form, or for each score ("scores") of each form and group."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("to_pandas needs the package pandas", hint="pip install pandas") from error
    if table == "scores":
        return pandas.DataFrame(list(frame_rows(results)), columns=list(SCORE_COLUMNS))
    if table == "samples":
        rows = list(sample_rows(results.forms))
        return pandas.DataFrame(rows, columns=_column_names(rows))
    hint = "give 'samples' or 'scores'"
    raise UsageError(f"expected one of two tables, got {excerpt(table)}", where="to_pandas", hint=hint)


def frame_rows(results: ResultsData) -> Iterator[dict[str, Any]]:
    """A row for each metric and filter of each form and group."""
    chances = {
        name: (chance, comparison.above_chance(index))
        for comparison in results.comparisons
        for index, (name, chance) in enumerate(zip(comparison.forms, comparison.chances, strict=False))
    }
    for entry in results.entries:
        about: dict[str, Any] = {"name": entry.name, "kind": "group", "num_fewshot": entry.num_fewshot}
        if isinstance(entry, FormResult):
            about |= {"kind": "form", "task": entry.task, "format": entry.format_label}
        for key, estimate in entry.estimates.items():
            metric, _, scorer = key.partition(",")
            chance, above = chances.get(entry.name, (None, None)) if key == entry.primary else (None, None)
            yield about | {
                "metric": metric,
                "filter": scorer,
                **estimate.numbers("stderr", "n"),
                "higher_is_better": entry.higher_is_better.get(metric),
                "chance": chance,
                "above_chance": above,
            }
