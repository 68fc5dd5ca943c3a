"""Runs forms on a model: every document is scored as soon as its last answer is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multiform.engine.progress import Progress
from multiform.engine.run import answers
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


def works_of(
    task: Task, limit: float | None, samples: Mapping[str, Sequence[int]] | None, options: PromptOptions
) -> list[Work]:
    """The documents of a form to ask about, with their requests."""
    chosen = None if samples is None else samples.get(task.name, samples.get(task.config.base_name))
    works = []
    for doc_id, doc in task.doc_iterator(limit=limit, samples=chosen):
        instances = task.requests_of(doc_id, doc, options)
        works.append(Work(task, doc_id, instances, len({instance.request for instance in instances})))
    return works


def run_works(model: Model, works: Sequence[Work], progress: Progress) -> dict[str, list[ScoredDoc]]:
    """Ask the model, and score each document as soon as its last answer is there."""
    waiting: dict[Request, list[Work]] = {}
    for work in works:
        for request in dict.fromkeys(instance.request for instance in work.instances):
            waiting.setdefault(request, []).append(work)
    outputs: dict[Request, Output] = {}
    scored: dict[str, list[ScoredDoc]] = {work.task.name: [] for work in works}
    running = {work.task.name: _Running() for work in works}
    progress.begin(len(waiting), len(works))
    try:
        for request, output in answers(model, waiting):
            outputs[request] = output
            progress.answered()
            for work in waiting[request]:
                work.waiting -= 1
                if work.waiting == 0:
                    answered = Answered(
                        doc_id=work.doc_id,
                        instances=tuple(work.instances),
                        outputs=tuple(outputs[instance.request] for instance in work.instances),
                    )
                    work.answered = answered
                    docs = work.task.process_instances(answered)
                    scored[work.task.name] += docs
                    running[work.task.name].show(work.task.name, docs, progress)
    finally:
        progress.end()
    for task in {work.task.name: work.task for work in works}.values():
        mine = [work.answered for work in works if work.task is task and work.answered is not None]
        scored[task.name] += task.process_deferred(mine)
    return {name: sorted(docs, key=lambda doc: doc.doc_id) for name, docs in scored.items()}


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
        request = work.instances[0].request
        text = request.text if isinstance(request, RollingRequest) else request.context
        shown.setdefault(work.task.name, f"=== {work.task.name}, doc {work.doc_id}\n{text}")
    return "\n".join(shown.values())
