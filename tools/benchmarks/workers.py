"""Many workers: how much sooner two Ray workers with a thread each are done than one, and what the driver adds.

Wall time says that only where nobody else uses the cores. The processor time of the worker that has most of it is how
long the run takes when every worker has a core to itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, say
from tools.benchmarks.workloads import WORKLOADS
from tools.scripts.simulate_scale import predicted_seconds

#: A run may take that share of its workers' processor time for its driver, at most.
DRIVER = 0.05
#: Tokens per second of the paced model, and bytes of a token.
PACE = 2000.0
BYTES = 4


class Measured(NamedTuple):
    """A run: its wall time, the processor time of its driver, its workers and the busiest of them, and its tokens."""

    seconds: float
    driver_cpu: float
    workers_cpu: float
    busiest_cpu: float
    tokens: int
    requests: int


def measure(setting: Setting) -> Iterator[Row]:
    """Texts, 5-shot: the bundled model with one worker and with two, and a paced one against the cost model."""
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    workload = next(workload for workload in WORKLOADS if workload.name == "texts, 5-shot")
    _register_models()
    with TemporaryDirectory() as name:
        task = Path(name) / "task.yaml"
        task.write_text(json.dumps(workload.config()), encoding="utf-8")
        options = {"tasks": str(task), "dataset_mirror": str(setting.mirror)}
        yield from _measure_speed_up(setting, options)
        yield from _measure_pace(setting, options)


def _measure_speed_up(setting: Setting, options: dict[str, Any]) -> Iterator[Row]:
    docs = setting.docs[1]
    arguments = {"pretrained": str(setting.model), "device": "cpu"}
    one, two = (_measured("noting-hf", arguments, workers, **options, limit=docs) for workers in (1, 2))
    case, wall, cpu = f"texts, 5-shot, {docs} docs", "s wall", "s CPU"
    needed = None if setting.short else 1.7
    yield Row(measure="2 workers for 1", case=case, unit=wall, ours=two.seconds, theirs=one.seconds, needed=needed)
    yield Row(
        measure="2 workers for 1, busiest worker",
        case=case,
        unit=cpu,
        ours=two.busiest_cpu,
        theirs=one.busiest_cpu,
        needed=needed,
    )
    ratio = two.tokens / one.tokens
    most = None if setting.short else 1.05
    yield Row(measure="tokens of 2 workers for 1", case=case, unit="ratio", ours=ratio, needed=most)
    for run, workers in ((one, 1), (two, 2)):
        yield Row(
            measure="driver",
            case=f"{case}, {workers} workers",
            unit=cpu,
            ours=run.driver_cpu,
            theirs=run.workers_cpu,
            needed=None if setting.short else 1 / DRIVER,
            note="against its workers",
        )


def _measure_pace(setting: Setting, options: dict[str, Any]) -> Iterator[Row]:
    trial = _measured("paced", {}, 1, **options, limit=setting.docs[1] // 4)
    limit = setting.docs[1] if setting.short else None
    whole = _measured("paced", {}, 1, **options, limit=limit)
    for workers in (1, 2, 4):
        run = whole if workers == 1 else _measured("paced", {}, workers, **options, limit=limit)
        speed = trial.tokens / trial.seconds
        predicted = predicted_seconds(
            tokens=whole.tokens, tokens_per_second=speed, workers=workers, requests=whole.requests
        )
        yield Row(
            measure="paced model, cost model",
            case=f"{whole.requests} requests, {workers} workers",
            unit="s wall",
            ours=run.seconds,
            theirs=predicted,
            needed=None if setting.short else 0.9,
            note="predicted over measured",
        )


def _measured(model: str, arguments: dict[str, Any], workers: int, **options: Any) -> Measured:
    """A run of ranges of documents, once all workers have loaded the model and have tried it out."""
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.displays import Silent
    from multiform.run.evaluate import run
    from multiform.run.executors.cluster import ClusterOptions
    from multiform.run.executors.ray import RayExecutor
    from multiform.run.executors.work_units import DocRef
    from multiform.run.options import RunOptions

    with TemporaryDirectory() as folder:
        arguments = {**arguments, "folder": folder}
        # Four workers that only sleep share two cores.
        executor = RayExecutor(ClusterOptions.of("local", workers, {"cpu": min(1.0, 2 / workers)}))
        try:
            executor.load(model, arguments, Silent())
            pool = executor.pool
            pool.wait_until_loaded(workers)
            # One request for each, so that nobody has to try out its model while the time is taken.
            for _ in executor.run([[LoglikelihoodRequest(f"Worker {n} says", " yes")] for n in range(workers)]):
                pass
            units = _record_units(executor)
            processes = [path.name for path in Path(folder).iterdir()]
            before, tokens = [_cpu_of(process) for process in processes], executor.usage
            started, driver = time.monotonic(), time.process_time()
            results = run(RunOptions(model=model, model_args=arguments, use_cache=False, **options), executor)
            seconds, driver = time.monotonic() - started, time.process_time() - driver
            cpu = [_cpu_of(process) - begun for process, begun in zip(processes, before, strict=True)]
            computed = executor.usage.since(tokens).computed_tokens
        finally:
            executor.close()
    if results.problem is not None:
        raise results.problem
    if not all(isinstance(unit[0], DocRef) for unit in units):
        raise SystemExit("the driver has rendered documents, and not the workers")
    say(
        f"{model}, {workers} workers: {len(units)} ranges in {seconds:.1f} s, CPU of the driver {driver:.1f} s, of "
        f"workers {', '.join(f'{each:.1f}' for each in cpu)} s, {computed:,} tokens"
    )
    return Measured(
        seconds=seconds,
        driver_cpu=driver,
        workers_cpu=sum(cpu),
        busiest_cpu=max(cpu),
        tokens=computed,
        requests=results.provenance["usage"]["requests"],
    )


def _record_units(executor: Any) -> list[Sequence[Any]]:
    """The units that the executor's workers get from now on."""
    units: list[Sequence[Any]] = []
    submit = executor.pool.submit

    def record(worker: int, unit: Sequence[Any]) -> None:
        units.append(unit)
        submit(worker, unit)

    executor.pool.submit = record
    return units


def _cpu_of(process: str) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _register_models() -> None:
    """Models whose classes go to the workers by value, and which note their processes: `hf`, and one that sleeps."""
    from os.path import commonprefix

    import ray

    from multiform.models import register_model
    from multiform.models.dummy import DummyModel
    from multiform.models.hf.model import HFModel
    from multiform.models.model import Usage

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    @register_model("noting-hf")
    class NotingHF(HFModel):
        """Writes a file with the number of its process."""

        def __init__(self, *, folder: str, **arguments: Any) -> None:
            super().__init__(**arguments)
            Path(folder, str(os.getpid())).touch()

    @register_model("paced")
    class Paced(DummyModel):
        """Takes the time of its tokens without a core, each token of a shared prefix once in a unit."""

        def __init__(self, *, folder: str) -> None:
            super().__init__()
            self.tokens = 0
            Path(folder, str(os.getpid())).touch()

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

        def usage(self) -> Usage:
            return Usage(prefill=self.tokens)
