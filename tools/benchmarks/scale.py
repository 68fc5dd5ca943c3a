"""Large runs: the memory of a run and the seconds before its first response, for more and more requests; and what the
driver does for each response, document and message of its workers, in processor time.

The driver's figures are the constants of `tools/scripts/simulate_scale.py`.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, say

if TYPE_CHECKING:
    from multiform.run.executors.ranges import RangedDocs
    from multiform.run.pending import Batch

CHOICES = 4
QUESTION = "Which of these numbers is the one that comes after {}, if you count by one?"
#: The responses that the driver gets, and the messages of which the time is measured.
RESPONSES = 300_000
MESSAGES = 2000


def measure_streams(setting: Setting) -> Iterator[Row]:
    """Peak memory, seconds before the first response and in all."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for model, most in (("dummy", 2 * 10**6), ("tiny", 10**6)):
            for requests in (10**3, 10**4, 10**5, 10**6, 2 * 10**6):
                if requests > (10**4 if setting.short else most):
                    break
                figures = run_child(folder, model, requests)
                case = f"{model}, {requests:,} requests"
                yield Row(measure="peak memory of a run", case=case, unit="MB", ours=figures["peak_mb"])
                yield Row(measure="before the first response", case=case, unit="s CPU", ours=figures["first"])
                yield Row(measure="a run", case=case, unit="s CPU", ours=figures["cpu"])


def run_child(folder: Path, model: str, requests: int) -> dict[str, float]:
    """The figures of a run in a process of its own, with one thread."""
    command = [sys.executable, "-m", "tools.benchmarks.scale", str(folder), model, str(requests)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def write_task(folder: Path, docs: int) -> Path:
    """A task of so many documents with four choices, 3-shot."""
    task = folder / f"numbers_{docs}.yaml"
    with (folder / f"numbers_{docs}.jsonl").open("w") as file:
        for number in range(docs):
            question = QUESTION.format(number)
            choices = [str(number + 1), str(number + 2), str(number - 1), f"{number} and a half"]
            file.write(json.dumps({"question": question, "choices": choices, "answer": 0}) + "\n")
    task.write_text(
        f"task: numbers\ndataset_path: numbers_{docs}.jsonl\ntest_split: train\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\nnum_fewshot: 3\nfewshot_split: train\n"
    )
    return task


def _tiny_model(folder: Path) -> str:
    from tests.tiny_models import llama_config, make_tokenizer, save_random

    path = folder / "tiny"
    if not path.exists():
        tokenizer = make_tokenizer(bos=False, text=f"Question: {QUESTION}\nA. 1 and a half\nB. 2\nAnswer: C\n\n" * 9)
        save_random(path, llama_config(len(tokenizer), max_position_embeddings=4096), tokenizer)
    return str(path)


def _run(folder: Path, model: str, requests: int) -> dict[str, float]:
    from multiform import evaluate
    from multiform.run.displays import Silent

    class FirstResponse(Silent):
        """Notes when the first response comes."""

        at = 0.0

        def on_response(self) -> None:
            if not self.at:
                self.at = time.process_time()

    task = write_task(folder, requests // CHOICES)
    options: dict[str, Any] = {"model": "dummy"}
    if model == "tiny":
        options = {"model": "hf", "model_args": {"pretrained": _tiny_model(folder), "device": "cpu"}}
    progress, begun = FirstResponse(), time.process_time()
    results = evaluate(
        tasks=str(task),
        output_path=folder / "out",
        log_samples=True,
        use_cache=folder / f"{model}_{requests}.db",
        progress=progress,
        **options,
    )
    assert results.forms[0].n == requests // CHOICES
    return {
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "first": progress.at - begun,
        "cpu": time.process_time(),
    }


def measure_driver(setting: Setting) -> Iterator[Row]:
    """What the driver takes for the responses of workers that render and score, and for an empty message of Ray."""
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    responses = RESPONSES // 3 if setting.short else RESPONSES
    with TemporaryDirectory() as name:
        for stored in (False, True):
            figures = play_back(Path(name), responses, stored=stored)
            case = f"{responses:,} responses, {'stored' if stored else 'not stored'}"
            yield _row("driver: a response", case, figures["cpu"] / responses)
            yield Row(measure="driver: memory", case=case, unit="MB", ours=figures["peak_mb"])
    yield _row("driver: message of a Ray worker", f"{MESSAGES:,} messages", _message_seconds())


def play_back(folder: Path, responses: int, *, stored: bool) -> dict[str, float]:
    """Run documents in this process with the time of the worker left out: the driver alone takes time.

    Messages have 512 responses, as 1,000 workers send them at 100,000 responses in a second. No document is checked
    ahead, for which the driver takes 5 % of the time that passes.
    """
    from multiform.models.dummy import DummyModel
    from multiform.run import documents as of_documents
    from multiform.run.displays import Silent
    from multiform.run.documents import Documents
    from multiform.run.executors import work_units
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ranges import RangeWorker
    from multiform.run.options import RunOptions
    from multiform.run.runner import Runner, Spending
    from multiform.run.setup import load_forms
    from multiform.run.store import Store

    of_documents._AHEAD_SHARE, work_units.RANGE_REQUESTS = 0.0, 512
    documents = responses // CHOICES
    options = RunOptions(tasks=str(write_task(folder, documents)), model="dummy")
    forms, _ = load_forms(options)
    rendered = Documents(options, forms, None, Silent())

    class Played(PoolExecutor):
        """Has the messages of its worker already, as bytes."""

        pool: Any = SimpleNamespace(size=1)
        busy = 0.0
        _model = DummyModel()

        def run_ranges(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> Iterator[Batch]:
            worker = RangeWorker(self.model, documents.job(None, stores=stores))
            for refs in documents.ranges():
                # The worker's time does not count.
                started = time.process_time()
                messages = [pickle.dumps(batch) for batch in worker.run(refs, pause=60.0)]
                self.busy += time.process_time() - started
                for message in messages:
                    yield pickle.loads(message)

    executor = Played()
    store = Store(folder / "answers.db") if stored else None
    spending = Spending.of(executor.model)
    runner = Runner(options, executor, store, forms, rendered.counts, Silent(), spending, lambda batch: None)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    runner.run_all(rendered)
    outcome = runner.outcome()
    cpu = time.process_time() - started - executor.busy
    assert len(outcome.scored["numbers"]) == documents
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": cpu, "peak_mb": after / 1024, "grown_mb": (after - before) / 1024}


def _message_seconds() -> float:
    """The processor time of the driver for a message with one response."""
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.displays import Silent
    from multiform.run.executors import units
    from multiform.run.executors.cluster import ClusterOptions
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ray import RayPool

    class Eager(RayPool):
        """Whose workers send each response at once."""

        def submit(self, worker: int, unit: Sequence[Any]) -> None:
            stream = self._actors[worker].run.options(num_returns="streaming").remote(unit, (), 0.0, 0)
            self._streams[stream] = worker
            self._heard[worker] = time.monotonic(), -1

    pool = Eager(ClusterOptions.of("local", 1, "cpu=1"), "dummy", {}, Silent())
    try:
        pool.wait_until_loaded()
        requests = [LoglikelihoodRequest(f"Question {number}", " yes") for number in range(MESSAGES)]
        begun = time.process_time()
        answered = sum(1 for _ in PoolExecutor(pool).run(units(requests)))
        return (time.process_time() - begun) / answered
    finally:
        pool.close()


def _row(measure: str, case: str, seconds: float) -> Row:
    return Row(measure=measure, case=case, unit="µs CPU", ours=seconds * 1e6)


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
