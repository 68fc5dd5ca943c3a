"""Experiment trackers: Weights & Biases, Trackio and MLflow get a run's configuration, scores, samples and state.

A tracker works in a thread of its own: whatever it does or fails to do, the run goes on, and its results are written
before the tracker gets them. While the run goes on, it gets the scores so far; one that is slow or down misses some of
these. Other calls that failed are made again at the end, which waits for `PATIENCE` seconds at most.
"""

from __future__ import annotations

import importlib
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeAlias

from multiform.errors import UsageError, nearest
from multiform.forms import ScoredSample
from multiform.results.exchange.exporters import is_number, shareable, without_secrets
from multiform.results.export import SAMPLE_COLUMNS, json_line, sample_rows, to_json, write_json
from multiform.results.values import ResultsData

logger = logging.getLogger("multiform")

#: Seconds that the end of a run waits for a tracker.
PATIENCE = 30.0
#: Seconds between two reports of the scores so far.
RUNNING_PAUSE = 5.0
#: The most rows of a table of samples.
_ROWS = 10_000
#: The most metrics that MLflow takes at once.
_MLFLOW_METRICS = 1000
_MLFLOW_STATUS = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


#: Writes the report on some runs to a file.
WriteReport: TypeAlias = Callable[[Sequence[Any], Path], Path]


class Tracker(Protocol):
    """What is told about a run; an object with these three methods can be given as `track`."""

    def start(self, config: Mapping[str, Any]) -> None:
        """The run begins, with this configuration."""

    def log(self, scores: Mapping[str, float]) -> None:
        """Scores by ``form/metric,filter``, with their bounds; and while the run goes on, those so far.

        The names of the latter begin with ``running/``.
        """

    def finish(self, results: ResultsData | None, state: str) -> None:
        """The run has ended: "complete", "stopped" or "failed"; results may be partial, or None."""


class WandbTracker:
    """Weights & Biases, and Trackio, which has the same interface; `arguments` go to its `init`."""

    def __init__(
        self,
        module: str,
        arguments: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        write_report: WriteReport | None = None,
    ) -> None:
        self.module, self.arguments, self.config = module, dict(arguments), dict(config or {})
        self._write_report = write_report
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
                files = _artifacts(results, Path(folder), self._write_report)
                artifact = library.Artifact("results", type="eval_results")
                for file in files:
                    artifact.add_file(str(file))
                self._run.log_artifact(artifact)
                if self.module == "wandb":  # which shows pages, with their charts
                    pages = [file for file in files if file.suffix == ".html"]
                    self._run.log({file.stem: library.Html(file.read_text(encoding="utf-8")) for file in pages})
        self._run.log({"complete": int(state == "complete")})
        if self.module == "wandb":
            self._run.config.update({"status": state}, allow_val_change=True)
            self._run.finish(exit_code=0 if state == "complete" else 1)
        else:
            self._run.finish()


class MlflowTracker:
    """MLflow; the arguments are ``tracking_uri``, ``experiment`` and those of `start_run`."""

    def __init__(self, arguments: Mapping[str, Any], write_report: WriteReport | None = None) -> None:
        self.arguments = dict(arguments)
        self._write_report = write_report
        self._steps = 0
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
        from mlflow.entities import Metric

        self._steps += 1
        now = int(time.time() * 1000)
        # MLflow takes letters, digits and a few signs.
        metrics = [Metric(re.sub(r"[^\w./ -]", ".", key), value, now, self._steps) for key, value in scores.items()]
        for start in range(0, len(metrics), _MLFLOW_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[start : start + _MLFLOW_METRICS])

    def finish(self, results: ResultsData | None, state: str) -> None:
        if results is not None and results.forms:
            with TemporaryDirectory() as folder:
                for file in _artifacts(results, Path(folder), self._write_report):
                    self._client.log_artifact(self._run_id, str(file))
            rows = [dict(zip(SAMPLE_COLUMNS, row, strict=True)) for row in _table(results)]
            self._client.log_text(self._run_id, "".join(f"{json_line(row)}\n" for row in rows), "samples.jsonl")
        self._client.set_terminated(self._run_id, status=_MLFLOW_STATUS[state])


def _artifacts(results: ResultsData, folder: Path, write_report: WriteReport | None) -> list[Path]:
    """The results file, the report, and a chart of the scores where Altair is installed."""
    files = [write_json(folder / "results.json", to_json(results))]
    if write_report is not None:
        files.append(write_report([results], folder / "report.html"))
    if all(find_spec(package) for package in ("altair", "vl_convert")):
        from multiform.results.drawing import save_chart

        files.append(save_chart(results, "scores", folder / "scores.html"))
    return files


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
    track: Any,
    arguments: Mapping[str, Mapping[str, Any] | None],
    config: Mapping[str, Any] | None,
    write_report: WriteReport | None = None,
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
            raise UsageError(f"{type(tracker).__name__} is not a tracker", where="track", hint=hint)
    for name in names:
        if name not in arguments:
            raise UsageError(f"no tracker '{name}'", where="track", hint=nearest(name, arguments, listed="trackers"))
        if find_spec(name) is None:
            hint = f"pip install 'multiform[{name}]'"
            raise UsageError(f"the package {name} is not installed", where=f"{name}_args", hint=hint)
        values = arguments[name] or {}
        trackers.append(MlflowTracker(values, write_report) if name == "mlflow" else WandbTracker(
            name, values, config if name == "wandb" else None, write_report))  # fmt: skip
    if config and "wandb" not in names:
        raise UsageError(
            "wandb_config_args needs wandb_args", where="wandb_config_args", hint="give wandb_args as well"
        )
    return trackers


class Tracking:
    """The trackers of a run that has begun; a log of the run, of which they get the scores so far."""

    def __init__(self, trackers: Sequence[Tracker], config: Mapping[str, Any], patience: float = PATIENCE) -> None:
        self._workers = [_Worker(tracker) for tracker in trackers]
        self._patience = patience
        self._ended = False
        self._running: dict[str, tuple[float, int]] = {}
        self._counts = {"documents": 0, "failed": 0}
        self._due = time.monotonic() + RUNNING_PAUSE
        described = without_secrets(dict(config))
        self._each(lambda tracker: tracker.start(described))

    def add(self, scored: Mapping[str, Iterable[ScoredSample]], documents: int, failed: int) -> None:
        """Samples of forms are scored, with which so many documents are finished; others have failed."""
        self._counts["documents"] += documents
        self._counts["failed"] += failed
        for form, sample in ((form, sample) for form, samples in scored.items() for sample in samples):
            for metric, value in sample.values.items():
                if is_number(value):
                    total, n = self._running.get(f"{form}/{metric},{sample.scorer}", (0.0, 0))
                    self._running[f"{form}/{metric},{sample.scorer}"] = total + float(value), n + 1
        if documents and time.monotonic() >= self._due:
            self._due = time.monotonic() + RUNNING_PAUSE
            scores = {f"running/{key}": total / n for key, (total, n) in self._running.items()}
            scores |= {f"running/{name}": float(count) for name, count in self._counts.items()}
            for worker in self._workers:
                worker.submit_unless_busy(lambda tracker: tracker.log(scores))

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
            worker.submit(call)


class _Worker:
    """Calls one tracker in a thread; from the first call that fails on, calls wait for the end and are made again."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._name = getattr(tracker, "module", type(tracker).__name__)
        self._has_failed = False
        #: Calls, and whether they are made again at the end where they fail.
        self._calls: queue.SimpleQueue[tuple[Callable[[Tracker], None], bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name="multiform-tracker")
        self._thread.start()

    def submit(self, call: Callable[[Tracker], None]) -> None:
        self._calls.put((call, True))

    def submit_unless_busy(self, call: Callable[[Tracker], None]) -> None:
        """Have a call made now or never: a tracker that is slow or has failed misses it."""
        if self._calls.empty() and not self._has_failed:
            self._calls.put((call, False))

    def _run(self) -> None:
        failed: list[Callable[[Tracker], None]] = []
        while (queued := self._calls.get()) is not None:
            call, is_needed = queued
            then = "it gets this at the end of the run" if is_needed else "it gets no more running scores"
            if failed or not self._try(call, then):
                self._has_failed = True
                failed += [call] if is_needed else []
        for call in failed:
            if not self._try(call, "it lacks a part of this run; the results do not depend on it"):
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
