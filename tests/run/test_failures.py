"""Requests that fail: the rest is asked, and the results say what failed and what it could change."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import Completion, LLOutput, TaskManager, evaluate, stop_requested
from multiform.errors import DataError, IncompleteRunError, UsageError
from multiform.models.dummy import DummyModel
from multiform.requests import FailedRequest, LoglikelihoodRequest, Response
from multiform.results.export import to_json
from multiform.results.notes import result_notes
from multiform.run.database import export_lines


class Failing(DummyModel):
    """Fails on the requests about some documents of the quiz; each has four."""

    stored = True

    def __init__(self, *docs: int, output: Any = FailedRequest(reason="HTTP 400: no", retried=2)) -> None:  # noqa: B008
        super().__init__()
        self.docs = docs
        self.output = output
        self.asked = 0

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for position, output in super().loglikelihood(requests):
            self.asked += 1
            failed = position // 4 in self.docs and position % 4 == 2
            yield position, self.output if failed else output


def run(model: DummyModel, **options: Any) -> Any:
    return evaluate(model=model, tasks="quiz@mcqa", limit=10, **options)


def test_a_failed_request_ends_the_run_when_all_others_are_stored() -> None:
    model = Failing(3, 7)
    with pytest.raises(IncompleteRunError) as caught:
        run(model)
    assert str(caught.value) == (
        "2 of 10 documents failed: quiz@mcqa doc 3 (HTTP 400: no), quiz@mcqa doc 7 (HTTP 400: no); "
        "the responses so far are stored; run the same command again to go on; "
        "with on_error skip they are left out, with count they count as wrong"
    )
    assert (caught.value.exit_code, model.asked) == (1, 40)
    assert (caught.value.results.status, caught.value.results["quiz@mcqa"]["sample_len"]) == ("failed", 8)
    again = Failing()
    assert run(again)["quiz@mcqa"]["sample_len"] == 10
    assert again.asked == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("on_error", ["stop", "skip", "count"])
def test_a_log_likelihood_that_is_no_number_is_not_scored(value: float, on_error: str) -> None:
    with pytest.raises(IncompleteRunError, match=f"10 of 10 documents failed: .*the log-likelihood is {value}"):
        run(Failing(*range(10), output=LLOutput(value)), on_error=on_error)
    again = Failing()
    run(again)
    assert again.asked == 10


def accuracy(docs: Sequence[int]) -> float:
    scored = {sample.doc_id: sample.values["acc"] for sample in run(DummyModel()).forms[0].samples}
    return float(sum(scored[doc] for doc in docs))


def test_failed_documents_are_left_out() -> None:
    results = run(Failing(3, 7), on_error="skip")
    right = accuracy([0, 1, 2, 4, 5, 6, 8, 9])
    assert results["quiz@mcqa"]["acc,none"] == pytest.approx(right / 8)
    failures = to_json(results)["failures"]["quiz@mcqa"]
    assert failures["documents"] == [
        {"doc_id": doc, "reason": "HTTP 400: no", "requests": 1, "retried": 2} for doc in (3, 7)
    ]
    assert failures["bounds"]["acc,none"] == pytest.approx([right / 10, (right + 2) / 10])
    assert results["quiz@mcqa"]["sample_len"] == 8


def test_failed_documents_count_as_wrong(tmp_path: Path) -> None:
    results = run(Failing(3, 7), on_error="count", output_path=tmp_path, log_samples=True)
    right = accuracy([0, 1, 2, 4, 5, 6, 8, 9])
    assert results["quiz@mcqa"]["acc,none"] == pytest.approx(right / 10)
    assert results["quiz@mcqa"]["sample_len"] == 10
    [file] = tmp_path.rglob("samples_*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == list(range(10))
    assert [(line["failure"], line["acc"], line["resps"][0]) for line in lines if "failure" in line] == [
        ("HTTP 400: no", 0.0, [])
    ] * 2


def test_the_table_says_what_failed() -> None:
    results = run(Failing(3, 7), on_error="skip")
    note, _ = result_notes(results)  # and one on the limit
    assert f"<p>{note}</p>" in results._repr_html_()
    assert note.startswith("quiz@mcqa: 2 of 10 documents failed and are left out (doc 3: HTTP 400: no; doc 7: HTTP 400")
    assert "with these all wrong or all right, acc is " in note


def test_a_metric_that_has_no_worst_value_is_over_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"text": f"Some text number {i}."} for i in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = tmp_path / "texts.yaml"
    task.write_text(
        "task: texts\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: loglikelihood_rolling\n"
        "doc_to_text: ''\ndoc_to_target: text\nmetric_list:\n  - metric: bits_per_byte\n"
    )

    class NoNumber(DummyModel):
        def loglikelihood_rolling(self, requests: Any) -> Iterator[Response[LLOutput]]:
            for position, output in super().loglikelihood_rolling(requests):
                yield position, output if position else LLOutput(math.nan)

    results = evaluate(model=NoNumber(), tasks=str(task), on_error="count")
    assert (results.forms[0].estimates["bits_per_byte,none"].n, results.forms[0].bounds) == (3, {})
    assert "'bits_per_byte' is over 3 of 4 documents" in caplog.text


def test_a_group_has_bounds(tmp_path: Path) -> None:
    group = tmp_path / "both.yaml"
    group.write_text("group: both\ntask: [quiz@mcqa, quiz@cloze]\naggregate_metric_list:\n  - metric: acc\n")
    results = evaluate(model=Failing(3), tasks=str(group), limit=10, on_error="skip")
    mcqa, cloze = (results[form]["acc"] for form in ("quiz@mcqa", "quiz@cloze"))
    low, high = to_json(results)["failures"]["both"]["bounds"]["acc,none"]
    assert (low, high) == pytest.approx(((mcqa * 9 + cloze * 10) / 20, (mcqa * 9 + 1 + cloze * 10) / 20))


@pytest.mark.parametrize(("limit", "asked"), [(0, 3), (1, 15), (0.1, 15), (0.05, 3), (5, 40)])
def test_too_many_failures_end_the_asking(limit: float, asked: int) -> None:
    model = Failing(0, 3, 8)
    with pytest.raises(IncompleteRunError) as caught:
        run(model, max_failures=limit)
    assert ("more than max_failures allows" in str(caught.value)) == (asked < 40)
    # A document has failed when its last response is there; one more response is on its way then.
    assert asked <= model.asked <= asked + 2


def test_as_many_failures_as_are_allowed_do_not_end_it() -> None:
    assert run(Failing(0, 3), on_error="skip", max_failures=2)["quiz@mcqa"]["sample_len"] == 8


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_error": "ignore"}, "on_error: expected one of stop, skip, count, got 'ignore'"),
        ({"max_failures": -1}, "max_failures: expected a whole number of documents or a share below 1, got -1"),
        ({"max_failures": 1.5}, "max_failures: expected a whole number of documents or a share below 1, got 1.5"),
        ({"max_failures": "1"}, "max_failures: expected a whole number of documents or a share below 1, got '1'"),
    ],
)
def test_policies_that_cannot_be_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(DummyModel(), **options)


def test_a_model_that_fails_as_a_whole_leaves_partial_results(tmp_path: Path) -> None:
    class Gone(DummyModel):
        def loglikelihood(self, requests: Any) -> Iterator[Response[LLOutput]]:
            yield from list(super().loglikelihood(requests))[:9]
            raise RuntimeError("the device is gone")

    with pytest.raises(IncompleteRunError, match="model 'dummy' failed: RuntimeError: the device is gone") as caught:
        run(Gone(), output_path=tmp_path, log_samples=True)
    assert caught.value.results["quiz@mcqa"]["sample_len"] == 2
    [results], [samples] = tmp_path.rglob("partial_results_*.json"), tmp_path.rglob("partial_samples_*.jsonl")
    assert json.loads(results.read_text())["status"] == "failed"
    assert len(samples.read_text().splitlines()) == 2


def test_a_mistake_in_scoring_loses_nothing_that_is_in_flight(tmp_path: Path) -> None:
    class Batches(DummyModel):
        handles_stop = True
        asked = 0

        def loglikelihood(self, requests: Any) -> Iterator[Response[LLOutput]]:
            every = list(super().loglikelihood(requests))
            for start in range(0, len(every), 12):
                if stop_requested():
                    return
                self.asked += 12
                yield from every[start : start + 12]

    def refuse(doc: Any, results: Any) -> dict[str, float]:
        raise KeyError("points")

    config = TaskManager().load("quiz@mcqa")[0].replace(process_results=refuse)
    path = tmp_path / "answers.db"
    model = Batches()
    with pytest.raises(DataError, match="process_results failed: KeyError: 'points'"):
        evaluate(model=model, tasks=config, limit=10, use_cache=path)
    assert model.asked == 12
    assert len(list(export_lines(path))) == 12


def test_a_completion_that_is_no_text_has_failed() -> None:
    class Mute(DummyModel):
        def generate(self, requests: Any) -> Iterator[Response[Completion]]:
            for position, output in super().generate(requests):
                yield position, output if position else Completion(None)  # type: ignore[arg-type]

    results = evaluate(model=Mute(), tasks="quiz@generate", limit=4, on_error="skip")
    [failed] = results.forms[0].failed
    assert failed.reason.startswith("expected a completion, got Completion(text=None, truncated=False, ")
