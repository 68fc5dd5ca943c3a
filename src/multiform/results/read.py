"""Read results back from files: those of Multiform and lm-eval, Inspect's logs, records of Every Eval Ever and HELM's
run folders."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from multiform.errors import DataError, MultiformError, UsageError, nearest, reason, shorten
from multiform.forms import Sample, ScoredSample
from multiform.paths import open_file, read_file, safe_name
from multiform.results.results import Results
from multiform.results.samples import RecordedDoc, recorded_doc, scored_sample
from multiform.results.sidecars import read_costs, with_costs
from multiform.results.values import FailedDoc, FormResult, GroupResult
from multiform.statistics.estimates import Estimate, recorded_estimate

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
#: The names of Inspect's logs, which begin with a date, and of records of Every Eval Ever, which are UUIDs.
_FOREIGN = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json$")


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A results file of Multiform or lm-eval, with the samples files that belong to it."""

    file: Path
    results: Mapping[str, Any]
    #: The lines of samples by form, where the run is another tool's and its files are not lm-eval's.
    lines: Mapping[str, Sequence[Mapping[str, Any]]] | None = None

    @property
    def forms(self) -> list[str]:
        """The names of all forms, in the order of the run."""
        return [name for name in self.results["results"] if name in self.results["configs"]]

    def docs(self, form: str) -> Iterator[RecordedDoc] | None:
        """The documents of a form, each once; None where the run did not log samples."""
        docs = self.samples(form, recorded_doc)
        return None if docs is None else _distinct_docs(docs)

    def reader(self, form: str) -> Callable[[Mapping[str, Any]], ScoredSample]:
        """Reads the lines of a form's samples file, with the images and costs that are beside it."""
        folder = self.file.parent
        costs = read_costs(folder, self.file.stem.rpartition("_")[2], form)

        def read(line: Mapping[str, Any]) -> ScoredSample:
            sample = scored_sample(line, folder)
            known = costs.get(str(sample.doc_id))
            return with_costs(sample, known) if known else sample

        return read

    def samples(self, form: str, read: Callable[[Mapping[str, Any]], T]) -> Iterator[T] | None:
        """The result of `read` for each line of a form's samples file; None where the run did not log samples."""
        placed = self.placed_samples(form, read)
        return None if placed is None else (sample for _, sample in placed)

    def placed_samples(self, form: str, read: Callable[[Mapping[str, Any]], T]) -> Iterator[tuple[int, T]] | None:
        """The same with the place of each line, by which `samples_at` reads it again."""
        if self.lines is not None:
            return enumerate(map(read, self.lines[form])) if self.lines.get(form) else None
        file = self._samples_file(form)
        return None if file is None else self._samples(form, file, read)

    def samples_at(self, form: str, places: Iterable[int], read: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
        """The result of `read` for the lines at some places of a form's samples file."""
        if self.lines is not None:
            yield from (read(self.lines[form][place]) for place in places)
        elif (file := self._samples_file(form)) is not None:
            with open_file(file) as lines:
                for place in places:
                    lines.seek(place)
                    yield read(json.loads(lines.readline()))

    def _samples(self, form: str, file: Path, read: Callable[[Mapping[str, Any]], T]) -> Iterator[tuple[int, T]]:
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

    def _samples_file(self, form: str) -> Path | None:
        """The samples of a form: of its own, or of all forms where the run was not finished."""
        folder, stamp = self.file.parent, self.file.stem.rpartition("_")[2]
        if self.file.name.startswith(_PARTIAL):
            names = [f"partial_samples_{stamp}.jsonl"]
        else:
            identity = self.results.get("forms", {}).get(form, {}).get("identity")
            names = [f"samples_{safe_name(form)}_{identity}_{stamp}.jsonl", f"samples_{safe_name(form)}_{stamp}.jsonl"]
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
    return [file for _, _, file in dated] or partial_results_files(path) or _foreign_files(path)


def _foreign_files(folder: Path) -> list[Path]:
    """Logs and records of other tools, the newest last; of the logs of one run, the last."""
    from multiform.results.exchange.helm import helm_files

    if runs := helm_files(folder):
        return runs
    files = [file for file in folder.rglob("*") if file.suffix in (".json", ".eval") and _FOREIGN.match(file.name)]
    by_run: dict[Any, Path] = {}
    for file in sorted(files, key=lambda file: (_modification_time(file), file.name)):
        try:
            log = _foreign_log(file)
        except MultiformError:  # an archive that cannot be read, which whoever opens it is told
            log = {}
        except MALFORMED:
            log = None
        if log is not None:
            by_run[(file.parent, (log.get("eval") or {}).get("run_id") or file.name)] = file
    return list(by_run.values())


def _foreign_log(file: Path) -> dict[str, Any] | None:
    """The document in a log or record of another tool; None for any other file."""
    from multiform.results.exchange.every_eval import is_every_eval
    from multiform.results.exchange.inspect_log import is_inspect_log, read_eval_file

    log = read_eval_file(file) if file.suffix == ".eval" else read_json(file)
    return log if is_inspect_log(log) or is_every_eval(log) else None


def _foreign_run(log: dict[str, Any], file: Path) -> RecordedRun:
    """The run that a log or record belongs to; the logs of one run of Inspect are beside each other."""
    from multiform.results.exchange.every_eval import is_every_eval, read_every_eval
    from multiform.results.exchange.inspect_log import read_inspect_logs

    if is_every_eval(log):
        run = read_every_eval(log, file)
    else:
        logs = []
        for sibling in sorted(file.parent.iterdir()):
            if sibling.suffix in (".json", ".eval") and _FOREIGN.match(sibling.name) and sibling != file:
                other = _foreign_log(sibling) or {}
                run_id = (other.get("eval") or {}).get("run_id")
                if run_id is not None and run_id == log["eval"].get("run_id"):
                    logs.append(other)
        run = read_inspect_logs([*logs, log])
    return RecordedRun(file, run.results, run.lines)


def _helm_run(file: Path) -> RecordedRun | None:
    """The run of HELM that a file stands for; None for any other file."""
    from multiform.results.exchange.helm import read_helm_run

    run = read_helm_run(file)
    return None if run is None else RecordedRun(file, run.results, run.lines)


def partial_results_files(folder: Path) -> list[Path]:
    """The results files of runs that were stopped or failed, the newest last."""
    return sorted(folder.rglob(f"{_PARTIAL}*.json"), key=_modification_time)


def _modification_time(file: Path) -> float:
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
        if (run := _helm_run(file)) is not None:
            return run
        if (log := _foreign_log(file)) is not None:
            return _foreign_run(log, file)
        results = read_json(file)
    except MALFORMED as error:
        raise DataError(f"is not a results file: {reason(error)}", where=str(file), hint=hint) from error
    if not isinstance(results, dict) or not all(isinstance(results.get(key), dict) for key in ("configs", "results")):
        raise DataError("is not a results file: it has no 'results' and 'configs'", where=str(file), hint=hint)
    for key, types in _ENTRIES.items():
        entries = results.get(key)
        if not isinstance(entries, dict | NoneType):
            raise DataError(f"expected an object, got {shorten(entries)}", where=f"{file}: {key}", hint=hint)
        for name, entry in (entries or {}).items():
            if not isinstance(entry, types):
                raise DataError(f"{shorten(entry)} cannot be there", where=f"{file}: {key}: {name}", hint=hint)
    return RecordedRun(file, results)


def _distinct_docs(docs: Iterator[RecordedDoc]) -> Iterator[RecordedDoc]:
    """Each document once: the samples file has it once for each filter."""
    ids: set[int] = set()
    for doc in docs:
        if doc.doc_id not in ids:
            ids.add(doc.doc_id)
            yield doc


def read_results(path: str | Path, *, samples: bool = True) -> Results:
    """The results of a run, read from a results file or from the folder that it is in, of Multiform or of lm-eval.

    Of several runs in a folder the newest is read, which is logged; `samples=False` leaves the samples out.
    """
    return results_of_run(newest_run(Path(path)), samples=samples)


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
    forms = [_form(name, saved, list(run.samples(name, run.reader(name)) or ()) if samples else []) for name in tasks]
    of_groups = [_group(name, saved) for name in groups if name not in tasks and name in scores]
    return Results(
        forms=forms,
        groups=of_groups,
        comparisons=compare_forms(forms, of_groups),
        run=saved.get("config") or {},
        provenance={key: value for key, value in saved.items() if key not in ABOUT_FORMS},
        status=saved.get("status", "complete"),
    )


#: The keys of a results file that are about forms and groups; all others are about the run.
ABOUT_FORMS = frozenset(
    {
        *("across_forms", "across_languages", "status", "failures"),
        *("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better"),
        *("n-samples", "config", "task_hashes", "intervals", "forms", "weight_by_size"),
    }
)


def _form(name: str, saved: Mapping[str, Any], samples: list[ScoredSample]) -> FormResult:
    about = (saved.get("forms") or {}).get(name) or {}
    counts = (saved.get("n-samples") or {}).get(name) or {}
    n = _size(counts.get("effective") or len({sample.doc_id for sample in samples}))
    failures = (saved.get("failures") or {}).get(name) or {}
    label = name.partition("@")[2] or None
    config = (saved.get("configs") or {}).get(name) or {}
    return FormResult(
        form=name,
        task=_text(about.get("task") or name.partition("@")[0]),
        alias=str(saved["results"][name].get("alias", name)).strip(" -"),
        identity=_text(about.get("identity") or (saved.get("task_hashes") or {}).get(name) or ""),
        version=(saved.get("versions") or {}).get(name),
        num_fewshot=(saved.get("n-shot") or {}).get(name),
        total_docs=_size(counts.get("original") or n),
        estimates=_estimates(name, saved, n, about.get("primary_metric")),
        higher_is_better=(saved.get("higher_is_better") or {}).get(name) or {},
        config=config,
        mapping=about.get("mapping") or {},
        format=about.get("format"),
        format_label=label,
        overridden=about.get("overridden") or (),
        control=bool(about.get("control")),
        extraction=about.get("extraction"),
        samples=samples,
        failed=[_failed_doc(doc) for doc in failures.get("documents") or ()],
        bounds={key: (low, high) for key, (low, high) in (failures.get("bounds") or {}).items()},
        cluster=(config.get("metadata") or {}).get("cluster"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {shorten(value)}")
    return value


def _size(value: Any) -> int:
    if not 0 <= (number := int(value)) < 2**53:
        raise ValueError(f"{shorten(value)} is not a number of documents")
    return number


def _failed_doc(doc: Mapping[str, Any]) -> FailedDoc:
    """A failed document, of which the file has the number alone."""
    sample = Sample(doc_id=int(doc["doc_id"]), doc={})
    return FailedDoc(sample=sample, reason=doc["reason"], retried=doc["retried"], requests=doc["requests"])


def _group(name: str, saved: Mapping[str, Any]) -> GroupResult:
    nested = saved["group_subtasks"]
    scores = saved["results"][name]
    failures = (saved.get("failures") or {}).get(name) or {}
    counts = scores.get("sample_count") or {}
    n = _size(scores.get("sample_len") or max(counts.values(), default=0))
    return GroupResult(
        name=name,
        alias=str(scores.get("alias", name)).strip(" -"),
        depth=_depth(name, nested),
        members=list(nested[name]),
        version=(saved.get("versions") or {}).get(name),
        num_fewshot=(saved.get("n-shot") or {}).get(name),
        estimates=_estimates(name, saved, n, None),
        higher_is_better=(saved.get("higher_is_better") or {}).get(name) or {},
        n=n,
        failed=int(failures.get("failed") or 0),
        bounds={key: (low, high) for key, (low, high) in (failures.get("bounds") or {}).items()},
        path=name.partition("@")[0],
        forms=list(_forms_below(name, nested)),
        weight_by_size=_weighs_by_size(saved, name),
    )


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
    if group in (known := saved.get("weight_by_size") or {}):
        return bool(known[group])
    scores = saved["results"]
    key = next((key for key, _ in _values(scores[group])), None)
    members = [name for name in _forms_below(group, saved["group_subtasks"]) if key in scores.get(name, {})]
    values = [(float(scores[name][key]), _count(saved, name)) for name in members]
    total = sum(n for _, n in values)
    if not total or key is None:
        return True
    weighted = sum(value * n for value, n in values) / total
    plain = sum(value for value, _ in values) / len(values)
    score = float(scores[group][key])
    return abs(weighted - score) <= abs(plain - score)


def _count(saved: Mapping[str, Any], name: str) -> int:
    return int(((saved.get("n-samples") or {}).get(name) or {}).get("effective") or 0)


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
    intervals = (saved.get("intervals") or {}).get(name) or {}
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
