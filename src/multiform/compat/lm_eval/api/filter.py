"""Filter: the base class of filters over the responses to many documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.compat.lm_eval.api.instance import Instance


class Filter(ABC):
    """Changes the responses to many documents; each document has a list of them, one for each repeat."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027 - a filter need not take arguments
        """Take the arguments that a task gives the filter."""

    @abstractmethod
    def apply(self, resps: Iterable[Any], docs: Sequence[dict[str, Any]]) -> Iterable[Any]:
        """The filtered responses, in the same order."""


@dataclass
class FilterEnsemble:
    """Filters that run one after the other, under one name."""

    name: str
    filters: list[Callable[[], Filter]]

    def apply(self, instances: Sequence[Instance]) -> None:
        """Put the filtered responses of the instances into their `filtered_resps`."""
        responses: Iterable[Any] = [instance.resps for instance in instances]
        docs = [instance.doc for instance in instances]
        for step in self.filters:
            responses = step().apply(responses, docs)
        for instance, filtered in zip(instances, responses, strict=True):
            instance.filtered_resps[self.name] = filtered
