"""PendingSample: a rendered document that waits for responses; rendering all documents of a run, and what they show."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from typing import Any

from multiform.errors import DataError, nearest
from multiform.forms import Form, Sample
from multiform.forms.request_cache import delete_requests, requests_folder
from multiform.lint import Finding, corpus_findings, drop_silenced, lint_tasks, reference_findings, summary
from multiform.models import Model
from multiform.prompts.prompt import ChatTemplate
from multiform.requests import Instance, Output
from multiform.run.options import RunOptions
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.scoring.decontamination import find_contaminated
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.design import FLIP_RATE, Detectable, detectable_difference

logger = logging.getLogger("multiform")


@dataclass(slots=True)
class PendingSample:
    """A sample that waits for responses; `waiting` is the number of its distinct requests without one."""

    form: Form
    sample: Sample
    waiting: int
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCaching:
    """How rendered requests are cached on disk.

    `refresh` renders them again and replaces the cached ones; `template` names the chat template, a part of the key.
    """

    refresh: bool = False
    template: str = ""


def pending_samples(
    form: Form, chat_template: ChatTemplate | None = None, caching: RequestCaching | None = None
) -> list[PendingSample]:
    """The documents of a form to evaluate, rendered."""
    is_cached = caching is not None and not form.renderer.kind.has_stages  # later stages need the rendered turns
    cached = _cached_requests(form, chat_template, caching) if caching is not None and is_cached else None
    pending = []
    for doc_id, doc in form.docs():
        if cached is None:
            sample = form.sample(doc_id, doc, chat_template)
        else:
            sample = form.renderer.with_requests(doc_id, doc, cached.get(doc_id, []))
        pending.append(PendingSample(form, sample, len({instance.request for instance in sample.instances})))
    return pending


def render(options: RunOptions, forms: Sequence[Form], model: Model | None, progress: Progress) -> list[PendingSample]:
    """Render every document of every form; lint findings about them are logged."""
    caching = _request_caching(options.cache_requests, model, progress)
    template = None if model is None else model.apply_chat_template
    pending = [sample for form in forms for sample in pending_samples(form, template, caching)]
    check_gold(pending)
    check_clusters(pending)
    log_findings(_findings(forms, pending, corpus=bool(options.decontamination_corpus)))
    if options.write_out:
        progress.message(first_prompts(pending))
    return pending


def _findings(forms: Sequence[Form], pending: Sequence[PendingSample], *, corpus: bool) -> list[Finding]:
    """The lint findings about the documents and the settings of a run."""
    entries = by_form(pending)
    samples = {form.name: [entry.sample for entry in entries.get(form.name, ())] for form in forms}
    docs = ((form, [(sample.doc_id, sample.doc) for sample in samples[form.name]]) for form in forms)
    findings = list(lint_tasks(docs))
    for form in forms:
        findings += drop_silenced(form, reference_findings(form, samples[form.name]))
    return findings if corpus else [*findings, *corpus_findings(forms)]


def log_findings(findings: Iterable[Finding]) -> None:
    """Log the findings, one line for each kind."""
    for level, line in summary(findings):
        logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)


def _request_caching(cache_requests: bool | str, model: Model | None, progress: Progress) -> RequestCaching | None:
    """How requests are cached on disk; with "delete", cached ones are removed."""
    if cache_requests == "delete":
        progress.message(f"removed {delete_requests()} files of cached requests")
        return None
    if not cache_requests:
        return None
    template = "" if model is None else _lasting_template(model)
    if template is None:
        message = "the prompts are not cached: its chat template is not known, runs code or asks for the date"
        logger.warning("%s: %s", "the model" if model is None else model.name, message)
        return None
    return RequestCaching(refresh=cache_requests == "refresh", template=template)


def _lasting_template(model: Model) -> str | None:
    """What tells the chat template of a model from others; None where it may write the same chat in another way."""
    text = model.chat_template_text()
    if text is None and isinstance(model.apply_chat_template([{"role": "user", "content": "Hi"}]), str):
        return None
    if not model.stored or "strftime_now" in (text or ""):
        return None
    return f"{model.identity} {model.chat_template_name()} {text}"


def contaminated_docs(
    forms: Sequence[Form], pending: Sequence[PendingSample], corpus: Sequence[str | Path]
) -> dict[str, set[int] | None]:
    """The documents of each form that the corpus contains; None where nothing is to be checked."""
    entries = by_form(pending) if corpus else {}
    dirty: dict[str, set[int] | None] = {}
    for form in forms:
        dirty[form.name] = None
        if corpus and form.config.should_decontaminate:
            ids = [entry.sample.doc_id for entry in entries.get(form.name, ())]
            queries = {doc_id: form.decontamination_query(form.eval_docs[doc_id]) for doc_id in ids}
            dirty[form.name] = find_contaminated(queries, [Path(path) for path in corpus])
    return dirty


def plan_text(options: RunOptions, model: Model, pending: Sequence[PendingSample], store: Store | None) -> str:
    """The requests of a run and what they would cost, in words, and what its documents can tell."""
    requests = dict.fromkeys(instance.request for entry in pending for instance in entry.sample.instances)
    cached = store.known(model.identity, requests) if store and not options.fresh else {}
    missing = [request for request in requests if request not in cached]
    bound = "at most, as the run stops earlier: " if options.stops_early else ""
    lines = [f"{bound}{len(requests)} distinct requests for {len(pending)} documents; {len(cached)} of them are cached"]
    if later := sum(entry.form.renderer.kind.has_stages for entry in pending):
        lines.append(f"{later} documents are asked about again, after these responses: those requests are not counted")
    if missing:
        lines.append(model.plan(missing) or f"model '{model.name}' does not say what the others cost")
    return "\n".join(filter(None, (*lines, detectable_differences(pending))))


def by_form(pending: Sequence[PendingSample]) -> dict[str, list[PendingSample]]:
    """The samples of each form, by its name, in their order."""
    samples: dict[str, list[PendingSample]] = {}
    for entry in pending:
        samples.setdefault(entry.form.name, []).append(entry)
    return samples


def _cached_requests(
    form: Form, chat_template: ChatTemplate | None, caching: RequestCaching
) -> dict[int, list[Instance]]:
    """The requests of each document, from the request cache where they are in it."""
    instances = form.requests(
        list(form.docs()),
        chat_template,
        cache_folder=requests_folder(),
        rewrite_cache=caching.refresh,
        tokenizer_name=caching.template,
    )
    by_doc: dict[int, list[Instance]] = {}
    for instance in instances:
        by_doc.setdefault(instance.doc_id, []).append(instance)
    return by_doc


def first_prompts(pending: Sequence[PendingSample]) -> str:
    """The first prompt of each form, for the log."""
    prompts: dict[str, str] = {}
    for entry in pending:
        if not entry.sample.instances:  # a task may leave documents out
            continue
        prompts.setdefault(entry.form.name, f"=== {entry.form.name}, doc {entry.sample.doc_id}\n{entry.sample.prompt}")
    return "\n".join(prompts.values())


def detectable_differences(pending: Sequence[PendingSample]) -> str | None:
    """The smallest difference between two forms that the run can detect; None where every task has one form.

    Where tasks have different numbers of documents, that of the smallest and of the largest task.
    """
    comparable: dict[str, dict[str, _Comparable]] = {}
    for entry in pending:
        metric = next(iter(entry.form.higher_is_better), None)
        if metric in RIGHT_OR_WRONG:
            forms = comparable.setdefault(entry.form.task_name, {})
            forms.setdefault(entry.form.name, _Comparable(entry.form.output_type)).add(entry)
    multi_form = [list(forms.values()) for forms in comparable.values() if _pairs(list(forms.values()))]
    if not multi_form:
        return None
    detectable = sorted((_detectable(forms) for forms in multi_form), key=lambda each: each.n, reverse=True)
    best, worst = detectable[0], detectable[-1]
    differences = " to ".join(dict.fromkeys([_words(best), _words(worst)]))
    tasks = f" in {len(multi_form)} tasks" if len(multi_form) > 1 else ""
    flips = max(each.flip_rate for each in detectable)
    assumed = f"if they flip {FLIP_RATE:.0%} of the documents" + (
        "" if flips == FLIP_RATE else ", or as many as that needs"
    )
    return (
        f"smallest difference between two forms that the run can detect: {differences}{tasks}, "
        f"with {best.power:.0%} power {assumed}"
    )


def _words(detectable: Detectable) -> str:
    return f"{'none' if detectable.difference is None else f'{detectable.difference:.3f}'} (n={detectable.n})"


@dataclass(slots=True)
class _Comparable:
    """The documents of a form, as clusters; forms of one output type are compared with each other."""

    output_type: str
    clusters: set[Any] = field(default_factory=set)

    def add(self, entry: PendingSample) -> None:
        column, sample = entry.form.cluster, entry.sample
        self.clusters.add(sample.doc_id if column is None else str(sample.doc.get(column)))


def _pairs(forms: Sequence[_Comparable]) -> int:
    """How many pairs of forms are compared."""
    return sum(comb(number, 2) for number in Counter(form.output_type for form in forms).values())


def _detectable(forms: Sequence[_Comparable]) -> Detectable:
    return detectable_difference(min(len(form.clusters) for form in forms), comparisons=_pairs(forms))


def check_gold(pending: Sequence[PendingSample]) -> None:
    """Refuse a run in which two forms of a task disagree about the right choice of a document."""
    first_entries: dict[tuple[str, int], PendingSample] = {}
    for entry in pending:
        sample, right = entry.sample, entry.sample.right_choices
        if right is None:
            continue
        first = first_entries.setdefault((entry.form.task_name, sample.doc_id), entry)
        if first.sample.right_choices != right and first.sample.doc == sample.doc:
            readings = [f"{_choice_words(each.sample)} in '{each.form.name}'" for each in (first, entry)]
            message = f"two forms disagree about what is right: {' and '.join(readings)}"
            hint = "set answer_base: 0 or 1 if its answers are digits, or make doc_to_target an index"
            place = entry.form.where("doc_to_target")
            raise DataError(message, where=f"{place}: doc {sample.doc_id}", hint=hint)


def _choice_words(sample: Sample) -> str:
    indexes = sample.right_choices or ()
    return f"choice {' and '.join(str(index + 1) for index in indexes)}" if indexes else "none of the choices"


def check_clusters(pending: Sequence[PendingSample]) -> None:
    """Refuse a column of clusters that documents do not have."""
    for entry in pending:
        column, doc = entry.form.cluster, entry.sample.doc
        if column is not None and column not in doc:
            place = entry.form.where("metadata", "cluster") or entry.form.name
            raise DataError(
                f"doc {entry.sample.doc_id} has no column '{column}'",
                where=place,
                hint=nearest(str(column), doc, listed="columns"),
            )
