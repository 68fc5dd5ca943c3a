"""lm-eval's own task files give the requests that lm-eval makes of them, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiform import Task, TaskManager
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request
from tests.parity import reference
from tools.parity.ours import chat as our_chat
from tools.parity.theirs import chat as their_chat

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

DOCS = 8
#: Tasks by folder.
TASKS = {
    "arc": ["arc_easy", "arc_challenge"],
    "hellaswag": ["hellaswag"],
    "mmlu/default": ["mmlu_anatomy", "mmlu_high_school_european_history"],
    "truthfulqa": ["truthfulqa_mc1", "truthfulqa_mc2"],
    "winogrande": ["winogrande"],
    "piqa": ["piqa"],
    "super_glue/boolq": ["boolq"],
    "openbookqa": ["openbookqa"],
    "lambada": ["lambada_openai"],
    "wikitext": ["wikitext"],
    "gsm8k": ["gsm8k", "gsm8k_cot"],
    "bbh": [
        "bbh_cot_fewshot_boolean_expressions",
        "bbh_fewshot_word_sorting",
        "bbh_cot_zeroshot_dyck_languages",
        "bbh_zeroshot_date_understanding",
    ],
    "hendrycks_math": ["hendrycks_math_algebra"],
    "ifeval": ["ifeval"],
}
FOLDERS = {name: folder for folder, names in TASKS.items() for name in names}
#: The numbers of shots, where they are not the usual ones: some splits of the mirror are too small for three.
USUAL = (0, 3)
SHOTS: dict[str, tuple[int, ...]] = {
    "hellaswag": (0, 1),
    "boolq": (0, 1),
    "wikitext": (0,),
    "bbh_cot_zeroshot_dyck_languages": (0,),
    "bbh_zeroshot_date_understanding": (0,),
    "ifeval": (0,),
}
CASES = [pytest.param(name, n, id=f"{name}-{n}") for name in FOLDERS for n in SHOTS.get(name, USUAL)]


@pytest.mark.parametrize(("name", "shots"), CASES)
def test_requests_are_those_of_lm_eval(name: str, shots: int, mirror: Path, lm_eval_tasks: Path):
    folder = lm_eval_tasks / FOLDERS[name]
    theirs = next(iter(reference.load_tasks([name], mirror, [folder]).values()))
    [config] = TaskManager([folder]).load(name)
    ours = Task.from_config(config.replace(num_fewshot=shots), dataset_mirror=mirror).build_all_requests(limit=DOCS)
    assert [arguments(instance.request) for instance in ours] == reference.requests(theirs, shots=shots, limit=DOCS)


@pytest.mark.bundled
@pytest.mark.parametrize(
    "name", ["arc_easy", "mmlu_anatomy", "winogrande", "gsm8k_cot", "bbh_cot_zeroshot_dyck_languages"]
)
def test_requests_in_a_chat_are_those_of_lm_eval(name: str, mirror: Path, lm_eval_tasks: Path, bundled_path: Path):
    folder = lm_eval_tasks / FOLDERS[name]
    theirs = next(iter(reference.load_tasks([name], mirror, [folder]).values()))
    [config] = TaskManager([folder]).load(name)
    shots = max(SHOTS.get(name, USUAL))
    ours = Task.from_config(config.replace(num_fewshot=shots), dataset_mirror=mirror).build_all_requests(
        limit=DOCS, apply_chat_template=True, fewshot_as_multiturn=True, chat_template=our_chat()
    )
    expected = reference.requests(theirs, shots=shots, limit=DOCS, chat=their_chat())
    assert [arguments(instance.request) for instance in ours] == expected


def arguments(request: Request) -> tuple[Any, ...]:
    """A request as lm-eval writes its arguments down."""
    if isinstance(request, LoglikelihoodRequest):
        return request.context, request.continuation
    if isinstance(request, GenerationRequest):
        return request.context, request.gen_kwargs
    return (request.text,)
