"""Recorded runs: the results and samples files of a run, read back as responses that can be scored again."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from multiform.errors import DataError, UsageError, nearest, reason, shorten
from multiform.paths import open_file, read_file, sanitized
from multiform.requests import (
    Completion,
    GenerationRequest,
    Instance,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    RollingRequest,
)

logger = logging.getLogger("multiform")

T = TypeVar("T")

_PARTIAL = "partial_results_"
#: The end of the name of a results file, and of the samples files that belong to it: when the run ended.
#: What code raises on files of any content.
MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError),
)
#: The most bytes of a results file: those of thousands of forms have some megabytes.
_LARGEST = 1 << 30
#: The keys of a results file that have an entry for each form or group, and the types of the entries.
_ENTRIES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("results", "configs"), (dict,)),
    **dict.fromkeys(("forms", "n-samples", "failures", "intervals", "higher_is_better"), (dict, NoneType)),
    **dict.fromkeys(("versions", "n-shot"), (str, int, float, NoneType)),
    "group_subtasks": (list, NoneType),
    "task_hashes": (str, NoneType),
    "weight_by_size": (bool,),
}
_STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[.\d]*)\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDoc:
    """A document of a samples file with its requests and the model's outputs; `failure` says why there are none."""

    doc_id: int
    doc: Mapping[str, Any]
    instances: tuple[Instance, ...]
    outputs: tuple[Output, ...]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A results file of Multiform or lm-eval, with the samples files that belong to it."""

    file: Path
    results: Mapping[str, Any]

    @property
    def forms(self) -> list[str]:
        """The names of all forms, in the order of the run."""
        return [name for name in self.results["results"] if name in self.results["configs"]]

    def docs(self, form: str) -> Iterator[RecordedDoc] | None:
        """The documents of a form, each once; None where the run did not log samples."""
        docs = self.samples(form, recorded_doc)
        return None if docs is None else _once(docs)

    def samples(self, form: str, read: Callable[[Mapping[str, Any]], T]) -> Iterator[T] | None:
        """The result of `read` for each line of a form's samples file; None where the run did not log samples."""
        file = self._samples_file(form)
        return None if file is None else self._samples(form, file, read)

    def _samples(self, form: str, file: Path, read: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
        with open_file(file) as lines:
            for number, text in enumerate(lines, start=1):
                try:
                    line = json.loads(text)
                    sample = read(line) if line.get("form", form) == form else None
                except MALFORMED as error:
                    message = f"the line is no sample: {reason(error)}"
                    raise UsageError(message, where=f"{file}:{number}", hint="run the task again") from error
                if sample is not None:
                    yield sample

    def _samples_file(self, form: str) -> Path | None:
        """The samples of a form: of its own, or of all forms where the run was not finished."""
        folder, stamp = self.file.parent, self.file.stem.rpartition("_")[2]
        if self.file.name.startswith(_PARTIAL):
            names = [f"partial_samples_{stamp}.jsonl"]
        else:
            identity = self.results.get("forms", {}).get(form, {}).get("identity")
            names = [f"samples_{sanitized(form)}_{identity}_{stamp}.jsonl", f"samples_{sanitized(form)}_{stamp}.jsonl"]
        return next((folder / name for name in names if (folder / name).is_file()), None)


def results_files(path: Path) -> list[Path]:
    """The results files in a folder and its subfolders, the newest last; a file is itself.

    Both harnesses name them ``results_<date>.json`` or, where ``FILE.json`` was given, ``FILE_<date>.json``. Where
    there are none, those of runs that were not finished.
    """
    if not path.exists():
        names = [entry.name for entry in path.parent.glob("*")] if path.parent.is_dir() else []
        hint = nearest(path.name, names, listed="there are") if names else "name the --output_path of a run"
        raise UsageError("there is no such file or folder", where=str(path), hint=hint)
    if path.is_file():
        return [path]
    files = [(_STAMP.search(file.name), file) for file in path.rglob("*.json")]
    dated = sorted((match.group(1), str(file), file) for match, file in files if match)
    return [file for _, _, file in dated] or partial_results_files(path)


def partial_results_files(folder: Path) -> list[Path]:
    """The results files of runs that were stopped or failed, the newest last."""
    return sorted(folder.rglob(f"{_PARTIAL}*.json"), key=_modified)


def _modified(file: Path) -> float:
    """When a file was last written; a link to nothing is the oldest."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def newest_run(path: Path) -> RecordedRun:
    """The run of a results file, or the newest one in a folder; that there are others is logged."""
    files = results_files(path)
    if not files:
        samples = next(path.rglob("partial_samples_*.jsonl"), None)
        hint = "name the --output_path of a run, of Multiform or of lm-eval"
        if samples is not None:
            hint = f"{samples} has the documents that are scored so far; run the same command again to go on from there"
        raise UsageError("there is no results_<date>.json in this folder", where=str(path), hint=hint)
    if len(files) > 1:
        logger.warning("%s holds %d runs; the newest is read: %s", path, len(files), files[-1])
    return recorded_run(files[-1])


def read_json(file: Path) -> Any:
    """The value in a JSON file; an error of any of the kinds in `MALFORMED` where it cannot be read."""
    if file.stat().st_size > _LARGEST:
        raise ValueError("it is too large")
    return json.loads(read_file(file))


def recorded_run(file: Path) -> RecordedRun:
    """The run of a results file."""
    hint = "name a results_<date>.json of Multiform or of lm-eval"
    try:
        results = read_json(file)
    except MALFORMED as error:
        raise DataError(f"is no results file: {reason(error)}", where=str(file), hint=hint) from error
    if not isinstance(results, dict) or not all(isinstance(results.get(key), dict) for key in ("configs", "results")):
        raise DataError("is no results file: it has no 'results' and 'configs'", where=str(file), hint=hint)
    for key, types in _ENTRIES.items():
        entries = results.get(key)
        if not isinstance(entries, dict | NoneType):
            raise DataError(f"expected an object, got {shorten(entries)}", where=f"{file}: {key}", hint=hint)
        for name, entry in (entries or {}).items():
            if not isinstance(entry, types):
                raise DataError(f"{shorten(entry)} cannot be there", where=f"{file}: {key}: {name}", hint=hint)
    return RecordedRun(file, results)


def _once(docs: Iterator[RecordedDoc]) -> Iterator[RecordedDoc]:
    """Each document once: the samples file has it once for each filter."""
    ids: set[int] = set()
    for doc in docs:
        if doc.doc_id not in ids:
            ids.add(doc.doc_id)
            yield doc


def recorded_doc(line: Mapping[str, Any]) -> RecordedDoc:
    """The document of a line of a samples file."""
    instances: list[Instance] = []
    outputs: list[Output] = []
    places, completions = count(), count()
    for argument, responses in zip(_arguments(line["arguments"]), line["resps"], strict=True):
        for repeat, response in enumerate(responses or [None]):
            request = _request(argument, repeat)
            instances.append(Instance(line["doc_id"], len(instances), request))
            if response is not None:
                outputs.append(_output(line, request, response, next(places), completions))
    return RecordedDoc(
        doc_id=line["doc_id"],
        doc=line["doc"],
        instances=tuple(instances),
        outputs=tuple(outputs),
        failure=line.get("failure") if not outputs else None,
    )


def _arguments(recorded: Any) -> list[tuple[Any, Any]]:
    """The first two arguments of all requests; older files of lm-eval have lists where newer ones have objects."""
    listed = list(recorded.values()) if isinstance(recorded, Mapping) else list(recorded)
    values = [[*item.values()] if isinstance(item, Mapping) else [*item] for item in listed]
    return [(item[0], item[1] if len(item) > 1 else None) for item in values]


def _request(argument: tuple[Any, Any], repeat: int) -> Request:
    context, second = argument
    if isinstance(second, str):
        return LoglikelihoodRequest(context, second)
    return RollingRequest(context) if second is None else GenerationRequest.of(context, second, repeat)


def _output(line: Mapping[str, Any], request: Request, response: Any, place: int, completions: Iterator[int]) -> Output:
    """What `results/samples.py` wrote as a response, with what it added beside."""
    cut = bool(_at(line, "contexts_truncated", place))
    if isinstance(request, GenerationRequest):
        number = next(completions)
        truncated = bool(_at(line, "completions_truncated", number))
        return Completion(str(response), truncated, cut, _at(line, "finish_reasons", number))
    loglikelihood, greedy = response if isinstance(response, list) else (response, False)  # a rolling one has no flag
    tokens = _at(line, "num_tokens", place)
    return LLOutput(float(loglikelihood), str(greedy) == "True", tokens, context_truncated=cut)


def _at(line: Mapping[str, Any], key: str, place: int) -> Any:
    values = line.get(key) or ()
    return values[place] if place < len(values) else None
