"""A document made up for a task, and the prompt that Multiform builds from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from multiform import Task, TaskConfig
from multiform.config import FewshotConfig
from multiform.errors import MultiformError
from multiform.jinja import has_markup
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.tasks.dataset import Dataset
from parity.made import shapes
from parity.made.code import read_function
from parity.made.shapes import Known, Rows, Shape
from parity.made.templates import read_template

#: What stands for a value of which nothing is known, in the order in which it is tried.
LEAVES: tuple[Any, ...] = (shapes.TEXT, "A", "0", 0, "some text. other text", ["A", "B", "C", "D"], {"a": "b"}, 0.5)
#: How many columns are added that code only asks for while it runs.
_REPAIRS = 30
#: How many documents a task gets; they are all the same.
ROWS = 4


@dataclass(frozen=True, slots=True)
class Attempt:
    """A prompt for a made document, or why there is none."""

    prompt: str | None = None
    doc: dict[str, Any] | None = None
    error: str | None = None


def attempt(config: TaskConfig) -> Attempt:
    """Make documents until one gives a prompt; the error of the first one where none does."""
    first: str | None = None
    for doc in made_documents(config):
        for _ in range(_REPAIRS):
            try:
                return Attempt(prompt=_prompt(config, doc), doc=doc)
            except MultiformError as error:
                first = first or str(error)
                missing = _missing(error)
                if missing is None or missing in doc:
                    break
                doc = {**doc, missing: shapes.TEXT}
    return Attempt(error=first)


def _missing(error: BaseException | None) -> str | None:
    """The column that code looked up by a name it put together, as ``option_3``."""
    while error is not None and not isinstance(error, KeyError):
        error = error.__cause__
    return str(error.args[0]) if error is not None and error.args else None


def made_documents(config: TaskConfig) -> Iterator[dict[str, Any]]:
    """Documents with the columns that a task's fields read; what is open in them differs."""
    read = Shape()
    for key in ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix", "doc_to_image"):
        _read_field(key, getattr(config, key), read, config)
    fewshot = config.fewshot_config
    assert isinstance(fewshot, FewshotConfig)
    raw = Shape()
    if config.process_docs is not None:
        read_function(config.process_docs, Rows(raw))
    if fewshot.process_docs is not None and fewshot.process_docs is not config.process_docs:
        read_function(fewshot.process_docs, Rows(raw))
    for leaf in LEAVES:
        yield {**_columns(read, leaf), **_columns(raw, leaf)}


def _columns(shape: Shape, leaf: Any) -> dict[str, Any]:
    return {name: part.value(leaf, name) for name, part in shape.keys.items()}


def _read_field(key: str, spec: Any, doc: Shape, config: TaskConfig) -> None:
    """Note what a field reads, and what its value has to be."""
    if callable(spec):
        read_function(spec, doc)
        return
    if isinstance(spec, list):
        for item in spec:
            _read_field("text", item, doc, config)
        return
    if not isinstance(spec, str) or not spec:
        return
    if has_markup(spec):
        _fit(key, read_template(spec, doc), config)
    elif key in ("doc_to_text", "doc_to_target", "doc_to_choice"):
        _fit(key, doc.key(spec), config)


def _fit(key: str, shape: Any, config: TaskConfig) -> None:
    """A field that is one expression has the kind that its task needs."""
    if not isinstance(shape, Shape) or shape.kinds or shape.known:
        return
    if key == "doc_to_choice":
        shape.items().kinds.add("text")
    elif key == "doc_to_target" and config.doc_to_choice is not None:
        shape.known.append(0)
    elif key == "doc_to_text" and config.output_type != "multiple_choice":
        shape.kinds.add("text")


def _prompt(config: TaskConfig, doc: dict[str, Any]) -> str:
    """The context of the first request that Multiform makes of the document."""
    task = Task.from_config(config)
    task.config.num_fewshot = 0
    task.source._dataset = Dataset(
        "a made document", {"train": lambda: [dict(doc) for _ in range(ROWS)]}, any_split=True
    )
    [first, *_] = task.build_all_requests(limit=1)
    request = first.request
    if isinstance(request, RollingRequest):
        return request.text
    assert isinstance(request, LoglikelihoodRequest | GenerationRequest)
    return request.context


__all__ = ["Attempt", "Known", "attempt", "made_documents"]
