"""The documents of a task: its dataset, its splits, processed, and which of them are evaluated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.arguments import has_parameter
from multiform.errors import ConfigError, DataError, MultiformError, excerpt, placing, running
from multiform.fields import Field
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.files import Dataset, listing, splits_of
from multiform.tasks.datasets.hub import SPLIT_KEYS, hub_dataset
from multiform.tasks.datasets.local import local_dataset, mirrored_dataset
from multiform.tasks.keys import FewshotConfig


def load_dataset(config: TaskConfig, mirror: Path | None = None, arguments: Mapping[str, Any] | None = None) -> Dataset:
    """Load the dataset of a task: from a mirror, else from the local disk, else from the hub.

    `arguments` are those of the model, which a task's own `custom_dataset` gets beside its metadata.
    """
    if config.custom_dataset is not None:
        return _custom(config, mirror, arguments or {})
    if not config.dataset_path:
        hint = "set dataset_path, e.g. to a .jsonl file"
        raise DataError("the task names no dataset", where=config.where(), hint=hint)
    with placing(config.where("dataset_path")):
        mirrored = mirrored_dataset(config, mirror) if mirror is not None else None
        return mirrored or local_dataset(config) or hub_dataset(config, mirror)


def _custom(config: TaskConfig, mirror: Path | None, arguments: Mapping[str, Any]) -> Dataset:
    assert config.custom_dataset is not None
    place = config.where("custom_dataset")
    if has_parameter(config.custom_dataset, "dataset_mirror"):  # it reads datasets, which the mirror may have
        arguments = {**arguments, "dataset_mirror": mirror}
    with running("custom_dataset", where=place, hint="call it with the task's metadata to debug it"):
        splits = config.custom_dataset(**{**config.dataset_kwargs, **config.metadata, **arguments})
    if not isinstance(splits, Mapping):
        message = f"custom_dataset returned {type(splits).__name__}, not a mapping of splits"
        raise DataError(message, where=place, hint='return {"test": [...]} or a DatasetDict')
    return Dataset(config.task, {str(split): listing(docs, place) for split, docs in splits.items()})


Docs = Sequence[dict[str, Any]]

#: The kinds of splits, in the order in which few-shot examples are looked for.
_KINDS = ("training", "validation", "test")


class DocSource:
    """Reads the splits of a task's dataset, and processes them, when they are first needed.

    `hooks` are methods of the task's class: `test_docs`, `has_test_docs` and the like give the documents of a split,
    as they are, and `process_doc` transforms each document that is read. `download` loads the dataset in the place of
    `load_dataset`.
    """

    def __init__(
        self,
        config: TaskConfig,
        mirror: Path | None,
        *,
        hooks: Mapping[str, Callable[..., Any]] | None = None,
        download: Callable[[], Dataset] | None = None,
        arguments: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.mirror = mirror
        self.hooks = hooks or {}
        self._download = download
        #: What a task's `custom_dataset` gets: its metadata, and the arguments of the model.
        known = config.metadata if metadata is None else metadata
        self.arguments = {**(arguments or {}), **config.dataset_kwargs, **known}
        self._dataset: Dataset | None = None
        #: The splits as the task's own code gives or takes them.
        self._tables: Any = None
        self._splits: dict[tuple[str, int, str], Docs] = {}

    def reusing(self, other: DocSource | None) -> DocSource:
        """This source with the loaded splits of `other`, if both have the same data."""
        if other is not None and self._reads() == other._reads():
            self._dataset, self._tables, self._splits = other._dataset, other._tables, other._splits
        return self

    def _reads(self) -> tuple[Any, ...]:
        """Everything that determines the documents, as a key."""
        config = self.config
        has_code = config.custom_dataset is not None or self.has_own_docs
        code = (config.custom_dataset, self.arguments) if has_code else None
        return config.dataset_path, config.dataset_name, config.dataset_kwargs, code, self.mirror

    @property
    def dataset(self) -> Dataset:
        if self._dataset is None:
            self._dataset = self._load() if self._download is None else self._download()
        return self._dataset

    def _load(self) -> Dataset:
        return load_dataset(self.config, self.mirror, self.arguments)

    def open_dataset(self) -> Dataset:
        """Open the dataset again."""
        self._splits.clear()
        self._dataset, self._tables = self._load(), None
        return self._dataset

    @property
    def is_open(self) -> bool:
        return self._dataset is not None

    @property
    def splits(self) -> Any:
        """The splits as tasks' own code takes them: those that it gave, or a `datasets.Dataset` for each."""
        dataset = self.dataset
        if self._tables is None:
            self._tables = Tables(dataset)
        return self._tables

    def use(self, splits: Any) -> None:
        """Read the documents from these splits, a mapping from names to rows, which the task's own code gives."""
        place = self.config.where("class")
        if not isinstance(splits, Mapping):
            message = f"dataset was set to {type(splits).__name__}, not to a mapping of splits"
            raise DataError(message, where=place, hint='set e.g. self.dataset = {"test": [...]}')
        self._splits.clear()
        self._tables = splits
        self._dataset = splits_of(splits, self.config.task, place)

    @property
    def has_own_docs(self) -> bool:
        """Whether code of the task says which documents there are."""
        names = (f"{has}{kind}_docs" for kind in _KINDS for has in ("", "has_"))
        return self._download is not None or any(name in self.hooks for name in names)

    def has(self, kind: str) -> bool:
        """Whether there is a training, validation or test split."""
        if f"has_{kind}_docs" in self.hooks:
            return bool(self.hooks[f"has_{kind}_docs"]())
        return f"{kind}_docs" in self.hooks or getattr(self.config, f"{kind}_split") is not None

    def docs_of(self, kind: str) -> Docs:
        """The training, validation or test documents."""
        if f"{kind}_docs" not in self.hooks:
            name = getattr(self.config, f"{kind}_split")
            if name is None:
                raise self._unnamed_split()
            return self.split(name)
        key = (f"{kind}_docs()", id(self.config.process_docs), "")
        if key not in self._splits:
            place, hint = self.config.where("class"), "it runs the task's own code: call it to debug it"
            with running(f"{kind}_docs", where=place, hint=hint):
                docs = self.hooks[f"{kind}_docs"]()
                self._splits[key] = [doc if isinstance(doc, dict) else dict(doc) for doc in docs or ()]
        return self._splits[key]

    @property
    def eval_split(self) -> str:
        """The test split, or the validation split if there is none."""
        split = self.config.test_split or self.config.validation_split
        if split is None:
            raise self._unnamed_split()
        return split

    def _unnamed_split(self) -> DataError:
        hint = f"set test_split or validation_split; {self.dataset.name} has: {', '.join(self.dataset)}"
        return DataError("the task names no split to evaluate", where=self.config.where(), hint=hint)

    def split(self, name: str) -> Docs:
        return self._process_split(name, self.config.process_docs)

    def eval_docs(self) -> Docs:
        """The test documents, or those for validation if there are none."""
        kind = "test" if self.has("test") else "validation"
        docs = self.docs_of(kind)
        if not docs:
            is_hook = f"{kind}_docs" in self.hooks
            place = f"from {kind}_docs" if is_hook else f"in split '{self.eval_split}' of {self.dataset.name}"
            hint = f"check {'the class' if is_hook else 'the data file and process_docs'}"
            raise DataError(f"no documents {place}", where=self.config.where(), hint=hint)
        return self._draw(docs)

    def _draw(self, docs: Docs) -> Docs:
        """The documents that `draw_docs` draws, in its order; all of them if there are no more than that."""
        drawn = self.config.draw_docs
        if drawn is None:
            return docs
        if set(drawn) != {"number", "seed"} or drawn["number"] < 1:
            hint = "write e.g. draw_docs: {number: 1000, seed: 1234}"
            raise ConfigError("expected a number and a seed", where=self.config.where("draw_docs"), hint=hint)
        number = drawn["number"]
        return docs if len(docs) <= number else random.Random(drawn["seed"]).sample(list(docs), number)

    def fewshot(self) -> Docs:
        """The documents to draw examples from: those that `fewshot_indices` names, or all."""
        config = self.config.fewshot_config
        assert isinstance(config, FewshotConfig)
        pool = self._fewshot_pool(config)
        if config.fewshot_rows is not None:
            return [self._row(pool, keys, index) for index, keys in enumerate(config.fewshot_rows)]
        if config.fewshot_indices is None:
            return pool
        wrong = [index for index in config.fewshot_indices if not 0 <= index < len(pool)]
        if wrong:
            place = self.config.where("fewshot_config", "fewshot_indices")
            raise DataError(f"no document {wrong[0]} to draw from", where=place, hint=f"there are {len(pool)}")
        return [pool[index] for index in config.fewshot_indices]

    def _row(self, pool: Docs, keys: Mapping[str, Any], index: int) -> dict[str, Any]:
        """The document of the pool with these values; several that differ are as wrong as none."""
        found: list[dict[str, Any]] = []
        for doc in pool:
            if all(doc.get(column) == value for column, value in keys.items()) and doc not in found:
                found.append(doc)
        if len(found) == 1:
            return found[0]
        named = ", ".join(f"{column}={value!r}" for column, value in keys.items())
        place = self.config.where("fewshot_config", "fewshot_rows", index)
        split = f"the {len(pool):,} documents for few-shot examples"
        if found:
            hint = "add a column that tells them apart"
            raise DataError(f"{len(found)} different rows of {split} have {named}", where=place, hint=hint)
        hint = "the dataset has to be complete: look at the mirror, or leave it out and use the hub"
        raise DataError(f"no row of {split} has {named}", where=place, hint=hint)

    def _fewshot_pool(self, config: FewshotConfig) -> Docs:
        """The few-shot split or samples; without them the training, validation or test split."""
        if config.split is not None:
            return self._process_split(config.split, config.process_docs)
        if config.samples is not None:
            with placing(self.config.where("fewshot_config", "samples")):
                return list(config.get_docs(self.dataset) or ())
        for kind in _KINDS:
            if self.has(kind):
                return self.docs_of(kind)
        raise DataError("there is no split to draw few-shot examples from", where=self.config.where("fewshot_split"))

    def _process_split(self, name: str, process: Callable[..., Any] | None) -> Docs:
        key = (name, id(process), repr((self.config.rename_columns, self.config.unfold_columns, self.config.drop_docs)))
        if key not in self._splits:
            named = (key for key in SPLIT_KEYS if getattr(self.config, key) == name)
            with placing(self.config.where(next(named, "fewshot_config"))):
                rows = self.dataset[name]
            read = prepare_rows(rows, self.config)
            docs = read if process is None else _process(process, read, self.config)
            transform = self.hooks.get("process_doc")
            self._splits[key] = docs if transform is None else [transform(doc) for doc in docs]
        return self._splits[key]


class Tables(Mapping[str, Any]):
    """The splits of a dataset as `datasets.Dataset`s, which tasks' own code maps and filters."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._tables: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._tables:
            import datasets

            self._tables[name] = datasets.Dataset.from_list(list(self._dataset[name]))
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)


def select_ids(number: int, *, limit: float | None = None, samples: Sequence[int] | None = None) -> Sequence[int]:
    """The indexes of the documents to evaluate: the first `limit` (a fraction below 1), or `samples`.

    >>> list(select_ids(10, limit=0.25)), select_ids(10, samples=[7, 2])
    ([0, 1, 2], [2, 7])
    """
    if samples is None:
        most = number if limit is None else math.ceil(number * limit) if limit < 1 else int(limit)
        return range(min(most, number))
    wrong = [index for index in samples if not 0 <= index < number]
    if wrong:
        raise DataError(f"no document {wrong[0]}", hint=f"the split has documents 0 to {number - 1}")
    return sorted(set(samples))


def prepare_rows(rows: Docs, config: TaskConfig) -> Docs:
    """The rows as `rename_columns` names their columns, one for each entry of `unfold_columns`, without `drop_docs`."""
    names, condition = config.rename_columns, config.drop_docs
    if names:
        rows = [
            {names[key] if key in names and names[key] not in row else key: value for key, value in row.items()}
            for row in rows
        ]
    for column in config.unfold_columns or ():
        rows = [unfolded for row in rows for unfolded in _unfold(row, column, config)]
    if condition is None:
        return rows
    drops = Field.of(condition)
    try:
        return [row for row in rows if not drops.value(row)]
    except MultiformError as error:
        raise DataError(error.what, where=config.where("drop_docs"), hint=error.hint) from error


def _unfold(row: Mapping[str, Any], column: str, config: TaskConfig) -> Iterator[dict[str, Any]]:
    """A row for each entry of a column: a list, or a mapping of lists of equal length, as `datasets` stores mappings.

    The keys of an entry are columns of its row; an entry that is no mapping has the name of the column.
    """
    entries, kept = row.get(column), {name: value for name, value in row.items() if name != column}
    if isinstance(entries, Mapping):
        lists = {name: values for name, values in entries.items() if isinstance(values, list)}
        if len({len(values) for values in lists.values()}) == 1:
            entries = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    if not isinstance(entries, list):
        message = f"expected several entries in column '{column}', got {excerpt(entries)}"
        raise DataError(message, where=config.where("unfold_columns"), hint="name a column with lists")
    for entry in entries:
        yield {**kept, **entry} if isinstance(entry, Mapping) else {**kept, column: entry}


def _process(process: Callable[..., Any], rows: Docs, config: TaskConfig) -> Docs:
    """Apply a task's function to a split; it gets a `datasets.Dataset`, as such functions expect."""
    import datasets

    with running("process_docs", where=config.where("process_docs"), hint="call it on the split to debug it"):
        return [dict(doc) for doc in process(datasets.Dataset.from_list(list(rows)))]
