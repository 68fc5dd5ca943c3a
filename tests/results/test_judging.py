"""What a run says about its judges."""

from __future__ import annotations

from multiform.forms import Sample, ScoredSample
from multiform.results.judging import judging_entry
from multiform.results.values import FormResult
from multiform.scoring.judges import JudgeUsage


def test_each_judge_of_the_models_family_is_compared_with_the_others() -> None:
    grades = {"judge(small)": 0.75, "judge(large)": 1.0, "judge(other)": 0.25}
    samples = [
        ScoredSample(
            sample=Sample(doc_id=n, doc={}), outputs=(), scorer="judge", filtered=(), values=grades, prediction=None
        )
        for n in range(4)
    ]
    form = FormResult(name="cities", task="cities", alias="cities", estimates={}, samples=samples)
    usage = {name: JudgeUsage(model=f"{family}-{name}") for name, family in
             (("small", "qwen"), ("large", "qwen"), ("other", "gemma"))}  # fmt: skip
    entry = judging_entry(usage, [form], "qwen-7b")
    assert entry["kin"] == {"small": "family", "large": "family"}
    values = {name: numbers["value"] for name, numbers in entry["self_preference"]["cities"].items()}
    assert values == {"small": 0.125, "large": 0.5}
