"""Ranges of documents over all forms: what workers get, render, look up, run and score, and what they send back.

Forms go to workers as values, and workers read the dataset themselves. That they have the documents of the driver is
checked. Forms whose prompts depend on code stay with the driver: nobody knows what else such prompts depend on.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from multiform.errors import DataError, MultiformError, reason
from multiform.formats.base import formats
from multiform.forms import Form, Sample
from multiform.forms.form import copy_form
from multiform.forms.request_cache import code_keys
from multiform.forms.samplers import samplers
from multiform.models import Model
from multiform.prompts.media import binary_summary
from multiform.prompts.prompt import ChatTemplate
from multiform.registry import Registry
from multiform.run.checks import AnswerChecks
from multiform.run.executors.local import LocalExecutor
from multiform.run.executors.work_units import RANGE_REQUESTS, DocRef, TaskDocs, doc_ranges
from multiform.run.pending import Batch, PendingSample, PendingSamples, ResponseReader
from multiform.run.spool import SampleBlock, pack_block
from multiform.scoring.aggregations import aggregations
from multiform.scoring.filters import filters
from multiform.scoring.metrics.base import metrics
from multiform.scoring.reductions import reductions
from multiform.scoring.scorers.base import scorers
from multiform.scoring.scorers.rules import rules
from multiform.tasks.functions import function_place, load_function

logger = logging.getLogger("multiform")

#: The documents by which a worker's dataset is compared with the driver's, unless code has made them.
_COMPARED = 32
#: What a form may name in a registry.
_REGISTRIES: tuple[Registry[Any], ...] = (metrics, aggregations, filters, scorers, reductions, rules, samplers, formats)


def stays_with_driver(form: Form) -> str | None:
    """Why the documents of a form are rendered by the driver; None where workers can do it."""
    if form.hooks or form.task is not None:
        return "code of its class makes the prompts"
    if keys := code_keys(form.config.to_dict(keep_callable=True)):
        return f"code makes the prompts ({keys[0]})"
    if name := _foreign_name(form):
        return f"'{name}' is registered in this process alone"
    try:
        copy = pickle.loads(_pack_forms([form]))[0]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeJob:
    """What workers need of a run beside its ranges."""

    #: The forms, pickled.
    forms: bytes
    #: A hash of the documents of each form.
    digests: Mapping[str, str]
    #: Whether prompts are written with the chat template of the model.
    chat: bool
    #: Where responses are looked up, and whether they are stored.
    cache: ResponseReader | None = None
    stores: bool = False


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


class RangedDocs:
    """The documents that workers render, on the driver; some of them come back, if a worker cannot read them."""

    def __init__(
        self,
        forms: Sequence[Form],
        tasks: Sequence[TaskDocs],
        template: ChatTemplate | None,
        workers: Callable[[], int],
    ) -> None:
        self._forms = forms
        self._tasks = tasks
        self._workers = workers
        self._readers = {form.name: DocReader(form, template) for form in forms}
        self._returned: list[DocRef] = []
        #: The forms of tasks whose documents have come back.
        self._unreadable: set[str] = set()
        self._chat = template is not None

    def job(self, cache: ResponseReader | None, *, stores: bool) -> RangeJob:
        """What workers need of the run."""
        digests = {form.name: docs_digest(form) for form in self._forms}
        return RangeJob(forms=_pack_forms(self._forms), digests=digests, chat=self._chat, cache=cache, stores=stores)

    def ranges(self) -> Iterator[Sequence[DocRef]]:
        """The ranges that workers get."""
        for refs in doc_ranges(self._tasks, self._workers):
            if refs[0].form in self._unreadable:
                self._returned += refs
            else:
                yield refs

    def take_back(self, refs: Sequence[DocRef], why: str) -> None:
        """Have the driver render documents that a worker cannot read, and all of their task that are not handed out."""
        self._returned += refs
        [task] = [task for task in self._tasks if refs[0].form in task.forms]
        if not self._unreadable.issuperset(task.forms):
            message = "%s: a worker cannot read the documents, so that the driver renders them: %s"
            logger.warning(message, ", ".join(task.forms), why)
        self._unreadable.update(task.forms)

    def sample(self, ref: DocRef) -> Sample:
        """A document, rendered here."""
        return self._readers[ref.form].sample(ref.position)

    def returned_chunks(self) -> Iterator[list[PendingSample]]:
        """The documents that have come back, rendered here."""
        checks = AnswerChecks(self._forms)
        refs = sorted(self._returned, key=lambda ref: ref.position)
        for first in range(0, len(refs), RANGE_REQUESTS):
            yield _render(refs[first : first + RANGE_REQUESTS], self._readers, checks)


class RangeWorker:
    """Runs ranges of documents on the model of a worker."""

    def __init__(self, model: Model, job: RangeJob) -> None:
        self._model = model
        self._job = job
        self._readers: dict[str, DocReader] = {}
        self._checks: AnswerChecks
        #: The forms whose documents are those of the driver.
        self._compared: set[str] = set()
        model.keep_prefixes(False)  # those of an earlier run
        model.keep_prefixes(True)

    def run(self, refs: Sequence[DocRef], pause: float) -> Iterator[Batch]:
        """Run a range of documents; what was done is gathered for `pause` seconds."""
        try:
            self._open_documents(dict.fromkeys(ref.form for ref in refs))
        except (MultiformError, OSError, ImportError) as error:
            yield Batch(unreadable=(refs, reason(error)))
            return
        job = self._job
        pending = PendingSamples(self._model, LocalExecutor(self._model), job.cache, stores=job.stores)
        chunk = map(lambda part: _render(part, self._readers, self._checks), [refs])  # noqa: C417  (when it is taken)
        for batch in pending.run(chunk, pause):
            batch.missing.clear()
            batch.value_names = {form: self._readers[form].form.scorer.value_names for form in batch.scored}
            batch.scored = {form: SampleBlock.of(each, compress=True) for form, each in batch.scored.items()}
            batch.together = {form: pack_block(each, compress=True) for form, each in batch.together.items()}
            yield batch

    def _open_documents(self, forms: Iterable[str]) -> None:
        """Open the documents of forms; raises an error where they are not those of the driver."""
        if not self._readers:
            template = self._model.apply_chat_template if self._job.chat else None
            copies: list[Form] = pickle.loads(self._job.forms)
            self._checks = AnswerChecks(copies)
            self._readers = {form.name: DocReader(form, template) for form in copies}
        for form in forms:
            if form not in self._compared and docs_digest(self._readers[form].form) != self._job.digests[form]:
                message = "they are not those of the driver"
                raise DataError(message, where=form, hint="put the same files on every node")
            self._compared.add(form)


def _render(refs: Sequence[DocRef], readers: Mapping[str, DocReader], checks: AnswerChecks) -> list[PendingSample]:
    """Render documents, which are checked."""
    entries = []
    for name, position in refs:
        reader = readers[name]
        entry = PendingSample(reader.form, reader.sample(position))
        checks.check(entry.form, entry.sample)
        entries.append(entry)
    return entries


class DocReader:
    """Renders documents of a form by their place, with the few-shot examples that they have in a whole run."""

    def __init__(self, form: Form, template: ChatTemplate | None) -> None:
        self.form = form
        self._template = template
        #: What renders, and the position of the next document: few-shot examples are drawn in the order of documents.
        self._renderer, self._next = copy_form(form), 0

    @cached_property
    def _ids(self) -> Sequence[int]:
        return self.form.doc_ids()

    def sample(self, position: int) -> Sample:
        if position < self._next:
            self._renderer, self._next = copy_form(self.form), 0
        form = self._renderer
        docs, shots = form.eval_docs, form.num_fewshot
        while self._next < position:
            doc_id = self._ids[self._next]
            form.renderer.examples.skip(lambda: docs[doc_id], shots)  # noqa: B023  (called at once)
            self._next += 1
        self._next += 1
        doc_id = self._ids[position]
        return form.sample(doc_id, docs[doc_id], self._template)
