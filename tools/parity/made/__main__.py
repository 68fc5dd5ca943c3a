"""All task files of lm-eval: which load, and which give a prompt for a made document.

The runner goes through them, prints the figures, and writes what is not as it should be as JSON.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import io
import json
import logging
import sys
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from multiform import Task, TaskConfig, TaskManager
from multiform.errors import MultiformError
from tools import ROOT
from tools.parity import standins
from tools.parity.found import TaskFile, task_files, task_folder
from tools.parity.made.documents import attempt, written_row

#: Has task files that fetch something when they are imported fail at once, or do without.
_OFFLINE: dict[str, Any] = {
    "evaluate.config.HF_EVALUATE_OFFLINE": True,
    "huggingface_hub.constants.HF_HUB_OFFLINE": True,
    "nltk.download": lambda *args, **kwargs: False,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task file."""

    task: str
    path: str
    kind: Literal["prompt", "no prompt", "does not load"]
    error: str | None = None
    #: Why it loads only with stand-ins for what it imports, where it does.
    lacks: str | None = None


def outcomes(files: Iterable[TaskFile], folder: Path) -> Iterator[Outcome]:
    """Load each task and make a prompt for a made document; where something is not installed, with stand-ins."""
    with lightly():
        for file in files:
            yield _outcome(file, folder)


def _outcome(file: TaskFile, folder: Path) -> Outcome:
    try:
        return _tried(file, folder)
    except MultiformError as error:
        with standins.installed(), _forgotten():
            return replace(_with_stand_ins(file, folder), lacks=str(error))


def _tried(file: TaskFile, folder: Path) -> Outcome:
    config = loaded(file)
    path = str(file.path.relative_to(folder))
    made = attempt(config, written_row(path))
    return Outcome(file.name, path, "no prompt" if made.prompt is None else "prompt", made.error)


def _with_stand_ins(file: TaskFile, folder: Path) -> Outcome:
    try:
        return _tried(file, folder)
    except MultiformError as error:
        return Outcome(file.name, str(file.path.relative_to(folder)), "does not load", str(error))


@contextlib.contextmanager
def _forgotten() -> Iterator[None]:
    """Has modules of tasks loaded anew afterwards: packages keep what was imported into them."""
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith("_multiform_task_")]:
            del sys.modules[name]


def loaded(file: TaskFile) -> TaskConfig:
    """The configuration of a file, checked down to its metrics and filters."""
    config = TaskConfig.from_dict(file.file.data, source=file.file.source)
    Task.from_config(config)
    return config


def broken_groups(folder: Path) -> dict[str, str]:
    """The groups of lm-eval that cannot be put together from their members, each with its error."""
    manager = TaskManager([folder])
    entries = manager.index.entries.items()
    groups = [name for name, entry in entries if entry.kind == "group" and entry.path.is_relative_to(folder)]
    errors = {}
    with lightly(), standins.installed(), _forgotten():
        for name in groups:
            try:
                manager.tree(name)
            except MultiformError as error:
                errors[name] = str(error)
    return errors


@contextlib.contextmanager
def lightly() -> Iterator[None]:
    """Without the network, progress bars, warnings, and the fingerprints that datasets take most of their time for."""
    import datasets

    datasets.disable_progress_bars()
    disabled = logging.root.manager.disable
    caching = datasets.is_caching_enabled()
    with contextlib.ExitStack() as stack:
        for name, value in _OFFLINE.items():
            if importlib.util.find_spec(name.partition(".")[0]) is not None:
                stack.enter_context(mock.patch(name, value))
        stack.enter_context(mock.patch("datasets.arrow_dataset.generate_fingerprint", _fingerprint))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        datasets.disable_caching()
        try:
            yield
        finally:
            logging.disable(disabled)
            if caching:
                datasets.enable_caching()


def _fingerprint(dataset: Any) -> str:
    return uuid.uuid4().hex[:16]


def main() -> int:
    """Go through the files; 1 where more than one in a thousand tasks gives no prompt."""
    parser = argparse.ArgumentParser(prog="python -m tools.parity.made", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path holds this")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every so many-th file only")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "out" / "made.json", help="what has no prompt or needs stand-ins, as JSON"
    )
    options = parser.parse_args()
    folder = task_folder()
    started = spoken = time.monotonic()
    read = [file for file in task_files(folder) if options.only in str(file.path.relative_to(folder))]
    files = read[:: options.sample]
    print(f"{len(files)} task files read in {time.monotonic() - started:.1f} s", file=sys.stderr)
    found = []
    for number, outcome in enumerate(outcomes(files, folder), start=1):
        found.append(outcome)
        if time.monotonic() - spoken > 10:
            spoken = time.monotonic()
            sys.__stderr__.write(f"{number} of {len(files)}, {spoken - started:.0f} s\n")  # type: ignore[union-attr]
    kinds = collections.Counter(outcome.kind for outcome in found)
    for kind, number in kinds.most_common():
        print(f"{kind:15} {number:6} {number / len(found):7.2%}")
    lacking = sum(outcome.lacks is not None for outcome in found)
    print(f"{'with stand-ins':15} {lacking:6} {lacking / len(found):7.2%}")
    others = [asdict(outcome) for outcome in found if outcome.kind != "prompt" or outcome.lacks]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(others, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{time.monotonic() - started:.0f} s; wrote {options.output}", file=sys.stderr)
    return 0 if kinds["prompt"] >= 0.999 * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
