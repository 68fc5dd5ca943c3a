"""Notes below the table of a group: one line for all of its subjects."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from multiform import LLOutput, Model, Results, TaskConfig, evaluate, read_results
from multiform.cli.main import main
from multiform.models.model import Completions, Loglikelihoods
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.results import to_json
from multiform.results.charts import overview_chart
from multiform.results.notes import closing_lines, result_notes

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


class Undecided(Model):
    """Gives all choices of a question the same log-likelihood where the question has an even number."""

    name = identity = "undecided"

    def __init__(self, **arguments: object) -> None: ...

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        for position, request in enumerate(requests):
            number = int(re.findall(r"What is (\d)", request.context)[-1])
            yield position, LLOutput(-1.0 - number % 2 * position)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        raise NotImplementedError

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        raise NotImplementedError


def test_ties_for_the_best_choice_are_counted(folder: Path, tmp_path: Path) -> None:
    results = evaluate(model=Undecided(), tasks="exam@cloze", include_path=folder, progress=False)
    assert "exam@cloze: in 15 of 27 documents, several choices share the best" in " ".join(results.table().split())
    assert to_json(results)["forms"]["arts@cloze"]["ties"] == 5
    samples = results.samples("arts@cloze")
    assert [sample.get("tied_choices") for sample in samples] == [[0, 1, 2, 3], None] * 4 + [[0, 1, 2, 3]]
    assert {sample["prediction"] for sample in samples[::2]} == {0}
    results.save(tmp_path / "saved")
    assert read_results(tmp_path / "saved").forms[0].ties == 5


@pytest.mark.parametrize("model", ["dummy", pytest.param("bundled", marks=[pytest.mark.bundled, pytest.mark.long])])
def test_equal_choices_are_a_tie_for_any_model(model: str) -> None:
    docs = [{"question": "Which is red?", "choices": ["blood", "blood"], "answer": n} for n in range(2)]
    task = TaskConfig.from_dict(
        {
            "task": "twice",
            "custom_dataset": lambda **_: {"test": docs},
            "test_split": "test",
            "doc_to_text": "question",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
            "formats": "cloze",
        }
    )
    results = evaluate(model=model, tasks=[task], progress=False)
    assert results.forms[0].ties == 2
    assert "in 2 of 2 documents, several choices share the best log-likelihood; the first" in results.table("markdown")


def test_without_ties_nothing_is_said(results: Results) -> None:
    assert all(form.ties == 0 for form in results.forms)
    assert "share the best" not in results.table()


def mixed_results(tmp_path: Path) -> Results:
    """A group of 12 ranked documents and 4 generated ones, whose completions are cut off."""
    (tmp_path / "ranked.jsonl").write_text('{"q": "What?", "c": ["one", "two"], "a": 0}\n' * 12)
    (tmp_path / "generated.jsonl").write_text('{"q": "What?", "a": "one"}\n' * 4)
    task = "task: {0}\ndataset_path: {0}.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_target: a\n"
    (tmp_path / "ranked.yaml").write_text(task.format("ranked") + "doc_to_choice: c\noutput_type: multiple_choice\n")
    (tmp_path / "generated.yaml").write_text(
        task.format("generated") + "output_type: generate_until\nmetric_list: [{metric: exact_match}]\n"
    )
    group = "group: mixed\ntask: [ranked, generated]\naggregate_metric_list: [{metric: acc}, {metric: exact_match}]\n"
    (tmp_path / "mixed.yaml").write_text(group)
    return evaluate(model=CutOff(), tasks="mixed", include_path=tmp_path, progress=False, use_cache=False)


class CutOff(Undecided):
    """Ends every completion at its limit of tokens."""

    name = identity = "cut off"

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        return ((position, LLOutput(-1.0 - position)) for position, _ in enumerate(requests))

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        return ((position, Completion("two", truncated=True)) for position, _ in enumerate(requests))


def test_the_note_on_completions_counts_only_documents_that_have_some(tmp_path: Path) -> None:
    assert "mixed: of the completions of 4 documents, 4 cut off at a limit" in str(mixed_results(tmp_path))


def test_a_group_with_ranked_forms_has_no_share_of_completions_that_were_not_extracted(tmp_path: Path) -> None:
    rows = [row for panel in overview_chart(mixed_results(tmp_path)).panels for row in panel.rows]
    assert {row["form"]: row["missing"] for row in rows} == {"mixed": None, "ranked": None, "generated": 0.0}


def test_a_control_stands_beside_the_best_score_of_its_own_kind() -> None:
    results = evaluate(model="dummy", tasks="quiz@blind+bpb+mcqa+cloze", limit=20)
    best = max(("quiz@mcqa", "quiz@cloze"), key=lambda name: results[name]["acc"])
    [note] = [note for note in result_notes(results) if "a control" in note]
    assert results["quiz@bpb"]["bits_per_byte"] > 1
    assert note.endswith(f"; {best} scores {results[best]['acc']:.4f}")
