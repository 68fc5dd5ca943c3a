"""Experiment trackers: Weights & Biases, Trackio and MLflow get a run's configuration, scores, samples and state.

A tracker works in a thread of its own: whatever it does or fails to do, the run goes on, and its results are written
before the tracker gets them. Calls that failed are made again at the end, which waits for `PATIENCE` seconds at most.
"""

from __future__ import annotations

import importlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from multiform.errors import UsageError, nearest
from multiform.results.exchange.foreign import is_number, shareable, without_secrets
from multiform.results.export import SAMPLE_COLUMNS, json_line, sample_rows, to_json, write_json
from multiform.results.values import ResultsData

logger = logging.getLogger("multiform")

#: Seconds that the end of a run waits for a tracker.
PATIENCE = 30.0
#: The most rows of a table of samples.
_ROWS = 10_000
_MLFLOW_STATUS = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class Tracker(Protocol):
    """What is told about a run; an object with these three methods can be given as `track`."""

    def start(self, config: Mapping[str, Any]) -> None:
        """The run begins, with this configuration."""

    def log(self, scores: Mapping[str, float]) -> None:
        """Scores by ``form/metric,filter``, with their bounds."""

    def finish(self, results: ResultsData | None, state: str) -> None:
        """The run has ended: "complete", "stopped" or "failed"; results may be partial, or None."""


class WandbTracker:
    """Weights & Biases, and Trackio, which has the same interface; `arguments` go to its `init`."""

    def __init__(self, module: str, arguments: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
        self.module, self.arguments, self.config = module, dict(arguments), dict(config or {})
        self._run: Any = None

    def start(self, config: Mapping[str, Any]) -> None:
        library = importlib.import_module(self.module)
        arguments = {"project": "multiform", **self.arguments}
        self._run = library.init(**arguments, config={**config, **self.config, "status": "running"})

    def log(self, scores: Mapping[str, float]) -> None:
        self._run.log(dict(scores))

    def finish(self, results: ResultsData | None, state: str) -> None:
        library = importlib.import_module(self.module)
        if results is not None and results.forms:
            self._run.log({"samples": library.Table(columns=list(SAMPLE_COLUMNS), data=_table(results))})
            with TemporaryDirectory() as folder:
                file = write_json(Path(folder) / "results.json", to_json(results))
                artifact = library.Artifact("results", type="eval_results")
                artifact.add_file(str(file))
                self._run.log_artifact(artifact)
        self._run.log({"complete": int(state == "complete")})
        if self.module == "wandb":
            self._run.config.update({"status": state}, allow_val_change=True)
            self._run.finish(exit_code=0 if state == "complete" else 1)
        else:
            self._run.finish()


class MlflowTracker:
    """MLflow; the arguments are ``tracking_uri``, ``experiment`` and those of `start_run`."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = dict(arguments)
        self._client: Any = None
        self._run_id = ""

    def start(self, config: Mapping[str, Any]) -> None:
        from mlflow.tracking import MlflowClient

        arguments = dict(self.arguments)
        self._client = MlflowClient(tracking_uri=arguments.pop("tracking_uri", None))
        name = str(arguments.pop("experiment", "multiform"))
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        run = self._client.create_run(number, **arguments)
        self._run_id = run.info.run_id
        for key, value in config.items():
            self._client.log_param(self._run_id, key, str(value)[:500])

    def log(self, scores: Mapping[str, float]) -> None:
        for key, value in scores.items():
            # MLflow takes letters, digits and a few signs.
            self._client.log_metric(
                self._run_id, "".join(c if c.isalnum() or c in "_-./ " else "." for c in key), value
            )

    def finish(self, results: ResultsData | None, state: str) -> None:
        if results is not None and results.forms:
            self._client.log_dict(self._run_id, to_json(results), "results.json")
            rows = [dict(zip(SAMPLE_COLUMNS, row, strict=True)) for row in _table(results)]
            self._client.log_text(self._run_id, "".join(f"{json_line(row)}\n" for row in rows), "samples.jsonl")
        self._client.set_terminated(self._run_id, status=_MLFLOW_STATUS[state])


def _table(results: ResultsData) -> list[list[Any]]:
    """The rows of all samples, as texts and numbers; the first ones where there are very many."""
    rows: list[list[Any]] = []
    for row in sample_rows(results.forms):
        if len(rows) == _ROWS:
            logger.warning("the table of samples has the first %d rows", _ROWS)
            break
        cells = [row.get(column) for column in SAMPLE_COLUMNS]
        rows.append([cell if isinstance(cell, int) else "" if cell is None else str(cell) for cell in cells])
    return rows


def score_values(results: ResultsData) -> dict[str, float]:
    """The scores of all forms and groups with their bounds, by ``form/metric,filter``."""
    scores = {}
    for entry in results.entries:
        for key, estimate in entry.estimates.items():
            for suffix, value in (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)):
                if value is not None and is_number(value):
                    scores[f"{entry.name}/{key}{suffix}"] = float(value)
    return scores


def chosen_trackers(
    track: Any, arguments: Mapping[str, Mapping[str, Any] | None], config: Mapping[str, Any] | None
) -> list[Tracker]:
    """The trackers of a run: those named or given as `track`, and those that `arguments` has an entry for.

    A library that is not installed is a UsageError.
    """
    listed = (
        [] if track is None else [track] if isinstance(track, str) or not isinstance(track, Sequence) else list(track)
    )
    names = [tracker for tracker in listed if isinstance(tracker, str)]
    names += [name for name, values in arguments.items() if values and name not in names]
    trackers: list[Tracker] = [tracker for tracker in listed if not isinstance(tracker, str)]
    for tracker in trackers:
        if not all(callable(getattr(tracker, method, None)) for method in ("start", "log", "finish")):
            hint = "give 'wandb', 'trackio', 'mlflow', or an object with start, log and finish"
            raise UsageError(f"{type(tracker).__name__} is no tracker", where="track", hint=hint)
    for name in names:
        if name not in arguments:
            raise UsageError(f"no tracker '{name}'", where="track", hint=nearest(name, arguments, listed="trackers"))
        if find_spec(name) is None:
            hint = f"pip install 'multiform[{name}]'"
            raise UsageError(f"the package {name} is not installed", where=f"{name}_args", hint=hint)
        values = arguments[name] or {}
        trackers.append(MlflowTracker(values) if name == "mlflow" else WandbTracker(
            name, values, config if name == "wandb" else None))  # fmt: skip
    if config and "wandb" not in names:
        raise UsageError(
            "wandb_config_args needs wandb_args", where="wandb_config_args", hint="give wandb_args as well"
        )
    return trackers


class Tracking:
    """The trackers of a run that has begun."""

    def __init__(self, trackers: Sequence[Tracker], config: Mapping[str, Any], patience: float = PATIENCE) -> None:
        self._workers = [_Worker(tracker) for tracker in trackers]
        self._patience = patience
        self._ended = False
        described = without_secrets(dict(config))
        self._each(lambda tracker: tracker.start(described))

    def finish(self, results: ResultsData | None, state: str) -> None:
        """Pass on the results and the state, and wait a while for the trackers; only the first call counts."""
        if self._ended:
            return
        self._ended = True
        results = None if results is None else shareable(results)
        if results is not None and (scores := score_values(results)):
            self._each(lambda tracker: tracker.log(scores))
        self._each(lambda tracker: tracker.finish(results, state))
        end = time.monotonic() + self._patience if self._workers else 0.0
        for worker in self._workers:
            worker.wait(max(0.0, end - time.monotonic()))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for worker in self._workers:
            worker.put(call)


class _Worker:
    """Calls one tracker in a thread; from the first call that fails on, calls wait for the end and are made again."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._name = getattr(tracker, "module", type(tracker).__name__)
        self._calls: queue.SimpleQueue[Callable[[Tracker], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="multiform-tracker")
        self._thread.start()

    def put(self, call: Callable[[Tracker], None]) -> None:
        self._calls.put(call)

    def _run(self) -> None:
        failed: list[Callable[[Tracker], None]] = []
        while (call := self._calls.get()) is not None:
            if failed or not self._try(call, "it is told again at the end of the run"):
                failed.append(call)
        for call in failed:
            if not self._try(call, "it lacks this run; the results are complete without it"):
                break

    def _try(self, call: Callable[[Tracker], None], then: str) -> bool:
        try:
            call(self._tracker)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever it is, the run goes on)
            logger.warning("%s failed (%s: %s); %s", self._name, type(error).__name__, str(error)[:200], then)
            return False
        return True

    def wait(self, seconds: float) -> None:
        """End the thread when all calls are made; after the time, go on without it."""
        self._calls.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            logger.warning("%s is slow: going on without waiting for it; it may lack this run", self._name)
