"""TaskDocs: the methods of a task that give its documents, split by split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.calls import accepted
from multiform.datasets.documents import Docs, DocSource, selected
from multiform.datasets.splits import Dataset
from multiform.errors import ConfigError, DataError, running
from multiform.fields import Doc
from multiform.forms.task_settings import TaskSettings


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
            download(**accepted(download, {"dataset_kwargs": dict(self.config.dataset_kwargs)}))
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
        return self.source.evaluated()

    def doc_iterator(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents to evaluate, with their index in the split."""
        try:
            yield from selected(self.eval_docs, rank=rank, limit=limit, world_size=world_size, samples=samples)
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
