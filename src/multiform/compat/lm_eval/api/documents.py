"""The documents of a task written for lm-eval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiform.forms import Task as OurTask


class TaskDocs(OurTask):
    """Takes the arguments that lm-eval's `download` takes."""

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the dataset. lm-eval does so when a task is created, Multiform when a row is needed."""
        super().download(dataset_kwargs)
