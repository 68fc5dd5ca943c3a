# ruff: noqa: E501 (prompts as they were published)
"""Every published prompt, hash and list of examples that is known, compared with the protocols; docs/protocols.md counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from multiform.errors import DataError
from multiform.forms import Task
from multiform.paths import mirror_path
from multiform.requests import Completion
from multiform.tasks.folders import lm_eval_folder
from multiform.tasks.manager import TaskManager
from tests.tasks.test_protocols import FORMS, digest, form_of, prompt_of, shots_of

DOCS = Path(__file__).parents[2] / "docs" / "protocols.md"
GOLDEN = Path(__file__).parents[1] / "golden" / "protocols" / "real_rows.txt"
SHARED = Path(__file__).parents[3] / "shared"

ABOUT = "The following are multiple choice questions (with answers) about anatomy.\n\n"
OPTIONS = "\n A. Water\n B. Sand\n C. Air\n D. Fire\nAnswer:"
ASK = "Answer the following multiple choice question. The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of ABCD. Think step by step before answering.\n\nWhat is wet?\n\n"
REASON = 'Let’s think step by step. Based on your reasoning, what is the single, most likely answer choice? Format your response as follows: "The correct answer is (insert answer here)".'
#: The form, and the prompt that was published for its made-up row, without examples.
PROMPTS: dict[str, str] = {
    "arc_easy@olmes-mc": f"Question: What is wet?{OPTIONS}",
    "arc_challenge@olmes-mc": f"Question: What is wet?{OPTIONS}",
    "commonsense_qa@olmes-mc": f"Question: What is wet?{OPTIONS}",
    "openbookqa@olmes-mc": f"Question: Water is{OPTIONS}",
    "social_iqa@olmes-mc": "Question: Ann fell. How does Ann feel?\n A. hurt\n B. glad\n C. old\nAnswer:",
    "mmlu_anatomy@olmes-mc": f"{ABOUT}Question: What is wet?{OPTIONS}",
    "arc_easy@olmes-rc": "Question: What is wet?\nAnswer:",
    "arc_challenge@olmes-rc": "Question: What is wet?\nAnswer:",
    "commonsense_qa@olmes-rc": "Question: What is wet?\nAnswer:",
    "openbookqa@olmes-rc": "Question: Water is\nAnswer:",
    "social_iqa@olmes-rc": "Question: Ann fell. How does Ann feel?\nAnswer:",
    "mmlu_anatomy@olmes-rc": f"{ABOUT}Question: What is wet?\nAnswer:",
    "boolq@olmes-mc": "Water is wet.\nQuestion: is water wet?\n A. yes\n B. no\nAnswer:",
    "boolq@olmes-rc": "Water is wet.\nQuestion: is water wet?\nAnswer:",
    "hellaswag@olmes-mc": "Cooking: How to cook. Boil. Water\nChoose the best continuation:\n A. is hot. Wait.\n B. is cold.\n C. is dry.\n D. is loud.\nAnswer:",
    "hellaswag@olmes-rc": "Cooking: How to cook. Boil. Water",
    "piqa@olmes-mc": "Goal: Boil water\n A. heat it\n B. cool it\nAnswer:",
    "piqa@olmes-rc": "Goal: Boil water\nAnswer:",
    "winogrande@olmes-mc": "Fill in the blank: Ann helped Bea because ___ was kind.\n A. Ann\n B. Bea\nAnswer:",
    "winogrande@olmes-rc": "Ann helped Bea because Ann",
    "gsm8k@olmes": "Question: Ann has 2 pens and buys 3. How many has she?\nAnswer:",
    "mmlu_anatomy@helm": f"{ABOUT}Question: What is wet?\nA. Water\nB. Sand\nC. Air\nD. Fire\nAnswer:",
    "mmlu_pro_law@helm": f"What is the correct answer to this question: What is wet?\nChoices:\nA. Water\nB. Sand\nC. Air\nD. Fire\nE. Ice\n{REASON}",
    "gpqa_diamond@helm": f"What is the correct answer to this question: What is wet?\nChoices:\n(A) Air\n(B) Fire\n(C) Sand\n(D) Water\n{REASON}",
    "mmlu_anatomy@simple-evals": f"{ASK}A) Water\nB) Sand\nC) Air\nD) Fire",
    "gpqa_diamond@simple-evals": f"{ASK}A) Air\nB) Fire\nC) Sand\nD) Water",
    "math_algebra@simple-evals": 'Solve the following math problem step by step. The last line of your response should be of the form Answer: $ANSWER (without quotes) where $ANSWER is the answer to the problem.\n\nWhat is $1+1$?\n\nRemember to put your answer on its own line after "Answer:", and you do not need to use a \\boxed command.',
    "mmlu_pro_law@lighteval": f"{ASK}A: Water\nB: Sand\nC: Air\nD: Fire\nE: Ice\n\nAnswer:",
    "gsm8k@wei8": "Q: Ann has 2 pens and buys 3. How many has she?\nA:",
    "math_algebra@minerva": "Problem:\nWhat is $1+1$?\n\nSolution:",
}
#: The normalisation of OLMES's cloze form.
NORMALISED = {
    **dict.fromkeys(("arc_challenge", "commonsense_qa", "openbookqa"), "acc_mutual_info"),
    **dict.fromkeys(("arc_easy", "hellaswag", "piqa", "social_iqa", "mmlu_anatomy"), "acc_norm_full"),
    **dict.fromkeys(("boolq", "winogrande"), "acc"),
}
#: The ids of OLMES's examples, in order.
IDS: dict[str, list[object]] = {
    "arc_easy": [
        "MCAS_2007_8_5189",
        "Mercury_SC_401169",
        "MCAS_2004_8_27",
        "NYSEDREGENTS_2006_8_10",
        "Mercury_7013388",
    ],
    "arc_challenge": ["Mercury_SC_415702", "MCAS_2009_5_6516", "Mercury_7233695", "Mercury_7041615", "MCAS_1998_4_3"],
    "commonsense_qa": [
        "61fe6e879ff18686d7552425a36344c8",
        "02e821a3e53cb320790950aab4489e85",
        "23505889b94e880c3e89cff4ba119860",
        "a76403b4921a9281b6ee2a7241a5ec9f",
        "6dc921840aa1e5dda3333b79007f630b",
    ],
    "hellaswag": [12, 39, 9, 47, 38],
}
#: The tasks of which OLMES draws 1,000 documents.
DRAWN = ("arc_easy", "boolq", "hellaswag", "piqa", "social_iqa")


def wei_block() -> str:
    return "".join(f"Q: {shot['question']}\nA: {shot['target']}\n\n" for shot in shots_of("gsm8k@wei8"))


def olmes_block() -> str:
    return "\n\n".join(f"Question: {s['question']}\nAnswer: {s['target']}" for s in shots_of("gsm8k@olmes"))


def minerva_block() -> str:
    """The four problems with the three slips of lm-eval's repository, which its release 0.4.13 corrected."""
    block = "".join(
        f"Problem:\n{s['problem']}\n\nSolution: {s['solution']}\n\n" for s in shots_of("math_algebra@minerva")
    )
    slips = {"{5-x}}$.\n": "{5-x}}$.}\n", "30n&=480\\\\\n": "30n&=480\\\n", "6x-4y&=a,\\\\\n": "6x-4y&=a,\\\n"}
    for correct, slip in slips.items():
        assert block.count(correct) == 1
        block = block.replace(correct, slip)
    return block


HASHES: dict[str, tuple[Callable[[], str], tuple[str, int]]] = {
    "the eight examples of lm-eval": (wei_block, ("3d55795c084e26f6", 2141)),
    "the eight examples of OLMES": (olmes_block, ("2d4f2c5019f6bab2", 2259)),
    "the four problems of lm-eval's repository": (minerva_block, ("d08a0ce44e131a3b", 1792)),
}
CHECKS = len(PROMPTS) + len(NORMALISED) + len(IDS) + 1 + len(HASHES) + 1


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_is_the_published_one(name: str) -> None:
    assert prompt_of(form_of(name)) == PROMPTS[name]


@pytest.mark.parametrize("task", NORMALISED)
def test_the_normalisation_is_that_of_olmes(task: str) -> None:
    assert form_of(f"{task}@olmes-rc").scoring.scorers[0].metrics[0].name == NORMALISED[task]


@pytest.mark.parametrize("task", IDS)
def test_the_ids_of_the_examples_are_those_of_olmes(task: str) -> None:
    rows = form_of(f"{task}@olmes-mc").fewshot.fewshot_rows
    assert rows is not None
    assert [next(iter(row.values())) for row in rows] == IDS[task]


def test_a_thousand_documents_are_drawn_where_olmes_draws_them() -> None:
    tasks = [
        task for task in NORMALISED if form_of(f"{task}@olmes-rc").config.draw_docs == {"number": 1000, "seed": 1234}
    ]
    assert sorted(tasks) == sorted(DRAWN)


@pytest.mark.parametrize("what", HASHES)
def test_the_hash_is_the_published_one(what: str) -> None:
    block, expected = HASHES[what]
    assert digest(block()) == expected


def test_the_examples_of_llama_end_as_published() -> None:
    assert shots_of("gsm8k@llama3")[0]["target"].endswith(" The final answer is 6")


def test_the_page_has_the_same_count() -> None:
    counted = re.search(r"(\d+) of (\d+) published facts are equal", DOCS.read_text())
    assert counted is not None
    assert counted.groups() == (str(CHECKS), str(CHECKS))


def extraction(name: str, completion: str) -> str:
    form = form_of(name)
    sample = form.sample(0, form.eval_docs[0])
    (scored, *_) = form.score(sample, [Completion(completion)])
    return str(scored.filtered[0])


@pytest.mark.parametrize(
    ("name", "completion", "answer"),
    [
        ("gpqa_diamond@helm", "I think the answer is A. The correct answer is (B).", "A"),
        ("gpqa_diamond@helm", "The correct answer is **C**", "C"),
        ("gpqa_diamond@helm", "The correct answer is the option D", "D"),
        ("gpqa_diamond@helm", "answer: B", "[invalid]"),
        ("mmlu_anatomy@simple-evals", "**Answer:** C", "C"),
        ("mmlu_anatomy@simple-evals", "Answer: $\\boxed{D}$", "D"),
        ("mmlu_anatomy@simple-evals", "The answer is D", "[invalid]"),
        ("gsm8k@olmes", "So 1,200 + 34.50 is 1,234.50. Fine.", "1,234.50"),
        ("gsm8k@olmes", "That leaves .5", ".5"),
    ],
)
def test_answers_are_read_as_the_harness_reads_them(name: str, completion: str, answer: str) -> None:
    assert extraction(name, completion) == answer


#: Datasets of lm-eval whose rows are here under another name.
SAME_ROWS = {"hails/mmlu_no_train": "cais/mmlu", "DigitalLearningGmbH/MATH-lighteval": "EleutherAI/hendrycks_math"}


@pytest.mark.parity
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("gsm8k@llama3", "gsm8k_cot_llama"),
        ("arc_challenge@llama3", "arc_challenge_llama"),
        ("mmlu_anatomy@llama3", "mmlu_llama_anatomy"),
        ("gsm8k@wei8", "gsm8k_cot"),
        ("math_algebra@minerva", "minerva_math_algebra"),
        ("math_algebra@leaderboard", "leaderboard_math_algebra_hard"),
        ("mmlu_pro_business@leaderboard", "leaderboard_mmlu_pro"),
        ("musr_team_allocation@leaderboard", "leaderboard_musr_team_allocation"),
        ("bbh_snarks@leaderboard", "leaderboard_bbh_snarks"),
        ("bbh_object_counting@leaderboard", "leaderboard_bbh_object_counting"),
        *((f"bbh_{name}@suzgun3", f"bbh_cot_fewshot_{name}") for name in ("navigate", "ruin_names", "word_sorting")),
    ],
)
def test_the_whole_prompt_over_a_real_row_is_that_of_lm_eval(ours: str, theirs: str) -> None:
    if lm_eval_folder() is None or not (SHARED / "data").is_dir():
        pytest.skip("lm-eval or the rows of the benchmarks are not here")
    prompts = []
    for manager, name in ((TaskManager(), ours), (TaskManager("lm_eval"), theirs)):
        config = manager.load(name)[0]
        config = config.replace(dataset_path=SAME_ROWS.get(str(config.dataset_path), config.dataset_path))
        form = Task.from_config(config, dataset_mirror=mirror_path([SHARED / "data", SHARED / "rows"])).form
        prompts.append(form.sample(0, form.eval_docs[0]).prompt)
    assert prompts[0] == prompts[1]


def real_hashes() -> list[str]:
    """The hash of the requests of three documents, under every form of a protocol whose rows are at hand."""
    lines, mirror = [], mirror_path([SHARED / "data", SHARED / "rows"])
    for name in FORMS:
        form = Task.from_config(TaskManager().load(name)[0], dataset_mirror=mirror).form
        try:
            requests = [i.request for doc_id, doc in form.docs(limit=3) for i in form.sample(doc_id, doc).instances]
        except DataError:
            continue
        fields = ("context", "continuation", "gen_kwargs")
        plain = [[str(getattr(request, field, "")) for field in fields] for request in requests]
        lines.append(f"{name} {form.config.protocol} {digest(json.dumps(plain))[0]}")
    return lines


@pytest.mark.long
def test_prompts_over_real_rows_never_change_without_a_new_version() -> None:
    if not (SHARED / "data").is_dir():
        pytest.skip("the rows of the benchmarks are not here")
    lines = real_hashes()
    if not GOLDEN.exists():
        GOLDEN.write_text("\n".join([*lines, ""]))
        pytest.fail(f"{GOLDEN.name} was missing and is written: look at it")
    assert lines == GOLDEN.read_text().splitlines(), "raise the version of the protocol, and remove the file"
