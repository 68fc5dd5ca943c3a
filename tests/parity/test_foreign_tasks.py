"""Formats on lm-eval's own task files: what is recovered gives the prompts of a mapping written by hand."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from multiform import ConfigError, DataError, Task, TaskConfig, TaskManager

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parent.parent.parent
DOCS = 25
MMLU = ("{{question.strip()}}", "choices", "answer")


def bbh_question(doc: dict[str, Any]) -> str:
    return str(doc["input"]).partition("\nOptions:")[0]


def bbh_choices(doc: dict[str, Any]) -> list[str]:
    return re.findall(r"^\([A-R]\) (.*)$", str(doc["input"]), re.MULTILINE)


def bbh_answer(doc: dict[str, Any]) -> int:
    return ord(str(doc["target"])[1]) - ord("A")


#: The folder of a task, and its mapping by hand: question, choices, answer.
TASKS: dict[str, tuple[str, Any, Any, Any]] = {
    "mmlu_anatomy": ("mmlu/default", *MMLU),
    "mmlu_professional_law": ("mmlu/default", *MMLU),
    "mmlu_anatomy_continuation": ("mmlu/continuation", *MMLU),
    "mmlu_anatomy_generative": ("mmlu/generative", *MMLU),
    "mmlu_flan_n_shot_loglikelihood_anatomy": ("mmlu/flan_n_shot/loglikelihood", *MMLU),
    "arc_easy": ("arc", "question", "{{choices.text}}", "{{choices.label.index(answerKey)}}"),
    "arc_challenge": ("arc", "question", "{{choices.text}}", "{{choices.label.index(answerKey)}}"),
    "openbookqa": ("openbookqa", "question_stem", "{{choices.text}}", "{{choices.label.index(answerKey.strip())}}"),
    "hellaswag": ("hellaswag", "query", "choices", "{{label|int}}"),
    "piqa": ("piqa", "goal", ["{{sol1}}", "{{sol2}}"], "label"),
    "boolq": ("super_glue/boolq", "{{passage}}\n{{question}}?", ["no", "yes"], "label"),
    "leaderboard_bbh_date_understanding": ("leaderboard/bbh_mc", bbh_question, bbh_choices, bbh_answer),
    "leaderboard_bbh_hyperbaton": ("leaderboard/bbh_mc", bbh_question, bbh_choices, bbh_answer),
    "leaderboard_bbh_geometric_shapes": ("leaderboard/bbh_mc", bbh_question, bbh_choices, bbh_answer),
}
#: Splits of the mirror that are too small for two shots.
ZERO_SHOT = ("hellaswag", "boolq")


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("form", ["mcqa", "cloze", "generate", "cot"])
def test_prompts_are_those_of_a_mapping_by_hand(name: str, form: str, mirror: Path, lm_eval_tasks: Path):
    folder, question, choices, answer = TASKS[name]
    [found] = TaskManager([lm_eval_tasks / folder]).load(f"{name}@{form}")
    mapping = {"doc_to_text": question, "doc_to_choice": choices, "doc_to_target": answer}
    wanted = found.replace(_formats_selection=None, formats=form, **mapping)
    assert found.recovered is not None
    for shots in (0,) if name in ZERO_SHOT else (0, 2):
        made = [asked(config, mirror, shots) for config in (found, wanted)]
        assert made[0] == made[1]


def asked(config: TaskConfig, mirror: Path, shots: int) -> list[Any]:
    """The requests of the first documents, and the targets."""
    task = Task.from_config(config, dataset_mirror=mirror)
    task.set_config("num_fewshot", shots)
    requests = [instance.request for instance in task.build_all_requests(limit=DOCS)]
    return [*requests, *(task.doc_to_target(doc) for _, doc in task.doc_iterator(limit=DOCS))]


def test_each_question_and_choice_of_mmlu_stands_in_its_prompt_once(mirror: Path, lm_eval_tasks: Path):
    configs = TaskManager([lm_eval_tasks / "mmlu/default"]).load("mmlu@mcqa")
    assert len(configs) == 57
    for config in configs:
        task = Task.from_config(config, dataset_mirror=mirror)
        for doc in list(task.eval_docs)[:40]:
            lines = [f"{label}. {choice}" for label, choice in zip("ABCD", doc["choices"], strict=True)]
            assert task.doc_to_text(doc) == "\n".join([f"Question: {doc['question'].strip()}", *lines, "Answer:"])
            assert task.form.renderer.gold(doc) == (doc["answer"],)


def test_truthfulqa_has_its_right_choice_in_many_places(mirror: Path, lm_eval_tasks: Path):
    [config] = TaskManager([lm_eval_tasks / "truthfulqa"]).load("truthfulqa_mc1@mcqa")
    task = Task.from_config(config, dataset_mirror=mirror)
    golds = []
    for doc in list(task.eval_docs)[:100]:
        (gold,) = task.form.renderer.gold(doc)
        right = doc["mc1_targets"]["choices"][0]
        assert f"\n{'ABCDEFGHIJKLM'[gold]}. {right}\n" in task.doc_to_text(doc)
        assert task.doc_to_text(doc).startswith(f"Question: {doc['question']}\n")
        golds.append(gold)
    assert len(set(golds)) > 3


def test_winogrande_and_blimp_are_refused(mirror: Path, lm_eval_tasks: Path):
    [config] = TaskManager([lm_eval_tasks / "winogrande"]).load("winogrande@mcqa")
    with pytest.raises(DataError, match=r"default\.yaml:7: doc_to_text: doc 0: doc_to_text gives \d, not a question"):
        Task.from_config(config, dataset_mirror=mirror).build_all_requests(limit=1)
    with pytest.raises(ConfigError, match="there is no question: the task compares whole texts; run it without"):
        TaskManager([lm_eval_tasks / "blimp"]).load("blimp_adjunct_island@mcqa")


#: Rows with the columns of datasets that the mirror does not have, and what is behind their prompts.
ROWS: dict[str, tuple[str, dict[str, Any], str, list[str], int]] = {
    "commonsense_qa": (
        "commonsense_qa",
        {"question": "Where?", "choices": {"text": list("vwxyz"), "label": list("ABCDE")}, "answerKey": "C"},
        "Where?",
        list("vwxyz"),
        2,
    ),
    "belebele_eng_Latn": (
        "belebele",
        {
            "flores_passage": "Once.",
            "question": "When?",
            **{f"mc_answer{n}": text for n, text in enumerate("wxyz", 1)},
            "correct_answer_num": "3",
        },
        "Once.\nWhen?",
        list("wxyz"),
        2,
    ),
    "global_mmlu_full_de_anatomy": (
        "global_mmlu/full/de",
        {"question": "Wo?", **{f"option_{c}": c * 3 for c in "abcd"}, "answer": "D", "subject": "anatomy"},
        "Wo?",
        ["aaa", "bbb", "ccc", "ddd"],
        3,
    ),
    "darijammlu_accounting": (
        "darijammlu",
        {"subject_darija": "S", "question": "Q?", "context": "C.", "choices": ["one", "two"], "answer": 1,
         "subject": "accounting"},
        "C.\n\nQ?",
        ["one", "two"],
        1,
    ),
    "arabicmmlu_accounting_university": (
        "arabicmmlu",
        {"Subject": "Accounting", "Level": "Univ", "Country": "", "Context": "", "Question": "How much?",
         "Option 1": "ten", "Option 2": "twenty", "Option 3": "", "Option 4": "", "Option 5": "", "Answer Key": "B"},
        "How much?",
        ["ten", "twenty"],
        1,
    ),
    "afrimmlu_direct_eng_prompt_1": (
        "afrimmlu/direct/prompt_1",
        {"subject": "law", "question": "Which?", "choices": "['a b', 'c d', 'e f', 'g h']", "answer": "C"},
        "Which?",
        ["a b", "c d", "e f", "g h"],
        2,
    ),
    "mmlu_pro_law": (
        "mmlu_pro",
        {"question": "Who?", "options": [f"party {n}" for n in range(10)], "answer": "I", "answer_index": 8,
         "cot_content": "A: Let's think step by step. The answer is (I).", "category": "law"},
        "Who?",
        [f"party {n}" for n in range(10)],
        8,
    ),
    "medqa_4options": (
        "medqa",
        {"sent1": "Which nerve?", **{f"ending{n}": f"nerve {n}" for n in range(4)}, "label": 2},
        "Which nerve?",
        ["nerve 0", "nerve 1", "nerve 2", "nerve 3"],
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_prompts_by_templates_and_by_code_are_taken_apart(name: str, lm_eval_tasks: Path):
    folder, row, question, choices, answer = ROWS[name]
    [config] = TaskManager([lm_eval_tasks / folder]).load(f"{name}@mcqa")
    split = config.test_split or config.validation_split
    task = Task.from_config(config.replace(custom_dataset=lambda **_: {split: [row]}, process_docs=None))
    task.set_config("num_fewshot", 0)
    requests: list[Any] = [instance.request for instance in task.build_all_requests(limit=1)]
    lines = [f"{label}. {choice}" for label, choice in zip("ABCDEFGHIJ", choices, strict=False)]
    assert requests[0].context.endswith("\n".join([question, *lines, "Answer:"]))
    assert requests[0].context.count("Answer:") == requests[0].context.count("Question:") == 1
    assert all(requests[0].context.count(choice) == 1 for choice in choices if len(choice) > 1)
    assert task.form.renderer.gold(row) == (answer,)


@pytest.mark.slow
def test_the_page_says_how_many_tasks_are_recovered(lm_eval_tasks: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "scripts"))
    inference_report = importlib.import_module("inference_report")

    try:
        found = list(inference_report.findings(lm_eval_tasks))
        assert inference_report.report(found) in inference_report.PAGE.read_text(encoding="utf-8")
    finally:
        del sys.modules["inference_report"]
