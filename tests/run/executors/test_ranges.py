"""Ranges of documents: workers that render, look up, run and score give the results of one process."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import DataError, IncompleteRunError, Task, TaskConfig, register_metric
from multiform.forms import Form
from multiform.models import Model
from multiform.requests import LoglikelihoodRequest
from multiform.run.evaluate import run
from multiform.run.executors import LocalExecutor
from multiform.run.executors.pool import Event, Failed, Finished, PoolExecutor, Ready, Responded
from multiform.run.executors.ranges import RangedDocs, RangeJob, RangeWorker, stays_with_driver
from multiform.run.executors.work_units import DocRef
from multiform.run.options import RunOptions
from multiform.run.pending import Batch
from multiform.run.progress import Progress
from multiform.run.setup import load_forms
from multiform.run.store import Store
from tests.run.test_streams import RUN, Dying, contents, folder, small_chunks, whole  # noqa: F401  (fixtures)

pytest.importorskip("ray", reason="Ray is not installed: pip install 'multiform[ray]'")


class RangePool:
    """Workers in this process that run ranges, of which `dies` says whether they kill their worker."""

    def __init__(self, size: int, dies: Callable[[Sequence[DocRef]], bool]) -> None:
        self.size = size
        self.model: Model
        self.submitted: list[Sequence[DocRef]] = []
        #: Forms whose documents workers cannot read.
        self.missing: Sequence[str] = ()
        self._dies = dies
        self._events: list[Event] = []
        self._workers: dict[int, RangeWorker | None] = {}
        self._job: RangeJob

    def begin_job(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> None:
        job = documents.job(cache, stores=stores)
        self._job = replace(job, digests={**job.digests, **dict.fromkeys(self.missing, "another")})

    def start(self) -> None:
        for _ in range(self.size - len(self._workers)):
            self._add()

    def _add(self) -> None:
        number = len(self._workers) + 1
        self._workers[number] = None
        self._events.append(Ready(number))

    def submit(self, worker: int, unit: Sequence[Any]) -> None:
        self.submitted.append(unit)
        if not isinstance(unit[0], DocRef):
            outputs = list(enumerate(dict(LocalExecutor(self.model).run([unit])).values()))
            self._events.append(
                Responded(worker, Batch(responses=len(unit), finished=list(range(len(unit))), outputs=outputs))
            )
            self._events.append(Finished(worker))
            return
        running = self._workers[worker] = self._workers[worker] or RangeWorker(self.model, self._job)
        for batch in running.run(unit, pause=0.0):
            self._events.append(Responded(worker, pickle.loads(pickle.dumps(batch))))
            if self._dies(unit):
                self._events.append(Failed(worker, "its worker died", dead=True))
                self._add()
                return
        self._events.append(Finished(worker))

    def events(self) -> Sequence[Event]:
        return [self._events.pop(0)]

    def stop(self) -> None: ...

    def abandon(self) -> None:
        self._events.clear()
        self._workers.clear()


class RangesHere(PoolExecutor):
    """Sends ranges of documents to workers in this process."""

    pool: RangePool

    def __init__(self, workers: int = 3, dies: Callable[[Sequence[DocRef]], bool] = lambda unit: False) -> None:
        super().__init__(RangePool(workers, dies))

    def load(self, model: Any, arguments: Any, progress: Progress, open_store: Any = None) -> Model:
        self._model = self.pool.model = LocalExecutor().load(model, arguments, progress, open_store)
        return self._model


def run_with(executor: RangesHere | None, **options: Any) -> Any:
    options = {"model": "dummy", "use_cache": False, "bootstrap_iters": 100, **options}
    results = run(RunOptions(**options), executor)
    if results.problem is not None:
        raise results.problem
    return results


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_that_render_write_the_bytes_of_one_process(
    folder: Path,  # noqa: F811
    whole: dict[str, Any],  # noqa: F811
    tmp_path: Path,
    workers: int,
) -> None:
    executor = RangesHere(workers)
    run_with(executor, tasks=RUN, include_path=folder, output_path=tmp_path, log_samples=True)
    assert len(executor.pool.submitted) >= 4 * workers
    assert contents(tmp_path) == whole


def test_a_chat_and_an_order_of_choices_are_the_same_on_workers(tmp_path: Path) -> None:
    options = {"tasks": "quiz@mcqa+cloze+generate", "apply_chat_template": True, "num_fewshot": 2, "limit": 20}
    options |= {"choice_order": "shuffle:3", "log_samples": True}
    run_with(RangesHere(2), output_path=tmp_path / "ranges", **options)
    run_with(None, output_path=tmp_path / "whole", **options)
    assert contents(tmp_path / "ranges") == contents(tmp_path / "whole")


def test_a_second_run_finds_every_response_in_the_store(tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    first = Dying()
    results = run_with(RangesHere(), model=first, tasks="quiz@mcqa+cloze", use_cache=store)
    assert len(first.asked) == len(set(first.asked)) == results.provenance["usage"]["requests"]
    second = Dying()
    again = run_with(RangesHere(), model=second, tasks="quiz@mcqa+cloze", use_cache=store)
    assert not second.asked
    assert again.provenance["usage"]["requests_cached"] == len(first.asked)
    assert {name: dict(again[name]) for name in again} == {name: dict(results[name]) for name in results}


def test_a_dead_worker_loses_its_range_alone_and_a_poisoned_document_is_reported() -> None:
    poisoned = DocRef("quiz@cloze", 7)
    executor = RangesHere(2, lambda unit: poisoned in unit)
    options = {"tasks": "quiz@mcqa+cloze", "limit": 40}
    with pytest.raises(IncompleteRunError) as caught:
        run_with(executor, **options)
    assert "1 of 80 documents failed: quiz@cloze doc 7 (its worker died)" in str(caught.value)
    skipped = run_with(RangesHere(2, lambda unit: poisoned in unit), on_error="skip", **options)
    whole_run = run_with(None, **options)
    assert dict(skipped["quiz@mcqa"]) == dict(whole_run["quiz@mcqa"])
    assert skipped.forms[1].n == 39
    assert skipped.provenance["usage"]["requests_asked_again"] > 0


@pytest.mark.usefixtures("small_chunks")
def test_a_mistake_in_a_document_ends_the_run_with_everything_stored(tmp_path: Path) -> None:
    rows = [{"q": f"What is {number} plus 0?", "c": ["1", "2"], "a": 0} for number in range(300)]
    rows.append({"q": "?", "c": "none", "a": 0})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "wrong.yaml").write_text(
        "task: wrong\ndataset_path: rows.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_choice: c\n"
        "doc_to_target: a\noutput_type: multiple_choice\n"
    )
    model, store = Dying(), Store(tmp_path / "answers.db")
    with pytest.raises(DataError, match="doc 300"):
        run_with(RangesHere(), model=model, tasks=str(tmp_path / "wrong.yaml"), use_cache=store.path)
    assert len(store.known(model.identity, model.asked)) == len(set(model.asked)) > 100


@pytest.mark.parametrize("workers", [1, 4])
def test_documents_that_a_worker_cannot_read_are_rendered_by_the_driver(
    folder: Path,  # noqa: F811
    whole: dict[str, Any],  # noqa: F811
    tmp_path: Path,
    workers: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    executor = RangesHere(workers)
    executor.pool.missing = ("ranked", "clusters@cloze", "talk")
    run_with(executor, tasks=RUN, include_path=folder, output_path=tmp_path, log_samples=True)
    units = [unit[0] for unit in executor.pool.submitted]
    assert any(isinstance(first, LoglikelihoodRequest) for first in units)
    assert any(isinstance(first, DocRef) for first in units)
    assert contents(tmp_path) == whole
    warnings = [message for message in caplog.messages if "a worker cannot read the documents" in message]
    assert [message.partition(":")[0] for message in warnings] == [
        "ranked, ranked@mcqa",
        "clusters@mcqa, clusters@cloze",
        "talk",
    ]
    assert "they are not those of the driver" in warnings[0]


@register_metric("mine_alone", higher_is_better=True, output_type="multiple_choice")
def mine_alone(outcome: Any) -> float:
    """A metric that no other process has."""
    return 1.0


class WithCode(Task):
    """Makes its prompts itself."""

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> str:
        return f"Question: {doc['q']}"


CONFIG = {"task": "t", "dataset_path": "x", "doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "a"}


def config(**keys: Any) -> TaskConfig:
    data = {"test": [{"q": "?", "c": ["1", "2"], "a": 0}]}
    given: Mapping[str, Any] = {**CONFIG, "custom_dataset": lambda **_: data, "test_split": "test", **keys}
    return TaskConfig(**given)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (lambda: load_forms(RunOptions(tasks="quiz@mcqa"))[0][0], None),
        (lambda: Form(config()), None),
        (lambda: WithCode(config()).form, "code of its class makes the prompts"),
        (lambda: Form(config(doc_to_text=lambda doc: doc["q"])), "code makes the prompts (doc_to_text)"),
        (
            lambda: Form(config(output_type="multiple_choice", metric_list=[{"metric": "mine_alone"}])),
            "'mine_alone' is registered in this process alone",
        ),
        (
            lambda: Form(config(process_docs=lambda docs: [{**doc, "q": str(random.random())} for doc in docs])),
            "its code makes other documents each time",
        ),
    ],
)
def test_forms_whose_prompts_depend_on_code_stay_with_the_driver(form: Callable[[], Form], reason: str | None) -> None:
    assert stays_with_driver(form()) == reason


def test_a_task_with_code_runs_on_requests_that_the_driver_renders() -> None:
    executor = RangesHere()
    task = WithCode(config(doc_to_text="q", output_type="multiple_choice"))
    results = run_with(executor, tasks=task)
    assert not any(isinstance(unit[0], DocRef) for unit in executor.pool.submitted)
    assert results.forms[0].n == 1
