"""Many workers: how much sooner two Ray workers with a thread each are done than one, when both have loaded.

Wall time says that only where nobody else uses the cores. The processor time of the worker that has most of it is how
long the run takes when every worker has a core to itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting
from tools.benchmarks.workloads import WORKLOADS
from tools.scripts.simulate_scale import predicted_seconds


class Measured(NamedTuple):
    """A run: its wall time, the processor time of its busiest worker, and the tokens that were computed."""

    seconds: float
    cpu_seconds: float
    tokens: int


def measure(setting: Setting) -> Iterator[Row]:
    """Texts, 5-shot: the bundled model with one worker and with two, and a paced one against the cost model."""
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    from multiform.forms import Task

    workload = next(workload for workload in WORKLOADS if workload.name == "texts, 5-shot")
    task = Task.from_config(workload.config(), dataset_mirror=setting.mirror)
    samples = [task.form.sample(doc_id, doc) for doc_id, doc in task.form.docs()]
    docs = setting.docs[1]
    requests = [instance.request for sample in samples[:docs] for instance in sample.instances]
    _register_models()
    arguments = {"pretrained": str(setting.model), "device": "cpu"}
    one, two = (_measured("timed-hf", arguments, requests, workers) for workers in (1, 2))
    case = f"{workload.name}, {docs} docs"
    yield Row(measure="2 workers for 1", case=case, unit="s wall", ours=two.seconds, theirs=one.seconds, needed=1.7)
    yield Row(
        measure="2 workers for 1, busiest worker",
        case=case,
        unit="s CPU",
        ours=two.cpu_seconds,
        theirs=one.cpu_seconds,
        needed=1.7,
    )
    ratio = two.tokens / one.tokens
    yield Row(measure="tokens of 2 workers for 1", case=case, unit="ratio", ours=ratio, needed=1.05)
    every = [instance.request for sample in samples for instance in sample.instances]
    trial = _measured("paced", {}, requests[: len(requests) // 4], 1)
    whole = _measured("paced", {}, every, 1)
    for workers in (1, 2, 4):
        run = whole if workers == 1 else _measured("paced", {}, every, workers)
        speed = trial.tokens / trial.seconds
        predicted = predicted_seconds(tokens=whole.tokens, tokens_per_second=speed, workers=workers)
        yield Row(
            measure="paced model, cost model",
            case=f"{len(samples)} docs, {workers} workers",
            unit="s wall",
            ours=run.seconds,
            theirs=predicted,
            needed=0.9,
            note="predicted over measured",
        )


def _measured(model: str, arguments: dict[str, Any], requests: Sequence[Any], workers: int) -> Measured:
    """A run of the requests, once all workers have loaded the model and have tried it out."""
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.executors import units
    from multiform.run.executors.cluster import ClusterOptions
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ray import RayPool
    from multiform.run.progress import Silent

    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        # Four workers that only sleep share two cores.
        options = ClusterOptions.of("local", workers, {"cpu": min(1.0, 2 / workers)})
        pool = RayPool(options, model, {**arguments, "log": str(log)}, Silent())
        try:
            pool.wait_until_loaded(workers)
            executor = PoolExecutor(pool)
            # One request for each, so that nobody has to try out its model while the time is taken.
            first = [[LoglikelihoodRequest(f"Worker {number} says", " yes")] for number in range(workers)]
            for _ in executor.run(first):
                pass
            log.unlink()
            before, begun = executor.usage, time.monotonic()
            answered = sum(1 for _ in executor.run(units(requests)))
            seconds, tokens = time.monotonic() - begun, executor.usage.since(before).computed_tokens
        finally:
            pool.close()
        cpu: dict[str, float] = {}
        for worker, spent in (line.split() for line in log.read_text().splitlines()):
            cpu[worker] = cpu.get(worker, 0.0) + float(spent)
    busiest = max(cpu.values())
    say(
        f"{model}, {workers} workers: {answered} responses in {seconds:.1f} s, {busiest:.1f} s CPU of the busiest of "
        f"{len(cpu)}, {tokens:,} tokens"
    )
    return Measured(seconds=seconds, cpu_seconds=busiest, tokens=tokens)


#: Tokens per second of the paced model, and bytes of a token.
PACE = 2000.0
BYTES = 4


def _register_models() -> None:
    """Models whose classes go to the workers by value: `hf` with its processor time, and one that only sleeps."""
    import os
    from os.path import commonprefix

    import ray

    from multiform.models import register_model
    from multiform.models.dummy import DummyModel
    from multiform.models.hf.model import HFModel
    from multiform.models.model import Usage

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    @register_model("timed-hf")
    class TimedHF(HFModel):
        """Notes the processor time of each unit."""

        def __init__(self, *, log: str, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.log = log

        def loglikelihood(self, requests: Any) -> Any:
            begun = time.process_time()
            yield from super().loglikelihood(requests)
            with open(self.log, "a") as file:
                print(os.getpid(), time.process_time() - begun, file=file)

    @register_model("paced")
    class Paced(DummyModel):
        """Takes the time of its tokens without a core, each token of a shared prefix once in a unit."""

        def __init__(self, *, log: str) -> None:
            super().__init__()
            self.log, self.tokens = log, 0

        def loglikelihood(self, requests: Any) -> Any:
            before, due = "", time.monotonic()
            for position, output in super().loglikelihood(requests):
                text = requests[position].context + requests[position].continuation
                shared = len(commonprefix([before, text]))  # noqa: RUF071  (characters are meant)
                tokens = -(-(len(text) - shared) // BYTES)
                before, due = text, due + tokens / PACE
                time.sleep(max(0.0, due - time.monotonic()))
                self.tokens += tokens
                yield position, output
            with open(self.log, "a") as file:
                print(os.getpid(), 0.0, file=file)

        def usage(self) -> Usage:
            return Usage(prefill=self.tokens)
