"""HELM's run folders, written as HELM writes them: read, compared, reported and viewed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from multiform import read_results
from multiform.cli.main import main
from multiform.errors import DataError
from multiform.report.server import Viewer


def stat(name: str, values: list[float], **about: Any) -> dict[str, Any]:
    """A statistic as HELM has it."""
    total = sum(values)
    mean = {"mean": total / len(values)} if values else {}
    return {"name": {"name": name, "split": "test", **about}, "count": len(values), "sum": total, **mean}


def write_run(folder: Path, scenario: str, model: str, right: list[float], *, failed: int | None = None) -> Path:
    """A run folder: a statistic for each document, robustness to a perturbation, and the requests."""
    name = f"{scenario},model={model.replace('/', '_')}"
    run = folder / name
    run.mkdir(parents=True)
    adapter = {"method": "multiple_choice_joint", "model": model, "max_train_instances": 5}
    scenario_spec = {
        "class_name": "helm.benchmark.scenarios.mmlu_scenario.MMLUScenario",
        "args": {"subject": "anatomy"},
    }
    spec = {
        "name": name,
        "scenario_spec": scenario_spec,
        "adapter_spec": adapter,
        "metric_specs": [],
        "groups": ["mmlu"],
    }
    perturbed = {"name": "robustness", "robustness": True}
    stats = [
        stat("num_references", [4.0]),
        stat("quasi_exact_match", right),
        stat("exact_match", right),
        stat("exact_match", [0.0], perturbation=perturbed),
        stat("exact_match", [0.5], split="train"),
        stat("inference_runtime", [0.1]),
    ]
    instances, states = [], []
    for number, value in enumerate(right):
        own = [stat("exact_match", [value]), stat("quasi_exact_match", [value]), stat("num_references", [4.0])]
        instances.append({"instance_id": f"id{number + 7}", "train_trial_index": 0, "stats": own})
        references = [{"output": {"text": "bone"}, "tags": ["correct"]}, {"output": {"text": "skin"}, "tags": []}]
        instance = {"input": {"text": f"Question {number}"}, "references": references, "split": "test"}
        result = {"success": number != failed, "completions": [{"text": " A", "logprob": -1.0, "tokens": []}]}
        state = {"instance": {**instance, "id": f"id{number + 7}"}, "train_trial_index": 0, "result": result}
        states.append({**state, "request": {"prompt": f"The question {number}\nAnswer:", "model": model}})
    instances.append({"instance_id": "id7", "train_trial_index": 0, "perturbation": perturbed, "stats": []})
    files = {"run_spec": spec, "stats": stats, "per_instance_stats": instances}
    files |= {"scenario_state": {"adapter_spec": adapter, "request_states": states}, "scenario": {}, "instances": []}
    for file, content in files.items():
        (run / f"{file}.json").write_text(json.dumps(content))
    return run


RIGHT = [1.0, 0.0, 1.0, 1.0] * 10


def test_a_run_folder_is_read_with_its_scores_and_samples(tmp_path: Path) -> None:
    run = write_run(tmp_path, "mmlu:subject=anatomy", "openai/gpt2", RIGHT, failed=3)
    results = read_results(run)
    (form,) = results.forms
    assert form.name == "mmlu:subject=anatomy"
    assert list(form.estimates) == ["exact_match,none", "quasi_exact_match,none"]
    estimate = form.estimates["exact_match,none"]
    assert estimate.value == 0.75
    assert estimate.low is not None
    assert 0.55 < estimate.low < 0.75
    assert (form.num_fewshot, results.provenance["model_name"]) == (5, "openai/gpt2")
    assert len(form.samples) == 40
    assert form.samples[0].doc_id == 7
    assert form.samples[0].sample.prompt == "The question 0\nAnswer:"
    assert [doc.doc_id for doc in form.failed] == [10]


def test_the_runs_of_a_model_in_a_suite_are_one(tmp_path: Path) -> None:
    suite = tmp_path / "runs" / "v1"
    for subject in ("anatomy", "law"):
        write_run(suite, f"mmlu:subject={subject}", "openai/gpt2", RIGHT)
    assert [form.name for form in read_results(tmp_path).forms] == ["mmlu:subject=anatomy", "mmlu:subject=law"]


def test_compare_report_and_view_open_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_run(tmp_path / "a", "mmlu:subject=anatomy", "openai/gpt2", RIGHT)
    second = write_run(tmp_path / "b", "mmlu:subject=anatomy", "meta/llama", [1.0] * 40)
    assert main(["compare", str(first), str(second), "--json"]) == 0
    (form,) = json.loads(capsys.readouterr().out)["forms"]
    assert (form["paired"], form["difference"]["value"]) == (True, 0.25)
    assert main(["report", str(first), "-o", str(tmp_path / "page.html")]) == 0
    assert "mmlu:subject=anatomy" in (tmp_path / "page.html").read_text()
    with Viewer(str(tmp_path / "a")) as viewer:
        assert len(viewer.runs.run_lines()) == 1


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path, "mmlu:subject=anatomy", "openai/gpt2", RIGHT)
    (run / "stats.json").unlink()
    with pytest.raises(DataError, match="it is not finished"):
        read_results(run)


def test_a_run_without_its_requests_has_its_scores(tmp_path: Path) -> None:
    run = write_run(tmp_path, "gsm:", "openai/gpt2", RIGHT)
    (run / "scenario_state.json").unlink()
    assert read_results(run)["gsm"]["exact_match"] == 0.75


def test_a_run_is_written_as_lm_eval_writes_it(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "gsm:", "openai/gpt2", RIGHT)
    [results, _] = read_results(tmp_path / "a").save(tmp_path / "b")
    assert results.parent.name == "openai__gpt2"
    assert read_results(tmp_path / "b")["gsm"]["exact_match"] == 0.75
