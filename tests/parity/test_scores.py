"""lm-eval's own task files give lm-eval's numbers: every metric, with its standard error, of a few documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reference

from multiform import evaluate

pytestmark = [pytest.mark.parity, pytest.mark.bundled, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: Task or group, its folder, documents, generated tokens at most.
CASES = {
    "arc_challenge": ("arc", 12, None),
    "hellaswag": ("hellaswag", 12, None),
    "mmlu": ("mmlu/default", 2, None),
    "truthfulqa_mc1": ("truthfulqa", 8, None),
    "truthfulqa_mc2": ("truthfulqa", 8, None),
    "winogrande": ("winogrande", 16, None),
    "piqa": ("piqa", 12, None),
    "boolq": ("super_glue/boolq", 12, None),
    "openbookqa": ("openbookqa", 16, None),
    "lambada_openai": ("lambada", 12, None),
    "wikitext": ("wikitext", 2, None),
    "gsm8k": ("gsm8k", 4, 48),
    "bbh_cot_fewshot_boolean_expressions": ("bbh", 2, 48),
    "bbh_fewshot_word_sorting": ("bbh", 2, 48),
    "bbh_cot_zeroshot_dyck_languages": ("bbh", 2, 48),
    "bbh_zeroshot_date_understanding": ("bbh", 2, 48),
    "hendrycks_math": ("hendrycks_math", 2, 48),
    "ifeval": ("ifeval", 4, 48),
}


@pytest.fixture(scope="module")
def models(bundled_path: Path, lm_eval_tasks: Path) -> tuple[Any, Any]:
    """The same weights in both harnesses."""
    from lm_eval.models.huggingface import HFLM

    from multiform.models.hf.model import HFModel

    theirs = HFLM(pretrained=str(bundled_path), dtype="float32", device="cpu", batch_size=8)
    return theirs, HFModel(pretrained=str(bundled_path), batch_size=8)


@pytest.mark.parametrize("name", CASES)
def test_every_metric_is_that_of_lm_eval(name: str, models: tuple[Any, Any], mirror: Path, lm_eval_tasks: Path):
    import lm_eval
    from lm_eval.tasks import TaskManager

    folder, limit, tokens = lm_eval_tasks / CASES[name][0], *CASES[name][1:]
    gen_kwargs = None if tokens is None else f"max_gen_toks={tokens}"
    with reference.reading_from(mirror):
        theirs = lm_eval.simple_evaluate(
            model=models[0],
            tasks=[name],
            limit=limit,
            gen_kwargs=gen_kwargs,
            bootstrap_iters=100,
            task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        )
    ours = evaluate(
        model=models[1],
        tasks=[name],
        limit=limit,
        gen_kwargs=gen_kwargs,
        bootstrap_iters=100,
        include_path=folder,
        dataset_mirror=mirror,
        use_cache=False,
    )
    assert compared(theirs["results"], ours) > 0


def compared(theirs: dict[str, dict[str, Any]], ours: Any) -> int:
    """How many numbers were compared; each must be equal to six digits."""
    number = 0
    for task, scores in theirs.items():
        for key, expected in scores.items():
            if "," in key and isinstance(expected, float):
                assert ours[task][key] == pytest.approx(expected, rel=1e-6, abs=1e-6), f"{task} {key}"
                number += 1
    return number
