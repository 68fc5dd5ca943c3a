"""The documents of a task: its splits, processed, and which of them are evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.config import FewshotConfig, TaskConfig
from multiform.datasets.load import load_dataset
from multiform.datasets.splits import Dataset
from multiform.errors import ConfigError, DataError, MultiformError, running
from multiform.fields import Field

Docs = Sequence[dict[str, Any]]


class DocSource:
    """Reads the splits of a task's dataset, and processes them, when they are first needed."""

    def __init__(
        self,
        config: TaskConfig,
        mirror: Path | None,
        *,
        transform: Callable[[Any], Any] | None = None,
        arguments: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.mirror = mirror
        self.transform = transform
        #: What a task's `custom_dataset` gets: its metadata, and the arguments of the model.
        known = config.metadata if metadata is None else metadata
        self.arguments = {**(arguments or {}), **config.dataset_kwargs, **known}
        self._dataset: Dataset | None = None
        self._splits: dict[tuple[str, int, str], Docs] = {}

    def reusing(self, other: DocSource | None) -> DocSource:
        """This source with the loaded splits of `other`, where both have the same data."""
        if other is not None and self._reads() == other._reads():
            self._dataset, self._splits = other._dataset, other._splits
        return self

    def _reads(self) -> tuple[Any, ...]:
        """Everything that determines the documents, as a key."""
        config = self.config
        custom = None if config.custom_dataset is None else (config.custom_dataset, self.arguments)
        return config.dataset_path, config.dataset_name, config.dataset_kwargs, custom, self.mirror

    @property
    def dataset(self) -> Dataset:
        if self._dataset is None:
            self._dataset = load_dataset(self.config, self.mirror, self.arguments)
        return self._dataset

    def open(self) -> Dataset:
        """Open the dataset again."""
        self._splits.clear()
        self._dataset = load_dataset(self.config, self.mirror, self.arguments)
        return self._dataset

    @property
    def eval_split(self) -> str:
        """The test split, or the validation split where there is none."""
        split = self.config.test_split or self.config.validation_split
        if split is None:
            available = ", ".join(self.dataset)
            raise DataError(
                "the task names no split to evaluate",
                where=self.config.where(),
                hint=f"set test_split or validation_split; {self.dataset.name} has: {available}",
            )
        return split

    def split(self, name: str) -> Docs:
        return self._processed(name, self.config.process_docs)

    def evaluated(self) -> Docs:
        docs = self.split(self.eval_split)
        if not docs:
            message = f"no documents in split '{self.eval_split}' of {self.dataset.name}"
            raise DataError(message, where=self.config.where(), hint="check the data file and process_docs")
        return docs

    def fewshot(self) -> Docs:
        """The documents to draw examples from: those that `fewshot_indices` names, or all."""
        config = self.config.fewshot_config
        assert isinstance(config, FewshotConfig)
        pool = self._fewshot_pool(config)
        if config.fewshot_indices is None:
            return pool
        wrong = [index for index in config.fewshot_indices if not 0 <= index < len(pool)]
        if wrong:
            place = self.config.where("fewshot_config", "fewshot_indices")
            raise DataError(f"no document {wrong[0]} to draw from", where=place, hint=f"there are {len(pool)}")
        return [pool[index] for index in config.fewshot_indices]

    def _fewshot_pool(self, config: FewshotConfig) -> Docs:
        """The few-shot split or samples; without them the training, validation or test split."""
        if config.split is not None:
            return self._processed(config.split, config.process_docs)
        try:
            samples = config.get_docs(self.dataset) if config.samples is not None else None
        except ConfigError as error:
            place = self.config.where("fewshot_config", "samples")
            raise error.moved(place) from error
        if samples is not None:
            return list(samples)
        for name in (self.config.training_split, self.config.validation_split, self.config.test_split):
            if name is not None:
                return self.split(name)
        raise DataError("there is no split to draw few-shot examples from", where=self.config.where("fewshot_split"))

    def _processed(self, name: str, process: Callable[..., Any] | None) -> Docs:
        key = (name, id(process), repr((self.config.rename_columns, self.config.drop_docs)))
        if key not in self._splits:
            try:
                rows = self.dataset[name]
            except DataError as error:
                place = error.where or self.config.where(_split_key(self.config, name))
                raise error.moved(place) from error
            read = prepared(rows, self.config)
            docs = read if process is None else _process(process, read, self.config)
            self._splits[key] = docs if self.transform is None else [self.transform(doc) for doc in docs]
        return self._splits[key]


def selected(
    docs: Docs,
    *,
    limit: float | None = None,
    samples: Sequence[int] | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The documents to evaluate with their indexes: the first `limit` (a fraction below 1), or `samples`.

    >>> [i for i, _ in selected([{}] * 10, limit=0.25)], [i for i, _ in selected([{}] * 10, samples=[7, 2])]
    ([0, 1, 2], [2, 7])
    """
    if samples is not None:
        wrong = [index for index in samples if not 0 <= index < len(docs)]
        if wrong:
            raise DataError(f"no document {wrong[0]}", hint=f"the split has documents 0 to {len(docs) - 1}")
        chosen: Sequence[int] = sorted(set(samples))
    else:
        number = len(docs) if limit is None else math.ceil(len(docs) * limit) if limit < 1 else int(limit)
        chosen = range(min(number, len(docs)))
    for index in chosen[rank::world_size]:
        yield index, docs[index]


def prepared(rows: Docs, config: TaskConfig) -> Docs:
    """The rows with the column names of `rename_columns`, and without those for which `drop_docs` is true."""
    names, condition = config.rename_columns, config.drop_docs
    if names:
        rows = [
            {names[key] if key in names and names[key] not in row else key: value for key, value in row.items()}
            for row in rows
        ]
    if condition is None:
        return rows
    drops = Field.of(condition)
    try:
        return [row for row in rows if not drops.read(row)]
    except MultiformError as error:
        raise DataError(error.what, where=config.where("drop_docs"), hint=error.hint) from error


def _process(process: Callable[..., Any], rows: Docs, config: TaskConfig) -> Docs:
    """Apply a task's function to a split; it gets a `datasets.Dataset`, as such functions expect."""
    import datasets

    with running("process_docs", where=config.where("process_docs"), hint="call it on the split to debug it"):
        return [dict(doc) for doc in process(datasets.Dataset.from_list(list(rows)))]


def _split_key(config: TaskConfig, name: str) -> str:
    keys = ("test_split", "validation_split", "training_split", "fewshot_split")
    return next((key for key in keys if getattr(config, key) == name), "fewshot_config")
