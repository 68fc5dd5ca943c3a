"""Reports that the viewer reads in parts: they say what a report of all samples says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import evaluate, read_results
from multiform.report.page import payload
from multiform.report.streaming import StreamedReport
from multiform.requests import Completion
from multiform.results.export import json_line
from multiform.results.read import recorded_run, results_files


def whole_report(files: list[Path]) -> tuple[dict[str, Any], list[Any]]:
    """What a report of all samples says, and its blocks."""
    data = payload([read_results(file) for file in files], title="title")
    blocks = [json.loads(json_line({"samples": block}))["samples"] for block in data.blocks]
    return json.loads(json_line(data.main)), blocks


def streamed_report(files: list[Path]) -> tuple[dict[str, Any], list[Any]]:
    """The same from the lines of a streamed report."""
    report = StreamedReport([recorded_run(file) for file in files], "title")
    first, *forms, last = map(json.loads, report.lines())
    assert report.problem is None
    main = {**first, "forms": [line["form"] for line in forms], **last}
    blocks: list[Any] = []
    while (block := report.block(len(blocks))) is not None:
        blocks.append(json.loads(json_line({"samples": block}))["samples"])
    return main, blocks


def assert_equal(files: list[Path]) -> None:
    (main, blocks), (expected, expected_blocks) = streamed_report(files), whole_report(files)
    for key, value in expected.items():
        assert main[key] == value, key
    assert main.keys() == expected.keys()
    assert blocks == expected_blocks


def test_a_streamed_report_says_what_the_whole_one_says(tmp_path: Path) -> None:
    evaluate(model="dummy", tasks="quiz@all", num_fewshot=2, limit=30, progress=False, output_path=tmp_path,
             log_samples=True)  # fmt: skip
    assert_equal(results_files(tmp_path))


def test_two_grouped_runs_are_compared_as_a_whole_report_compares_them(tmp_path: Path) -> None:
    rows = [
        {"question": f"Is {n} even?", "choices": ["yes", "no"], "answer": n % 2, "passage": n // 3} for n in range(30)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\ndoc_to_choice: choices\n"
            "doc_to_target: answer\nmetadata: {cluster: passage}\n"
        )
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [first, second]\naggregate_metric_list:\n  - metric: acc\n    weight_by_size: true\n"
    )
    for seed in (0, 1):
        evaluate(model="dummy", model_args={"seed": seed}, tasks="both@mcqa+cloze", include_path=str(tmp_path),
                 progress=False, output_path=tmp_path / "out", log_samples=True)  # fmt: skip
    files = results_files(tmp_path / "out")
    assert len(files) == 2
    assert_equal(files)


def test_thoughts_that_were_cut_off_are_noted_alike(tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate", limit=6, progress=False, use_cache=False)
    outputs = [
        Completion("", truncated=True, thought="hm"),
        Completion("B", thought="so"),
        Completion("C", truncated=True),
    ]
    samples = [
        replace(sample, outputs=(outputs[number % 3],)) for number, sample in enumerate(results.forms[0].samples)
    ]
    replace(results, forms=[replace(results.forms[0], samples=samples)]).save(tmp_path)
    files = results_files(tmp_path)
    assert_equal(files)
    notes = " ".join(streamed_report(files)[0]["overview"]["attention"])
    assert "2 of 4 thoughts were cut off" in notes


def test_completions_are_counted_alike_where_most_need_no_note(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"q": "What?", "a": "one"}\n' * 6)
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: rows.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_target: a\n"
            "output_type: generate_until\nmetric_list: [{metric: exact_match}]\n"
        )
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [first, second]\naggregate_metric_list: [{metric: exact_match}]\n"
    )
    results = evaluate(model="dummy", tasks="both", include_path=str(tmp_path), progress=False, use_cache=False)
    first, second = results.forms
    samples = [replace(s, outputs=(Completion("C", truncated=s.doc_id == 3),)) for s in first.samples]
    replace(results, forms=[replace(first, samples=samples), second]).save(tmp_path / "out")
    files = results_files(tmp_path / "out")
    assert_equal(files)
    notes = " ".join(streamed_report(files)[0]["overview"]["attention"])
    assert "both: of the completions of 12 documents, 1 cut off at a limit" in notes


def test_the_scores_come_before_any_sample_is_read(tmp_path: Path) -> None:
    evaluate(model="dummy", tasks="quiz@mcqa", limit=6, progress=False, output_path=tmp_path, log_samples=True)
    [file] = results_files(tmp_path)
    [samples] = tmp_path.rglob("samples_*.jsonl")
    samples.write_text("no sample\n")
    report = StreamedReport([recorded_run(file)], "title")
    first, last = map(json.loads, report.lines())
    assert first["overview"]["sentence"].startswith("dummy scores 0.")
    assert "the line is not a sample" in last["problem"]
    assert report.block(0) is None


@pytest.mark.parametrize("extraction", [{"right": 5}, {"right": {"value": "good"}}])
def test_a_malformed_record_of_extraction_is_an_error_in_words(tmp_path: Path, extraction: Any) -> None:
    evaluate(model="dummy", tasks="quiz@generate", limit=4, progress=False, output_path=tmp_path)
    [file] = results_files(tmp_path)
    content = json.loads(file.read_text())
    content["forms"]["quiz@generate"]["extraction"] = extraction
    file.write_text(json.dumps(content))
    with pytest.raises((TypeError, ValueError, KeyError)):  # which the server shows as a message
        StreamedReport([recorded_run(file)], "title")
