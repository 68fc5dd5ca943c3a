"""The documents of a task written for lm-eval, which may override where each split comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from multiform.compat.lm_eval.api.building import OWN_CODE
from multiform.config import FewshotConfig
from multiform.datasets.documents import Docs
from multiform.errors import DataError, running
from multiform.forms import Task as OurTask

_SPLITS = ("training", "validation", "test")


class TaskDocs(OurTask):
    """Has `dataset`, and takes the documents to evaluate from `test_docs`, `validation_docs` and the like."""

    _data: Any = None
    _evaluated: Docs | None = None

    @property
    def dataset(self) -> Any:
        """The splits, read when they are first asked for; a subclass's `download` may set them."""
        if self._data is None:
            self.download(dict(self.config.dataset_kwargs))
        return self._data

    @dataset.setter
    def dataset(self, splits: Any) -> None:
        self._data = splits
        self._evaluated = None

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the dataset. lm-eval does so when a task is created, Multiform when a row is needed."""
        super().download(dataset_kwargs)
        self._data = _Splits(self.source.dataset)

    def training_docs(self) -> Any:
        return self._docs("training_split")

    def validation_docs(self) -> Any:
        return self._docs("validation_split")

    def test_docs(self) -> Any:
        return self._docs("test_split")

    def _docs(self, key: str) -> Any:
        """A split as the configuration has it, from wherever the dataset is."""
        if type(self).download is TaskDocs.download:
            return self._split(key)
        rows = self.dataset[getattr(self.config, key)]
        return rows if self.config.process_docs is None else self.config.process_docs(rows)

    @property
    def eval_docs(self) -> Docs:
        """The test documents, or those for validation where there are none."""
        if not self._has_own_docs:
            return super().eval_docs
        if self._evaluated is None:
            self._evaluated = self._listed("test" if self.has_test_docs() else "validation")
            if not self._evaluated:
                raise DataError("there are no documents to evaluate", where=self.name, hint="check the split")
        return self._evaluated

    def fewshot_docs(self) -> Any:
        """The documents that few-shot examples are drawn from: the configured split, else the first split there is."""
        config = self.config.fewshot_config
        assert isinstance(config, FewshotConfig)
        if not self._has_own_docs or config.split is not None or config.samples is not None:
            return super().fewshot_docs()
        kinds = [kind for kind in _SPLITS if getattr(self, f"has_{kind}_docs")()]
        return self._listed(kinds[0] if kinds else "test")

    @property
    def _has_own_docs(self) -> bool:
        names = [name for kind in _SPLITS for name in (f"has_{kind}_docs", f"{kind}_docs")]
        named = any(getattr(type(self), name) is not getattr(TaskDocs, name) for name in names)
        return named or type(self).download is not TaskDocs.download

    def _listed(self, kind: str) -> Docs:
        with running(f"{kind}_docs", where=self.name, hint=OWN_CODE):
            docs: Iterable[Any] | None = getattr(self, f"{kind}_docs")()
            return [doc if isinstance(doc, dict) else dict(doc) for doc in docs or ()]


class _Splits(Mapping[str, Any]):
    """The splits as `datasets.Dataset`s, which tasks' own code maps and filters."""

    def __init__(self, splits: Mapping[str, Any]) -> None:
        self._splits = splits
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            import datasets

            self._made[name] = datasets.Dataset.from_list(list(self._splits[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)
