"""Runs forms on a model: every sample is scored as soon as its last response is there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from multiform.engine.executors import LocalExecutor, responses
from multiform.engine.progress import Progress
from multiform.engine.store import Store
from multiform.errors import ModelError
from multiform.forms import ChatTemplate, Sample, ScoredSample, Task
from multiform.models import Model
from multiform.requests import FailedRequest, Instance, Output, Request, RollingRequest


@dataclass(slots=True)
class PendingSample:
    """A sample that waits for responses to so many distinct requests."""

    task: Task
    sample: Sample
    waiting: int
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCaching:
    """Whether requests are cached on disk, made anew all the same, and whose chat template they are written with."""

    refresh: bool = False
    template: str = ""


def pending_samples(
    task: Task, chat_template: ChatTemplate | None = None, caching: RequestCaching | None = None
) -> list[PendingSample]:
    """The documents of a form to evaluate, rendered."""
    settings = task.form.settings
    chosen = None if settings.samples is None else settings.samples.get(task.name)
    if chosen is None and settings.samples is not None:
        chosen = settings.samples.get(task.config.base_name)
    cached = None if caching is None else _cached(task, chosen, chat_template, caching)
    pending = []
    for doc_id, doc in task.doc_iterator(limit=settings.limit, samples=chosen):
        if cached is None:
            sample = task.sample(doc_id, doc, chat_template)
        else:
            sample = task.renderer.answered(doc_id, doc, cached.get(doc_id, []))
        pending.append(PendingSample(task, sample, len({instance.request for instance in sample.instances})))
    return pending


def _cached(
    task: Task, chosen: Sequence[int] | None, chat_template: ChatTemplate | None, caching: RequestCaching
) -> dict[int, list[Instance]]:
    """The requests of each document, from the request cache where they are in it."""
    settings = task.form.settings
    instances = task.build_all_requests(
        limit=settings.limit,
        samples=chosen,
        system_instruction=settings.system_instruction,
        apply_chat_template=bool(settings.apply_chat_template),
        fewshot_as_multiturn=settings.multiturn,
        chat_template=chat_template,
        tokenizer_name=caching.template,
        cache_requests=True,
        rewrite_requests_cache=caching.refresh,
    )
    by_doc: dict[int, list[Instance]] = {}
    for instance in instances:
        by_doc.setdefault(instance.doc_id, []).append(instance)
    return by_doc


def run_samples(
    model: Model, pending: Sequence[PendingSample], progress: Progress, store: Store | None = None
) -> dict[str, list[ScoredSample]]:
    """Ask the model what is not cached, and score each sample as soon as its last response is there."""
    run = _Run(pending, progress)
    cached = store.known(model.identity, run.waiting) if store else {}
    if cached and store:
        progress.message(f"{len(cached)} of {len(run.waiting)} responses are cached in {store.path}")
    for request, output in cached.items():
        run.received(request, output)
    missing = [request for request in run.waiting if request not in cached]
    if missing:
        progress.begin(len(missing), len(pending))
        stream = responses(LocalExecutor(model), missing, identity=model.identity, store=store)
        try:
            with closing(stream):  # what came is stored before anything else happens
                for request, response in stream:
                    progress.answered()
                    if isinstance(response, FailedRequest):
                        run.failed.append((request, response))
                    else:
                        run.received(request, response)
        except KeyboardInterrupt:
            if store is None or not store.working:
                raise
            raise KeyboardInterrupt("the responses so far are stored; run the same command again to go on") from None
        finally:
            progress.end()
    run.raise_failed()
    return run.results()


def planned(model: Model, pending: Sequence[PendingSample], store: Store | None = None) -> str:
    """What a run would ask of the model, and what that would cost."""
    wanted = dict.fromkeys(instance.request for entry in pending for instance in entry.sample.instances)
    cached = store.known(model.identity, wanted) if store else {}
    missing = [request for request in wanted if request not in cached]
    told = f"{len(wanted)} distinct requests for {len(pending)} documents; {len(cached)} of them are cached"
    if not missing:
        return told
    cost = model.plan(missing) or f"model '{model.name}' does not say what the others cost"
    return f"{told}\n{cost}"


class _Run:
    """The samples of a run, each scored when its last response comes."""

    def __init__(self, pending: Sequence[PendingSample], progress: Progress) -> None:
        self.pending = pending
        self.progress = progress
        #: The samples that need the response, for each distinct request.
        self.waiting: dict[Request, list[PendingSample]] = {}
        for entry in pending:
            for request in dict.fromkeys(instance.request for instance in entry.sample.instances):
                self.waiting.setdefault(request, []).append(entry)
        self.failed: list[tuple[Request, FailedRequest]] = []
        self._outputs: dict[Request, Output] = {}
        self._scored: dict[str, list[ScoredSample]] = {entry.task.name: [] for entry in pending}
        self._running = {entry.task.name: _RunningMean() for entry in pending}

    def received(self, request: Request, output: Output) -> None:
        """Take the response to a request, and score the samples that waited for it alone."""
        self._outputs[request] = output
        for entry in self.waiting[request]:
            entry.waiting -= 1
            if entry.waiting == 0:
                self._score(entry)

    def raise_failed(self) -> None:
        """Raise an error for the first request that failed, once all others have been stored."""
        if self.failed:
            request, failure = self.failed[0]
            entry = self.waiting[request][0]
            where = f"{entry.task.name}: doc {entry.sample.doc_id}"
            what = f"{len(self.failed)} requests failed, the first of them: {failure.reason}"
            raise ModelError(what, where=where, hint="the others are stored; run again to ask these once more")

    def results(self) -> dict[str, list[ScoredSample]]:
        """The scored samples of each form, once all responses are there."""
        for task in {entry.task.name: entry.task for entry in self.pending}.values():
            complete = [(entry.sample, entry.outputs) for entry in self.pending if entry.task is task and entry.outputs]
            self._scored[task.name] += task.scorer.score_together(complete)
        return {name: sorted(samples, key=lambda sample: sample.doc_id) for name, samples in self._scored.items()}

    def _score(self, entry: PendingSample) -> None:
        entry.outputs = tuple(self._outputs[instance.request] for instance in entry.sample.instances)
        scored = entry.task.score(entry.sample, entry.outputs)
        self._scored[entry.task.name] += scored
        self._running[entry.task.name].show(entry.task.name, scored, self.progress)


@dataclass(slots=True)
class _RunningMean:
    """The running mean of a form's first metric."""

    total: float = 0.0
    n: int = 0

    def show(self, form: str, scored: Sequence[ScoredSample], progress: Progress) -> None:
        metric, value = next(iter(scored[0].values.items()), ("", None)) if scored else ("", None)
        if not isinstance(value, int | float):  # such as the parts of a ratio
            return
        self.total += float(value)
        self.n += 1
        progress.scored(form, metric, self.total / self.n, self.n)


def written_out(pending: Sequence[PendingSample]) -> str:
    """The first prompt of each form, for the log."""
    shown: dict[str, str] = {}
    for entry in pending:
        if not entry.sample.instances:  # a task may leave documents out
            continue
        request = entry.sample.instances[0].request
        text = request.text if isinstance(request, RollingRequest) else request.context
        shown.setdefault(entry.task.name, f"=== {entry.task.name}, doc {entry.sample.doc_id}\n{text}")
    return "\n".join(shown.values())
