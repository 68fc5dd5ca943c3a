"""Choices that are scored by their log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from multiform import DataError, TaskConfig, evaluate
from multiform.models.dummy import DummyModel
from multiform.requests import LLOutput, LoglikelihoodRequest, Response


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
