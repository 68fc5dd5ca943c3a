"""Groups of two runs, compared over the documents of all their tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from multiform import Results, evaluate, read_results
from multiform.cli.main import main
from multiform.results.run_comparison import compare_groups, compare_runs
from multiform.statistics.differences import paired_difference
from multiform.statistics.means import document_scores, pool_subjects

SIZES = {"small": 12, "large": 48}
TASK = """\
task: {name}
dataset_path: {name}.jsonl
test_split: train
doc_to_text: q
doc_to_choice: c
doc_to_target: a
"""


@pytest.fixture(params=[True, False], ids=["by_size", "equal"])
def by_size(request: Any) -> bool:
    return bool(request.param)


@pytest.fixture
def folder(tmp_path: Path, by_size: bool) -> Path:
    for name, size in SIZES.items():
        rows = [{"q": f"What is {n} of {name}?", "c": ["one", "two", "three"], "a": n % 3} for n in range(size)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name) + "metric_list: [{metric: acc}]\n")
    aggregate = f"{{metric: acc, weight_by_size: {str(by_size).lower()}}}"
    (tmp_path / "exam.yaml").write_text(f"group: exam\ntask: [small, large]\naggregate_metric_list: {aggregate}\n")
    return tmp_path


def run(folder: Path, seed: int, **settings: Any) -> Results:
    tasks = "exam@mcqa+cloze"
    return evaluate(
        model="dummy", model_args={"seed": seed}, tasks=tasks, include_path=folder, progress=False, **settings
    )


def expected(first: Results, second: Results, *, by_size: bool) -> Any:
    """The difference of exam@mcqa, from the statistics themselves."""
    parts = []
    for task in SIZES:
        forms = [form for run in (second, first) for form in run.forms if form.name == f"{task}@mcqa"]
        columns = [[sample.values["acc"] for sample in form.samples] for form in forms]
        parts.append(document_scores(np.array(columns).T))
    return paired_difference(pool_subjects(parts, [part.n if by_size else 1 for part in parts]))


def test_a_group_is_compared_as_it_weighs_its_tasks(folder: Path, by_size: bool) -> None:
    first, second = run(folder, 0), run(folder, 1)
    group, _ = compare_groups(first, second)
    assert (group.name, group.metric, group.paired, group.difference.n) == ("exam@mcqa", "acc", True, 60)
    assert group.difference.value == pytest.approx(second["exam@mcqa"]["acc"] - first["exam@mcqa"]["acc"])
    reference = expected(first, second, by_size=by_size)
    assert group.difference == reference.estimate
    assert group.p == reference.p
    forms = [entry for entry in compare_runs(first, second) if entry.name.endswith("@mcqa")]
    assert len(group.raised) == sum(len(form.raised) for form in forms)
    assert set(group.lowered) == {f"{form.name.partition('@')[0]}/{doc}" for form in forms for doc in form.lowered}


def test_runs_from_files_are_compared_the_same(folder: Path, tmp_path: Path) -> None:
    first, second = run(folder, 0), run(folder, 1)
    first.save(tmp_path / "a")
    second.save(tmp_path / "b")
    saved = compare_groups(read_results(tmp_path / "a"), read_results(tmp_path / "b"))
    for change, reference in zip(saved, compare_groups(first, second), strict=True):
        assert change.difference.value == pytest.approx(reference.difference.value)
        assert change.p == reference.p


def test_documents_that_only_one_run_has_do_not_count(folder: Path) -> None:
    first, second = run(folder, 0, limit=10), run(folder, 1)
    group, _ = compare_groups(first, second)
    assert (group.difference.n, group.first.n, group.second.n) == (20, 20, 20)
    assert group.difference.value == pytest.approx(group.second.value - group.first.value)


def test_a_group_with_an_aggregation_of_its_own_is_compared_by_its_scores(folder: Path) -> None:
    (folder / "best.py").write_text("def best(scores, sizes, weight_by_size):\n    return max(scores)\n")
    (folder / "exam.yaml").write_text(
        "group: exam\ntask: [small, large]\naggregate_metric_list: {metric: acc, aggregation: !function best.best}\n"
    )
    group = compare_groups(run(folder, 0), run(folder, 1))[0]
    assert (group.paired, group.p) == (False, None)


def test_the_command_lists_groups_first_and_folds_many_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"s{number}" for number in range(14)]
    rows = [{"q": f"What is {n}?", "c": ["one", "two", "three"], "a": n % 3} for n in range(8)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in names:
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name).replace(f"{name}.jsonl", "s.jsonl"))
    group = f"group: many\ntask: [{', '.join(names)}]\naggregate_metric_list: {{metric: acc}}\n"
    (tmp_path / "many.yaml").write_text(group)
    for seed, out in ((0, "a"), (1, "b")):
        results = evaluate(
            model="dummy", model_args={"seed": seed}, tasks="many@mcqa", include_path=tmp_path, progress=False
        )
        results.save(tmp_path / out)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert [line[0] for line in lines[2:]] == ["many@mcqa", "14"]
    assert "14 forms of the groups are not listed" in " ".join(lines[-1])
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert ([entry["name"] for entry in printed["groups"]], len(printed["forms"])) == (["many@mcqa"], 14)


def test_the_bounds_of_an_accuracy_stay_within_its_range(folder: Path) -> None:
    """However many comparisons they hold for at once."""
    changes = [replace(change, comparisons=1000) for change in compare_groups(run(folder, 0, limit=4), run(folder, 1))]
    assert changes
    assert all(-1 <= bound <= 1 for change in changes for bound in change.simultaneous)
    assert all(low <= change.difference.value <= high for change in changes for low, high in [change.simultaneous])


def test_groups_that_only_one_run_has_are_left_out(folder: Path) -> None:
    first = run(folder, 0)
    other = evaluate(model="dummy", tasks="small@mcqa", include_path=folder, progress=False)
    assert compare_groups(first, other) == []
