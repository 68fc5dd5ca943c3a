"""Results in Python: looked up, printed, tabulated and saved."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from multiform import MultiformError, Results, Task, evaluate
from multiform.errors import UsageError
from tests.task_files import extracting

WRITING = extracting("sums", "rows.jsonl", r"(\d+)") + "  - {name: loose, filter: [{function: take_first}]}\n"


@pytest.fixture(scope="module")
def results() -> Results:
    return evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@generate"], limit=8)


@pytest.fixture
def sums(tmp_path: Path) -> Results:
    (tmp_path / "sums.yaml").write_text(WRITING)
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1 =", "answer": "2"}\n')
    return evaluate(model="dummy", model_args={"text": "It is 2"}, tasks=str(tmp_path / "sums.yaml"))


def test_a_score_is_found_by_the_bare_name_of_its_metric(results: Results) -> None:
    scores = results["quiz@mcqa"]
    assert (scores["acc"], scores["acc_stderr"]) == (scores["acc,none"], scores["acc_stderr,none"])
    assert ("acc" in scores, scores.get("acc"), scores.get("f1", "none")) == (True, scores["acc,none"], "none")


TWO_METRICS = """\
task: two
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_target: answer
metric_list:
  - {metric: !function utils.errors, aggregation: !function utils.largest, higher_is_better: false}
  - {metric: exact_match}
"""
METRIC_CODE = """\
def errors(references, predictions):
    return {"edits": float(len(references[0]))}


def largest(values):
    return max(values)
"""


def test_the_values_that_a_function_names_are_aggregated_and_directed_as_its_metric(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO_METRICS)
    (tmp_path / "utils.py").write_text(METRIC_CODE)
    rows = [{"question": "q", "answer": "a"}, {"question": "r", "answer": "four"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = evaluate(model="dummy", tasks=str(tmp_path / "two.yaml"), bootstrap_iters=0)
    assert results["two"]["edits"] == 4.0
    assert results.forms[0].higher_is_better == {"errors": False, "exact_match": True, "edits": False}
    assert results.forms[0].config["metric_list"][0]["metric"].startswith("def errors(references, predictions):")


def test_metrics_are_written_in_the_order_of_lm_eval_and_tables_begin_with_the_tasks_first() -> None:
    config = {
        "task": "ordered",
        "custom_dataset": lambda **_: {"test": [{"q": "2 + 2?", "options": ["3", "4"], "answer": 1}] * 2},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "q",
        "doc_to_choice": "options",
        "doc_to_target": "answer",
        "metric_list": [{"metric": name} for name in ("exact_match", "acc_norm", "acc")],
    }
    results = evaluate(model="dummy", tasks=[Task.from_config(config)])
    form = results.forms[0]
    assert form.primary == "exact_match,none"
    assert [key for key in form.scores() if key.endswith(",none") and "stderr" not in key] == [
        "acc,none",
        "acc_norm,none",
        "exact_match,none",
    ]
    line = results.samples(form.name)[0]
    assert line["metrics"] == ["acc", "acc_norm", "exact_match"]
    assert [key for key in line if key in line["metrics"]] == line["metrics"]


def test_a_single_reference_of_chrf_is_a_text_in_the_samples(tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed: pip install 'multiform[metrics]'")
    (tmp_path / "sums.yaml").write_text(WRITING.replace("exact_match", "chrf"))
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1 =", "answer": "2"}\n')
    results = evaluate(model="dummy", model_args={"text": "It is 2"}, tasks=str(tmp_path / "sums.yaml"))
    assert results.samples("sums")[0]["chrf"] == ("2", "2")
    assert results["sums"]["chrf,loose"] < results["sums"]["chrf,strict"] == 100


def test_a_missing_form_lists_those_that_there_are(results: Results) -> None:
    with pytest.raises(KeyError, match="no form or group 'quiz'; there are: quiz@mcqa, quiz@generate") as missing:
        results["quiz"]
    assert isinstance(missing.value, MultiformError)
    assert "quiz" not in results


def test_a_missing_score_lists_those_that_there_are(results: Results) -> None:
    with pytest.raises(KeyError, match="quiz@mcqa: no score 'accuracy'; there are: acc, acc_norm"):
        results["quiz@mcqa"]["accuracy"]


def test_of_several_filters_one_has_to_be_named(sums: Results) -> None:
    with pytest.raises(KeyError, match=r"has several filters; ask for 'exact_match,strict' or 'exact_match,loose'"):
        sums["sums"]["exact_match"]
    assert sums["sums"]["exact_match,strict"] == 1.0


def test_the_repr_is_a_few_lines(results: Results) -> None:
    lines = repr(results).splitlines()
    assert lines[0] == "<Results of dummy: 2 forms>"
    assert lines[1].startswith("  quiz@mcqa: acc 0.")
    assert lines[1].endswith("(n=8)")
    assert len(repr(results)) < 300


def test_the_repr_of_a_plan_is_the_plan() -> None:
    assert "8 documents" in repr(evaluate(model="dummy", tasks="quiz@mcqa", limit=8, plan_only=True))


def test_a_notebook_gets_a_table_notes_and_a_chart(results: Results) -> None:
    page = results._repr_html_()
    score = results["quiz@mcqa"]
    assert f"<td>mcqa</td><td>acc ↑</td><td>{score['acc']:.4f} ± {score['acc_stderr']:.3f}</td>" in page
    assert "<p>limit: the first 8 of 144 documents" in page
    if importlib.util.find_spec("altair"):
        assert re.search(r'<img alt="[^"]*quiz@mcqa: 0\.\d{3}[^"]*" src="data:image/svg\+xml;base64,', page)


def test_a_notebook_gets_the_spread_over_forms() -> None:
    several = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=8, progress=False)
    page = several._repr_html_()
    assert "<th>Best − worst<br>95 % interval, p</th>" in page
    one = evaluate(model="dummy", tasks="quiz@mcqa", limit=8, progress=False)
    assert "<th>95 % interval</th>" in one._repr_html_()


def test_a_data_frame_has_a_row_for_each_metric(results: Results) -> None:
    frame = results.to_pandas("scores")
    rows = frame[frame["name"] == "quiz@mcqa"]
    assert list(rows["metric"]) == ["acc", "acc_norm"]
    first = rows.iloc[0]
    assert (first["task"], first["format"], first["filter"], first["kind"]) == ("quiz", "mcqa", "none", "form")
    assert (first["value"], first["n"]) == (results["quiz@mcqa"]["acc"], 8)
    assert first["low"] <= first["value"] <= first["high"]


def test_without_pandas_it_says_what_to_install(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        results.to_pandas()


def test_results_are_saved_as_the_command_line_does(results: Results, tmp_path: Path) -> None:
    main, *samples = results.save(tmp_path / "out")
    assert json.loads(main.read_text())["results"]["quiz@mcqa"]["acc,none"] == results["quiz@mcqa"]["acc"]
    assert [path.name.partition("_2")[0] for path in samples] == ["samples_quiz@mcqa", "samples_quiz@generate"]
    (alone,) = results.save(tmp_path / "alone.json", samples=False)
    assert alone.parent == tmp_path


def test_a_sample_of_choices_has_the_picked_index_and_numbers(results: Results) -> None:
    for line in results.samples("quiz@mcqa"):
        likelihoods = line["loglikelihoods"]
        assert [str(value) for value in likelihoods] == [response[0][0] for response in line["resps"]]
        assert line["prediction"] == likelihoods.index(max(likelihoods))
        assert line["acc"] == float(line["prediction"] == line["gold"])
        assert all(isinstance(flag, bool) for flag in line["is_greedy"])


def test_a_sample_of_text_has_what_was_read(results: Results) -> None:
    lines = results.samples("quiz@generate")
    assert {line["prediction"] for line in lines} <= {"A", "B", "C", "D", None}
    for line in lines:
        assert line["exact_match"] == float(line["prediction"] == line["gold"])
        assert "loglikelihoods" not in line


def test_a_sample_has_what_each_filter_left(sums: Results) -> None:
    assert [(line["filter"], line["prediction"]) for line in sums.samples("sums")] == [
        ("strict", "2"),
        ("loose", "It is 2"),
    ]


def test_a_metric_of_that_name_stays_what_it_is(tmp_path: Path) -> None:
    task = {
        "task": "t",
        "custom_dataset": lambda **_: {"test": [{"question": "Who?", "answer": "I"}]},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "answer",
        "process_results": lambda doc, results: {"prediction": 0.5},
    }
    results = evaluate(model="dummy", tasks=[_task(task)])
    assert results.samples("t")[0]["prediction"] == 0.5


def _task(fields: dict[str, Any]) -> Task:
    return Task.from_config(fields)
