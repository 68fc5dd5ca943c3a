"""The runs in a folder: complete, running, stopped or killed."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from multiform.errors import MultiformError, reason, shorten
from multiform.hashing import sha256
from multiform.report.command import arguments_text
from multiform.report.leaderboard import leaderboard
from multiform.report.payload import Payload, minute, payload
from multiform.results.export import json_line
from multiform.results.read import (
    MALFORMED,
    partial_results_files,
    read_json,
    recorded_run,
    results_files,
    results_of_run,
)
from multiform.results.results import Results
from multiform.results.values import FormResult

#: What tells whether a file has changed: its time and size; None where it cannot be read.
Stamp = tuple[int, int] | None


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
        self._payloads: dict[tuple[tuple[str, Stamp], ...], Payload] = {}
        self._lock = Lock()

    def files(self) -> dict[str, Path]:
        """The results files by their key, which the viewer's addresses use: those of runs that were stopped or failed,
        then the others, the newest last."""
        partial = partial_results_files(self.folder) if self.folder.is_dir() else []
        return {sha256(self._name(file))[:12]: file for file in dict.fromkeys([*partial, *results_files(self.folder)])}

    def listed(self) -> list[Mapping[str, Any]]:
        """A line for each complete run: model, date and scores, or what is wrong with its file; the newest first."""
        return [self._run(key, file).line for key, file in reversed(self.files().items())]

    def going_on(self) -> list[dict[str, Any]]:
        """The states of runs that are not complete, as they write them into their output folders."""
        states = [_state(file) for file in sorted(self.folder.rglob("run_*.json"))]
        return [state for state in states if state is not None]

    def lean(self) -> dict[str, Results]:
        """Every readable run without its samples, by its key."""
        read = {key: self._run(key, file).results for key, file in self.files().items()}
        return {key: results for key, results in read.items() if results is not None}

    def payload(self, keys: Sequence[str]) -> Payload:
        """The data of a report on the runs with these keys; the last few stay in memory."""
        files = self.files()
        if not keys or any(key not in files for key in keys):
            raise UnknownPageError(",".join(keys))
        stamp = tuple((key, _stamp(files[key])) for key in keys)
        with self._lock:  # one at a time: a report on large runs takes memory
            if stamp not in self._payloads:
                while len(self._payloads) >= 3:
                    self._payloads.pop(next(iter(self._payloads)))
                runs = [results_of_run(recorded_run(files[key])) for key in keys]
                title = ", ".join(dict.fromkeys(form.task for results in runs for form in results.forms))[:80]
                self._payloads[stamp] = payload(runs, title=title)
            return self._payloads[stamp]

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.folder)) if file != self.folder else file.name

    def _run(self, key: str, file: Path) -> _Run:
        """A results file as it is now."""
        stamp = _stamp(file)
        known = self._runs.get(file)
        if known is None or known.stamp != stamp:
            known = self._runs[file] = self._read(key, file, stamp)
        return known

    def _read(self, key: str, file: Path, stamp: Stamp) -> _Run:
        about = {"key": key, "file": self._name(file)}
        try:
            results = results_of_run(recorded_run(file), samples=False)
            line = {**about, **_summary(results)}
            json_line(line), json_line(leaderboard({key: results}))  # what the pages will show of it
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
        "model": str(about.get("model_name") or results.run.get("model")),
        "arguments": arguments_text(results.run.get("model_args")),
        "date": minute(results),
        "seconds": None if seconds is None else float(seconds),
        "status": str(results.status),
        "harness": "multiform" if "multiform_version" in about else "lm-eval",
        "scores": [_score(form.name, form) for form in results.forms[:8] if form.estimates],
        "forms": len(results.forms),
    }


def _score(name: str, form: FormResult) -> Mapping[str, Any]:
    estimate = form.estimates[form.primary]
    bounds = [None if bound is None or not math.isfinite(bound) else bound for bound in (estimate.low, estimate.high)]
    low, high = bounds if None not in bounds else (None, None)
    metric = form.primary.partition(",")[0]
    return {"form": name, "metric": metric, "value": estimate.value, "low": low, "high": high}


def _state(file: Path) -> dict[str, Any] | None:
    """The state of a run that is not complete, or what is wrong with the file; None for files of another kind."""
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
    killed = status == "running" and _has_ended(host, pid)
    return {"file": file.name, "status": "killed" if killed else status, **named, "forms": forms, "requests": requests}


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
