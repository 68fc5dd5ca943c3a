"""A right response in the asked layout scores 1, on real rows of benchmarks with layouts of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multiform import Task, TaskManager
from multiform.requests import Completion
from tests.conftest import ROOT

ROWS = ROOT.parent / "shared" / "rows"

LAYOUTS: dict[str, Callable[[str], str]] = {
    "livebench_spatial": lambda gold: f"So there are **{gold}**.",
    "livebench_web_of_lies_v2": lambda gold: f"First **no**. In all: **{gold}**",
    "livebench_zebra_puzzle": lambda gold: f"One by one.\n<solution>{gold}</solution>",
    "livebench_math_comp": lambda gold: f"From 12 and 345 follows\n\n**{gold * 5 if gold.isalpha() else gold}**.",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_right_answer_scores_one_and_a_wrong_one_zero(name: str) -> None:
    if not ROWS.is_dir():
        pytest.skip(f"no benchmark rows at {ROWS}")
    form = Task.from_config(TaskManager().load(name)[0], dataset_mirror=ROWS).form
    golds = [doc["ground_truth"] for _, doc in form.docs()]
    for doc_id, doc in form.docs():
        sample, gold = form.sample(doc_id, doc), doc["ground_truth"]
        wrong = next(other for other in golds if other != gold)
        for answer, score in ((gold, 1.0), (wrong, 0.0)):
            [scored] = form.score(sample, [Completion(LAYOUTS[name](answer))])
            assert list(scored.values.values()) == [score], (doc_id, answer)
