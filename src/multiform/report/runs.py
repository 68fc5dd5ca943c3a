"""The runs in a folder, complete or under way: their list, the leaderboard of their models, and reports on them."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from multiform.errors import MultiformError, reason
from multiform.hashing import sha256
from multiform.paths import open_file
from multiform.report.leaderboard import Leaderboard, headlines, history_charts, score_cell
from multiform.report.page import minute, setting_words
from multiform.report.streaming import StreamedReport
from multiform.results.export import json_line
from multiform.results.provenance import arguments_text, command
from multiform.results.read import partial_results_files, recorded_run, results_files
from multiform.results.recorded import MALFORMED, PARTIAL, RecordedRun, read_json, results_file, results_of_run
from multiform.results.results import Results
from multiform.results.values import lm_eval_scores
from multiform.statistics.estimates import Estimate, mean_estimate
from multiform.stopping import is_running

#: What tells whether a file has changed: its time and size; None where it cannot be read.
Stamp = tuple[int, int] | None
#: How many reports stay in memory.
_REPORTS = 3
#: The prefix of the name of the file with a run's state.
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
        self._live: dict[Path, LiveRun] = {}
        self._reports: dict[tuple[tuple[str, Stamp], ...], StreamedReport] = {}
        self._boards: dict[Any, Mapping[str, Any]] = {}
        self._lock = Lock()

    def files(self) -> dict[str, Path]:
        """The results files by their key, which the viewer's addresses use: those of runs that were stopped or failed,
        then the others, the newest last."""
        partial = partial_results_files(self.folder) if self.folder.is_dir() else []
        return {self._key(file): file for file in dict.fromkeys([*partial, *results_files(self.folder)])}

    def run_lines(self) -> list[Mapping[str, Any]]:
        """A line for each results file: model, date and scores, or what is wrong with it, which comes last; the newest
        first."""
        lines = [self._run(key, file).line for key, file in reversed(self.files().items())]
        return sorted(lines, key=lambda line: str(line.get("date", "")), reverse=True)

    def unfinished_lines(self) -> list[dict[str, Any]]:
        """The states of runs that are not complete, as their output folders have them; running ones first."""
        keys = {file: key for key, file in self.files().items()}
        states = [self._live_run(file).line(keys, key) for key, file in self._state_files().items()]
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
                runs = [
                    self._live_run(file).to_recorded_run() if file.name.startswith(_STATE) else recorded_run(file)
                    for file in map(files.__getitem__, keys)
                ]
                tasks = dict.fromkeys(name.partition("@")[0] for run in runs for name in run.forms)
                known = self._reports[stamp] = StreamedReport(runs, ", ".join(tasks)[:80])
            return known

    def _live_run(self, state_file: Path) -> LiveRun:
        return self._live.setdefault(state_file, LiveRun(state_file))

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
    about, limit = results.provenance, results.run.get("limit")
    seconds = about.get("total_evaluation_time_seconds")
    limited = [] if limit is None else [f"limit {limit:,}".removesuffix(".0")]
    return {
        "model": results.model_name,
        "arguments": arguments_text(results.run.get("model_args")),
        "settings": [*setting_words(results.forms, results), *limited],
        "date": minute(results),
        "seconds": None if seconds is None else float(seconds),
        "status": str(results.status),
        "harness": "multiform" if "multiform_version" in about else "lm-eval",
        "scores": [{"form": entry.name, **score_cell(entry)} for entry in headlines(results)],
        "forms": len(results.forms),
    }


#: The most lines of samples that are read at a time, so that a list of runs never waits long for them.
_MOST_LINES = 5_000

_Count = Annotated[int, Field(ge=0, lt=2**53)]


class _FormCounts(BaseModel):
    scored: _Count = 0
    documents: _Count = 0


class _RequestCounts(BaseModel):
    needed: _Count = 0
    cached: _Count = 0
    answered: _Count = 0
    failed: _Count = 0


class _State(BaseModel):
    """The file in which a run says how far it is."""

    status: Annotated[str, BeforeValidator(str)]
    forms: dict[str, _FormCounts]
    requests: _RequestCounts = _RequestCounts()
    model: Annotated[str | None, BeforeValidator(lambda value: value and str(value))] = None
    model_name: str | None = None
    #: The settings of the run, as its results will have them.
    config: dict[str, Any] = {}
    started: Any = None
    updated: Any = None
    host: Any = None
    pid: Any = None

    @property
    def words(self) -> dict[str, str | None]:
        """The arguments of the model, and the command that goes on with the run, where it says its settings."""
        with suppress(MultiformError, *MALFORMED):
            results = Results(forms=(), run=self.config, provenance={"multiform_version": None})
            arguments = arguments_text(self.config.get("model_args"))
            return {"arguments": arguments, "command": command(results) if self.config else None}
        return {"arguments": "", "command": None}

    @property
    def was_killed(self) -> bool:
        """Whether the process of a run under way is no more."""
        has_process = isinstance(self.pid, int) and self.pid > 0
        return self.status == "running" and has_process and not is_running(self.pid, self.host)

    @property
    def seconds_left(self) -> float | None:
        """How long the remaining responses take at the speed of those that came; None where that is not known."""
        try:
            elapsed = datetime.fromisoformat(self.updated) - datetime.fromisoformat(self.started)
        except (TypeError, ValueError):
            return None
        done = self.requests.answered + self.requests.failed
        remaining = self.requests.needed - self.requests.cached - done
        return elapsed.total_seconds() / done * remaining if done and remaining >= 0 else None


class LiveRun:
    """A run that is not complete: how far it is, what it scores so far, and how to go on with it.

    Each line of its samples, which are still written, is read once.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        stem = file.stem.removeprefix(_STATE)
        self._samples = file.with_name(f"partial_samples_{stem}.jsonl")
        #: Its samples belong to its partial results, which there may not be yet.
        self.results = file.with_name(f"{PARTIAL}{stem}.json")
        self._read = 0
        #: The values of documents by form, metric and filter.
        self._values: dict[tuple[str, str], array[float]] = {}

    def scores(self) -> dict[str, dict[str, Estimate]]:
        """The scores of each form so far, by ``metric,filter``."""
        with suppress(OSError), open_file(self._samples) as lines:
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
                with suppress(*MALFORMED):  # the report on the run says what is wrong with its file
                    self._add(json.loads(text))
        forms: dict[str, dict[str, Estimate]] = {}
        for (form, key), values in self._values.items():
            forms.setdefault(form, {})[key] = mean_estimate(values)
        return forms

    def _add(self, line: Mapping[str, Any]) -> None:
        form, scorer = str(line["form"]), str(line.get("filter", "none"))
        for metric in line["metrics"]:
            if isinstance(value := line[metric], int | float):
                self._values.setdefault((form, f"{metric},{scorer}"), array("d")).append(value)

    def line(self, keys: Mapping[Path, str], own_key: str) -> dict[str, Any] | None:
        """What the list of runs shows, or what is wrong with the file; None for files of another kind.

        `keys` are those of the results files that the viewer shows, and `own_key` that of a report on the run so far.
        """
        try:
            value = read_json(self.file)
            if not isinstance(value, dict) or not {"forms", "status"} <= value.keys():
                return None
            state = _State.model_validate(value)
        except MALFORMED as error:
            return {"file": self.file.name, "problem": f"the state of a run cannot be read: {reason(error)}"}
        killed = state.was_killed
        live = self.scores()
        # The state is written at times, each sample at once.
        for form, counts in state.forms.items():
            counts.scored = max(counts.scored, *(score.n for score in live.get(form, {}).values()), 0)
        firsts = [(form, *next(iter(scores.items()))) for form, scores in live.items()]
        return {
            "file": self.file.name,
            "status": "killed" if killed else state.status,
            "model": state.model_name or state.model,
            "started": state.started,
            "updated": state.updated,
            **state.model_dump(include={"forms", "requests"}),
            "left": None if killed else state.seconds_left,
            "scores": [
                {"form": form, "metric": key.partition(",")[0], **score.numbers("n")} for form, key, score in firsts
            ],
            "link": keys.get(self.results) or (own_key if live else None),
            **state.words,
        }

    def to_recorded_run(self) -> RecordedRun:
        """The run as a recorded one: its documents so far, with their scores."""
        try:
            state = _State.model_validate(read_json(self.file))
        except MALFORMED as error:
            message = f"the state of the run cannot be read: {reason(error)}"
            raise MultiformError(message, where=str(self.file)) from error
        live = self.scores()
        forms = {
            name: {
                "results": lm_eval_scores(live.get(name) or {}),
                "intervals": {key: [score.low, score.high] for key, score in (live.get(name) or {}).items()},
                "n-samples": {"original": counts.documents, "effective": counts.scored},
            }
            for name, counts in state.forms.items()
        }
        recorded = results_file(
            forms,
            model=str(state.model_name or state.model),
            date=str(state.started),
            source="multiform",
            config={"model": state.model, "model_args": state.config.get("model_args") or {}},
            status="stopped" if state.was_killed else "running",
        )
        return RecordedRun(self.results, recorded)
