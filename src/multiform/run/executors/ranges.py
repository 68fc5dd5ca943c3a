"""Ranges of documents over all forms: what workers get, render, look up, run and score, and what they send back.

Forms go to workers as values, and workers read the dataset themselves. That they have the documents of the driver is
checked. Forms whose prompts depend on code stay with the driver: nobody knows what else such prompts depend on.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from multiform.errors import DataError, MultiformError
from multiform.formats.base import formats
from multiform.forms import Form, Sample, ScoredSample
from multiform.forms.request_cache import code_keys
from multiform.forms.samplers import samplers
from multiform.models import Model
from multiform.prompts.media import binary_summary
from multiform.prompts.prompt import ChatTemplate
from multiform.registry import Registry
from multiform.requests import FailedRequest, Output, Request, request_size
from multiform.results.values import FailedDoc
from multiform.run.document_checks import AnswerChecks
from multiform.run.executors.local import Executor, LocalExecutor, Record
from multiform.run.pending import PendingSample, PendingSamples
from multiform.run.spool import SampleBlock, pack_block
from multiform.run.store.database import Row
from multiform.run.store.store import CachedResponses, Store, read_lines, request_key, response_row
from multiform.scoring.aggregations import aggregations
from multiform.scoring.filters import filters
from multiform.scoring.metrics.base import metrics
from multiform.scoring.reductions import reductions
from multiform.scoring.scorers.base import scorers
from multiform.scoring.scorers.rules import rules
from multiform.tasks.functions import function_place, load_function

#: The requests of a range, at most, and the ranges of each worker, at least: with several, a worker that is done early
#: takes work from the others. The last ranges of a run are the smallest.
_REQUESTS = 4096
_RANGES_PER_WORKER = 4
#: The documents by which a worker's dataset is compared with the driver's, unless code has made them.
_COMPARED = 32
#: What a form may name in a registry.
_REGISTRIES: tuple[Registry[Any], ...] = (metrics, aggregations, filters, scorers, reductions, rules, samplers, formats)


class DocRef(NamedTuple):
    """A document of a form, by its place among those that the run selects."""

    form: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDocs:
    """The documents of a task: how many each form has, and about how many requests one has under all of them.

    A range has at least `smallest` of them, so that prefixes which documents share are computed once, or nearly so.
    """

    forms: Mapping[str, int]
    requests: float
    smallest: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RangedDocs:
    """The documents of a run that workers render."""

    forms: Sequence[Form]
    ranges: Iterator[Sequence[DocRef]]
    #: Whether prompts are written with the chat template of the model.
    chat: bool
    #: Renders a document in this process.
    sample: Callable[[DocRef], Sample]


def doc_ranges(tasks: Sequence[TaskDocs], workers: Callable[[], int]) -> Iterator[list[DocRef]]:
    """The documents of each task under all its forms, in ranges, of which the last are the smallest.

    >>> ranges = list(doc_ranges([TaskDocs(forms={"a": 4, "b": 3}, requests=2)], lambda: 1))
    >>> [len(each) for each in ranges], ranges[0]
    ([2, 2, 2, 1], [DocRef(form='a', position=0), DocRef(form='b', position=0)])
    """
    left = sum(max(task.forms.values(), default=0) * task.requests for task in tasks)
    for task in tasks:
        first, documents = 0, max(task.forms.values(), default=0)
        while first < documents:
            room = min(_REQUESTS, left / (_RANGES_PER_WORKER * workers()))
            last = min(documents, first + max(task.smallest, int(room / max(task.requests, 1e-9))))
            yield [DocRef(name, place) for name, n in task.forms.items() for place in range(first, min(last, n))]
            left -= task.requests * (last - first)
            first = last


def stays_with_driver(form: Form) -> str | None:
    """Why the documents of a form are rendered by the driver; None where workers can do it."""
    if form.hooks or form.task is not None:
        return "code of its class makes the prompts"
    if keys := code_keys(form.config.to_dict(keep_callable=True)):
        return f"code makes the prompts ({keys[0]})"
    if name := _foreign_name(form):
        return f"'{name}' is registered in this process alone"
    try:
        copy = _load_forms(_pack_forms([form]))[0]
    except Exception as error:  # noqa: BLE001  (whatever objects of a user raise when they are pickled)
        return f"it cannot be sent to another process: {error}"
    if _has_code(form) and docs_digest(copy) != docs_digest(form):
        return "its code makes other documents each time"
    return None


def _foreign_name(form: Form) -> str | None:
    """The name of a format, metric, filter and so on of the user's code that the form has."""
    if not type(form.format).__module__.startswith(("multiform.", "builtins")):
        return form.format_label
    stated = json.dumps([form.config.to_dict(), [metric.name for metric in form.scorer.metrics]], default=str)
    named = (name for registry in _REGISTRIES for name in registry.foreign_names() if f'"{name}"' in stated)
    return next(named, None)


def docs_digest(form: Form) -> str:
    """A hash of the documents of a form and its few-shot examples: of all if code makes them, of some otherwise."""
    digest = hashlib.sha256()
    for docs in [form.eval_docs, *([form.fewshot_docs()] if form.num_fewshot else [])]:
        step = 1 if _has_code(form) else max(1, len(docs) // _COMPARED)
        digest.update(b"%d" % len(docs))
        for index in range(0, len(docs), step):
            digest.update(
                json.dumps(docs[index], default=binary_summary, skipkeys=True).encode("utf-8", "surrogatepass")
            )
    return digest.hexdigest()


def _has_code(form: Form) -> bool:
    """Whether code of the task makes its documents."""
    shots = form.fewshot
    made = (form.config.process_docs, form.config.custom_dataset, shots.process_docs, shots.samples)
    return any(map(callable, made))


class Lines(Protocol):
    """Reads lines of the driver's store."""

    def __call__(self, identity: str, keys: Sequence[bytes]) -> Mapping[bytes, tuple[str, int]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeJob:
    """What workers need of a run beside its ranges."""

    #: The forms, pickled.
    forms: bytes
    #: A hash of the documents of each form.
    digests: Mapping[str, str]
    #: Whether prompts are written with the chat template of the model.
    chat: bool
    #: Reads the driver's store; None where nothing is cached.
    look_up: Lines | None

    @classmethod
    def of(cls, forms: Sequence[Form], *, chat: bool, look_up: Lines | None = None) -> RangeJob:
        return cls(
            forms=_pack_forms(forms),
            digests={form.name: docs_digest(form) for form in forms},
            chat=chat,
            look_up=look_up,
        )


def _pack_forms(forms: Sequence[Form]) -> bytes:
    """The forms as bytes; functions of task files by their file and name."""
    from ray import cloudpickle

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            place = function_place(obj)
            return super().reducer_override(obj) if place is None else (load_function, place)

    with io.BytesIO() as file:
        Pickler(file).dump(list(forms))
        return file.getvalue()


def _load_forms(data: bytes) -> list[Form]:
    forms: list[Form] = pickle.loads(data)
    return forms


@dataclass(slots=True, kw_only=True)
class DocBatch:
    """What a worker has done since its last message."""

    #: The documents that are scored, failed or left out by their task, by their place in the range.
    finished: list[int] = field(default_factory=list)
    rendered: int = 0
    #: The hashes of requests that were looked up, by whether they were cached, and when the oldest of those came.
    asked: array[int] = field(default_factory=lambda: array("q"))
    cached: array[int] = field(default_factory=lambda: array("q"))
    oldest: int | None = None
    #: The lengths of the requests that were asked, and of those that have responses.
    size_asked: int = 0
    size_done: int = 0
    responses: int = 0
    failed_requests: int = 0
    rows: list[Row] = field(default_factory=list)
    #: The scored samples of each form, and how many documents these are.
    blocks: dict[str, SampleBlock] = field(default_factory=dict)
    scored: dict[str, int] = field(default_factory=dict)
    #: The names of values that the metrics of forms have given, beside their own.
    value_names: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    failed: list[tuple[str, FailedDoc]] = field(default_factory=list)
    #: Samples with outputs, packed, for scorers that need all of them at once.
    together: dict[str, bytes] = field(default_factory=dict)
    mistakes: list[MultiformError] = field(default_factory=list)
    #: Documents that made workers fail again and again, with the reason and how often they were tried once more.
    given_up: list[tuple[DocRef, str, int]] = field(default_factory=list)


@runtime_checkable
class RangeExecutor(Executor, Protocol):
    """An executor with workers that run ranges of documents."""

    @property
    def worker_count(self) -> int:
        """How many workers there are."""

    def run_ranges(self, documents: RangedDocs, store: Store | None) -> Iterator[DocBatch]:
        """Run all documents, and yield what is done with them; responses that the store has are not run again."""


class RangeWorker:
    """Runs ranges of documents on the model of a worker."""

    def __init__(self, model: Model, job: RangeJob) -> None:
        self._model = model
        self._job = job
        template = model.apply_chat_template if job.chat else None
        forms = _load_forms(job.forms)
        self._readers = {form.name: _Reader(form, template) for form in forms}
        self._checks = AnswerChecks(forms)
        model.keep_prefixes(False)  # those of an earlier run
        model.keep_prefixes(True)

    def run(self, refs: Sequence[DocRef], pause: float) -> Iterator[DocBatch]:
        """Run a range of documents; what was done is gathered for `pause` seconds."""
        sink = _BatchSink(self._job)
        pending = PendingSamples(self._model, LocalExecutor(self._model), sink, sink)
        sent = time.monotonic()
        for request, response in pending.run(self._render(refs)):
            sink.count(request, response)
            if time.monotonic() - sent >= pause:
                yield sink.pop()
                sent = time.monotonic()
        yield sink.pop([] if pending.mistake is None else [pending.mistake])

    def _render(self, refs: Sequence[DocRef]) -> Iterator[list[PendingSample]]:
        entries = []
        for form, position in refs:
            reader = self._readers[form]
            reader.check(self._job.digests[form])
            entry = PendingSample(reader.form, reader.sample(position))
            self._checks.check(entry.form, entry.sample)
            entries.append(entry)
        yield entries


class _Reader:
    """Renders the documents of a form that a worker gets, with the few-shot examples that they have in a whole run."""

    def __init__(self, form: Form, template: ChatTemplate | None) -> None:
        self.form = form
        self._template = template
        self._ids: Sequence[int] = ()
        self._is_checked = False
        #: The position of the next document: few-shot examples are drawn in the order of documents.
        self._next = 0

    def check(self, digest: str) -> None:
        """Refuse a dataset that is not the one of the driver."""
        if self._is_checked:
            return
        if docs_digest(self.form) != digest:
            message = "a worker reads other documents than the driver"
            raise DataError(message, where=self.form.name, hint="put the same files on every node")
        self._ids = self.form.doc_ids()
        self._is_checked = True

    def sample(self, position: int) -> Sample:
        if position < self._next:
            problems = self.form.renderer.problems
            self.form, self._next = self.form.under(self.form.settings), 0
            self.form.renderer.problems = problems
        form = self.form
        docs, shots = form.eval_docs, form.num_fewshot
        while self._next < position:
            doc_id = self._ids[self._next]
            form.renderer.examples.skip(lambda: docs[doc_id], shots)  # noqa: B023  (called at once)
            self._next += 1
        self._next += 1
        doc_id = self._ids[position]
        return form.sample(doc_id, docs[doc_id], self._template)


class _BatchSink:
    """Gathers what comes of samples, and the responses to store, in batches; a worker's view of the store."""

    def __init__(self, job: RangeJob) -> None:
        self._look_up = job.look_up
        #: The place in the range of each sample that is not finished.
        self._place_of: dict[int, int] = {}
        self._keys: dict[Request, bytes] = {}
        self._batch = DocBatch()
        self._samples: dict[str, list[ScoredSample]] = {}
        self._together: dict[str, list[tuple[Sample, tuple[Output, ...]]]] = {}

    def pop(self, mistakes: Sequence[MultiformError] = ()) -> DocBatch:
        """What was done since the last call."""
        batch, self._batch = self._batch, DocBatch()
        batch.mistakes += mistakes
        batch.blocks = {form: SampleBlock.of(samples) for form, samples in self._samples.items()}
        batch.together = {form: pack_block(samples) for form, samples in self._together.items()}
        self._samples, self._together = {}, {}
        return batch

    def count(self, request: Request, response: Output | FailedRequest) -> None:
        self._batch.responses += 1
        self._batch.size_done += request_size(request)
        self._batch.failed_requests += isinstance(response, FailedRequest)

    # As the store.

    def known(self, identity: str, requests: Iterable[Request]) -> CachedResponses:
        keyed = {request_key(request): request for request in requests}
        self._keys |= {request: key for key, request in keyed.items()}
        return read_lines({} if self._look_up is None else self._look_up(identity, list(keyed)), keyed)

    @contextmanager
    def recording(self, identity: str) -> Iterator[Record]:
        def record(request: Request, output: Output) -> None:
            self._batch.rows.append(response_row(identity, self._keys[request], output))

        yield record

    # As the sink of samples.

    def on_chunk(self, entries: Sequence[PendingSample]) -> None:
        for place, entry in enumerate(entries):
            self._place_of[id(entry)] = place
            self._batch.rendered += 1
            if not entry.sample.instances:  # a task may leave documents out
                self._finish(entry)

    def on_look_up(self, cached: CachedResponses, missing: Sequence[Request]) -> None:
        batch = self._batch
        batch.asked.extend(short_key(self._keys[request]) for request in missing)
        batch.cached.extend(short_key(self._keys[request]) for request in cached)
        batch.oldest = min((when for when in (batch.oldest, cached.oldest) if when is not None), default=None)

    def on_begin(self, missing: Sequence[Request]) -> None:
        self._batch.size_asked += sum(map(request_size, missing))

    def on_score(self, entry: PendingSample, scored: Sequence[ScoredSample], outputs: tuple[Output, ...]) -> None:
        form = entry.form.name
        self._finish(entry)
        self._samples.setdefault(form, []).extend(scored)
        self._batch.value_names[form] = entry.form.scorer.value_names
        self._batch.scored[form] = self._batch.scored.get(form, 0) + 1
        if any(scorer.deferred for scorer in entry.form.scorer.scorers):
            self._together.setdefault(form, []).append((entry.sample, outputs))

    def on_failure(self, entry: PendingSample, failed: FailedDoc) -> None:
        self._finish(entry)
        self._batch.failed.append((entry.form.name, failed))

    def _finish(self, entry: PendingSample) -> None:
        self._batch.finished.append(self._place_of.pop(id(entry)))


def short_key(key: bytes) -> int:
    """Eight bytes of the hash of a request, which tell it from others in the count of a run."""
    return int.from_bytes(key[:8], "big", signed=True)
