"""Read results back from files: those of Multiform, and those of lm-eval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import DataError, reason, shorten
from multiform.forms import Sample, ScoredSample
from multiform.forms.sample import Step
from multiform.requests import LLOutput, LoglikelihoodRequest, Output
from multiform.results.failures import FailedDoc
from multiform.results.recorded import MALFORMED, RecordedRun, newest_run, recorded_doc
from multiform.results.results import FormResult, GroupResult, Results
from multiform.statistics.estimates import Estimate, recorded_estimate


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
    forms = [_form(name, saved, list(run.samples(name, scored_sample) or ()) if samples else []) for name in tasks]
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
        *("across_forms", "status", "failures"),
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
        samples=samples,
        failed=[_failed(doc) for doc in failures.get("documents") or ()],
        bounds={key: (low, high) for key, (low, high) in (failures.get("bounds") or {}).items()},
        cluster=(config.get("metadata") or {}).get("cluster"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {shorten(value)}")
    return value


def _size(value: Any) -> int:
    if not 0 <= (number := int(value)) < 2**53:
        raise ValueError(f"{shorten(value)} is no number of documents")
    return number


def _failed(doc: Mapping[str, Any]) -> FailedDoc:
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
        forms=list(_below(name, nested)),
        weight_by_size=_weighted(saved, name),
    )


def _below(name: str, nested: Mapping[str, Any]) -> Iterator[str]:
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


def _weighted(saved: Mapping[str, Any], group: str) -> bool:
    """Whether a group weighs its tasks by their numbers of documents; a file of lm-eval says so by its score alone."""
    if group in (known := saved.get("weight_by_size") or {}):
        return bool(known[group])
    scores = saved["results"]
    key = next((key for key, _ in _values(scores[group])), None)
    members = [name for name in _below(group, saved["group_subtasks"]) if key in scores.get(name, {})]
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


def scored_sample(line: Mapping[str, Any]) -> ScoredSample:
    """The sample of one line of a samples file, as far as the line has its fields."""
    doc = recorded_doc(line)
    ranked = [item.request.continuation for item in doc.instances if isinstance(item.request, LoglikelihoodRequest)]
    choices = tuple(text.strip() for text in ranked) if len(ranked) > 1 else ()
    sample = Sample(
        doc_id=doc.doc_id,
        doc=doc.doc,
        target=line.get("target"),
        choices=choices,
        gold=_gold(line, choices),
        texts=tuple(map(str, line.get("choices") or ())),
        labels=tuple(line.get("labels") or ()),
        permutation=None if line.get("choice_order") is None else tuple(line["choice_order"]),
        instances=doc.instances,
    )
    filtered = tuple(line.get("filtered_resps") or ())
    known = "prediction" in line
    return ScoredSample(
        sample=sample,
        outputs=doc.outputs,
        scorer=str(line.get("filter", "none")),
        filtered=filtered,
        values={name: line[name] for name in line.get("metrics") or () if name in line},
        prediction=line["prediction"] if known else _prediction(choices, doc.outputs, filtered),
        steps=tuple(Step(name=step["step"], value=step["value"]) for step in line.get("steps") or ()),
        failure=doc.failure,
    )


def _gold(line: Mapping[str, Any], choices: Sequence[str]) -> tuple[int, ...]:
    """The indexes of the right choices: as the line says, or by its target."""
    gold = line.get("gold", line.get("target"))
    indexes = []
    for value in gold if isinstance(gold, list) else [gold]:
        if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
            indexes.append(int(value))
        elif isinstance(value, str) and value.strip() in choices:
            indexes.append(choices.index(value.strip()))
    return tuple(index for index in indexes if index < len(choices))


def _prediction(choices: Sequence[str], outputs: Sequence[Output], filtered: Sequence[Any]) -> Any:
    """What the model picked or said, where the line has no such key."""
    scores = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
    if choices and scores:
        return max(range(len(scores)), key=scores.__getitem__)
    return filtered[0] if filtered and not scores else None
