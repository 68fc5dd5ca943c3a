"""The five scoring workloads of the benchmark: real rows, real task files, real tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.models.torch.plan import Cost
from multiform.requests import LoglikelihoodRequest
from multiform.run.options import RunOptions
from multiform.run.setup import load_forms

SUBJECT = "high_school_biology"
DOCS = 200
OTHER_SHOTS = "fewshot_split: validation\nfewshot_config:\n  sampler: default\n"
#: Task file, what is changed in it, and shots.
WORKLOADS = {
    "labels, 0-shot": ("default", "", 0),
    "labels, 5-shot": ("default", "", 5),
    "texts, 0-shot": ("continuation", "", 0),
    "texts, 5-shot": ("continuation", "", 5),
    "texts, 5-shot, other shots for each document": ("continuation", OTHER_SHOTS, 5),
}

pytestmark = [pytest.mark.parity, pytest.mark.bundled]


@pytest.fixture(params=WORKLOADS)
def requests(request: pytest.FixtureRequest, mirror: Path, tmp_path: Path) -> list[LoglikelihoodRequest]:
    lm_eval_tasks = pytest.importorskip("lm_eval.tasks")
    folder, change, shots = WORKLOADS[request.param]
    base = Path(lm_eval_tasks.__file__).parent / "mmlu" / folder / f"mmlu_{SUBJECT}.yaml"
    (tmp_path / "workload.yaml").write_text(f"include: {base}\ntask: workload\n{change}")
    file = str(tmp_path / "workload.yaml")
    (task,), _ = load_forms(RunOptions(tasks=file, num_fewshot=shots, limit=DOCS, dataset_mirror=mirror))
    samples = [task.sample(doc_id, doc) for doc_id, doc in task.docs()]
    asked = [instance.request for sample in samples for instance in sample.instances]
    return [item for item in asked if isinstance(item, LoglikelihoodRequest)]


def test_a_plan_computes_hardly_more_than_the_nodes_of_the_tree(
    requests: list[LoglikelihoodRequest], bundled_path: Path
) -> None:
    cost = planned(requests, bundled_path, budget=4096)
    assert cost.sequences == len(requests) == 4 * DOCS
    assert cost.computed <= 1.03 * cost.nodes
    assert cost.cached <= 1024


def test_a_small_budget_is_respected(requests: list[LoglikelihoodRequest], bundled_path: Path) -> None:
    assert planned(requests, bundled_path, budget=100).cached <= 100


def planned(requests: list[LoglikelihoodRequest], folder: Path, budget: int) -> Cost:
    import transformers

    from multiform.models.tokenizer import Encoder
    from multiform.models.torch.scoring import scoring_plan

    encoder = Encoder(tokenizer=transformers.AutoTokenizer.from_pretrained(folder), prefix_token_id=1)
    pairs = list(encoder.pairs([(request.context, request.continuation) for request in requests]))
    return scoring_plan(pairs, size=512, budget=budget).cost
