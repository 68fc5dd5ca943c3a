"""lm-eval's own task files give the requests that lm-eval makes of them, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiform import Task, TaskManager
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request
from parity import chat
from tests.parity import reference

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

DOCS = 8
#: Task files by folder, with the numbers of shots: some splits of the mirror are too small for three.
TASKS: dict[str, tuple[str, tuple[int, ...]]] = {
    "arc_easy": ("arc", (0, 3)),
    "arc_challenge": ("arc", (0, 3)),
    "hellaswag": ("hellaswag", (0, 1)),
    "mmlu_anatomy": ("mmlu/default", (0, 3)),
    "mmlu_high_school_european_history": ("mmlu/default", (0, 3)),
    "truthfulqa_mc1": ("truthfulqa", (0, 3)),
    "truthfulqa_mc2": ("truthfulqa", (0, 3)),
    "winogrande": ("winogrande", (0, 3)),
    "piqa": ("piqa", (0, 3)),
    "boolq": ("super_glue/boolq", (0, 1)),
    "openbookqa": ("openbookqa", (0, 3)),
    "lambada_openai": ("lambada", (0, 3)),
    "wikitext": ("wikitext", (0,)),
    "gsm8k": ("gsm8k", (0, 3)),
    "gsm8k_cot": ("gsm8k", (0, 3)),
    "bbh_cot_fewshot_boolean_expressions": ("bbh", (0, 3)),
    "bbh_fewshot_word_sorting": ("bbh", (0, 3)),
    "bbh_cot_zeroshot_dyck_languages": ("bbh", (0,)),
    "bbh_zeroshot_date_understanding": ("bbh", (0,)),
    "hendrycks_math_algebra": ("hendrycks_math", (0, 3)),
    "ifeval": ("ifeval", (0,)),
}
CASES = [pytest.param(name, n, id=f"{name}-{n}") for name, (_, shots) in TASKS.items() for n in shots]


@pytest.mark.parametrize(("name", "shots"), CASES)
def test_requests_are_those_of_lm_eval(name: str, shots: int, mirror: Path, lm_eval_tasks: Path):
    folder = lm_eval_tasks / TASKS[name][0]
    theirs = next(iter(reference.load_tasks([name], mirror, [folder]).values()))
    [config] = TaskManager([folder]).load(name)
    ours = Task.from_config(config.changed(num_fewshot=shots), dataset_mirror=mirror).build_all_requests(limit=DOCS)
    assert [arguments(instance.request) for instance in ours] == reference.requests(theirs, shots=shots, limit=DOCS)


@pytest.mark.bundled
@pytest.mark.parametrize(
    "name", ["arc_easy", "mmlu_anatomy", "winogrande", "gsm8k_cot", "bbh_cot_zeroshot_dyck_languages"]
)
def test_requests_in_a_chat_are_those_of_lm_eval(name: str, mirror: Path, lm_eval_tasks: Path, bundled_path: Path):
    folder = lm_eval_tasks / TASKS[name][0]
    theirs = next(iter(reference.load_tasks([name], mirror, [folder]).values()))
    [config] = TaskManager([folder]).load(name)
    shots = max(TASKS[name][1])
    ours = Task.from_config(config.changed(num_fewshot=shots), dataset_mirror=mirror).build_all_requests(
        limit=DOCS, apply_chat_template=True, fewshot_as_multiturn=True, chat_template=chat.our_chat()
    )
    expected = reference.requests(theirs, shots=shots, limit=DOCS, chat=chat.their_chat())
    assert [arguments(instance.request) for instance in ours] == expected


def arguments(request: Request) -> tuple[Any, ...]:
    """A request as lm-eval writes its arguments down."""
    if isinstance(request, LoglikelihoodRequest):
        return request.context, request.continuation
    if isinstance(request, GenerationRequest):
        return request.context, request.gen_kwargs
    return (request.text,)
