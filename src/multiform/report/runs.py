"""The runs in a folder, complete or under way: their list, the leaderboard of their models, and reports on them."""

from __future__ import annotations

import json
import os
import platform
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from multiform.errors import MultiformError, reason, shorten
from multiform.hashing import sha256
from multiform.paths import open_file
from multiform.report.command import arguments_text, command
from multiform.report.leaderboard import Leaderboard, headlines, history_charts, score_cell
from multiform.report.page import minute
from multiform.report.streaming import StreamedReport
from multiform.results.export import json_line
from multiform.results.read import partial_results_files, recorded_run, results_files
from multiform.results.recorded import MALFORMED, RecordedRun, read_json, results_of_run
from multiform.results.results import Results
from multiform.statistics.estimates import Estimate, mean_estimate

#: What tells whether a file has changed: its time and size; None where it cannot be read.
Stamp = tuple[int, int] | None
#: How many reports stay in memory.
_REPORTS = 3
#: The begin of the name of a run's state.
_STATE = "run_"


class UnknownPageError(Exception):
    """There is no page or run of this name."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A results file: its line in the list, and its results; None where the line says what is wrong with it."""

    stamp: Stamp
    line: Mapping[str, Any]
    results: Results | None = None


class Runs:
    """The runs below a folder, read lazily and again when their files change. Writes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: dict[Path, _Run] = {}
        self._live: dict[Path, LiveScores] = {}
        self._reports: dict[tuple[tuple[str, Stamp], ...], StreamedReport] = {}
        self._boards: dict[Any, Mapping[str, Any]] = {}
        self._lock = Lock()

    def files(self) -> dict[str, Path]:
        """The results files by their key, which the viewer's addresses use: those of runs that were stopped or failed,
        then the others, the newest last."""
        partial = partial_results_files(self.folder) if self.folder.is_dir() else []
        return {self._key(file): file for file in dict.fromkeys([*partial, *results_files(self.folder)])}

    def run_lines(self) -> list[Mapping[str, Any]]:
        """A line for each complete run: model, date and scores, or what is wrong with its file; the newest first."""
        return [self._run(key, file).line for key, file in reversed(self.files().items())]

    def unfinished_lines(self) -> list[dict[str, Any]]:
        """The states of runs that are not complete, as their output folders have them; running ones first."""
        keys = {file: key for key, file in self.files().items()}
        states = [run_state(file, self._scores(file), keys, self._key(file)) for file in self._state_files().values()]
        known = [state for state in states if state is not None]
        return sorted(known, key=lambda state: state.get("status") != "running")

    def board(self, columns: Sequence[str] | None) -> Mapping[str, Any]:
        """The leaderboard of all complete runs, with the average over some columns, and the scores over time."""
        files = self.files()
        stamp = (tuple((key, _stamp(file)) for key, file in files.items()), None if columns is None else tuple(columns))
        with self._lock:
            if stamp not in self._boards:
                read = {key: self._run(key, file).results for key, file in files.items()}
                runs = {key: run for key, run in read.items() if run is not None and run.status == "complete"}
                history = [chart.to_dict() for chart in history_charts(runs)]
                self._boards = {stamp: {**Leaderboard(runs, headlines).to_dict(columns), "history": history}}
            return self._boards[stamp]

    def check(self, keys: Sequence[str]) -> Mapping[str, Path]:
        """The files of all runs, complete or not; an error where one of the keys has none."""
        files = {**self._state_files(), **self.files()}
        if not keys or any(key not in files for key in keys):
            raise UnknownPageError(",".join(keys))
        return files

    def report(self, keys: Sequence[str]) -> StreamedReport:
        """The report on the runs with these keys; the last few stay in memory."""
        files = self.check(keys)
        stamp = tuple((key, _stamp(files[key])) for key in keys)
        with self._lock:
            known = self._reports.get(stamp)
            if known is None or known.problem is not None:
                while len(self._reports) >= _REPORTS:
                    self._reports.pop(next(iter(self._reports)))
                runs = [self._load_run(files[key]) for key in keys]
                tasks = dict.fromkeys(name.partition("@")[0] for run in runs for name in run.forms)
                known = self._reports[stamp] = StreamedReport(runs, ", ".join(tasks)[:80])
            return known

    def _load_run(self, file: Path) -> RecordedRun:
        return live_run(file, self._scores(file)) if file.name.startswith(_STATE) else recorded_run(file)

    def _scores(self, state_file: Path) -> LiveScores:
        """The scores so far of a run that is not complete."""
        if state_file not in self._live:
            samples = state_file.name.replace(_STATE, "partial_samples_", 1).replace(".json", ".jsonl")
            self._live[state_file] = LiveScores(state_file.with_name(samples))
        return self._live[state_file]

    def _state_files(self) -> dict[str, Path]:
        return {self._key(file): file for file in sorted(self.folder.rglob(f"{_STATE}*.json"))}

    def _key(self, file: Path) -> str:
        return sha256(self._name(file))[:12]

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder)) if file != self.folder else file.name

    def _run(self, key: str, file: Path) -> _Run:
        """A results file as it is now."""
        stamp = _stamp(file)
        known = self._runs.get(file)
        if known is None or known.stamp != stamp:
            known = self._runs[file] = self._read_run(key, file, stamp)
        return known

    def _read_run(self, key: str, file: Path, stamp: Stamp) -> _Run:
        about = {"key": key, "file": self._name(file)}
        try:
            results = results_of_run(recorded_run(file), samples=False)
            line = {**about, **_summary(results)}
            for shown in (line, Leaderboard({key: results}).to_dict()):  # what the pages will show of it
                json_line(shown)
        except MultiformError as error:
            return _Run(stamp, {**about, "problem": str(error)})
        except MALFORMED as error:  # whatever is wrong with one file, the others are shown
            return _Run(stamp, {**about, "problem": f"the results cannot be shown: {reason(error)}"})
        return _Run(stamp, line, results)


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _summary(results: Results) -> dict[str, Any]:
    """What the list of runs shows of one."""
    about = results.provenance
    seconds = about.get("total_evaluation_time_seconds")
    return {
        "model": results.model_name,
        "arguments": arguments_text(results.run.get("model_args")),
        "date": minute(results),
        "seconds": None if seconds is None else float(seconds),
        "status": str(results.status),
        "harness": "multiform" if "multiform_version" in about else "lm-eval",
        "scores": [{"form": entry.name, **score_cell(entry)} for entry in headlines(results)],
        "forms": len(results.forms),
    }


#: The most lines of samples that are read at a time, so that a list of runs never waits long for them.
_MOST_LINES = 5_000


class LiveScores:
    """The scores of the documents in a file of samples that is still written; each line is read once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        #: The values of documents by form, metric and filter.
        self._values: dict[tuple[str, str], array[float]] = {}

    def update(self) -> dict[str, dict[str, Estimate]]:
        """The scores of each form, by ``metric,filter``."""
        with suppress(OSError), open_file(self._file) as lines:
            lines.seek(0, os.SEEK_END)
            if lines.tell() < self._read:  # the run began again
                self._read = 0
                self._values.clear()
            lines.seek(self._read)
            for _ in range(_MOST_LINES):
                text = lines.readline()
                if not text.endswith(b"\n"):
                    break
                self._read += len(text)
                self._add(text)
        forms: dict[str, dict[str, Estimate]] = {}
        for (form, key), values in self._values.items():
            forms.setdefault(form, {})[key] = mean_estimate(values)
        return forms

    def _add(self, text: bytes) -> None:
        try:
            line = json.loads(text)
            form, scorer = str(line["form"]), str(line.get("filter", "none"))
            for metric in line["metrics"]:
                value = line[metric]
                if isinstance(value, int | float):
                    self._values.setdefault((form, f"{metric},{scorer}"), array("d")).append(value)
        except MALFORMED:  # the report on the run says what is wrong with its file
            return


def run_state(file: Path, scores: LiveScores, keys: Mapping[Path, str], own_key: str) -> dict[str, Any] | None:
    """The state of a run that is not complete, or what is wrong with the file; None for files of another kind.

    `keys` are those of the results files that the viewer shows, and `own_key` is that of a report on the state itself.
    """
    try:
        state = read_json(file)
        if not isinstance(state, dict) or not {"forms", "status"} <= state.keys():
            return None
        forms = {name: _counts(counts, ("scored", "documents")) for name, counts in _object(state["forms"]).items()}
        requests = _counts(state.get("requests") or {}, ("needed", "cached", "answered", "failed"))
        status, host, pid = str(state["status"]), state.get("host"), state.get("pid")
        named = {key: str(state[key]) for key in ("model", "updated") if state.get(key) is not None}
    except MALFORMED as error:
        return {"file": file.name, "problem": f"the state of a run cannot be read: {reason(error)}"}
    if state.get("model_name") is not None:
        named["model"] = str(state["model_name"])
    killed = status == "running" and _has_ended(host, pid)
    results = file.with_name(file.name.replace("run_", "partial_results_", 1))
    live = scores.update()
    return {
        "file": file.name,
        "status": "killed" if killed else status,
        **named,
        "forms": forms,
        "requests": requests,
        "left": None if killed else _seconds_left(state, requests),
        "scores": [_score(form, *next(iter(estimates.items()))) for form, estimates in live.items()],
        "link": keys.get(results) or (own_key if live else None),
        "command": _command(results),
    }


def live_run(file: Path, scores: LiveScores) -> RecordedRun:
    """A run that is not complete as a recorded one: its documents so far, with their scores."""
    try:
        state = _object(read_json(file))
        forms = {name: _counts(counts, ("scored", "documents")) for name, counts in _object(state["forms"]).items()}
    except MALFORMED as error:
        raise MultiformError(f"the state of the run cannot be read: {reason(error)}", where=str(file)) from error
    live = scores.update()
    results: dict[str, Any] = {
        "results": {name: {"alias": name, **_lm_eval_scores(live.get(name) or {})} for name in forms},
        "configs": {name: {} for name in forms},
        "intervals": {
            name: {key: [estimate.low, estimate.high] for key, estimate in estimates.items()}
            for name, estimates in live.items()
        },
        "n-samples": {
            name: {"original": counts.get("documents", 0), "effective": counts.get("scored", 0)}
            for name, counts in forms.items()
        },
        "config": {"model": state.get("model")},
        "model_name": state.get("model_name") or state.get("model"),
        "date_iso": state.get("started"),
        "status": "running",
    }
    # The samples of a run that is not complete are beside its partial results, which there may not be yet.
    return RecordedRun(file.with_name(file.name.replace("run_", "partial_results_", 1)), results)


def _lm_eval_scores(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    for key, estimate in estimates.items():
        metric, _, scorer = key.partition(",")
        scores |= {key: estimate.value, f"{metric}_stderr,{scorer}": estimate.stderr}
    return scores


def _score(form: str, key: str, estimate: Estimate) -> dict[str, Any]:
    metric = key.partition(",")[0]
    return {
        "form": form,
        "metric": metric,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
    }


def _seconds_left(state: Mapping[str, Any], requests: Mapping[str, int]) -> float | None:
    """How long the remaining responses take at the speed of those that came; None where that is not known."""
    try:
        elapsed = datetime.fromisoformat(state["updated"]) - datetime.fromisoformat(state["started"])
        done = requests.get("answered", 0) + requests.get("failed", 0)
        remaining = requests.get("needed", 0) - requests.get("cached", 0) - done
    except (KeyError, TypeError, ValueError):
        return None
    return elapsed.total_seconds() / done * remaining if done and remaining >= 0 else None


def _command(results: Path) -> str | None:
    """The command that goes on with a run, if it has written partial results."""
    if not results.is_file():
        return None
    with suppress(MultiformError, *MALFORMED):
        return command(results_of_run(recorded_run(results), samples=False))
    return None


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {shorten(value)}")
    return value


def _counts(counts: Any, names: Sequence[str]) -> dict[str, int]:
    """The numbers of these names, of those that there are."""
    numbers = {name: int(number) for name, number in _object(counts).items() if name in names}
    if not all(0 <= number < 2**53 for number in numbers.values()):
        raise ValueError(f"impossible numbers: {shorten(numbers)}")
    return numbers


def _has_ended(host: Any, pid: Any) -> bool:
    """Whether the process of a run is no more; those of other machines are taken to be there."""
    if host != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)  # signal 0 asks whether the process is there, and does nothing to it
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
