"""RecordedRun: a run as its files have it, with the results and samples that are read from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from multiform.errors import DataError, UsageError, excerpt, reason
from multiform.forms import Sample, ScoredSample
from multiform.paths import open_file, read_file, safe_name
from multiform.results.results import Results
from multiform.results.samples import read_costs, scored_sample, with_costs
from multiform.results.values import FailedDoc, FormResult, GroupResult
from multiform.statistics.estimates import Estimate, recorded_estimate

T = TypeVar("T")

#: The prefix of the name of the results file of a run that did not finish.
PARTIAL = "partial_results_"
#: What code raises on files of any content.
MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError),
)
#: The most bytes of a results file: those of thousands of forms have some megabytes.
_LARGEST = 1 << 30


def read_json(file: Path) -> Any:
    """The value in a JSON file; an error of any of the kinds in `MALFORMED` where it cannot be read."""
    if file.stat().st_size > _LARGEST:
        raise ValueError("it is too large")
    return json.loads(read_file(file))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A results file in lm-eval's layout, with the samples files that belong to it; or what another tool's became."""

    file: Path
    results: Mapping[str, Any]
    #: The lines of samples by form, where the run is another tool's and its files are not lm-eval's.
    lines: Mapping[str, Sequence[Mapping[str, Any]]] | None = None

    @property
    def forms(self) -> list[str]:
        """The names of all forms, in the order of the run."""
        return [name for name in self.results["results"] if name in self.results["configs"]]

    def docs(self, form: str) -> Iterator[ScoredSample] | None:
        """The documents of a form, each once for all filters; None where the run did not log samples."""
        docs = self._read_lines(form, scored_sample)
        return None if docs is None else _distinct(doc for _, doc in docs)

    def samples(self, form: str) -> Iterator[tuple[int, ScoredSample]]:
        """The samples of a form, each with its place, from which `samples_at` reads it again."""
        return self._read_lines(form, self._reader(form)) or iter(())

    def samples_at(self, form: str, places: Iterable[int]) -> Iterator[ScoredSample]:
        """The samples of a form at some places."""
        to_sample = self._reader(form)
        if self.lines is not None:
            yield from (to_sample(self.lines[form][place]) for place in places)
        elif (file := self._samples_file(form)) is not None:
            with open_file(file) as lines:
                for place in places:
                    lines.seek(place)
                    yield to_sample(json.loads(lines.readline()))

    def _reader(self, form: str) -> Callable[[Mapping[str, Any]], ScoredSample]:
        """Reads the lines of a form's samples file, with the images and costs that are beside it."""
        folder = self.file.parent
        costs = read_costs(folder, self._stamp, form)

        def to_sample(line: Mapping[str, Any]) -> ScoredSample:
            sample = scored_sample(line, folder)
            return with_costs(sample, costs.get(str(sample.doc_id), ()))

        return to_sample

    def _read_lines(self, form: str, read: Callable[[Mapping[str, Any]], T]) -> Iterator[tuple[int, T]] | None:
        """What `read` gives for each line of a form's samples, with its place; None where there are none."""
        if self.lines is not None:
            return enumerate(map(read, self.lines[form])) if self.lines.get(form) else None
        file = self._samples_file(form)
        return None if file is None else _read_file(file, form, read)

    @property
    def _stamp(self) -> str:
        """What the names of a run's files end with: when it ended, or the key of one that was not finished."""
        return self.file.stem.rpartition("_")[2]

    def _samples_file(self, form: str) -> Path | None:
        """The samples of a form: of its own, or of all forms where the run was not finished."""
        if self.file.name.startswith(PARTIAL):
            names = [f"partial_samples_{self._stamp}.jsonl"]
        else:
            identity = self.results.get("forms", {}).get(form, {}).get("identity")
            name = f"samples_{safe_name(form)}"
            names = [f"{name}_{identity}_{self._stamp}.jsonl", f"{name}_{self._stamp}.jsonl"]
        files = (self.file.with_name(name) for name in names)
        return next((file for file in files if file.is_file()), None)


def _distinct(docs: Iterable[ScoredSample]) -> Iterator[ScoredSample]:
    ids: set[int] = set()
    for doc in docs:
        if doc.doc_id not in ids:
            ids.add(doc.doc_id)
            yield doc


def _read_file(file: Path, form: str, read: Callable[[Mapping[str, Any]], T]) -> Iterator[tuple[int, T]]:
    place = 0
    with open_file(file) as lines:
        for number, text in enumerate(lines, start=1):
            try:
                line = json.loads(text)
                sample = read(line) if line.get("form", form) == form else None
            except MALFORMED as error:
                message = f"the line is not a sample: {reason(error)}"
                raise UsageError(message, where=f"{file}:{number}", hint="run the task again") from error
            if sample is not None:
                yield place, sample
            place += len(text)


def results_of_run(run: RecordedRun, *, samples: bool = True) -> Results:
    """The results of a recorded run, with the samples of the files beside it."""
    try:
        return _results(run, samples)
    except MALFORMED as error:
        hint = "run the task again, or take the file away"
        raise DataError(f"the results cannot be read: {reason(error)}", where=str(run.file), hint=hint) from error


def _results(run: RecordedRun, samples: bool) -> Results:
    from multiform.results.compare import compare_forms  # which needs numpy

    saved = run.results
    scores = saved["results"]
    groups = saved.get("group_subtasks") or {}
    tasks = [name for name in scores if name in saved["configs"] or name not in groups]
    forms = [_form(name, saved, [sample for _, sample in run.samples(name)] if samples else []) for name in tasks]
    of_groups = [_group(name, saved) for name in groups if name not in tasks and name in scores]
    return Results(
        forms=forms,
        groups=of_groups,
        comparisons=compare_forms(forms, of_groups),
        run=saved.get("config") or {},
        provenance={key: value for key, value in saved.items() if key not in ABOUT_FORMS},
        status=saved.get("status", "complete"),
    )


#: The keys of a results file that have an entry for each form.
OF_FORMS = (
    *("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "intervals", "forms", "failures"),
)
#: The keys of a results file that are about forms and groups; all others are about the run.
ABOUT_FORMS = frozenset(
    {
        *OF_FORMS,
        *("across_forms", "across_languages", "status", "groups", "group_subtasks"),
        *("config", "task_hashes", "weight_by_size"),
    }
)


def _form(name: str, saved: Mapping[str, Any], samples: list[ScoredSample]) -> FormResult:
    about = _entry(saved, "forms", name) or {}
    counts = _entry(saved, "n-samples", name) or {}
    n = _size(counts.get("effective") or len({sample.doc_id for sample in samples}))
    config = _entry(saved, "configs", name) or {}
    failures = [
        # Of a failed document, the file has the number alone.
        FailedDoc(
            sample=Sample(doc_id=int(doc["doc_id"]), doc={}),
            **{key: doc[key] for key in ("reason", "retried", "requests")},
        )
        for doc in (_entry(saved, "failures", name) or {}).get("documents") or ()
    ]
    return FormResult(
        **_common_fields(name, saved, n, about.get("primary_metric")),
        task=_text(about.get("task") or name.partition("@")[0]),
        identity=_text(about.get("identity") or _entry(saved, "task_hashes", name) or ""),
        total_docs=_size(counts.get("original") or n),
        config=config,
        mapping=about.get("mapping") or {},
        format=about.get("format"),
        format_label=name.partition("@")[2] or None,
        overridden=about.get("overridden") or (),
        control=bool(about.get("control")),
        extraction=about.get("extraction"),
        samples=samples,
        failed=failures,
        cluster=(config.get("metadata") or {}).get("cluster"),
    )


def _group(name: str, saved: Mapping[str, Any]) -> GroupResult:
    nested, scores = saved["group_subtasks"], saved["results"][name]
    n = _size(scores.get("sample_len") or max((scores.get("sample_count") or {}).values(), default=0))
    return GroupResult(
        **_common_fields(name, saved, n, None),
        depth=_depth(name, nested),
        members=list(nested[name]),
        n=n,
        failed=int((_entry(saved, "failures", name) or {}).get("failed") or 0),
        path=name.partition("@")[0],
        forms=list(_forms_below(name, nested)),
        weight_by_size=_weighs_by_size(saved, name),
    )


def _entry(saved: Mapping[str, Any], key: str, name: str) -> Any:
    """What a results file has of a form or group under one of its keys."""
    return (saved.get(key) or {}).get(name)


def _common_fields(name: str, saved: Mapping[str, Any], n: int, primary: str | None) -> dict[str, Any]:
    """The fields that forms and groups have in common."""
    bounds = (_entry(saved, "failures", name) or {}).get("bounds") or {}
    return {
        "name": name,
        "alias": str(saved["results"][name].get("alias", name)).strip(" -"),
        "version": _entry(saved, "versions", name),
        "num_fewshot": _entry(saved, "n-shot", name),
        "estimates": _estimates(name, saved, n, primary),
        "higher_is_better": _entry(saved, "higher_is_better", name) or {},
        "bounds": {key: (low, high) for key, (low, high) in bounds.items()},
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {excerpt(value)}")
    return value


def _size(value: Any) -> int:
    if not 0 <= (number := int(value)) < 2**53:
        raise ValueError(f"{excerpt(value)} is not a number of documents")
    return number


def _forms_below(name: str, nested: Mapping[str, Any]) -> Iterator[str]:
    """The forms in a group and in the groups that it holds, each once."""
    seen, waiting = {name}, list(reversed(nested.get(name) or ()))
    while waiting:
        member = waiting.pop()
        if member in seen:
            continue
        seen.add(member)
        if nested.get(member):
            waiting += reversed(nested[member])
        else:
            yield member


def _weighs_by_size(saved: Mapping[str, Any], group: str) -> bool:
    """Whether a group weighs its tasks by their numbers of documents; a file of lm-eval says so by its score alone."""
    if (known := _entry(saved, "weight_by_size", group)) is not None:
        return bool(known)
    scores = saved["results"]
    key = next((key for key, _ in _values(scores[group])), None)
    members = [name for name in _forms_below(group, saved["group_subtasks"]) if key in scores.get(name, {})]
    sizes = [int((_entry(saved, "n-samples", name) or {}).get("effective") or 0) for name in members]
    if not sum(sizes) or key is None:
        return True
    score, values = float(scores[group][key]), [float(scores[name][key]) for name in members]
    return abs(fmean(values, sizes) - score) <= abs(fmean(values) - score)


def _depth(name: str, nested: Mapping[str, Any]) -> int:
    """How many groups a group is nested in."""
    depth, seen = 0, {name}
    while parent := next((group for group, members in nested.items() if name in members and group not in seen), None):
        depth, name = depth + 1, parent
        seen.add(name)
    return depth


def _estimates(name: str, saved: Mapping[str, Any], n: int, primary: str | None) -> dict[str, Estimate]:
    """The scores of a form or group; one without an interval in the file has one by its standard error."""
    scores = saved["results"][name]
    intervals = _entry(saved, "intervals", name) or {}
    counts = scores.get("sample_count") or {}
    estimates = {}
    for key, value in _values(scores):
        metric, _, scorer = key.partition(",")
        stderr = scores.get(f"{metric}_stderr,{scorer}")
        stderr = float(stderr) if isinstance(stderr, int | float) else None
        size = _size(counts.get(key, n))
        if key in intervals:
            low, high = (None if bound is None else float(bound) for bound in intervals[key])
            estimates[key] = Estimate(value=value, n=size, stderr=stderr, low=low, high=high)
        else:
            estimates[key] = recorded_estimate(value, stderr, size)
    if primary in estimates:
        estimates = {primary: estimates.pop(primary), **estimates}
    return estimates


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in scores.items():
        metric, comma, _ = key.partition(",")
        if comma and not metric.endswith("_stderr") and isinstance(value, int | float) and not isinstance(value, bool):
            yield key, float(value)


def document_line(
    doc_id: int, doc: Mapping[str, Any], target: str, prompt: str, completions: list[str], **more: Any
) -> dict[str, Any]:
    """The line of a samples file for a document of another tool, whose requests are known by their texts."""
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {}}},
        "resps": [completions],
        "filtered_resps": completions[:1],
        "filter": "none",
        **more,
    }


def failures_entry(reasons: Mapping[int, str]) -> dict[str, Any] | None:
    """The failed documents of a form of another tool, by their numbers."""
    failed = [{"doc_id": doc_id, "reason": why, "retried": 0, "requests": 1} for doc_id, why in reasons.items()]
    return {"documents": failed, "failed": len(failed)} if failed else None


def results_file(
    forms: Mapping[str, Mapping[str, Any]], *, model: str, date: str, source: str, **about: Any
) -> dict[str, Any]:
    """A results file with what it has of each form under its keys, where that is known; ``results`` are the scores."""
    named = {
        name: {**form, "results": {"alias": name, **form["results"]}, "configs": form.get("configs") or {"task": name}}
        for name, form in forms.items()
    }
    return {
        **{key: {name: form[key] for name, form in named.items() if form.get(key) is not None} for key in OF_FORMS},
        "config": {"model": model, "model_args": {}},
        "model_name": model,
        "date_iso": date,
        "source": source,
        **about,
    }
