"""One ARC task, defined once, in the formats of all dialects in one run."""

from __future__ import annotations

import pytest

from multiform import evaluate

FORMS = ("mcqa", "mcq::mmlu", "MCStyle", "cloze", "cloze::pure", "ClozeStyle", "BPBStyle")


def arc(model, limit, mirror, examples):
    task = f"{examples / 'arc_easy.yaml'}@{'+'.join(FORMS)}"
    return evaluate(model=model, tasks=[task], limit=limit, dataset_mirror=mirror)


def check(results, limit):
    assert set(results) == {f"arc_easy@{form}" for form in FORMS}
    asked = {form.form.partition("@")[2]: [len(doc.instances) for doc in form.samples] for form in results.forms}
    assert asked["BPBStyle"] == [1] * limit
    assert min(asked["mcqa"]) > 1
    scores = {form: results[f"arc_easy@{form}"] for form in FORMS}
    # The same prompts and completions, however the dialect says them.
    assert scores["MCStyle"]["acc,none"] == scores["mcqa"]["acc,none"]
    assert scores["ClozeStyle"]["acc,none"] == scores["cloze"]["acc,none"]
    assert scores["BPBStyle"]["bits_per_byte_mean,none"] == scores["ClozeStyle"]["bits_per_byte_mean,none"]
    return scores


def test_all_dialects_in_one_run(mirror, examples):
    check(arc("dummy", 20, mirror, examples), 20)


def test_prompts_of_all_dialects(mirror, examples):
    results = arc("dummy", 1, mirror, examples)
    context = {form.form.partition("@")[2]: form.samples[0].instances[0].request.context for form in results.forms}
    assert context["mcqa"] == context["MCStyle"]
    assert context["mcqa"] == f"Question: {context['mcq::mmlu']}"
    assert context["cloze"] == context["ClozeStyle"] == context["BPBStyle"]
    assert context["cloze::pure"] == context["cloze"].removeprefix("Question: ").removesuffix("\nAnswer:") + " ______"


@pytest.mark.slow
@pytest.mark.bundled
def test_all_dialects_in_one_run_with_the_bundled_model(mirror, examples, bundled_path):
    scores = check(arc("bundled", 200, mirror, examples), 200)
    assert scores["ClozeStyle"]["acc,none"] > 0.35
