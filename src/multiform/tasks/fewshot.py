"""FewshotConfig: how few-shot examples are chosen and written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from multiform.errors import ConfigError, running
from multiform.fields import Field, FieldSpec
from multiform.tasks.check import check_keys, check_values

logger = logging.getLogger("multiform")


class SamplesError(ConfigError, ValueError):
    """`samples` are neither a list of documents nor a function that returns one."""


@dataclass
class FewshotConfig:
    """Configuration of few-shot examples; a field that the task has as well overrides the task's."""

    #: Registered sampler: "default" draws at random, "first_n" takes the first ones.
    sampler: str = "default"
    #: Split to draw from; by default the task's `fewshot_split`.
    split: str | None = None
    process_docs: Callable[..., Any] | None = None
    #: Documents to use, by index, instead of drawing from all.
    fewshot_indices: list[int] | None = None
    #: A list of few-shot examples, or a function that returns one; `split` takes precedence.
    samples: list[dict[str, Any]] | Callable[[], list[dict[str, Any]]] | None = None
    doc_to_text: str | int | list[Any] | Callable[..., Any] | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Callable[..., Any] | None = None
    doc_to_target: str | int | float | list[Any] | Callable[..., Any] | None = None
    gen_prefix: str | None = None
    fewshot_delimiter: str | None = None
    target_delimiter: str | None = None
    #: The reasoning before the answer of a few-shot example, for formats that show it.
    doc_to_rationale: str | Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        try:
            check_values(type(self), vars(self), lambda *path: ".".join(map(str, ("fewshot_config", *path))))
        except ConfigError as error:
            raise error.as_kind(SamplesError) if "fewshot_config.samples" in str(error.where) else error from None
        for name in ("doc_to_text", "doc_to_choice", "doc_to_target", "doc_to_rationale", "gen_prefix"):
            try:
                Field.of(getattr(self, name))
            except ConfigError as error:
                raise error.at(f"fewshot_config.{name}") from error
        if self.split is not None and self.samples is not None:
            logger.warning("fewshot_config has both split and samples; the split is used")

    def get_docs(self, dataset: Mapping[str, Any]) -> Any | None:
        """The documents that few-shot examples are drawn from, or None when neither split nor samples are set."""
        if self.split is not None:
            docs = dataset[self.split]
            return self.process_docs(docs) if self.process_docs is not None else docs
        if callable(self.samples):
            with running("fewshot_config.samples", kind=ConfigError, hint="call it to debug it"):
                samples = self.samples()
            if not isinstance(samples, list) or not all(isinstance(doc, dict) for doc in samples):
                raise SamplesError(
                    f"fewshot_config.samples returned {type(samples).__name__}, not a list of documents",
                    hint="return a list of dicts",
                )
            return samples
        return self.samples

    @classmethod
    def from_dict(
        cls,
        cfg: Mapping[str, Any],
        *,
        fewshot_split: str | None = None,
        process_docs: Callable[[Iterable[dict[str, Any]]], Any] | None = None,
        fewshot_delimiter: str | None = None,
        target_delimiter: str | None = None,
        gen_prefix: str | None = None,
        doc_to_text: FieldSpec = None,
        doc_to_choice: FieldSpec = None,
        doc_to_target: FieldSpec = None,
        doc_to_rationale: FieldSpec = None,
        **overloads: Any,
    ) -> FewshotConfig:
        """Build from the mapping `cfg`; the keyword arguments are the task's values, used where `cfg` has none."""
        inherited = {
            "split": fewshot_split,
            "process_docs": process_docs,
            "fewshot_delimiter": fewshot_delimiter,
            "target_delimiter": target_delimiter,
            "gen_prefix": gen_prefix,
            "doc_to_text": doc_to_text,
            "doc_to_choice": doc_to_choice,
            "doc_to_target": doc_to_target,
            "doc_to_rationale": doc_to_rationale,
        }
        values = {**cfg, **overloads}
        check_keys(
            "fewshot_config",
            list(cls.__dataclass_fields__),
            values,
            lambda *p: ".".join(("fewshot_config", *p)),
        )
        return cls(**{**inherited, **values})
