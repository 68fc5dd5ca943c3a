"""Rows written by hand, with the columns that the real datasets have.

Some code asks for more than can be read off it: a boxed answer in a solution, mappings whose keys it counts, rows that
it drops unless they say the right thing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

Row = dict[str, Any]

_SENTENCE = "The trophy does not fit into the brown suitcase because it is too large."
_BOXED = {
    "problem": "What is $1+1$?",
    "solution": "It is $\\boxed{2}$.",
    "answer": "2",
    "level": "Level 5",
    "type": "Algebra",
    "variation": 1,
}
_FOUR = ["red", "green", "blue", "grey"]
_FIVE = [*_FOUR, "white"]


def written_row(path: str) -> Row | None:
    """The row for a task file, of which the path below lm-eval's folder of tasks is given; None where none is written.

    >>> written_row("drop/default.yaml")["query_id"]
    'q1'
    >>> written_row("arc/arc_easy.yaml") is None
    True
    """
    file = PurePosixPath(path)
    for place in (file.with_suffix(""), *file.parents):
        row = _ROWS.get(str(place))
        if row is not None:
            return row(file.stem) if callable(row) else row
    return None


def _shots(prefix: str, count: int, columns: dict[str, Any]) -> Row:
    """Columns of few-shot examples, as ``arc_question_shot_1``."""
    return {f"{prefix}_{name}_shot_{n}": value for n in range(1, count + 1) for name, value in columns.items()}


def _mafand(stem: str) -> Row:
    """Two languages, one of them English or French: ``mafand_bam-fr``."""
    african, other = sorted(stem.removeprefix("mafand_").split("-"), key=lambda code: code in ("en", "fr"))
    return {"translation": {african: "some text", other: "another text"}}


def _metabench(stem: str) -> Row:
    kind = stem.split("_")[1]
    choices = {"text": _FOUR, "label": ["A", "B", "C", "D"]}
    if kind == "arc":
        shots = _shots("arc", 25, {"question": "Which?", "answerKey": "A", "choices": choices, "idx": 0})
        own: Row = {"question": "Which one?", "answerKey": "B", "choices": choices}
        return {**own, **shots, "alltwentyfiveshot_longprompt": "prompt"}
    if kind == "hellaswag":
        own = {"ctx_a": "A man", "ctx_b": "he", "ctx": "A man he", "activity_label": "Cooking"}
        rest = {"endings": _FOUR, "label": "1"}
        more = {"ind": 0, "source_id": "s", "split": "train", "split_type": "indomain"}
        columns = {**{k: v for k, v in own.items() if k != "activity_label"}, "activity_labels": "Cooking"}
        shots = _shots("hellaswag", 10, {**columns, **rest, **more})
        return {**own, **rest, **shots, "alltenshot_longprompt": "prompt"}
    if kind == "mmlu":
        shots = _shots("mmlu", 5, {"question": "Which?", "choices": _FOUR, "answers": "1", "ind": 0})
        own = {"subject": "high_school_physics", "question": "Which one?", "choices": _FOUR, "answer": 1}
        return {**own, **shots, "allfiveshot_longprompt": "prompt"}
    if kind == "winogrande":
        options = {"answer": "1", "option1": "Ann", "option2": "Eve"}
        shots = _shots("winogrande", 5, {"prompt": "_ was late.", "idx": 0, **options})
        return {"sentence": "Then _ was early.", **options, **shots, "allfiveshot_longprompt": "prompt"}
    if kind == "gsm8k":
        shots = _shots("gsm8k", 5, {"prompt": "How many?", "answer": "2 #### 2", "idx": 0})
        return {"question": "How many of them?", "answer": "3 #### 3", **shots, "allfiveshot_longprompt": "prompt"}
    targets = {"choices": _FOUR, "labels": [1, 0, 0, 0]}
    return {"question": "Which one?", "mc1_targets": targets, "mc2_targets": targets}


def _image() -> Any:
    from PIL import Image

    return Image.new("RGB", (2, 2))


def _pisa(stem: str) -> Row:
    return {"question": "Which one?", "choices": str(_FOUR), "answer": "A", "image": _image()}


def _chartqa(stem: str) -> Row:
    return {"query": "Which bar is longest?", "label": ["red"], "image": _image()}


def _clicked(stem: str) -> Row:
    kind = {"click_lang_function": "CSAT_korean_20_3", "click_lang_grammar": "CSAT_korean_20_12"}
    row = {"paragraph": "", "question": "Which one?", "choices": _FIVE, "answer": "red"}
    return {**row, "id": kind.get(stem, "CSAT_korean_22_1")}


_PAWS = {"sentence1": _SENTENCE, "sentence2": _SENTENCE, "label": 1}
_PARAPHRASE = {"Frase": _SENTENCE, "Paráfrase": _SENTENCE, "Avaliación": 2}
_COREF = {"text": _SENTENCE, "span1_text": "The trophy", "span1_index": 0, "span2_text": "it", "span2_index": 9}
_SUMMARIES = ("abstractive", "extractive", "extreme")
_CABREU = {
    "content": "some text",
    "summaries": {kind: dict.fromkeys(("a1", "a2", "a3"), "text") for kind in _SUMMARIES},
}
_ALGHAFA = {"query": "Which one?", "label": "1", **{f"sol{n}": choice for n, choice in enumerate(_FOUR, start=1)}}
_HELLASWAG = {"ctx": "A man is cooking. He", "activity_label": "Cooking", "endings": _FOUR, "label": "1"}
_ARC = {"question": "Which one?", "choices": {"text": _FOUR, "label": ["A", "B", "C", "D"]}, "answerKey": "B"}
_AGIEVAL = {"query": f"Q: Which one? Answer Choices: {_FOUR}", "choices": _FOUR, "gold": [1]}
_MMLU_PRO = {
    "question_id": 1,
    "question": "Which one?",
    "options": [*_FIVE, "black", "brown", "pink", "violet", "orange"],
    "answer": "B",
    "answer_index": 1,
    "category": "physics",
}
_BBQ = {
    "question": "Who was late?",
    "context": "Ann met Bob.",
    "context_condition": "ambig",
    "question_polarity": "neg",
    "category": "Age",
    "ans0": "Ann",
    "ans1": "Bob",
    "ans2": "Unknown",
    "label": 2,
    "answer_info": {"ans0": ["Ann", "old"], "ans1": ["Bob", "nonOld"], "ans2": ["Unknown", "unknown"]},
    "additional_metadata": {"stereotyped_groups": ["old"]},
}


def _bbq(stem: str) -> Row:
    return {**_BBQ, "context_condition": "disambig" if "disambig" in stem else "ambig"}


_QASPER = {
    "title": "A title",
    "abstract": "An abstract.",
    "qas": {
        "question": ["Is it so?", "What is it?"],
        "answers": [
            {"answer": [{"unanswerable": False, "yes_no": True, "free_form_answer": "", "extractive_spans": []}]},
            {"answer": [{"unanswerable": False, "yes_no": None, "free_form_answer": "It", "extractive_spans": []}]},
        ],
    },
}
_DROP = {
    "query_id": "q1",
    "passage": "They scored 3 times.",
    "question": "How often did they score?",
    "answer": {"number": "3", "date": {"day": "", "month": "", "year": ""}, "spans": []},
    "validated_answers": {"number": ["3"], "date": [{"day": "", "month": "", "year": ""}], "spans": [[]]},
}

#: By the path of the task file without its ending, or of a folder that it is in.
_ROWS: dict[str, Row | Callable[[str], Row]] = {
    "afrobench/mafand": _mafand,
    "arabic_leaderboard_complete/arabic_leaderboard_alghafa": _ALGHAFA,
    "arabic_leaderboard_light/arabic_leaderboard_alghafa_light": _ALGHAFA,
    **{
        f"arabic_leaderboard_{size}/arabic_leaderboard_arabic_mt_{name}{ending}": _ALGHAFA
        for size, ending in (("complete", ""), ("light", "_light"))
        for name in ("arc_challenge", "arc_easy", "mmlu", "openbook_qa", "piqa", "race")
    },
    "basque_bench/paws_eu": _PAWS,
    "basqueglue/coref": {**_COREF, "label": 1},
    "bbq": _bbq,
    "bigbench/multiple_choice/strategyqa": {
        "inputs": "Is it so?",
        "targets": ["Yes"],
        "multiple_choice_targets": ["Yes", "No"],
        "multiple_choice_scores": [1, 0],
    },
    **{f"catalan_bench/cabreu_{kind}": _CABREU for kind in _SUMMARIES},
    "catalan_bench/parafraseja": _PAWS,
    "catalan_bench/paws_ca": _PAWS,
    "chartqa": _chartqa,
    "click/click_lang": _clicked,
    "common_voice": {"audio": {"array": [0.0, 0.5], "sampling_rate": 16_000}, "transcript": "some text"},
    "coqa": {
        "story": "Ann met Bob.",
        "questions": {"input_text": ["Who met Bob?", "Whom did she meet?"]},
        "answers": {"input_text": ["Ann", "Bob"]},
        "additional_answers": {"0": {"input_text": ["Ann did", "him"]}},
    },
    "darijahellaswag": _HELLASWAG,
    "drop": _DROP,
    "egyhellaswag": _HELLASWAG,
    "galician_bench/parafrases_gl": _PARAPHRASE,
    "galician_bench/paws_gl": _PAWS,
    "groundcocoa": {"query": "A cheap one", "Answer": "B", **{f"Option {letter}": "a flight" for letter in "ABCDE"}},
    "headqa": {
        "qtext": "Which one?",
        "answers": [{"aid": n, "atext": text} for n, text in enumerate(_FOUR, start=1)],
        "ra": 2,
    },
    "hendrycks_math": _BOXED,
    "icelandic_winogrande": {"sentence": "Then _ was early.", "option1": "Ann", "option2": "Eve", "answer": "1"},
    "leaderboard/math": _BOXED,
    "llama3/instruct/arc_challenge": _ARC,
    "mathqa": {"Problem": "What is 1+1?", "options": "a ) 1 , b ) 2 , c ) 3 , d ) 4 , e ) 5", "correct": "b"},
    "med_text_classification/med_text_classification_easy": {"text": "some text", "class": "1"},
    "metabench": _metabench,
    "minerva_math": _BOXED,
    "nerel-bench": {
        "instruction": "What is {entity} in {text}?",
        "context": '{"entity": "Ann", "text": "Ann met Bob."}',
        "true_answer": "a person",
    },
    "paws-x": _PAWS,
    "physics_gre": {
        "input": "Which one?",
        "has_image": False,
        "target_scores": {"A": 0, "B": 1, "C": 0, "D": 0, "E": 0},
    },
    "pisa": _pisa,
    "putnam_axiom": _BOXED,
    "qasper": _QASPER,
    "score/agi_eval": _AGIEVAL,
    "score/math": _BOXED,
    "score/mmlu_pro": _MMLU_PRO,
    "spanish_bench/paws_es_spanish_bench": _PAWS,
    "super_glue/wsc/default": {**_COREF, "label": 1},
    "turkishmmlu/config": {"question": "Which one?", "choices": _FIVE, "answer": "B"},
    "wsc273": {
        "text": _SENTENCE,
        "pronoun": "it",
        "pronoun_loc": _SENTENCE.index("it is"),
        "options": ["The trophy", "The suitcase"],
        "label": 0,
    },
}
