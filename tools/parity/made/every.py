"""All task files of lm-eval: which load, and which give a prompt for a made document."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import sys
import uuid
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from multiform import Task, TaskConfig, TaskManager
from multiform.errors import MultiformError
from tools.parity import standins
from tools.parity.found import TaskFile
from tools.parity.made.documents import attempt
from tools.parity.made.written import written_row

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
    groups = [name for name, entry in manager.index.entries.items() if entry.kind == "group"]
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
