"""Reading versus knowing: what could not be extracted is told from what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from multiform import Completion, Model, Results, evaluate
from multiform.requests import FailedRequest
from multiform.results.export import to_json
from multiform.results.extraction import extraction_of
from multiform.results.notes import form_notes
from multiform.results.read import read_results
from tests.task_files import extracting

ANSWERS = [" B. blue", " C", "red or blue? rather blue", "who knows"]
TASK = """\
task: colours
dataset_path: rows.jsonl
test_split: test
doc_to_text: question
doc_to_choice: colours
doc_to_target: answer
"""
SUMS = extracting("sums", "sums.jsonl", r"#### (\d+)")


class Writer(Model):
    """Gives the answers of a list, by the number at the end of the question."""

    name = identity = "writer"

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = answers

    def loglikelihood(self, requests: Sequence[Any]) -> Iterator[Any]:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate(self, requests: Sequence[Any]) -> Iterator[Any]:
        for position, request in enumerate(requests):
            yield position, Completion(self.answers[int(request.context.partition("#")[2].partition("#")[0])])


@pytest.fixture
def colours(tmp_path: Path) -> Results:
    rows = [
        {"question": f"Which one is #{i}#?", "colours": ["red", "blue", "green"], "answer": 1}
        for i in range(len(ANSWERS))
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "colours.yaml").write_text(TASK)
    return evaluate(model=Writer(ANSWERS), tasks=f"{tmp_path}/colours.yaml@generate", progress=False)


@pytest.fixture
def sums(tmp_path: Path) -> Results:
    rows = [{"question": f"#{i}# 3 + 4 =", "answer": "7"} for i in range(3)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sums.yaml").write_text(SUMS)
    model = Writer(["#### 7", "That makes 7 in all", "#### 8"])
    return evaluate(model=model, tasks=f"{tmp_path}/sums.yaml", progress=False)


def test_documents_that_failed_and_count_as_wrong_are_wrong(colours: Results, tmp_path: Path) -> None:
    class Failing(Writer):
        def generate(self, requests: Sequence[Any]) -> Iterator[Any]:
            for position, response in super().generate(requests):
                yield position, FailedRequest(reason="no") if position == 3 else response

    task, out = f"{tmp_path}/colours.yaml@generate", tmp_path / "out"
    results = evaluate(model=Failing(ANSWERS), tasks=task, on_error="count", output_path=out, log_samples=True)
    for read in (results, read_results(out)):
        extraction = extraction_of(read.forms[0])
        assert extraction is not None
        shares = (extraction.right, extraction.wrong, extraction.missing, extraction.lenient)
        assert [share.value for share in shares] == [0.25, 0.5, 0.25, 0.5]
        assert extraction.unread == 1


def test_what_could_not_be_extracted_is_told_from_what_is_wrong(colours: Results) -> None:
    extraction = extraction_of(colours.forms[0])
    assert extraction is not None
    shares = (extraction.right, extraction.wrong, extraction.missing, extraction.lenient)
    assert [share.value for share in shares] == [0.25, 0.25, 0.5, 0.5]
    assert to_json(colours)["forms"]["colours@generate"]["extraction"]["missing"]["value"] == 0.5
    assert "colours@generate: no answer could be extracted from 0.500" in colours.table()


def test_a_lenient_extractor_reads_what_a_brittle_filter_does_not(sums: Results) -> None:
    extraction = extraction_of(sums.forms[0])
    assert extraction is not None
    assert (extraction.right.value, extraction.wrong.value, extraction.missing.value) == pytest.approx((1 / 3,) * 3)
    assert extraction.lenient.value == pytest.approx(2 / 3)


@pytest.mark.parametrize(("answer", "reference"), [("I am not sure.", "7"), ("I don't know", "Lyon"), ("no idea", "x")])
def test_a_completion_that_names_no_answer_is_missing_and_not_wrong(
    tmp_path: Path, answer: str, reference: str
) -> None:
    rows = [{"question": f"#{i}# Which?", "answer": reference} for i in range(2)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "free.yaml").write_text(
        "task: free\ndataset_path: rows.jsonl\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: question\ndoc_to_target: answer\nmetric_list: [{metric: exact_match}]\n"
    )
    results = evaluate(model=Writer([answer, "I think 12"]), tasks=f"{tmp_path}/free.yaml", progress=False)
    extraction = extraction_of(results.forms[0])
    assert extraction is not None
    assert (extraction.missing.value, extraction.wrong.value) == (0.5, 0.5)
    assert results.forms[0].estimates["exact_match,none"].value == 0


def test_a_sample_has_the_steps_from_the_text_to_the_prediction(colours: Results, sums: Results) -> None:
    assert sums.samples("sums")[1]["steps"] == [
        {"step": "completion", "value": ["That makes 7 in all"]},
        {"step": "filter regex", "value": ["[invalid]"]},
        {"step": "filter take_first", "value": ["[invalid]"]},
    ]
    read, *_, unread = colours.samples("colours@generate")
    assert read["steps"][0] == {"step": "completion", "value": [" B. blue"]}
    assert read["steps"][-1] == {"step": "scorer ChoiceMatch", "value": "B"}
    assert unread["steps"][-1] == {"step": "scorer ChoiceMatch", "value": None}


def test_ranked_choices_have_no_extraction() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=3, progress=False)
    assert extraction_of(results.forms[0]) is None
    assert "steps" not in results.samples("quiz@mcqa")[0]
    assert "extraction" not in to_json(results)["forms"]["quiz@mcqa"]


class Ended(Writer):
    """A writer on a server that counts tokens, whose completions may be cut off."""

    def __init__(self, answers: Sequence[str], *, truncated: bool) -> None:
        super().__init__(answers)
        self.truncated, self.tokens = truncated, 0

    def generate(self, requests: Sequence[Any]) -> Iterator[Any]:
        for position, completion in super().generate(requests):
            self.tokens += 10
            yield position, Completion(completion.text, truncated=self.truncated)

    def server_tokens(self) -> dict[str, int]:
        return {"prompt": 2 * self.tokens, "completion": self.tokens}


@pytest.mark.parametrize("truncated", [True, False])
def test_truncation_is_named_as_the_cause(colours: Results, tmp_path: Path, truncated: bool) -> None:
    model = Ended(["I think", "well", "so", "hm"], truncated=truncated)
    results = evaluate(model=model, tasks=f"{tmp_path}/colours.yaml@generate", progress=False)
    cause = "4 of the 4 without an answer were cut off at the limit of tokens: raise it, e.g. --gen_kwargs max_gen_toks"
    assert (cause in " ".join(form_notes(results))) == truncated


def test_tokens_that_a_server_counts_are_those_of_the_run(colours: Results, tmp_path: Path) -> None:
    model = Ended(ANSWERS, truncated=False)
    for _ in range(2):  # runs may share a model
        results = evaluate(model=model, tasks=f"{tmp_path}/colours.yaml@generate", progress=False)
        assert to_json(results)["config"]["server_tokens"] == {"prompt": 80, "completion": 40}
        assert "the server counted 80 tokens of prompts and 40 of completions" in str(results)
