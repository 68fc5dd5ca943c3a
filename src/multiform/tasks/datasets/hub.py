"""Datasets of the Hugging Face hub: rows, single files, and one clear message if neither can be had."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from multiform.errors import DataError, nearest, reason
from multiform.paths import display, mirror_folders
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.files import Dataset, splits_of
from multiform.tasks.datasets.local import DatasetKwargs, dataset_title

logger = logging.getLogger("multiform")

#: The seconds after which a wait is announced.
_PATIENCE = 5.0
#: Loaders of `datasets` that run code of a file (pickles), or ask other systems.
_REFUSED = ("pandas", "sql", "spark", "generator", "cache")
_COMMIT = re.compile(r"[0-9a-f]{40}")
SPLIT_KEYS = ("test_split", "validation_split", "training_split", "fewshot_split")


def hub_dataset(config: TaskConfig, mirror: Path | None = None) -> Dataset:
    """The dataset of a task as `datasets` downloads it; a message says which files a mirror needs instead."""
    if config.dataset_path in _REFUSED:
        message = f"'{config.dataset_path}' is a loader of datasets that does more than to read data"
        raise DataError(message, hint="save the rows as .jsonl, .csv or .parquet, and name that file")
    DatasetKwargs.of(config).check_separator()
    import datasets

    kwargs = {key: value for key, value in config.dataset_kwargs.items() if key != "trust_remote_code"}
    splits = dict.fromkeys(str(split) for name in SPLIT_KEYS if (split := getattr(config, name)))
    files = [f"{config.dataset_path}/{config.dataset_name or 'default'}/{split}.jsonl" for split in splits]
    try:
        with progress_on_terminal(), waiting_announced():
            loaded = datasets.load_dataset(path=config.dataset_path, name=config.dataset_name, **kwargs)
    except Exception as error:  # the hub, its cache and its loaders raise nearly anything
        title = f"dataset '{dataset_title(config)}'"
        raise hub_error(error, title, str(config.dataset_path), kwargs.get("revision"), files, mirror) from error
    _check_revision(loaded, kwargs.get("revision"), config)
    return splits_of(loaded, dataset_title(config), config.where("dataset_path"))


def hub_file(repo: str, name: str, mirror: Path | None = None) -> Path:
    """A file of a dataset's repository, downloaded unless the cache of huggingface_hub has it."""
    from huggingface_hub import hf_hub_download

    try:
        with progress_on_terminal(), waiting_announced():
            return Path(hf_hub_download(repo, name, repo_type="dataset"))
    except Exception as error:  # as above
        raise hub_error(error, f"{name} of dataset '{repo}'", repo, "main", [f"{repo}/{name}"], mirror) from error


def repository_file(repo: str, name: str, mirror: Path | None) -> Path:
    """A file of a dataset's repository, from a mirror that has it or its rows (as split `train`), else from the hub."""
    names = (name, f"{name.rpartition('.')[0]}/train.jsonl")
    places = [] if mirror is None else [folder / repo / each for folder in mirror_folders(mirror) for each in names]
    return next((place for place in places if place.is_file()), None) or hub_file(repo, name, mirror)


@contextmanager
def waiting_announced() -> Iterator[None]:
    """Log that the hub is waited for if it takes long: its libraries try again and again without a word."""
    timer = threading.Timer(_PATIENCE, logger.info, ["waiting for the hub; HF_HUB_OFFLINE=1 does without it"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Show the progress of downloads on a terminal, and nothing if the output goes to a file."""
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
        yield
        return
    before = os.environ.get("TQDM_POSITION")
    os.environ["TQDM_POSITION"] = "-1"  # asks both libraries for bars even if TQDM_DISABLE is set
    datasets.enable_progress_bars()
    try:
        yield
    finally:
        datasets.disable_progress_bars()
        os.environ.pop("TQDM_POSITION")
        os.environ.update({} if before is None else {"TQDM_POSITION": before})


def hub_error(
    error: Exception, title: str, repo: str, revision: str | None, files: list[str], mirror: Path | None
) -> DataError:
    """What went wrong, and which files to save where.

    The libraries wrap one error in another, so all of the chain is looked at, by name: a class may move.
    """
    chain = list(_chain(error))
    kinds = {cls.__name__ for link in chain for cls in type(link).__mro__}
    text = " ".join(str(link) for link in chain)
    page = f"https://huggingface.co/datasets/{repo}"
    save = _files_to_save(files, mirror)
    if "GatedRepoError" in kinds or "gated dataset" in text:
        if "403" in text or "authorized list" in text or "awaiting" in text:
            what, hint = "is gated, and this account has no access", f"accept its conditions at {page}, or {save}"
        else:
            what = "is gated: its owner wants to know who reads it"
            hint = f"accept its conditions at {page} and run 'hf auth login' (or set HF_TOKEN), or {save}"
    elif "ManualDownloadError" in kinds:
        what = "has to be downloaded by hand, after its licence is accepted"
        hint = f"see {page}, and {save}"
    elif "RevisionNotFoundError" in kinds or re.search(r"Revision '.*' doesn't exist", text):
        what = f"has no revision '{revision}' on the hub: it was moved or deleted"
        hint = f"pin a commit of {page}/commits/main in dataset_kwargs, after a look at its columns, or {save}"
    elif "EntryNotFoundError" in kinds and "LocalEntryNotFoundError" not in kinds:
        what, hint = "does not exist on the hub", f"look at {page}/tree/main, or {save}"
    elif kinds & {"RepositoryNotFoundError", "DatasetNotFoundError"}:
        what = "does not exist on the hub, or is private"
        hint = f"check the name, run 'hf auth login' if it is private, or {save}"
    elif names := re.search(r"BuilderConfig '(.*)' not found. Available: \[(.*)\]", text):
        known = re.findall(r"'([^']*)'", names[2])
        what, hint = f"has no configuration '{names[1]}'", nearest(names[1], known, listed="there are")
    elif "scripts are no longer supported" in text:
        what = "is a loading script, which is not run"
        hint = f"set dataset_kwargs: {{revision: refs/convert/parquet}} if {page} has it, or {save}"
    elif kinds & {"ConnectionError", "OfflineModeIsEnabled", "LocalEntryNotFoundError", "TransportError", "Timeout"}:
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        why = "HF_HUB_OFFLINE is set" if offline else "no network, or it does not answer"
        what, hint = f"is not on this machine, and the hub cannot be reached ({why})", save
    else:
        what, hint = f"could not be loaded: {reason(error, 200)}", f"check the name and the network, or {save}"
    return DataError(f"{title} {what}", hint=hint)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _files_to_save(files: list[str], mirror: Path | None) -> str:
    """The files that make a mirror of the dataset, and the mirrors that were looked in."""
    looked = [] if mirror is None else [display(folder) for folder in mirror_folders(mirror)]
    folder = looked[0] if looked else "DIR"
    names = ", ".join(f"{folder}/{name}" for name in files) or f"{folder}/<dataset>/<name>/<split>.jsonl"
    rows = " (or .parquet)" if names.endswith(".jsonl") else ""
    after = f"; looked in {' and '.join(looked)}" if looked else " and add --dataset_mirror DIR"
    return f"save its files as {names}{rows}{after}"


def _check_revision(loaded: Any, revision: Any, config: TaskConfig) -> None:
    """Refuse rows of another commit than the pinned one: without the network, `datasets` takes what its cache has."""
    if not isinstance(revision, str) or not _COMMIT.fullmatch(revision):
        return
    for split in loaded.values() if isinstance(loaded, Mapping) else [loaded]:
        for address in getattr(split.info, "download_checksums", None) or {}:
            commit = re.search(r"@([0-9a-f]{40})/", address)
            if commit and commit[1] != revision:
                message = f"the cache of datasets has revision {commit[1][:12]}, and {revision[:12]} is pinned"
                hint = "load it once with a network, or pin the revision that is there"
                raise DataError(message, where=config.where("dataset_kwargs", "revision"), hint=hint)
