"""`--sample`: which documents `--limit` takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiform import evaluate
from multiform.cli.main import main
from multiform.results.notes import result_notes


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task of 200 documents, sorted by subject: 20 about mathematics, then 180 about history."""
    rows = [
        {"question": f"Question {i}?", "choices": ["a", "b"], "answer": 0, "subject": "math" if i < 20 else "history"}
        for i in range(200)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer", "formats": "mcqa"}
    path = tmp_path / "sorted.yaml"
    path.write_text(json.dumps({"task": "sorted", "dataset_path": "rows.jsonl", "test_split": "test", **fields}))
    return path


def doc_ids(task: Path, **options: object) -> list[int]:
    results = evaluate(model="dummy", tasks=str(task), **options)  # type: ignore[arg-type]
    return [sample.doc_id for sample in results.forms[0].samples]


def test_without_it_a_limit_takes_the_first_documents(task):
    assert doc_ids(task, limit=10) == list(range(10))


def test_a_random_sample_depends_on_the_seed_alone(task):
    drawn = doc_ids(task, limit=10, sample="random")
    assert drawn == doc_ids(task, limit=10, sample="random") != list(range(10))
    assert drawn != doc_ids(task, limit=10, sample="random", seeds=(1, 1, 1, 1))


def test_a_larger_sample_contains_the_smaller_one(task):
    assert set(doc_ids(task, limit=10, sample="random")) < set(doc_ids(task, limit=0.2, sample="random"))


def test_each_value_of_a_column_has_its_share_of_a_stratified_sample(task):
    drawn = doc_ids(task, limit=50, sample="stratified:subject")
    assert (len(drawn), sum(doc < 20 for doc in drawn)) == (50, 5)


def test_the_note_says_what_all_documents_would_score_instead_of_a_caution(task):
    [note] = [
        note
        for note in result_notes(evaluate(model="dummy", tasks=str(task), limit=50, sample="random"))
        if "documents" in note
    ]
    assert "all 200 documents would score" in note
    assert "50 of them were drawn at random" in note


def test_results_record_how_documents_were_drawn(task):
    results = evaluate(model="dummy", tasks=str(task), limit=10, sample="random")
    assert results.run["arguments"]["sample"] == "random"
    assert "sample" not in evaluate(model="dummy", tasks=str(task), limit=10).run["arguments"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sample", "random"], "random says which documents a limit takes, and there is none; add e.g. --limit 100"),
        (["--sample", "rnd", "--limit", "5"], "expected first, random, stratified or stratified:COLUMN, got 'rnd'"),
        (["--sample", "stratified", "--limit", "5"], "the task names no clusters to stratify by; name a column"),
        (["--sample", "stratified:subjct", "--limit", "5"], "has no column 'subjct'; did you mean 'subject'?"),
    ],
)
def test_what_cannot_be_drawn_is_refused(task, flags, message, capsys):
    assert main(["run", "--tasks", str(task), "--model", "dummy", *flags]) == 2
    assert message in capsys.readouterr().err
