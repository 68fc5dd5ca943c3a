"""Models that think: thoughts are kept apart from answers, and those cut off are told from wrong answers."""

from __future__ import annotations

import json

from multiform import Completion, Model, evaluate
from multiform.requests import GenerationRequest, split_thought
from multiform.results.read import read_results
from multiform.run.store import output_line, read_output


class Thinker(Model):
    """Thinks, and then names the choice D; every second thought is cut off."""

    name = identity = "thinker"
    stored = True

    def loglikelihood(self, requests): ...

    def loglikelihood_rolling(self, requests): ...

    def generate(self, requests):
        for position, _ in enumerate(requests):
            if position % 2:
                yield position, Completion("", truncated=True, thought="The best answer is A, or is")
            else:
                yield position, Completion("The best answer is D", thought="It is not A.")


def run(tmp_path, **options):
    return evaluate(
        model=Thinker(), tasks="quiz@mcq_cot", limit=4, output_path=tmp_path / "out", log_samples=True,
        use_cache=tmp_path / "store.db", **options,
    )  # fmt: skip


def test_thoughts_are_in_the_samples_and_read_back(tmp_path):
    run(tmp_path)
    [path] = (tmp_path / "out").rglob("samples_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["thoughts"] for line in lines[:2]] == [["It is not A."], ["The best answer is A, or is"]]
    results = read_results(next((tmp_path / "out").rglob("results_*.json")))
    output = results.forms[0].samples[0].outputs[0]
    assert isinstance(output, Completion)
    assert output.thought == "It is not A."


def test_thoughts_that_were_cut_off_are_told_from_wrong_answers(tmp_path):
    text = str(run(tmp_path, gen_kwargs={"max_gen_toks": 2048}))
    assert "quiz@mcq_cot: 2 of 4 thoughts were cut off at 2,048 tokens; they count as wrong" in text
    assert "2 of the 2 without an answer were cut off at the limit of tokens" in text


def test_a_thought_is_not_searched_for_the_answer(tmp_path):
    [form] = run(tmp_path).forms
    assert [sample.prediction for sample in form.samples] == ["D", None, "D", None]


def test_stored_thoughts_come_back_and_old_rows_are_read():
    request = GenerationRequest.of("Hi", {})
    thoughtful = Completion("4", thought="2 + 2")
    assert read_output(output_line(thoughtful), request) == thoughtful
    assert read_output('["I", false, false, "content_filter"]', request) == Completion(
        "I", finish_reason="content_filter"
    )
    assert read_output('["4", true]', request) == Completion("4", truncated=True)
    assert read_output('["4", true, false, null, 7]', request) is None


def test_an_unfinished_thought_is_no_text():
    assert split_thought("<think>Hm", "</think>") == ("Hm", "")
    assert split_thought("Hm", "</think>", begun=True) == ("Hm", "")
    assert split_thought("Hm", "</think>") == (None, "Hm")
