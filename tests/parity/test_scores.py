"""lm-eval's own task files give lm-eval's numbers on a few documents.

Compared are every metric with its standard error, and of every scored continuation the log-likelihood and
the greedy flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform.forms import ScoredSample
from multiform.requests import LLOutput, Request, RollingRequest
from tests.parity import reference

pytestmark = [pytest.mark.parity, pytest.mark.bundled, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: Between a log-likelihood of ours and of lm-eval, for each token of the continuation.
PER_TOKEN = 3e-5
#: Of MMLU's thousands of one-token labels, two in a hundred may be as far as this: either harness is off from float64
#: with a standard deviation of 9e-6.
LIMIT = 5e-5

#: Tasks with perplexities or probabilities among their metrics.
CONTINUOUS = ("lambada_openai", "wikitext", "truthfulqa_mc2")

#: Tasks and groups by their folder, documents, and generated tokens at most.
TASKS: dict[tuple[str, int, int | None], list[str]] = {
    ("arc", 12, None): ["arc_easy", "arc_challenge"],
    ("hellaswag", 12, None): ["hellaswag"],
    ("mmlu/default", 2, None): ["mmlu"],
    ("truthfulqa", 8, None): ["truthfulqa_mc1", "truthfulqa_mc2"],
    ("winogrande", 16, None): ["winogrande"],
    ("piqa", 12, None): ["piqa"],
    ("super_glue/boolq", 12, None): ["boolq"],
    ("openbookqa", 16, None): ["openbookqa"],
    ("lambada", 12, None): ["lambada_openai"],
    ("wikitext", 2, None): ["wikitext"],
    ("mmlu/continuation", 6, None): ["mmlu_anatomy_continuation"],
    ("mmlu/generative", 4, 16): ["mmlu_anatomy_generative"],
    ("gsm8k", 4, 48): ["gsm8k", "gsm8k_cot_zeroshot"],
    ("bbh", 2, 48): [
        "bbh_cot_fewshot_boolean_expressions",
        "bbh_fewshot_word_sorting",
        "bbh_cot_zeroshot_dyck_languages",
        "bbh_zeroshot_date_understanding",
    ],
    ("hendrycks_math", 2, 48): ["hendrycks_math"],
    ("ifeval", 4, 48): ["ifeval"],
}
CASES = {name: case for case, names in TASKS.items() for name in names}


@pytest.fixture(scope="module")
def models(bundled_path: Path, lm_eval_tasks: Path) -> tuple[Any, Any]:
    return reference.models(bundled_path, batch_size=8)


@pytest.mark.parametrize("name", CASES)
def test_every_metric_is_that_of_lm_eval(name: str, models: tuple[Any, Any], mirror: Path, lm_eval_tasks: Path):
    folder, limit, tokens = CASES[name]
    theirs, ours = reference.evaluated(
        name, models, folder=lm_eval_tasks / folder, mirror=mirror, limit=limit, tokens=tokens
    )
    assert compared(theirs["results"], ours) > 0
    apart = [far for form in ours.forms for far in compare_samples(theirs["samples"][form.name], form.samples)]
    assert max(apart, default=0) < (LIMIT if name == "mmlu" else PER_TOKEN)
    assert sum(far > PER_TOKEN for far in apart) <= len(apart) / 50


def compared(theirs: dict[str, dict[str, Any]], ours: Any) -> int:
    """How many numbers were compared; each must be equal to six digits.

    What is computed from the log-likelihoods themselves, not from their order, is as near as they are.
    """
    number = 0
    for task, scores in theirs.items():
        for key, expected in scores.items():
            if "," in key and isinstance(expected, float):
                near = PER_TOKEN if task in CONTINUOUS else 1e-6
                assert ours[task][key] == pytest.approx(expected, rel=near, abs=near), f"{task} {key}"
                number += 1
    return number


def compare_samples(theirs: Sequence[dict[str, Any]], ours: Sequence[ScoredSample]) -> list[float]:
    """Fails unless each document has the same requests and greedy flags, or texts.

    Gives how far the log-likelihoods are apart, for each token.
    """
    expected = {(sample["doc_id"], sample["filter"]): sample for sample in theirs}
    assert len(expected) == len(ours)
    apart = []
    for sample in ours:
        other = expected[sample.doc_id, sample.scorer]
        assert [_asked(instance.request) for instance in sample.instances] == [args[0] for args in other["arguments"]]
        for output, (answer,) in zip(sample.outputs, other["resps"], strict=True):
            if isinstance(output, LLOutput):
                loglikelihood, greedy = answer if isinstance(answer, tuple) else (answer, None)
                apart.append(abs(output.loglikelihood - loglikelihood) / max(1, output.tokens or 1))
                assert greedy is None or output.is_greedy == greedy
            else:
                assert output.text == answer
    return apart


def _asked(request: Request) -> str:
    return request.text if isinstance(request, RollingRequest) else request.context
