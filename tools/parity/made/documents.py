"""A document made up for a task, and the prompt that Multiform builds from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from multiform import Task, TaskConfig
from multiform.errors import MultiformError
from multiform.prompts.template import has_markup
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.tasks.datasets.files import Dataset
from multiform.tasks.keys import FewshotConfig
from tools.parity.made import shapes
from tools.parity.made.code import read_function
from tools.parity.made.shapes import Rows, Shape, Taste
from tools.parity.made.templates import read_template

#: What is made of values that may be several things, in the order in which it is tried.
TASTES = (
    Taste(),
    Taste(texts=True),
    Taste(length=5),
    Taste(length=10),
    *(Taste(leaf=leaf, texts=texts) for leaf in ("A", "0", 0, "one. two. three", 0.5) for texts in (True, False)),
    Taste(leaf=["A", "B", "C", "D"]),
    Taste(leaf={"a": "b"}),
)
#: How many columns are added that code only asks for while it runs.
_REPAIRS = 30
#: How deep the cause of an error may lie.
_CAUSES = 10
#: How many documents a task gets, all the same; some code keeps only a tenth of them.
ROWS = 10


@dataclass(frozen=True, slots=True)
class Attempt:
    """A prompt for a made document, or why there is none."""

    prompt: str | None = None
    doc: dict[str, Any] | None = None
    error: str | None = None


def attempt(config: TaskConfig, row: dict[str, Any] | None = None) -> Attempt:
    """Make documents until one gives a prompt; the error of the first one where none does.

    Where a row is given, that is the only document tried.
    """
    first: str | None = None
    for doc in made_documents(config) if row is None else [row]:
        for _ in range(_REPAIRS):
            try:
                return Attempt(prompt=_prompt(config, doc), doc=doc)
            except MultiformError as error:
                last, missing = str(error), _missing(error)
            if missing is None or missing in doc:
                break
            doc = {**doc, missing: shapes.TEXT}
        first = first or last
    return Attempt(error=first)


def _missing(error: BaseException) -> str | None:
    """The column that code looked up by a name it put together, as ``option_3``."""
    cause: BaseException | None = error
    for _ in range(_CAUSES):  # an error may be its own cause
        if cause is None or isinstance(cause, KeyError):
            break
        cause = cause.__cause__
    return str(cause.args[0]) if isinstance(cause, KeyError) and cause.args else None


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
    for taste in TASTES:
        yield {name: part.value(taste) for name, part in {**read.keys, **raw.keys}.items()}


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
    task = Task.from_config(config.replace(num_fewshot=0))
    task.form.source._dataset = Dataset(
        "a made document", {"train": lambda: [dict(doc) for _ in range(ROWS)]}, any_split=True
    )
    [first, *_] = task.build_all_requests(limit=1)
    request = first.request
    if isinstance(request, RollingRequest):
        return request.text
    assert isinstance(request, LoglikelihoodRequest | GenerationRequest)
    return request.context
