"""Notes below the table of a group: one line for all of its subjects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiform import Results, evaluate
from multiform.cli.main import main
from multiform.results.closing import closing_lines

SUBJECTS = ("arts", "birds", "cities")
TASK = """\
task: {name}
dataset_path: rows.jsonl
test_split: train
output_type: multiple_choice
description: "The following are multiple choice questions about {name}.\\n\\n"
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""
GROUP = f"""\
group: exam
task: [{", ".join(SUBJECTS)}]
aggregate_metric_list: {{metric: acc}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    choices = ["one", "two", "three", "four"]
    rows = [{"question": f"What is {i}?", "choices": choices, "answer": i % 4} for i in range(9)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in SUBJECTS:
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name))
    (tmp_path / "exam.yaml").write_text(GROUP)
    return tmp_path


@pytest.fixture
def results(folder: Path) -> Results:
    return evaluate(model="dummy", tasks="exam@mcqa+cloze+generate", include_path=folder, progress=False)


def test_a_group_has_a_score_by_the_metric_of_the_format_where_that_replaces_its_own(results: Results) -> None:
    scores = [results[f"{subject}@generate"]["exact_match"] for subject in SUBJECTS]
    assert results["exam@generate"]["exact_match"] == pytest.approx(sum(scores) / 3)
    by_scoring = {
        comparison.scoring: comparison.forms for comparison in results.comparisons if comparison.name == "exam"
    }
    assert by_scoring == {
        "ranked": ("exam@mcqa", "exam@cloze"),
        "any": ("exam@mcqa", "exam@cloze", "exam@generate"),
    }


def test_what_a_format_overrides_is_said_once_for_a_group(results: Results) -> None:
    text = " ".join(results.table().split())
    assert not any(f"{subject}@" in text for subject in SUBJECTS)
    assert text.count("exam@cloze: the format overrides description (such as") == 1
    assert "exam@generate: the format overrides metric acc" in text
    assert text.count("no answer could be extracted from") == 1


def test_what_stands_out_is_about_the_group_not_about_a_subject(results: Results) -> None:
    difference, not_extracted, *_ = closing_lines(results)
    assert difference.startswith("differences: the two forms do not differ significantly")
    assert "of the completions of exam@generate" in not_extracted


def test_tasks_without_a_group_share_a_line_for_what_they_have_in_common(folder: Path) -> None:
    results = evaluate(
        model="dummy", tasks=[f"{name}@generate" for name in SUBJECTS], include_path=folder, progress=False
    )
    assert "arts@generate and 2 more: the format overrides metric acc" in results.table()


def test_many_files_of_samples_are_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "exam@mcqa+cloze+generate", "--model", "dummy", "--include_path", str(folder)]
    assert main([*command, "--output_path", str(tmp_path / "out"), "--log_samples"]) == 0
    wrote = [line for line in capsys.readouterr().err.splitlines() if line.startswith("wrote")]
    assert len(wrote) == 2
    assert wrote[1].endswith("samples_*.jsonl: the samples of 9 forms")
    assert len(list((tmp_path / "out").rglob("samples_*.jsonl"))) == 9
