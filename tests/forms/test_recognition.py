# ruff: noqa: E501 (prompts as they were published)
"""Prompts of five harnesses, pasted as text, lead to the right format or protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiform.cli.main import main
from multiform.forms.recognition import Layout, known_layouts, read_prompts, recognise
from multiform.tasks.manager import TaskManager

Q, Q2 = "Which gas do plants take in?", "What is the boiling point of water?"
C, C2 = ["oxygen", "carbon dioxide", "helium", "neon"], ["50", "100", "150", "200"]
LETTERS = "ABCDEFGHIJ"
MMLU = "The following are multiple choice questions (with answers) about anatomy.\n\n"
ASK = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of {}. Think step by step before answering.\n\n"
)
HELM = (
    "Let’s think step by step. Based on your reasoning, what is the single, most likely answer choice? Format your "
    'response as follows: "The correct answer is (insert answer here)".'
)
LLAMA = (
    "Given the following question and four candidate answers (A, B, C and D), choose the best answer.\nQuestion: {}\n{}\n"
    'Your response should end with "The best answer is [the_answer_letter]" where the [the_answer_letter] is one of A, B, '
    "C or D. The best answer is"
)
TREES = (
    "There are 15 trees originally. Then there were 21 trees after some more were planted. So there must have been "
    "21 - 15 = 6. "
)


def mc(question: str, choices: list[str], line: str = "{}. {}", ask: str = "Question: ", end: str = "\nAnswer:") -> str:
    return ask + question + "".join("\n" + line.format(*pair) for pair in zip(LETTERS, choices, strict=False)) + end


OLMES = " {}. {}"
PASTED: list[tuple[str, str]] = [
    # OLMES
    ("olmes-mc", mc(Q, C, OLMES)),
    ("olmes-mc", mc(Q2, C2, OLMES) + " B\n\n" + mc(Q, C, OLMES)),
    ("olmes-mc", mc(Q, [*C, "argon"], OLMES)),
    ("olmes-mc", MMLU + mc(Q2, C2, OLMES) + " B\n\n" + mc(Q, C, OLMES)),
    ("olmes-mc", mc("Boil water", ["heat it", "cool it"], OLMES, ask="Goal: ")),
    ("olmes-rc", "Goal: Boil water\nAnswer:"),
    ("olmes-mc", mc("Ann thanked Bea because ___ was kind.", ["Ann", "Bea"], OLMES, ask="Fill in the blank: ")),
    ("olmes-mc", mc("Cooking: A man cooks. He\nChoose the best continuation:", C, OLMES, ask="")),
    ("olmes-rc", f"Question: {Q}\nAnswer:"),
    ("olmes-rc", f"{MMLU}Question: {Q2}\nAnswer: 100\n\nQuestion: {Q}\nAnswer:"),
    ("olmes", f"Question: {Q2}\nAnswer: {TREES}So the answer is 6.\n\nQuestion: {Q}\nAnswer:"),
    # HELM
    ("helm", MMLU + mc(Q, C)),
    ("helm", MMLU + mc(Q2, C2) + " B\n\n" + mc(Q, C)),
    ("helm", MMLU.replace("anatomy", "us foreign policy") + mc(Q2, C2) + " B\n\n" + mc(Q, C)),
    (
        "helm",
        mc(Q, C, ask="What is the correct answer to this question: ", end="\n" + HELM).replace(
            "?\nA", "?\nChoices:\nA"
        ),
    ),
    (
        "helm",
        mc(Q, [*C, "argon"], ask="What is the correct answer to this question: ", end="\n" + HELM).replace(
            "?\nA", "?\nChoices:\nA"
        ),
    ),
    (
        "helm",
        mc(Q, C, "({}) {}", ask="What is the correct answer to this question: ", end="\n" + HELM).replace(
            "?\n(", "?\nChoices:\n("
        ),
    ),
    # simple-evals and lighteval
    ("simple-evals", ASK.format("ABCD") + mc(Q, C, "{}) {}", ask="", end="").replace("?\nA", "?\n\nA")),
    ("simple-evals", ASK.format("ABCD") + mc(Q2, C2, "{}) {}", ask="", end="").replace("?\nA", "?\n\nA")),
    ("simple-evals", ASK.format("ABCDE") + mc(Q, [*C, "argon"], "{}) {}", ask="", end="").replace("?\nA", "?\n\nA")),
    (
        "simple-evals",
        'Solve the following math problem step by step. The last line of your response should be of the form Answer: $ANSWER (without quotes) where $ANSWER is the answer to the problem.\n\nWhat is 1+1?\n\nRemember to put your answer on its own line after "Answer:", and you do not need to use a \\boxed command.',
    ),
    ("lighteval", ASK.format("ABCD") + mc(Q, C, "{}: {}", ask="", end="\n\nAnswer:").replace("?\nA", "?\n\nA")),
    (
        "lighteval",
        ASK.format("ABCD") + mc(Q, [*C, "argon"], "{}: {}", ask="", end="\n\nAnswer:").replace("?\nA", "?\n\nA"),
    ),
    # lm-eval, with the tasks of Llama, the eight examples and Minerva
    ("lm-eval", MMLU + mc(Q, C, ask="")),
    ("lm-eval", MMLU + mc(Q2, C2, ask="") + " B\n\n" + mc(Q, C, ask="")),
    ("lm-eval", f"Question: {Q}\nAnswer:"),
    ("lm-eval", f"Question: {Q2}\nAnswer: 100\n\nQuestion: {Q}\nAnswer:"),
    ("lm-eval", "Q: Ann fell. How does Ann feel?\nA:"),
    ("lm-eval", mc(Q, [*C, "argon"])),
    ("lm-eval", "Problem: What is 1+1?\nAnswer:"),
    (
        "lm-eval",
        mc(Q, C, "({}) {}", ask="What is the correct answer to this question:").replace("?\n(", "?\nChoices:\n("),
    ),
    ("llama3", LLAMA.format(Q, "\n".join(f"{label}. {text}" for label, text in zip("ABCD", C, strict=True)))),
    ("llama3", LLAMA.format(Q2, "\n".join(f"{label}. {text}" for label, text in zip("ABCD", C2, strict=True)))),
    (
        "llama3",
        f'Given the following problem, reason and give a final answer to the problem.\nProblem: {Q}\nYour response should end with "The final answer is [answer]" where [answer] is the response to the problem.\n',
    ),
    ("wei8", f"Q: {Q2}\nA: {TREES}The answer is 6.\n\nQ: {Q}\nA:"),
    ("minerva", "Problem:\nWhat is $1+1$?\n\nSolution:"),
    ("minerva", "Problem:\nWhat is $1+2$?\n\nSolution: It is 3.\n\nProblem:\nWhat is $1+1$?\n\nSolution:"),
    # Multiform's own
    ("mcqa", mc(Q, C)),
    ("cloze", f"Question: {Q}\nAnswer:"),
    ("mcqa", mc(Q2, C2) + " B\n\n" + mc(Q, C)),
]


@pytest.fixture(scope="module")
def layouts() -> list[Layout]:
    return known_layouts(TaskManager())


def test_40_of_40_prompts_are_recognised(layouts: list[Layout]) -> None:
    results = [(label, text, recognise(text, layouts)) for label, text in PASTED]
    wrong = [(label, result.labels, text[:60]) for label, text, result in results if label not in result.labels]
    assert len(PASTED) == 40
    assert wrong == []


def test_an_unknown_prompt_has_a_nearest_form(layouts: list[Layout]) -> None:
    result = recognise(ASK.format("ABCD") + Q + "\n\n1) yes\n2) no", layouts)
    assert not result.fits
    assert result.nearest is not None
    assert result.nearest.label == "simple-evals"
    assert any("A) " in piece for piece in result.missing)


def test_controls_are_no_explanation(layouts: list[Layout]) -> None:
    assert "blind" not in {layout.label for layout in layouts}


@pytest.mark.parametrize(
    "record",
    [
        {"arguments": {"gen_args_0": {"arg_0": "PROMPT", "arg_1": " A"}}},
        {"arguments": [["PROMPT", " A"]]},
        {"doc_id": 0, "request": {"context": "PROMPT", "continuation": " A"}},
        {"request": {"model": "m", "prompt": "PROMPT"}, "result": {}},
        {"task_name": "x", "input_final_prompts": ["PROMPT"], "is_correct": [True]},
        {"full_prompt": "PROMPT", "predictions": [" A"]},
        {"input": [{"role": "user", "content": "PROMPT"}], "target": "A"},
    ],
    ids=["lm-eval", "older lm-eval", "OLMES", "HELM", "Meta", "lighteval", "Inspect"],
)
def test_samples_of_other_harnesses_are_read(record: dict[str, object], tmp_path: Path) -> None:
    prompts = [mc(Q, C, OLMES), mc(Q2, C2, OLMES)]
    lines = [json.dumps(record).replace('"PROMPT"', json.dumps(prompt)) for prompt in prompts]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "list.json").write_text(f"[{','.join(lines)}]")
    (tmp_path / "one.json").write_text(f'{{"request_states": [{",".join(lines)}]}}')
    for name in ("samples.jsonl", "list.json", "one.json"):
        assert read_prompts(tmp_path / name) == prompts


def test_the_prompts_of_a_file_are_taken_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt that fits several formats is decided by the others."""
    file = tmp_path / "samples.jsonl"
    prompts = [f"Question: {Q}\nAnswer:", f"{MMLU}Question: {Q2}\nAnswer:", f"{MMLU}Question: {Q}\nAnswer:"]
    file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    assert main(["formats", "infer", "--prompt", str(file)]) == 0
    assert capsys.readouterr().out == "the layout of mmlu@olmes-rc, in 2 of 3 prompts\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "no prompt in its first records"), ("{not", "not valid JSON"), ("", "not valid JSON")],
)
def test_files_without_prompts_are_refused(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "samples.jsonl").write_text(content)
    assert main(["formats", "infer", "--prompt", str(tmp_path / "samples.jsonl")]) == 2
    assert message in capsys.readouterr().err


def test_the_command_reads_a_prompt_and_a_samples_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pasted = tmp_path / "pasted.txt"
    pasted.write_text("Problem:\nWhat is $1+1$?\n\nSolution:\n")
    assert main(["formats", "infer", "--prompt", str(pasted)]) == 0
    assert "math@minerva" in capsys.readouterr().out
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"arguments": {"gen_args_0": {"arg_0": mc(Q, C, OLMES), "arg_1": " A"}}}) + "\n")
    assert main(["formats", "infer", "--prompt", str(samples), "--json"]) == 0
    assert "arc_easy@olmes-mc" in json.loads(capsys.readouterr().out)["fits"]
    assert main(["formats", "infer"]) == 2
