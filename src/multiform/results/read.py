"""Find and read the files of runs: those of Multiform and lm-eval, and the logs, records and folders of other tools."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any

from multiform.errors import DataError, MultiformError, UsageError, excerpt, nearest, reason
from multiform.results.exchange.every_eval import is_every_eval, read_every_eval
from multiform.results.exchange.helm import helm_files, read_helm_run
from multiform.results.exchange.inspect_log import is_inspect_log, read_eval_file, read_inspect_logs
from multiform.results.recorded import MALFORMED, PARTIAL, RecordedRun, read_json, results_of_run
from multiform.results.results import Results

logger = logging.getLogger("multiform")

#: The keys of a results file that have an entry for each form or group, and the types of the entries.
_ENTRIES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("results", "configs"), (dict,)),
    **dict.fromkeys(("forms", "n-samples", "failures", "intervals", "higher_is_better"), (dict, NoneType)),
    **dict.fromkeys(("versions", "n-shot"), (str, int, float, NoneType)),
    "group_subtasks": (list, NoneType),
    "task_hashes": (str, NoneType),
    "weight_by_size": (bool,),
}
#: The end of the name of a results file, and of the samples files that belong to it: when the run ended.
_STAMP = re.compile(r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[.\d]*)\.json$")
#: The names of Inspect's logs, which begin with a date, and of records of Every Eval Ever, which are UUIDs.
_FOREIGN = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d.*\.(json|eval)|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json)$"
)


def read_results(path: str | Path, *, samples: bool = True) -> Results:
    """The results of a run, read from a results file or from the folder that it is in, of Multiform or of lm-eval.

    Of several runs in a folder the newest is read, which is logged; `samples=False` leaves the samples out.
    """
    return results_of_run(newest_run(Path(path)), samples=samples)


def newest_run(path: Path) -> RecordedRun:
    """The run of a results file, or the newest one in a folder; that there are others is logged."""
    files = results_files(path)
    if not files:
        samples = next(path.rglob("partial_samples_*.jsonl"), None)
        hint = "name the --output_path of a run, of Multiform or of lm-eval"
        if samples is not None:
            hint = f"{samples} has the documents that are scored so far; run the same command again to go on from there"
        raise UsageError("there is no results_<date>.json in this folder", where=str(path), hint=hint)
    if len(files) > 1:
        logger.warning("%s holds %d runs; the newest is read: %s", path, len(files), files[-1])
    return recorded_run(files[-1])


def results_files(path: Path) -> list[Path]:
    """The results files in a folder and its subfolders, the newest last; a file is itself.

    Both harnesses name them ``results_<date>.json`` or, where ``FILE.json`` was given, ``FILE_<date>.json``. Where
    there are none, those of runs that were not finished, or of other tools.
    """
    if not path.exists():
        entries = path.parent.glob("*") if path.parent.is_dir() else ()
        names = [entry.name for entry in entries if entry.is_dir() or entry.suffix == ".json"]
        hint = nearest(path.name, names, listed="there are") if names else "name the --output_path of a run"
        raise UsageError("there is no such file or folder", where=str(path), hint=hint)
    if path.is_file():
        return [path]
    files = [(_STAMP.search(file.name), file) for file in path.rglob("*.json")]
    dated = sorted((match.group(1), str(file), file) for match, file in files if match)
    return [file for _, _, file in dated] or partial_results_files(path) or _foreign_files(path)


def partial_results_files(folder: Path) -> list[Path]:
    """The results files of runs that were stopped or failed, the newest last."""
    return sorted(folder.rglob(f"{PARTIAL}*.json"), key=_modification_time)


def _modification_time(file: Path) -> float:
    """When a file was last written; a link to nothing is the oldest."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _foreign_files(folder: Path) -> list[Path]:
    """Logs and records of other tools, the newest last; of the logs of one run, the last."""
    if runs := helm_files(folder):
        return runs
    files = [file for file in folder.rglob("*") if _FOREIGN.match(file.name)]
    by_run: dict[Any, Path] = {}
    for file in sorted(files, key=lambda file: (_modification_time(file), file.name)):
        with suppress(*MALFORMED):
            try:
                log = _read_value(file)
            except MultiformError:  # a damaged archive, which opening it reports
                log = {"eval": {}, "status": None, "version": 0}
            if is_inspect_log(log) or is_every_eval(log):
                by_run[(file.parent, _run_id(log) or file.name)] = file
    return list(by_run.values())


def _read_value(file: Path) -> Any:
    return read_eval_file(file) if file.suffix == ".eval" else read_json(file)


def _run_id(log: Any) -> Any:
    """Which run a log of Inspect belongs to."""
    return (log.get("eval") or {}).get("run_id") if isinstance(log, dict) else None


def _logs_beside(log: Mapping[str, Any], file: Path) -> list[dict[str, Any]]:
    """The other logs of the run of Inspect that a log belongs to."""
    files = [other for other in sorted(file.parent.iterdir()) if _FOREIGN.match(other.name) and other != file]
    logs = map(_read_value, files if _run_id(log) is not None else ())
    return [other for other in logs if is_inspect_log(other) and _run_id(other) == _run_id(log)]


def recorded_run(file: Path) -> RecordedRun:
    """The run of a results file, of a log or record, or of HELM's files."""
    hint = "name a results_<date>.json of Multiform or of lm-eval"
    try:
        if (run := read_helm_run(file)) is not None:
            return run
        results = _read_value(file)
        if is_every_eval(results):
            return read_every_eval(results, file)
        if is_inspect_log(results):
            return read_inspect_logs([*_logs_beside(results, file), results], file)
    except MALFORMED as error:
        raise DataError(f"is not a results file: {reason(error)}", where=str(file), hint=hint) from error
    if not isinstance(results, dict) or not all(isinstance(results.get(key), dict) for key in ("configs", "results")):
        raise DataError("is not a results file: it has no 'results' and 'configs'", where=str(file), hint=hint)
    for key, types in _ENTRIES.items():
        entries = results.get(key)
        if not isinstance(entries, dict | NoneType):
            raise DataError(f"expected an object, got {excerpt(entries)}", where=f"{file}: {key}", hint=hint)
        for name, entry in (entries or {}).items():
            if not isinstance(entry, types):
                raise DataError(f"{excerpt(entry)} cannot be there", where=f"{file}: {key}: {name}", hint=hint)
    return RecordedRun(file, results)
