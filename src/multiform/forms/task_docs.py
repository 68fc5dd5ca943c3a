"""TaskDocs: the methods of a task that give its documents, split by split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.calls import accepted_arguments
from multiform.errors import ConfigError, DataError, nearest, running
from multiform.fields import Doc
from multiform.forms.form import Form, RunSettings
from multiform.requests import resolved_names
from multiform.tasks import TaskConfig
from multiform.tasks.config import task_keys
from multiform.tasks.datasets.documents import Docs, DocSource, select_docs
from multiform.tasks.datasets.files import Dataset


class TaskSettings(ABC):
    """Changes of the configuration. Each compiles the form again; the `TaskConfig` itself is not changed."""

    config: TaskConfig
    form: Form

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which messages know the task."""

    @abstractmethod
    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        """Compile the form, and rebuild everything that is derived from it."""

    def get_config(self, key: str) -> Any:
        return getattr(self.config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change a key of the configuration; with `update`, add to the mapping that is there."""
        if key not in task_keys():
            known = [name for name in task_keys() if not name.startswith("_")]
            raise ConfigError(f"unknown key '{key}' in a task", where=self.name, hint=nearest(key, known))
        if key == "generation_kwargs" and isinstance(value, Mapping):
            value = resolved_names(value)
        current = getattr(self.config, key)
        if update:
            if not isinstance(current, dict) or not isinstance(value, Mapping):
                message = f"'{key}' is a {type(current).__name__}, not a mapping that can be updated"
                raise ConfigError(message, where=self.name, hint="call it without update=True")
            value = {**current, **value}
        settings = self.form.settings
        if key == "generation_kwargs" and self.config.format is not None:  # a run's arguments are over the format's
            self._configure(self.config, replace(settings, gen_kwargs={**settings.gen_kwargs, **value}))
        else:
            self._configure(self.config.changed(**{key: value}), settings)

    def dump_config(self) -> dict[str, Any]:
        """The configuration as it is used, as plain data."""
        return self.form.to_dict()

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric instead of all others; the task's own code does not score any more."""
        self._configure(self.config, replace(self.form.settings, metric=metric_name))

    def set_repeats(self, repeats: int) -> None:
        """Set how often each generation request is repeated."""
        self.set_config("repeats", repeats)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of few-shot examples; a task that sets 0 keeps it."""
        if self.config.num_fewshot != 0:
            self.set_config("num_fewshot", num_fewshot)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        self._configure(self.config, replace(self.form.settings, fewshot_seed=seed))


class TaskDocs(TaskSettings):
    """The documents of a task, as its `source` reads them.

    A subclass overrides what comes from elsewhere: `download` sets `dataset`, `test_docs` and the like give the
    documents of a split, which are then taken as they are.
    """

    source: DocSource

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None) -> None:
        """Open the dataset now instead of when it is first needed, with further arguments."""
        if dataset_kwargs and not dataset_kwargs.items() <= self.config.dataset_kwargs.items():
            self.set_config("dataset_kwargs", dict(dataset_kwargs), update=True)
        self.source.open()

    @property
    def dataset(self) -> Any:
        """The splits, each as a `datasets.Dataset`, or as a subclass's `download` sets them."""
        return self.source.splits

    @dataset.setter
    def dataset(self, splits: Mapping[str, Any]) -> None:
        self.source.use(splits)

    def _downloaded(self) -> Dataset:
        """The dataset that the `download` of a subclass opens, or sets as `dataset`."""
        download, place = self.form.hooks["download"], self.config.where("class")
        hint = "it runs the task's own code: install what that imports, and allow what it downloads"
        with running("download", where=place, hint=hint):
            download(**accepted_arguments(download, {"dataset_kwargs": dict(self.config.dataset_kwargs)}))
        if not self.source.is_open:
            hint = 'set e.g. self.dataset = {"test": [...]}, or call super().download()'
            raise DataError("download set no dataset", where=place, hint=hint)
        return self.source.dataset

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
        return self.source.eval_docs()

    def doc_iterator(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents to evaluate, with their index in the split."""
        try:
            yield from select_docs(self.eval_docs, rank=rank, limit=limit, world_size=world_size, samples=samples)
        except DataError as error:
            raise error.or_at(self.name) from error

    @staticmethod
    def process_doc(doc: Doc) -> Doc:
        """Transform one document; override it to have every document of every split transformed."""
        return doc

    def _process_doc(self, doc: Doc) -> Doc:
        """`process_doc` under its older name, for code that maps it over a split of `dataset`."""
        return self.process_doc(doc)

    def _split(self, key: str) -> Docs:
        name = getattr(self.config, key)
        if name is None:
            raise ConfigError(f"the task has no {key}", where=self.config.where(), hint=f"set {key}")
        return self.source.split(name)
