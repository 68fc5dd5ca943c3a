"""The runs in a folder: complete, running, stopped or killed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError
from multiform.hashing import sha256
from multiform.report.command import arguments_text
from multiform.report.payload import Payload, payload
from multiform.results.read import results_of_run
from multiform.results.recorded import partial_results_files, recorded_run, results_files
from multiform.results.results import Results


class Runs:
    """The runs below a folder, read lazily and again when their files change. Writes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lean: dict[tuple[str, int], Results | str] = {}
        self._payloads: dict[tuple[tuple[str, int], ...], Payload] = {}

    def files(self) -> dict[str, Path]:
        """The results files by their key, which the viewer's addresses use: those of runs that were stopped or failed,
        then the others, the newest last."""
        partial = partial_results_files(self.folder) if self.folder.is_dir() else []
        return {self._key(file): file for file in dict.fromkeys([*partial, *results_files(self.folder)])}

    def listed(self) -> list[dict[str, Any]]:
        """A line for each complete run: model, date and scores; the newest first."""
        lines = [self._line(key, file) for key, file in self.files().items()]
        return list(reversed(lines))

    def going_on(self) -> list[dict[str, Any]]:
        """The states of runs that are not complete, as they write them into their output folders."""
        states = [_state(file) for file in sorted(self.folder.rglob("run_*.json"))]
        return [state for state in states if state is not None]

    def lean(self) -> dict[str, Results]:
        """Every readable run without its samples, by its key."""
        read = {key: self._read(file) for key, file in self.files().items()}
        return {key: results for key, results in read.items() if isinstance(results, Results)}

    def payload(self, keys: Sequence[str]) -> Payload:
        """The data of a report on the runs with these keys; the last few stay in memory."""
        files = self.files()
        if not keys or any(key not in files for key in keys):
            raise KeyError(",".join(keys))
        stamp = tuple((key, files[key].stat().st_mtime_ns) for key in keys)
        if stamp not in self._payloads:
            while len(self._payloads) >= 3:
                self._payloads.pop(next(iter(self._payloads)))
            runs = [results_of_run(recorded_run(files[key])) for key in keys]
            title = ", ".join(dict.fromkeys(form.task for results in runs for form in results.forms))[:80]
            self._payloads[stamp] = payload(runs, title=title)
        return self._payloads[stamp]

    def _key(self, file: Path) -> str:
        return sha256(str(file.relative_to(self.folder) if file != self.folder else file.name))[:12]

    def _read(self, file: Path) -> Results | str:
        """A run without its samples, or what is wrong with its file."""
        stamp = (str(file), file.stat().st_mtime_ns)
        if stamp not in self._lean:
            try:
                self._lean[stamp] = results_of_run(recorded_run(file), samples=False)
            except MultiformError as error:
                self._lean[stamp] = str(error)
        return self._lean[stamp]

    def _line(self, key: str, file: Path) -> dict[str, Any]:
        name = str(file.relative_to(self.folder)) if file != self.folder else file.name
        results = self._read(file)
        if isinstance(results, str):
            return {"key": key, "file": name, "problem": results}
        about = results.provenance
        return {
            "key": key,
            "file": name,
            "model": str(about.get("model_name") or results.run.get("model")),
            "arguments": arguments_text(results.run.get("model_args")),
            "date": about.get("date_iso") or about.get("date"),
            "seconds": about.get("total_evaluation_time_seconds"),
            "status": results.status,
            "harness": "multiform" if "multiform_version" in about else "lm-eval",
            "scores": [_score(form.name, form) for form in results.forms[:8] if form.estimates],
            "forms": len(results.forms),
        }


def _score(name: str, form: Any) -> Mapping[str, Any]:
    estimate = form.estimates[form.primary]
    return {
        "form": name,
        "metric": form.primary.partition(",")[0],
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
    }


def _state(file: Path) -> dict[str, Any] | None:
    """The state of a run that is not complete; None for other files."""
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(state, dict) or not isinstance(state.get("forms"), dict) or "status" not in state:
        return None
    if state["status"] == "running" and _ended(state):
        state["status"] = "killed"
    return {"file": file.name, **state}


def _ended(state: Mapping[str, Any]) -> bool:
    """Whether the process of a run is no more; those of other machines are taken to be there."""
    pid = state.get("pid")
    if state.get("host") != platform.node() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)  # signal 0 asks whether the process is there, and does nothing to it
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
