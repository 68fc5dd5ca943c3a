"""Documents: the documents of a run's forms, rendered once and in order, in chunks over all forms.

A chunk is what a run holds in memory. Forms of a task are rendered side by side, as their prompts share beginnings, and
each form in the order of its documents, as few-shot examples are drawn in that order.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from multiform.errors import quantity
from multiform.forms import Form, Sample
from multiform.forms.form import copy_form
from multiform.forms.request_cache import cached_requests, delete_requests
from multiform.lint.forms import TasksLint
from multiform.models import Model
from multiform.requests import Instance
from multiform.run.checks import AnswerChecks, log_findings, settings_findings
from multiform.run.executors.ranges import RangedDocs, stays_with_driver
from multiform.run.executors.work_units import TaskDocs, smallest_range
from multiform.run.options import RunOptions
from multiform.run.pending import PendingSample
from multiform.run.progress import Progress
from multiform.run.spool import IN_MEMORY, Spool, size_of

logger = logging.getLogger("multiform")

T = TypeVar("T")

#: The requests of a chunk, and the characters of its samples, about.
CHUNK_REQUESTS = 16_384
CHUNK_CHARACTERS = 64_000_000
#: So few documents, counted under each form, are one chunk, whatever their size.
FEW_DOCUMENTS = 2_048
#: The documents of each form that are rendered before a larger run begins.
_PREVIEW = 4
#: The share of a run's time in which documents are checked ahead, in turns of so many seconds; and how many documents
#: of one form before those of the next.
_AHEAD_SHARE, _AHEAD_SECONDS = 0.05, 0.005
_SIDE_BY_SIDE = 64
#: The first documents of a form that say how prefixes are shared.
_COMPARED_DOCS = 512


class Documents:
    """The documents of the forms of a run. Most mistakes in tasks show when it is made, the others while it is read."""

    def __init__(self, options: RunOptions, forms: Sequence[Form], model: Model | None, progress: Progress) -> None:
        self.forms = forms
        #: The number of documents of each form that has some.
        self.counts = {form.name: number for form in forms if (number := len(form.doc_ids()))}
        self.total = sum(self.counts.values())
        #: Whether documents are looked up in a training corpus.
        self.corpus = bool(options.decontamination_corpus)
        self._template = None if model is None else model.apply_chat_template
        self._cached_requests = _request_cache(options.cache_requests, model, progress)
        #: The samples of each form so far, with their requests and characters.
        self._sizes = {form.name: Counter[str]() for form in forms}
        #: The names of forms whose documents workers render.
        self._given_away: set[str] = set()
        if self.total > FEW_DOCUMENTS:
            # The first documents of all forms show most mistakes, and how large samples are.
            with _random_state_kept():
                for form in map(copy_form, forms):
                    for sample in islice(self.samples(form), _PREVIEW):
                        self._count(form, sample)
        self.checks = _Checks(self, ahead=not self._fits_one_chunk and self._cached_requests is None)
        self._stream = _with_own_random_state(self._chunks())
        self._first = next(self._stream, [])
        if options.write_out:
            progress.message("\n".join(self._first_prompts()))

    @property
    def is_one_chunk(self) -> bool:
        """Whether all documents are rendered already."""
        return len(self._first) == self.total

    def chunks(self) -> Iterator[list[PendingSample]]:
        """All samples, chunk by chunk; they can be read once."""
        first, self._first = self._first, []
        yield first
        del first
        yield from self._stream

    def give_to_workers(self, workers: Callable[[], int]) -> RangedDocs | None:
        """The documents that workers render, in ranges; `chunks` has the others from now on. None where there are none.

        The first chunk, which is rendered already, says how many requests documents have.
        """
        if self._cached_requests is not None:
            return None
        tasks = [task for forms in by_task(self.forms) if (task := self._task_docs(forms)) is not None]
        self._given_away = {name for task in tasks for name in task.forms}
        self._first = [entry for entry in self._first if entry.form.name not in self._given_away]
        forms = [form for form in self.forms if form.name in self._given_away]
        return RangedDocs(forms, tasks, self._template, workers) if tasks else None

    def _task_docs(self, forms: Sequence[Form]) -> TaskDocs | None:
        """The documents of a task for workers; None where they are rendered here, which a message explains."""
        smallest = 1
        for form in forms:
            with _random_state_kept():
                reason = stays_with_driver(form)
            entries = [entry.sample for entry in self._first if entry.form is form][:_COMPARED_DOCS]
            size = smallest_range([[instance.request for instance in entry.instances] for entry in entries])
            if reason is not None or size is None:
                reason = reason or "those far apart share prefixes, which are computed together"
                logger.info("%s: the driver renders the documents, and not the workers: %s", form.name, reason)
                return None
            smallest = max(smallest, size)
        sizes = [self._sizes[form.name] for form in forms]
        return TaskDocs(
            forms={form.name: self.counts[form.name] for form in forms if form.name in self.counts},
            requests=sum(size["requests"] / max(1, size["samples"]) for size in sizes),
            smallest=smallest,
        )

    def _first_prompts(self) -> Iterator[str]:
        """The first prompt of each form, for the log."""
        for form in self.forms:
            rendered = [entry.sample for entry in self._first if entry.form is form]
            for sample in rendered or self.samples(copy_form(form)):
                if sample.instances:  # a task may leave documents out
                    yield f"=== {form.name}, doc {sample.doc_id}\n{sample.prompt}"
                    break

    def samples(self, form: Form) -> Iterator[Sample]:
        """The samples of a form, which are rendered as they are taken."""
        return (form.sample(doc_id, doc, self._template) for doc_id, doc in form.docs())

    def _count(self, form: Form, sample: Sample) -> None:
        self._sizes[form.name].update(samples=1, requests=len(sample.instances), characters=size_of(sample))

    def _weight(self, form: str) -> float:
        """The mean share of a chunk that a sample of a form takes; hardly any where the run has few documents."""
        size = self._sizes[form]
        if not size["samples"] or self.total <= FEW_DOCUMENTS:
            return 1e-9
        return max(size["requests"] / CHUNK_REQUESTS, size["characters"] / CHUNK_CHARACTERS) / size["samples"]

    @property
    def _fits_one_chunk(self) -> bool:
        return sum(self._weight(name) * number for name, number in self.counts.items()) <= 1

    def _chunks(self) -> Iterator[list[PendingSample]]:
        """The samples of each chunk, form by form; where all fit into one, each form is rendered as a whole."""
        places = {form.name: place for place, form in enumerate(self.forms)}
        chunk: list[PendingSample] = []
        filled = 0.0
        for forms in [[form] for form in self.forms] if self._fits_one_chunk else by_task(self.forms):
            streams = [self._stream_of(form) for form in forms]
            documents, first = max(self.counts.get(form.name, 0) for form in forms), 0
            while first < documents and forms[0].name not in self._given_away:
                cost = sum(self._weight(form.name) for form in forms)
                number = min(max(1, int((1 - filled) / cost)), documents - first)
                chunk += self._render(forms, [islice(stream, number) for stream in streams])
                filled += cost * number
                first += number
                if filled + cost > 1:
                    chunk.sort(key=lambda entry: places[entry.form.name])
                    yield chunk
                    chunk, filled = [], 0.0
        self.checks.end()
        if chunk:
            chunk.sort(key=lambda entry: places[entry.form.name])
            yield chunk

    def _render(self, forms: Sequence[Form], streams: Sequence[Iterator[Sample]]) -> list[PendingSample]:
        """The next samples of each form; those that were not checked ahead are checked now."""
        entries = [
            PendingSample(form, sample) for form, stream in zip(forms, streams, strict=True) for sample in stream
        ]
        for entry in entries:
            self._count(entry.form, entry.sample)
            self.checks.see(entry.form, entry.sample)
        return entries

    def _stream_of(self, form: Form) -> Iterator[Sample]:
        if self._cached_requests is None or form.renderer.output_kind.has_stages:  # later stages need more than these
            return self.samples(form)
        requests: dict[int, list[Instance]] = {}
        for instance in self._cached_requests(form, list(form.docs()), self._template):
            requests.setdefault(instance.doc_id, []).append(instance)
        return (form.renderer.with_requests(doc_id, doc, requests.get(doc_id, [])) for doc_id, doc in form.docs())


class RenderedSamples:
    """Rendered samples by form and document; many are on disk. Documents that a task leaves out are not there."""

    def __init__(self, chunks: Iterable[Sequence[PendingSample]]) -> None:
        self._places: dict[str, dict[int, int]] = {}
        self._clusters: dict[tuple[str, int], str] = {}
        self._spool: Spool[Sample] = Spool()
        self._size = 0
        for chunk in chunks:
            self._add(chunk)

    def _add(self, entries: Sequence[PendingSample]) -> None:
        entries = [entry for entry in entries if entry.sample.instances]
        for place, entry in enumerate(entries, start=len(self._spool)):
            form, sample = entry.form, entry.sample
            self._places.setdefault(form.name, {})[sample.doc_id] = place
            if form.cluster is not None:
                self._clusters[form.name, sample.doc_id] = str(sample.doc.get(form.cluster))
            self._size += size_of(sample)
        self._spool.extend([entry.sample for entry in entries], in_memory=self._size <= IN_MEMORY)

    def doc_ids(self, form: str) -> Iterable[int]:
        return self._places.get(form, {})

    def cluster(self, form: str, doc_id: int) -> str | int:
        """The cluster of a document; its own index, where documents are independent."""
        return self._clusters.get((form, doc_id), doc_id)

    def sample(self, form: str, doc_id: int) -> Sample:
        return self._spool[self._places[form][doc_id]]


class _Checks:
    """Checks each document once, when it has its turn or before, so that a mistake ends the run early.

    Lint findings about the documents are logged when all have been seen. Those that are checked ahead are rendered by
    copies of the forms, as each form draws its few-shot examples in the order of its documents. So this begins with the
    first document of a task, too, and is behind at first.
    """

    def __init__(self, documents: Documents, *, ahead: bool) -> None:
        self._documents = documents
        self._lint = TasksLint(documents.forms)
        self._answers = AnswerChecks(documents.forms)
        #: How many documents of each form were seen ahead, and how many had their turn.
        self._seen, self._rendered = Counter[str](), Counter[str]()
        self._steps = self._check_ahead([copy_form(form) for form in documents.forms]) if ahead else None
        self._has_logged = False
        self._last = time.monotonic()
        self._allowance = 0.0

    def see(self, form: Form, sample: Sample) -> None:
        """Check a sample that has its turn, unless it was seen; raises a DataError where the run cannot be right."""
        self._rendered[form.name] += 1
        if self._rendered[form.name] > self._seen[form.name]:
            self._check(form, sample)

    def _check(self, form: Form, sample: Sample) -> None:
        self._answers.check(form, sample)
        self._lint.see(form, sample)

    def advance(self) -> None:
        """Check documents ahead, for a small part of the time since the last call."""
        if self._steps is None:
            return
        now = time.monotonic()
        self._allowance += (now - self._last) * _AHEAD_SHARE
        self._last = now
        if self._allowance < _AHEAD_SECONDS:
            return
        with _random_state_kept():
            for _ in self._steps:
                if time.monotonic() - now > self._allowance:
                    break
            else:
                self.end()
        self._last = time.monotonic()
        self._allowance -= self._last - now

    def end(self) -> None:
        """All documents have been seen: log the findings about them and about settings, once."""
        self._steps = None
        if not self._has_logged:
            self._has_logged = True
            log_findings([*self._lint.findings(), *settings_findings(self._documents.forms, self._documents.corpus)])

    def _check_ahead(self, copies: Sequence[Form]) -> Iterator[None]:
        """Check all documents, those of a task under all its forms before the next; one at each step."""
        counts = self._documents.counts
        for forms in by_task(copies):
            if all(self._rendered[form.name] >= counts.get(form.name, 0) for form in forms):
                continue
            streams = [(form, self._documents.samples(form)) for form in forms]
            for _ in range(0, max(counts.get(form.name, 0) for form in forms), _SIDE_BY_SIDE):
                for form, stream in streams:
                    for sample in islice(stream, _SIDE_BY_SIDE):
                        self._seen[form.name] += 1
                        if self._seen[form.name] > self._rendered[form.name]:
                            self._check(form, sample)
                        yield


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """A block whose random numbers nobody misses: code of tasks may draw from the generators of the process."""
    state = _random_state()
    try:
        yield
    finally:
        _set_random_state(state)


def _with_own_random_state(chunks: Iterator[T]) -> Iterator[T]:
    """The chunks, whose documents are the same whatever the model draws from the generators of the process."""
    chunk = next(chunks, None)
    state = _random_state()
    while chunk is not None:
        yield chunk
        del chunk  # it is not held while the next one is rendered
        with _random_state_kept():
            _set_random_state(state)
            chunk = next(chunks, None)
            state = _random_state()


def _random_state() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _set_random_state(state: tuple[Any, Any]) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])


def by_task(forms: Sequence[Form]) -> list[list[Form]]:
    """The forms of each task, in the order of the tasks."""
    tasks: dict[str, list[Form]] = {}
    for form in forms:
        tasks.setdefault(form.task_name, []).append(form)
    return list(tasks.values())


def _request_cache(
    cache_requests: bool | str, model: Model | None, progress: Progress
) -> Callable[..., list[Instance]] | None:
    """What caches the requests of forms on disk, if that is wanted; with "delete", cached ones are removed."""
    if cache_requests == "delete":
        progress.message(f"removed {quantity(delete_requests(), 'file')} of cached requests")
        return None
    if not cache_requests:
        return None
    template = "" if model is None else _lasting_template(model)
    if template is None:
        message = "the prompts are not cached: its chat template is not known, runs code or asks for the date"
        logger.warning("%s: %s", "the model" if model is None else model.name, message)
        return None
    return partial(cached_requests, refresh=cache_requests == "refresh", template_name=template)


def _lasting_template(model: Model) -> str | None:
    """What tells the chat template of a model from others; None where it may write the same chat in another way."""
    text = model.chat_template_text()
    if text is None and isinstance(model.apply_chat_template([{"role": "user", "content": "Hi"}]), str):
        return None
    if not model.stored or "strftime_now" in (text or ""):
        return None
    return f"{model.identity} {model.chat_template_name()} {text}"
