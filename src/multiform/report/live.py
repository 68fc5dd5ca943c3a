"""Runs that are not complete: how far they are, what they score so far, and how to go on with them."""

from __future__ import annotations

import json
import os
import platform
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError, reason, shorten
from multiform.paths import open_file
from multiform.report.command import command
from multiform.results.read import recorded_run
from multiform.results.recorded import MALFORMED, RecordedRun, read_json, results_of_run
from multiform.statistics.estimates import Estimate, mean_estimate

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
