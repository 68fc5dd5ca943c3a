"""Choices that are scored by their log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from multiform import DataError, Task, TaskConfig, evaluate
from multiform.models.dummy import DummyModel
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response


class Tokenless(DummyModel):
    """Has no token for a bell, so that a continuation of bells is empty."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        for index, request in enumerate(requests):
            tokens = len(request.continuation.replace("\a", ""))
            yield index, LLOutput(-1.0 * tokens, tokens=tokens)


def config(choices: list[str], delimiter: str) -> TaskConfig:
    return TaskConfig(
        task="t",
        output_type="multiple_choice",
        custom_dataset=lambda **_: {"test": [{"question": "Is it?", "choices": choices, "answer": 0}]},
        test_split="test",
        doc_to_text="{{question}}",
        doc_to_choice="choices",
        doc_to_target="answer",
        target_delimiter=delimiter,
    )


def test_an_empty_choice_is_an_error_before_a_model_runs() -> None:
    with pytest.raises(DataError, match=r"choice 2 is empty, so its log-likelihood would be 0"):
        evaluate(model="dummy", tasks=config(["yes", ""], ""))


def test_a_choice_that_a_model_has_no_token_for_is_an_error() -> None:
    with pytest.raises(DataError, match=r"choice 1 has no token of the model's.* it would always win"):
        evaluate(model=Tokenless(), tasks=config(["\a", "no"], ""))


def test_an_empty_choice_after_a_space_is_scored() -> None:
    assert "acc" in str(evaluate(model="dummy", tasks=config(["yes", ""], " ")))


class CutOff(DummyModel):
    """Whose completions run into the token limit, but for the first of each document."""

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            yield position, Completion("4", truncated=request.sample > 0)


def test_every_repeat_that_is_cut_off_counts() -> None:
    config = TaskConfig(
        task="sums",
        custom_dataset=lambda **_: {"test": [{"question": "2 + 2?", "answer": "4"}]},
        test_split="test",
        doc_to_text="question",
        doc_to_target="answer",
        output_type="generate_until",
        repeats=4,
        metric_list=[{"metric": "truncated", "reduction": "mean"}],
    )
    [form] = evaluate(model=CutOff(), tasks=[config], use_cache=False).forms
    assert form.estimates[form.primary].value == 0.75


@pytest.mark.parametrize("answer", [[], None], ids=["an empty list", "null"])
@pytest.mark.parametrize("output_type", ["generate_until", "loglikelihood"])
def test_a_few_shot_example_without_an_answer_is_an_error_that_names_it(output_type: Any, answer: Any) -> None:
    docs = [{"q": "2 + 2?", "a": ["4"]}, {"q": "3 + 3?", "a": answer}]
    config = TaskConfig(
        task="t",
        output_type=output_type,
        custom_dataset=lambda **_: {"test": docs[:1]},
        test_split="test",
        doc_to_text="q",
        doc_to_target="a",
        num_fewshot=1,
        fewshot_config={"samples": docs[1:]},
    )
    with pytest.raises(DataError, match="few-shot sample 0: doc 0: there is no answer"):
        Task.from_config(config).sample(0, docs[0])


def test_an_empty_list_of_answers_is_not_scored_as_a_text() -> None:
    doc = {"q": "2 + 2?", "a": []}
    data: dict[str, Any] = {"custom_dataset": lambda **_: {"test": [doc]}, "test_split": "test"}
    config = TaskConfig(task="t", output_type="loglikelihood", doc_to_text="q", doc_to_target="a", **data)
    with pytest.raises(DataError, match="doc 0: there is no answer"):
        Task.from_config(config).sample(0, doc)
