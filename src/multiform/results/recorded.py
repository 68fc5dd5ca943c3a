"""Recorded runs: the results and samples files of a run, read back as responses that can be scored again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from multiform.errors import UsageError, nearest
from multiform.paths import sanitized
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

_PARTIAL = "partial_results_"


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
    """A results file, with the samples files that belong to it; those of lm-eval will do as well."""

    file: Path
    results: Mapping[str, Any]

    @property
    def forms(self) -> list[str]:
        """The names of all forms, in the order of the run."""
        return [name for name in self.results["results"] if name in self.results["configs"]]

    def docs(self, form: str) -> Iterator[RecordedDoc] | None:
        """The documents of a form, each once; None where the run did not log samples."""
        file = self._samples_file(form)
        return None if file is None else self._docs(form, file)

    def _docs(self, form: str, file: Path) -> Iterator[RecordedDoc]:
        seen: set[int] = set()
        with file.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, start=1):
                try:
                    line = json.loads(text)
                    if line.get("form", form) == form and line["doc_id"] not in seen:
                        seen.add(line["doc_id"])
                        yield recorded_doc(line)
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    what = f"the line is no sample: {type(error).__name__}: {error}"
                    raise UsageError(what, where=f"{file}:{number}", hint="run the task again") from error

    def _samples_file(self, form: str) -> Path | None:
        """The samples of a form: of its own, or of all forms where the run was not finished."""
        folder, stamp = self.file.parent, self.file.stem.rpartition("_")[2]
        if self.file.name.startswith(_PARTIAL):
            names = [f"partial_samples_{stamp}.jsonl"]
        else:
            identity = self.results.get("forms", {}).get(form, {}).get("identity")
            names = [f"samples_{sanitized(form)}_{identity}_{stamp}.jsonl", f"samples_{sanitized(form)}_{stamp}.jsonl"]
        return next((folder / name for name in names if (folder / name).is_file()), None)


def read_run(path: Path) -> RecordedRun:
    """The run of a results file, or the newest one in a folder."""
    file = path
    if path.is_dir():
        files = [*path.rglob("results_*.json")] or [*path.rglob(f"{_PARTIAL}*.json")]
        if not files:
            hint = "name a folder or results file that --output_path wrote"
            raise UsageError("there is no results file in the folder", where=str(path), hint=hint)
        file = max(files, key=lambda each: each.stat().st_mtime)
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        hint = nearest(path.name, [each.name for each in path.parent.glob("*")] if path.parent.is_dir() else [])
        raise UsageError(f"cannot be read: {error.strerror or error}", where=str(path), hint=hint) from error
    except ValueError as error:
        raise UsageError(f"is no JSON: {error}", where=str(file), hint="name a results file") from error
    if not isinstance(results, dict) or not all(
        isinstance(results.get(key), dict) for key in ("configs", "results", "n-samples")
    ):
        raise UsageError("is no results file", where=str(file), hint="name one that --output_path wrote")
    return RecordedRun(file, results)


def recorded_doc(line: Mapping[str, Any]) -> RecordedDoc:
    """The document of a line of a samples file."""
    instances: list[Instance] = []
    outputs: list[Output] = []
    places, completions = count(), count()
    for argument, responses in zip(line["arguments"].values(), line["resps"], strict=True):
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


def _request(argument: Mapping[str, Any], repeat: int) -> Request:
    context, other = argument["arg_0"], argument.get("arg_1")
    if isinstance(other, str):
        return LoglikelihoodRequest(context, other)
    return RollingRequest(context) if other is None else GenerationRequest.of(context, other, repeat)


def _output(line: Mapping[str, Any], request: Request, response: Any, place: int, completions: Iterator[int]) -> Output:
    """What `results/samples.py` wrote as a response, with what it added beside."""
    cut = bool(_at(line, "contexts_truncated", place))
    if isinstance(request, GenerationRequest):
        truncated = bool(_at(line, "completions_truncated", next(completions)))
        return Completion(str(response), truncated=truncated, context_truncated=cut)
    loglikelihood, greedy = (response, "False") if isinstance(response, str) else response
    tokens = _at(line, "num_tokens", place)
    return LLOutput(float(loglikelihood), str(greedy) == "True", tokens, context_truncated=cut)


def _at(line: Mapping[str, Any], key: str, place: int) -> Any:
    values = line.get(key) or ()
    return values[place] if place < len(values) else None
