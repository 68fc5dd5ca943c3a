"""Made-up rows with the columns of the datasets that eval-framework's benchmarks read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LETTERS = ("A", "B", "C", "D", "E")


def _choices(i: int, number: int) -> dict[str, list[str]]:
    return {"text": [f"choice {i} {j}" for j in range(number)], "label": list(LETTERS[:number])}


def _solution(i: int) -> dict[str, Any]:
    return {
        "problem": f"What is {i} + 1?",
        "question": f"What is {i} + 1?",
        "solution": f"It is $\\boxed{{{i + 1}}}$.",
        "answer": str(i + 1),
        "level": "Level 5",
    }


def _code(i: int) -> dict[str, Any]:
    return {
        "task_id": i,
        "text": f"Add {i}.",
        "prompt": f"def f{i}(x):\n",
        "code": f"def f{i}(x):\n    return x + {i}\n",
        "test_list": [f"assert f{i}(1) == {i + 1}", f"assert f{i}(2) == {i + 2}", f"assert f{i}(3) == {i + 3}"],
        "test": f"def check(candidate):\n    assert candidate(1) == {i + 1}\n",
        "tests": "main()",
        "language": "cpp",
        "entry_point": f"f{i}",
        "canonical_solution": f"    return x + {i}\n",
        "complete_prompt": f"def f{i}(x):\n",
        "instruct_prompt": f"Write f{i}.",
        "code_prompt": f"def f{i}(x):\n",
    }


def _ifeval(i: int) -> dict[str, Any]:
    kwargs = [{"relation": None, "num_words": None}]
    return {"key": 1000 + i, "prompt": f"Write {i} words.", "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": kwargs}  # fmt: skip


def _reading(i: int) -> dict[str, Any]:
    return {
        "title": "Sums",
        "context": f"One and {i} make {i + 1}.",
        "question": f"What do one and {i} make?",
        "answers": {"text": [str(i + 1)], "answer_start": [0]},
    }


def _drop(i: int) -> dict[str, Any]:
    date = {"day": "", "month": "", "year": ""}
    answer = {"number": str(i + 1), "date": date, "spans": []}
    validated = {"number": ["", str(i + 1)], "date": [date, date], "spans": [[f"span {i}"], []]}
    return {"passage": "One. Two.", "question": f"How many {i}?", "answer": answer, "validated_answers": validated}


def _gpqa(i: int) -> dict[str, Any]:
    wrong = {f"Incorrect Answer {j}": f"wrong {i} {j}" for j in (1, 2, 3)}
    return {"Question": f"What is {i}?", "Correct Answer": f"right {i}", "Explanation": "So.", **wrong}


def _mc(i: int) -> dict[str, Any]:
    return {"question": f"Which is {i}?", "choices": _choices(i, 4), "answerKey": LETTERS[i % 4]}


ROWS: dict[str, Any] = {
    "allenai/ai2_arc": _mc,
    "LeoLM/ArcChallenge_de": lambda i: {
        "question_de": f"Was ist {i}?", "choices_de": _choices(i, 4), "answerKey": LETTERS[i % 4]
    },
    "bigcode/bigcodebench": _code,
    "bigcode/bigcodebench-hard": _code,
    "aps/super_glue": lambda i: {
        "premise": f"It is {i}.", "choice1": "It was.", "choice2": "It will be.",
        "question": ("cause", "effect")[i % 2], "label": i % 2,
    },
    "tau/commonsense_qa": lambda i: {
        "question": f"Which is {i}?", "choices": _choices(i, 5), "answerKey": LETTERS[i % 5]
    },
    "EleutherAI/drop": _drop,
    "allenai/drop-gen2mc": lambda i: {
        "passage_original": "One. Two.", "question_original": f"How many {i}?", "choices": _choices(i, 4),
        "answerKey": LETTERS[i % 4],
    },
    "CohereLabs/Global-MMLU": lambda i: {
        "question": f"Which is {i}?", "subject": ("abstract_algebra", "anatomy")[i % 2], "answer": LETTERS[i % 4],
        **{f"option_{letter}": f"choice {letter}" for letter in "abcd"},
    },
    "PleIAs/GoldenSwag": lambda i: {
        "activity_label": "Adding", "ctx_a": f"One and {i}", "ctx_b": "they make", "label": str(i % 4),
        "endings": [f"ending {j}" for j in range(4)],
    },
    "Idavidrein/gpqa": _gpqa,
    "openai/gsm8k": lambda i: {"question": f"What is {i} + 1?", "answer": f"One more. #### {i + 1}"},
    "openai/openai_humaneval": _code,
    "google/IFEval": _ifeval,
    "LumiOpen/ifeval_mt": _ifeval,
    "jzhang86/de_ifeval": _ifeval,
    "HuggingFaceH4/aime_2024": _solution,
    "math-ai/aime25": _solution,
    "math-ai/aime26": _solution,
    "HuggingFaceH4/MATH-500": _solution,
    "EleutherAI/hendrycks_math": _solution,
    "google-research-datasets/mbpp": _code,
    "davidheineman/medqa-en": lambda i: {
        "question": f"Which is {i}?", "choices": [f"choice {j}" for j in range(4)], "answer_idx": i % 4
    },
    "cais/mmlu": lambda i: {"question": f"Which is {i}?", "choices": [f"choice {j}" for j in range(4)],
                            "answer": i % 4, "subject": "anatomy"},
    "TIGER-Lab/MMLU-Pro": lambda i: {
        "question": f"Which is {i}?", "options": [f"choice {j}" for j in range(10)], "answer_index": i % 10,
        "answer": LETTERS[i % 5], "category": ("engineering", "physics")[i % 2],
    },
    "nuprl/MultiPL-E": _code,
    "google-research-datasets/nq_open": lambda i: {"question": f"who is {i}", "answer": [f"nobody {i}", "no one"]},
    "allenai/nq-gen2mc": _mc,
    "ybisk/piqa": lambda i: {"goal": f"Do {i}.", "sol1": "So.", "sol2": "Or so.", "label": i % 2},
    "allenai/sciq": lambda i: {
        "question": f"What is {i}?", "support": "It is.", "correct_answer": f"right {i}",
        **{f"distractor{j}": f"wrong {i} {j}" for j in (1, 2, 3)},
    },
    "allenai/social_i_qa": lambda i: {
        "context": f"Ann has {i}.", "question": "Why?", "answerA": "one", "answerB": "two", "answerC": "three",
        "label": str(i % 3 + 1),
    },
    "rajpurkar/squad": _reading,
    "rajpurkar/squad_v2": _reading,
    "allenai/winogrande": lambda i: {
        "sentence": f"Ann gave Bob {i} because _ had none.", "option1": "Ann", "option2": "Bob",
        "answer": str(i % 2 + 1),
    },
}  # fmt: skip
ROWS["Rowan/hellaswag"] = ROWS["PleIAs/GoldenSwag"]


def write_rows(folder: Path, path: str, name: str | None, splits: set[str], number: int = 12) -> None:
    """The rows of a dataset as a mirror has them; each split has rows of its own."""
    place = folder / path / (name or "default")
    place.mkdir(parents=True, exist_ok=True)
    for begin, split in enumerate(sorted(splits)):
        rows = (ROWS[path](begin * number + i) for i in range(number))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{split}.jsonl").write_text(text, encoding="utf-8")
