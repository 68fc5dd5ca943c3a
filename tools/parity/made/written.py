"""Rows written by hand, with the columns that the real datasets have: those of ``written.yaml``, and a few made here.

Some code asks for more than can be read off it: a boxed answer in a solution, mappings whose keys it counts, rows that
it drops unless they say the right thing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

Row = dict[str, Any]


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
    rows: dict[str, Row] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
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
