"""The same prompts and the same model give the numbers of lm-eval 0.4.13."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiform import evaluate

pytestmark = [pytest.mark.parity, pytest.mark.bundled]

ROWS = 50

#: The prompt of the format `mcqa`, written as an lm-eval task.
TASK = r"""
task: arc_easy_by_hand
dataset_path: json
dataset_kwargs:
  data_files: {data}
test_split: train
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\n\
  {{% for c in choices.text %}}{{{{'ABCDE'[loop.index0]}}}}. {{{{c}}}}\n{{% endfor %}}Answer:"
doc_to_choice: "{{{{'ABCDE'[:choices.text|length]|list}}}}"
doc_to_target: "{{{{choices.label.index(answerKey)}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
"""


@pytest.fixture(scope="module")
def theirs(mirror: Path, tmp_path_factory: pytest.TempPathFactory, bundled_path: Path):
    """lm-eval's results on the first rows, with the bundled model."""
    lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install 'multiform[parity]'")
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    folder = tmp_path_factory.mktemp("by_hand")
    lines = (mirror / "allenai/ai2_arc/ARC-Easy/test.jsonl").read_text(encoding="utf-8").split("\n")
    (folder / "rows.json").write_text("\n".join(lines[:ROWS]), encoding="utf-8")
    (folder / "arc.yaml").write_text(TASK.format(data=folder / "rows.json"), encoding="utf-8")
    return lm_eval.simple_evaluate(
        model=HFLM(pretrained=str(bundled_path), dtype="float32", device="cpu", batch_size=8),
        tasks=["arc_easy_by_hand"],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        bootstrap_iters=100,
        log_samples=True,
    )


@pytest.fixture(scope="module", params=["shared prefixes", pytest.param("batches", marks=pytest.mark.slow)])
def ours(request, mirror: Path, examples: Path, bundled_path: Path):
    """Our results: with prefixes computed once, as by default, and in batches, as lm-eval computes them."""
    budget = {} if request.param == "shared prefixes" else {"prefix_budget": 0}
    return request.param, evaluate(
        model="hf",
        model_args={"pretrained": str(bundled_path), **budget},
        tasks=[f"{examples / 'arc_easy.yaml'}@mcqa"],
        limit=ROWS,
        dataset_mirror=mirror,
        use_cache=False,
    )


@pytest.mark.filterwarnings("ignore")
def test_scores_and_standard_errors_are_equal(theirs, ours):
    expected, got = theirs["results"]["arc_easy_by_hand"], ours[1]["arc_easy@mcqa"]
    for key in ("acc,none", "acc_stderr,none", "acc_norm,none", "acc_norm_stderr,none"):
        assert got[key] == pytest.approx(expected[key], abs=1e-9), key


@pytest.mark.filterwarnings("ignore")
def test_every_loglikelihood_is_equal_per_token(theirs, ours):
    way, results = ours
    samples, mine = theirs["samples"]["arc_easy_by_hand"], results.forms[0].samples
    assert len(samples) == len(mine) == ROWS
    far = 0
    for expected, got in zip(samples, mine, strict=True):
        prompts = [(args[0], args[1]) for args in expected["arguments"]]
        assert [(i.request.context, i.request.continuation) for i in got.instances] == prompts
        for (ll, greedy), output in zip(expected["filtered_resps"], got.outputs, strict=True):
            difference = abs(output.loglikelihood - float(ll)) / (output.tokens or 1)
            far += difference > 3e-5
            assert difference < 5e-5, json.dumps(prompts[0])
            assert output.is_greedy == (str(greedy) == "True")
    # Other shapes of matrices round otherwise: lm-eval differs from itself by 3e-5 between batch sizes.
    assert far <= (4 if way == "shared prefixes" else 0)
