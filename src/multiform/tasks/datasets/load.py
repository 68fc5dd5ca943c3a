"""load_dataset: the dataset of a task, from a mirror folder, local files, the task's own function, or the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multiform.errors import DataError, running
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.hub import hub_dataset
from multiform.tasks.datasets.local import local_dataset, mirrored_dataset
from multiform.tasks.datasets.splits import Dataset, listing


def load_dataset(config: TaskConfig, mirror: Path | None = None, arguments: Mapping[str, Any] | None = None) -> Dataset:
    """Load the dataset of a task: from a mirror, else from the local disk, else from the hub.

    `arguments` are those of the model, which a task's own `custom_dataset` gets beside its metadata.
    """
    if config.custom_dataset is not None:
        return _custom(config, mirror, arguments or {})
    if not config.dataset_path:
        raise DataError(
            "the task names no dataset", where=config.where(), hint="set dataset_path, e.g. to a .jsonl file"
        )
    try:
        mirrored = mirrored_dataset(config, mirror) if mirror is not None else None
        return mirrored or local_dataset(config) or hub_dataset(config, mirror)
    except DataError as error:
        raise error.or_at(config.where("dataset_path")) from error


def _custom(config: TaskConfig, mirror: Path | None, arguments: Mapping[str, Any]) -> Dataset:
    assert config.custom_dataset is not None
    place = config.where("custom_dataset")
    if getattr(config.custom_dataset, "takes_mirror", False):  # it reads datasets, which the mirror may have
        arguments = {**arguments, "dataset_mirror": mirror}
    with running("custom_dataset", where=place, hint="call it with the task's metadata to debug it"):
        splits = config.custom_dataset(**{**config.dataset_kwargs, **config.metadata, **arguments})
    if not isinstance(splits, Mapping):
        message = f"custom_dataset returned {type(splits).__name__}, not a mapping of splits"
        raise DataError(message, where=place, hint='return {"test": [...]} or a DatasetDict')
    return Dataset(config.task, {str(split): listing(docs, place) for split, docs in splits.items()})
