"""Results that are read back from files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from multiform import Results, evaluate, read_results
from multiform.errors import DataError, UsageError

#: A samples line and a results file as lm-eval 0.4.13 writes them.
THEIR_LINE = {
    "doc_id": 0,
    "doc": {"question": "1 + 1?", "choices": ["1", "2"], "answer": 1},
    "target": "1",
    "arguments": {
        "gen_args_0": {"arg_0": "1 + 1?", "arg_1": " 1"},
        "gen_args_1": {"arg_0": "1 + 1?", "arg_1": " 2"},
    },
    "resps": [[["-2.5", "False"]], [["-0.5", "True"]]],
    "filtered_resps": [["-2.5", "False"], ["-0.5", "True"]],
    "filter": "none",
    "metrics": ["acc"],
    "doc_hash": "",
    "prompt_hash": "",
    "target_hash": "",
    "acc": 1.0,
}
THEIR_RESULTS = {
    "results": {"sums": {"name": "sums", "alias": "sums", "sample_len": 1, "acc,none": 0.5, "acc_stderr,none": 0.1}},
    "group_subtasks": {"sums": []},
    "configs": {"sums": {"task": "sums"}},
    "versions": {"sums": 1.0},
    "n-shot": {"sums": 0},
    "higher_is_better": {"sums": {"acc": True}},
    "n-samples": {"sums": {"original": 10, "effective": 1}},
    "config": {"model": "hf"},
    "model_name": "org/tiny",
}


@pytest.fixture(scope="module")
def results() -> Results:
    return evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@cloze", "quiz@generate"], limit=8)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs" / "org__tiny"
    folder.mkdir(parents=True)
    (folder / "results_2026-01-02T03-04-05.123456.json").write_text(json.dumps(THEIR_RESULTS))
    (folder / "samples_sums_2026-01-02T03-04-05.123456.jsonl").write_text(json.dumps(THEIR_LINE) + "\n")
    return tmp_path / "theirs"


def test_what_is_read_back_equals_what_was_saved(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    again = read_results(tmp_path)
    assert {name: dict(again[name]) for name in again} == {name: dict(results[name]) for name in results}
    assert repr(again) == repr(results)
    assert again.samples() == results.samples()
    assert again.provenance["model_identity"] == results.provenance["model_identity"]


def test_what_is_read_back_can_be_saved_again(results: Results, tmp_path: Path) -> None:
    first = results.save(tmp_path / "first")
    again = read_results(tmp_path / "first").save(tmp_path / "again")
    assert json.loads(again[0].read_text())["results"] == json.loads(first[0].read_text())["results"]
    assert [path.name for path in again] == [path.name for path in first]


def test_files_of_lm_eval_are_read(theirs: Path) -> None:
    results = read_results(theirs)
    assert results["sums"]["acc"] == 0.5
    (row,) = results.samples()
    assert (row["prompt"], row["choices"], row["loglikelihoods"]) == ("1 + 1?", ["1", "2"], [-2.5, -0.5])
    assert (row["gold"], row["picked"], row["acc"]) == (1, 1, 1.0)
    estimate = results.forms[0].estimates["acc,none"]
    assert [estimate.low, estimate.high] == pytest.approx([0.304, 0.696], abs=1e-3)


def test_of_several_runs_the_newest_is_read_and_named(
    results: Results, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results.save(tmp_path / "old")
    newest = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, output_path=tmp_path / "new")
    assert list(read_results(tmp_path)) == list(newest)
    assert "holds 2 runs; the newest is read" in caplog.text


def test_samples_can_be_left_out(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    lean = read_results(tmp_path, samples=False)
    assert (lean.samples(), lean.forms[0].n) == ([], 8)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no results_<date>\.json in this folder; name the --output_path"):
        read_results(tmp_path)
    with pytest.raises(UsageError, match="there is no such file or folder"):
        read_results(tmp_path / "nothing")
    (tmp_path / "base").mkdir()
    (tmp_path / "questions.csv").touch()
    with pytest.raises(UsageError, match=r"there are: base$"):
        read_results(tmp_path / "nothing")


@pytest.mark.parametrize("text", ["", "[]", '{"results": 1}', "\x00", '{"results": {"a": 1}}'])
def test_a_file_that_holds_no_results_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(DataError, match=r"some\.json"):
        read_results(tmp_path / "some.json")


def test_a_broken_samples_line_is_named(theirs: Path) -> None:
    (samples,) = theirs.rglob("samples_*.jsonl")
    samples.write_text(samples.read_text() + '{"doc_id": 1')
    with pytest.raises(UsageError, match=r"jsonl:2: the line is not a sample"):
        read_results(theirs)


def test_a_data_frame_has_a_row_for_each_sample_and_form(results: Results) -> None:
    frame = results.to_pandas()
    assert len(frame) == 24
    first = frame[(frame.form == "quiz@mcqa")].iloc[0]
    assert first.prompt.endswith("Answer:")
    assert len(first.choices) == len(first.labels) == len(first.loglikelihoods) == 4
    assert first.acc == float(first.picked == first.gold)
    written = frame[frame.form == "quiz@generate"].iloc[0]
    assert isinstance(written.raw[0], str)


def test_a_parquet_file_has_the_same_rows(results: Results, tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(results.to_parquet(tmp_path / "samples.parquet"))
    rows = results.samples()
    assert table.num_rows == len(rows)
    assert table.column("prompt").to_pylist() == [row["prompt"] for row in rows]
    assert table.column("loglikelihoods").to_pylist() == [row["loglikelihoods"] for row in rows]


def test_a_killed_run_is_named_with_what_it_left(tmp_path: Path) -> None:
    (tmp_path / "partial_samples_abc.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"partial_samples_abc\.jsonl has the documents .* run the same command again"):
        read_results(tmp_path)


def test_rates_of_lm_eval_have_wilsons_interval(results: Results, tmp_path: Path) -> None:
    """A normal one would be empty where no document is right, and reach below zero elsewhere."""
    (file,) = [path for path in results.save(tmp_path) if path.name.startswith("results_")]
    saved = json.loads(file.read_text())
    recorded = saved.pop("intervals")
    file.write_text(json.dumps(saved))
    for form in read_results(tmp_path).forms:
        estimate = form.estimates[form.primary]
        assert estimate.interval == pytest.approx(recorded[form.name][form.primary])
