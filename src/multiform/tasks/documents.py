"""The documents of a task: its splits, and which of them are evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, nearest
from multiform.fields import Doc
from multiform.requests import resolved_names
from multiform.tasks.docs import Docs, DocSource, selected


class TaskDocuments:
    """A task's configuration and documents; the prompts and scores are built on it."""

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        self.config = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        overridden = type(self).process_doc is not TaskDocuments.process_doc
        self.source = DocSource(self.config, dataset_mirror, transform=self.process_doc if overridden else None)

    @property
    def name(self) -> str:
        """The form's name, ``task@format`` where a format was asked for."""
        return self.config.form_name

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None) -> None:
        """Open the dataset now instead of when it is first needed, with further arguments."""
        self.config.dataset_kwargs = {**self.config.dataset_kwargs, **(dataset_kwargs or {})}
        self.source.open()

    def has_training_docs(self) -> bool:
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self.config.test_split is not None

    def training_docs(self) -> Docs:
        return self._split("training_split")

    def validation_docs(self) -> Docs:
        return self._split("validation_split")

    def test_docs(self) -> Docs:
        return self._split("test_split")

    def fewshot_docs(self) -> Docs:
        """The documents that few-shot examples are drawn from."""
        return self.source.fewshot()

    def get_docs(self, split: str | None = None) -> Docs:
        """The processed documents of a split, by default of the one that is evaluated."""
        return self.source.split(split) if split is not None else self.eval_docs

    @property
    def eval_docs(self) -> Docs:
        return self.source.evaluated()

    def doc_iterator(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents to evaluate, with their index in the split."""
        try:
            yield from selected(self.eval_docs, rank=rank, limit=limit, world_size=world_size, samples=samples)
        except DataError as error:
            raise DataError(error.what, where=error.where or self.name, hint=error.hint) from error

    @staticmethod
    def process_doc(doc: Doc) -> Doc:
        """Transform one document; override it to have every document of every split transformed."""
        return doc

    @staticmethod
    def count_bytes(text: str) -> int:
        return len(text.encode("utf-8"))

    @staticmethod
    def count_words(text: str) -> int:
        """The number of words, for perplexity per word; override it for other word boundaries."""
        return len(re.split(r"\s+", text))

    def get_config(self, key: str) -> Any:
        return getattr(self.config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Set a field of the configuration; with `update`, add to the mapping that is there."""
        if not hasattr(self.config, key):
            known = [name for name in vars(self.config) if not name.startswith("_")]
            raise ConfigError(f"unknown key '{key}' in a task", where=self.name, hint=nearest(key, known))
        if key == "generation_kwargs" and isinstance(value, Mapping):
            value = resolved_names(value)
        if update:
            current = getattr(self.config, key)
            if not isinstance(current, dict) or not isinstance(value, Mapping):
                what = f"'{key}' is a {type(current).__name__}, not a mapping that can be updated"
                raise ConfigError(what, where=self.name, hint="call it without update=True")
            value = {**current, **value}
        setattr(self.config, key, value)
        self.config._given[key] = value  # `to_dict` is to say it, too

    def dump_config(self) -> dict[str, Any]:
        return self.config.to_dict()

    def _split(self, key: str) -> Docs:
        name = getattr(self.config, key)
        if name is None:
            raise ConfigError(f"the task has no {key}", where=self.config.where(), hint=f"set {key}")
        return self.source.split(name)
