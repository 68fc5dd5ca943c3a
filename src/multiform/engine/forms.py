"""Runs forms on a model: every document is scored as soon as its last answer is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from multiform.engine.executors import LocalExecutor
from multiform.engine.progress import Progress
from multiform.engine.run import answers
from multiform.engine.store import Store
from multiform.models import Model
from multiform.requests import Instance, Output, Request, RollingRequest
from multiform.tasks import Answered, PromptOptions, ScoredDoc, Task


@dataclass(slots=True)
class Work:
    """A document of a form that waits for its answers."""

    task: Task
    doc_id: int
    instances: list[Instance]
    waiting: int
    answered: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCaching:
    """Whether requests are kept on disk, made anew all the same, and whose chat template they are written with."""

    refresh: bool = False
    template: str = ""


def works_of(
    task: Task,
    limit: float | None,
    samples: Mapping[str, Sequence[int]] | None,
    options: PromptOptions,
    caching: RequestCaching | None = None,
) -> list[Work]:
    """The documents of a form to ask about, with their requests."""
    chosen = None if samples is None else samples.get(task.name, samples.get(task.config.base_name))
    kept = None if caching is None else _kept(task, limit, chosen, options, caching)
    works = []
    for doc_id, doc in task.doc_iterator(limit=limit, samples=chosen):
        instances = task.requests_of(doc_id, doc, options) if kept is None else kept.get(doc_id, [])
        works.append(Work(task, doc_id, instances, len({instance.request for instance in instances})))
    return works


def _kept(
    task: Task,
    limit: float | None,
    chosen: Sequence[int] | None,
    options: PromptOptions,
    caching: RequestCaching,
) -> dict[int, list[Instance]]:
    """The requests of each document, from the request cache where they are in it."""
    made = task.build_all_requests(
        limit=limit,
        samples=chosen,
        system_instruction=options.system_instruction,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.fewshot_as_multiturn,
        chat_template=options.chat_template,
        tokenizer_name=caching.template,
        cache_requests=True,
        rewrite_requests_cache=caching.refresh,
    )
    found: dict[int, list[Instance]] = {}
    for instance in made:
        found.setdefault(instance.doc_id, []).append(instance)
    return found


def run_works(
    model: Model, works: Sequence[Work], progress: Progress, store: Store | None = None
) -> dict[str, list[ScoredDoc]]:
    """Ask the model what the store does not know, and score each document as soon as its last answer is there."""
    scoring = _Scoring(works, progress)
    known = store.known(model.identity, scoring.waiting) if store else {}
    if known and store:
        progress.message(f"{len(known)} of {len(scoring.waiting)} answers are in {store.path}")
    for request, output in known.items():
        scoring.answered(request, output)
    missing = [request for request in scoring.waiting if request not in known]
    if missing:
        progress.begin(len(missing), len(works))
        asked = answers(LocalExecutor(model), missing, identity=model.identity, store=store)
        try:
            with closing(asked):  # what came is stored before anything else happens
                for request, output in asked:
                    progress.answered()
                    scoring.answered(request, output)
        except KeyboardInterrupt:
            if store is None or not store.working:
                raise
            raise KeyboardInterrupt("answers so far are stored; run the same command again to go on") from None
        finally:
            progress.end()
    return scoring.results()


def planned(model: Model, works: Sequence[Work], store: Store | None = None) -> str:
    """What a run would ask of the model, and what that would cost."""
    wanted = dict.fromkeys(instance.request for work in works for instance in work.instances)
    known = store.known(model.identity, wanted) if store else {}
    missing = [request for request in wanted if request not in known]
    told = f"{len(wanted)} distinct requests for {len(works)} documents; {len(known)} of them have an answer"
    if not missing:
        return told
    cost = model.plan(missing) or f"model '{model.name}' does not say what the others cost"
    return f"{told}\n{cost}"


class _Scoring:
    """The documents of a run, each scored when its last answer comes."""

    def __init__(self, works: Sequence[Work], progress: Progress) -> None:
        self.works = works
        self.progress = progress
        #: The documents that want to know it, for each distinct request.
        self.waiting: dict[Request, list[Work]] = {}
        for work in works:
            for request in dict.fromkeys(instance.request for instance in work.instances):
                self.waiting.setdefault(request, []).append(work)
        self._outputs: dict[Request, Output] = {}
        self._scored: dict[str, list[ScoredDoc]] = {work.task.name: [] for work in works}
        self._running = {work.task.name: _Running() for work in works}

    def answered(self, request: Request, output: Output) -> None:
        self._outputs[request] = output
        for work in self.waiting[request]:
            work.waiting -= 1
            if work.waiting == 0:
                self._score(work)

    def results(self) -> dict[str, list[ScoredDoc]]:
        """The scored documents of each form, once all is answered."""
        for task in {work.task.name: work.task for work in self.works}.values():
            mine = [work.answered for work in self.works if work.task is task and work.answered is not None]
            self._scored[task.name] += task.process_deferred(mine)
        return {name: sorted(docs, key=lambda doc: doc.doc_id) for name, docs in self._scored.items()}

    def _score(self, work: Work) -> None:
        outputs = tuple(self._outputs[instance.request] for instance in work.instances)
        work.answered = Answered(doc_id=work.doc_id, instances=tuple(work.instances), outputs=outputs)
        docs = work.task.process_instances(work.answered)
        self._scored[work.task.name] += docs
        self._running[work.task.name].show(work.task.name, docs, self.progress)


@dataclass(slots=True)
class _Running:
    """The running mean of a form's first metric."""

    total: float = 0.0
    n: int = 0

    def show(self, form: str, docs: Sequence[ScoredDoc], progress: Progress) -> None:
        metric, value = next(iter(docs[0].values.items()), ("", None)) if docs else ("", None)
        if not isinstance(value, int | float):  # such as the parts of a ratio
            return
        self.total += float(value)
        self.n += 1
        progress.scored(form, metric, self.total / self.n, self.n)


def written_out(works: Sequence[Work]) -> str:
    """The first prompt of each form, for the log."""
    shown: dict[str, str] = {}
    for work in works:
        if not work.instances:  # a task may leave documents out
            continue
        request = work.instances[0].request
        text = request.text if isinstance(request, RollingRequest) else request.context
        shown.setdefault(work.task.name, f"=== {work.task.name}, doc {work.doc_id}\n{text}")
    return "\n".join(shown.values())
