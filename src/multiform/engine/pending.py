"""PendingSample: a rendered document that waits for the responses of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiform.errors import DataError
from multiform.forms import ChatTemplate, Sample, Task
from multiform.requests import Instance, Output


@dataclass(slots=True)
class PendingSample:
    """A sample that waits for responses; `waiting` is the number of its distinct requests without one."""

    task: Task
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
            sample = task.renderer.with_requests(doc_id, doc, cached.get(doc_id, []))
        pending.append(PendingSample(task, sample, len({instance.request for instance in sample.instances})))
    return pending


def check_gold(pending: Sequence[PendingSample]) -> None:
    """Refuse a run in which two forms of a task disagree about the right choice of a document."""
    first_entries: dict[tuple[str, int], PendingSample] = {}
    for entry in pending:
        sample, right = entry.sample, entry.sample.right_choices
        if right is None:
            continue
        first = first_entries.setdefault((entry.task.config.base_name, sample.doc_id), entry)
        if first.sample.right_choices != right and first.sample.doc == sample.doc:
            readings = [f"{_choice_words(each.sample)} in '{each.task.name}'" for each in (first, entry)]
            message = f"two forms disagree about what is right: {' and '.join(readings)}"
            hint = "set answer_base: 0 or 1 if its answers are digits, or make doc_to_target an index"
            place = entry.task.config.where("doc_to_target")
            raise DataError(message, where=f"{place}: doc {sample.doc_id}", hint=hint)


def _choice_words(sample: Sample) -> str:
    indexes = sample.right_choices or ()
    return f"choice {' and '.join(str(index + 1) for index in indexes)}" if indexes else "none of the choices"


def by_form(pending: Sequence[PendingSample]) -> dict[str, list[PendingSample]]:
    """The samples of each form, by its name, in their order."""
    samples: dict[str, list[PendingSample]] = {}
    for entry in pending:
        samples.setdefault(entry.task.name, []).append(entry)
    return samples


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


def written_out(pending: Sequence[PendingSample]) -> str:
    """The first prompt of each form, for the log."""
    prompts: dict[str, str] = {}
    for entry in pending:
        if not entry.sample.instances:  # a task may leave documents out
            continue
        prompts.setdefault(entry.task.name, f"=== {entry.task.name}, doc {entry.sample.doc_id}\n{entry.sample.prompt}")
    return "\n".join(prompts.values())
