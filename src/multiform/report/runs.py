"""The runs in a folder: their list, the leaderboard of their models, and reports on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from multiform.errors import MultiformError, reason
from multiform.hashing import sha256
from multiform.report.command import arguments_text
from multiform.report.history import history_charts
from multiform.report.leaderboard import Leaderboard, headlines, score_cell
from multiform.report.live import LiveScores, live_run, run_state
from multiform.report.payload import minute
from multiform.report.streaming import StreamedReport
from multiform.results.export import json_line
from multiform.results.read import partial_results_files, recorded_run, results_files
from multiform.results.recorded import MALFORMED, RecordedRun, results_of_run
from multiform.results.results import Results

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
