"""lm-eval's own task files give the same results and samples through `simple_evaluate` as in lm-eval."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from multiform.compat.lm_eval import evaluator
from multiform.compat.lm_eval.manager import TaskManager
from multiform.compat.lm_eval.models import LM
from multiform.imports import lm_eval_finder as finder

from .conftest import needs_lm_eval

pytestmark = [needs_lm_eval, pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

#: Tasks of every output type, with their folders and shots; `truthfulqa_mc2` scores by a function of its own.
TASKS = {
    "arc_easy": ("arc", 2),
    "gsm8k": ("gsm8k", 2),
    "lambada_openai": ("lambada", 0),
    "truthfulqa_mc2": ("truthfulqa", 0),
    "boolq": ("super_glue/boolq", 0),
}
CHANGING = ("date", "git_hash", "upper_git_hash", "pretty_env_info", "configs")


def chance(*parts: str) -> float:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:6], "big") / 2**48


def hashing(base: Any) -> Any:
    """A model of that base class whose answers depend on the request alone."""

    class Hashing(base):
        tokenizer_name = "hashing"

        def loglikelihood(self, requests):
            return [(-1 - 10 * chance(*request.args), chance(*request.args) < 0.3) for request in requests]

        def loglikelihood_rolling(self, requests):
            return [-10 * chance(*request.args) for request in requests]

        def generate_until(self, requests):
            return [f"I say #### {int(20 * chance(request.args[0]))}" for request in requests]

        def apply_chat_template(self, chat_history, add_generation_prompt=True):
            turns = "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)
            return turns + "<assistant>" * add_generation_prompt

    return Hashing()


def plain(results: dict[str, Any]) -> Any:
    kept = {key: value for key, value in results.items() if key not in CHANGING}
    text = json.dumps(kept, default=lambda one: one.item() if hasattr(one, "item") else str(one))
    return json.loads(text, parse_float=lambda number: round(float(number), 9))


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_results_and_samples_are_those_of_lm_eval(task: str, chat: bool, mirror: Path, monkeypatch):
    from lm_eval import simple_evaluate
    from lm_eval.api import model
    from lm_eval.tasks import TaskManager as TheirManager

    from tests.parity.reference import reading_from

    folder, shots = TASKS[task]
    installed = finder.real_folder()
    assert installed is not None
    known: dict[str, Any] = {"include_path": str(installed / "tasks" / folder), "include_defaults": False}
    settings: dict[str, Any] = {"tasks": [task], "num_fewshot": shots, "limit": 5, "bootstrap_iters": 100,
                "apply_chat_template": chat, "fewshot_as_multiturn": chat}  # fmt: skip
    monkeypatch.setenv("MULTIFORM_DATASET_MIRROR", str(mirror))
    ours = evaluator.simple_evaluate(model=hashing(LM), task_manager=TaskManager(**known), **settings)
    with reading_from(mirror):
        theirs = simple_evaluate(model=hashing(model.LM), task_manager=TheirManager(**known), **settings)
    assert plain(ours) == plain(theirs)
