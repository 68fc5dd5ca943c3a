"""A document made up for a task, and the prompt that Multiform builds from it.

Some code asks for more than can be read off it: a boxed answer in a solution, mappings whose keys it counts, rows that
it drops unless they say the right thing. For such tasks rows are written by hand, with the columns that the real
datasets have: those of ``written.yaml``, and a few made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

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

Row = dict[str, Any]
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


def written_row(path: str) -> Row | None:
    """The row for a task file, of which the path below lm-eval's folder of tasks is given; None where none is written.

    >>> written_row("drop/default.yaml")["query_id"]
    'q1'
    >>> written_row("arc/arc_easy.yaml") is None
    True
    """
    file = PurePosixPath(path)
    for place in map(str, (file.with_suffix(""), *file.parents)):
        if place in _BY_NAME:
            return _BY_NAME[place](file.stem)
        if place in _rows():
            return _rows()[place]
    return None


@cache
def _rows() -> dict[str, Row]:
    """The rows of ``written.yaml``."""
    rows: dict[str, Row] = yaml.safe_load(Path(__file__).with_name("written.yaml").read_text(encoding="utf-8"))
    return rows


def _mafand(stem: str) -> Row:
    """Two languages, one of them English or French: ``mafand_bam-fr``."""
    african, other = sorted(stem.removeprefix("mafand_").split("-"), key=lambda code: code in ("en", "fr"))
    return {"translation": {african: "some text", other: "another text"}}


def _shots(prefix: str, count: int, columns: dict[str, Any]) -> Row:
    """Columns of few-shot examples, as ``arc_question_shot_1``."""
    return {f"{prefix}_{name}_shot_{n}": value for n in range(1, count + 1) for name, value in columns.items()}


def _metabench(stem: str) -> Row:
    kind, four = stem.split("_")[1], _rows()[".four"]
    choices = {"text": four, "label": ["A", "B", "C", "D"]}
    if kind == "arc":
        shots = _shots("arc", 25, {"question": "Which?", "answerKey": "A", "choices": choices, "idx": 0})
        own: Row = {"question": "Which one?", "answerKey": "B", "choices": choices}
        return {**own, **shots, "alltwentyfiveshot_longprompt": "prompt"}
    if kind == "hellaswag":
        own = {"ctx_a": "A man", "ctx_b": "he", "ctx": "A man he", "activity_label": "Cooking"}
        rest = {"endings": four, "label": "1"}
        more = {"ind": 0, "source_id": "s", "split": "train", "split_type": "indomain"}
        columns = {**{k: v for k, v in own.items() if k != "activity_label"}, "activity_labels": "Cooking"}
        shots = _shots("hellaswag", 10, {**columns, **rest, **more})
        return {**own, **rest, **shots, "alltenshot_longprompt": "prompt"}
    if kind == "mmlu":
        shots = _shots("mmlu", 5, {"question": "Which?", "choices": four, "answers": "1", "ind": 0})
        own = {"subject": "high_school_physics", "question": "Which one?", "choices": four, "answer": 1}
        return {**own, **shots, "allfiveshot_longprompt": "prompt"}
    if kind == "winogrande":
        options = {"answer": "1", "option1": "Ann", "option2": "Eve"}
        shots = _shots("winogrande", 5, {"prompt": "_ was late.", "idx": 0, **options})
        return {"sentence": "Then _ was early.", **options, **shots, "allfiveshot_longprompt": "prompt"}
    if kind == "gsm8k":
        shots = _shots("gsm8k", 5, {"prompt": "How many?", "answer": "2 #### 2", "idx": 0})
        return {"question": "How many of them?", "answer": "3 #### 3", **shots, "allfiveshot_longprompt": "prompt"}
    targets = {"choices": four, "labels": [1, 0, 0, 0]}
    return {"question": "Which one?", "mc1_targets": targets, "mc2_targets": targets}


def _image() -> Any:
    from PIL import Image

    return Image.new("RGB", (2, 2))


def _pisa(stem: str) -> Row:
    return {"question": "Which one?", "choices": str(_rows()[".four"]), "answer": "A", "image": _image()}


def _chartqa(stem: str) -> Row:
    return {"query": "Which bar is longest?", "label": ["red"], "image": _image()}


def _clicked(stem: str) -> Row:
    kind = {"click_lang_function": "CSAT_korean_20_3", "click_lang_grammar": "CSAT_korean_20_12"}
    row = {"paragraph": "", "question": "Which one?", "choices": _rows()[".five"], "answer": "red"}
    return {**row, "id": kind.get(stem, "CSAT_korean_22_1")}


def _bbq(stem: str) -> Row:
    return {**_rows()["bbq"], "context_condition": "disambig" if "disambig" in stem else "ambig"}


#: What makes the rows of a folder, by the name of a file in it.
_BY_NAME: dict[str, Callable[[str], Row]] = {
    "afrobench/mafand": _mafand,
    "bbq": _bbq,
    "chartqa": _chartqa,
    "click/click_lang": _clicked,
    "metabench": _metabench,
    "pisa": _pisa,
}
