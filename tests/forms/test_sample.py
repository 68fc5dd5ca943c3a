"""Sample and ScoredSample: what they say about a document and its responses."""

from __future__ import annotations

import pytest

from multiform import Sample, ScoredSample, UsageError
from multiform.forms.sample import read_response
from multiform.requests import Completion, GenerationRequest, Instance, LLOutput, LoglikelihoodRequest

RANKED = tuple(
    Instance(4, i, LoglikelihoodRequest("Can fish fly?", f" {text}")) for i, text in enumerate(["no", "yes"])
)
SAMPLE = Sample(doc_id=4, doc={"q": "Can fish fly?"}, target=0, choices=("no", "yes"), gold=(0,), instances=RANKED)


def scored(*loglikelihoods: float) -> ScoredSample:
    outputs = tuple(LLOutput(value) for value in loglikelihoods)
    return ScoredSample(sample=SAMPLE, outputs=outputs, scorer="none", filtered=(), values={"acc": 1.0}, prediction=0)


def test_the_prompt_is_the_context_of_the_first_request():
    assert SAMPLE.prompt == "Can fish fly?"
    assert Sample(doc_id=0, doc={}).prompt == ""


def test_a_sample_is_shown_with_its_question_and_its_gold_answer():
    assert repr(SAMPLE) == "<Sample of doc 4: 2 requests about 'Can fish fly?', gold 0 ('no')>"
    assert repr(scored(-1, -2)) == ("<ScoredSample of doc 4 by 'none': predicted 0 ('no'), gold 0 ('no'); acc 1.0>")


def test_choices_are_tied_where_several_share_the_best_likelihood():
    assert scored(-1.0, -1.0).tied_choices == (0, 1)
    assert scored(-1.0, -2.0).tied_choices == ()


def test_gold_is_the_target_where_no_choice_is_right():
    assert scored(-1, -2).gold == 0
    free = Sample(doc_id=0, doc={}, target="Paris")
    assert ScoredSample(sample=free, outputs=(), scorer="none", filtered=(), values={}).gold == "Paris"


def test_responses_in_instances_may_be_texts_or_pairs():
    request = GenerationRequest.of("Why?", {})
    assert read_response(Instance(0, 0, request, resps=["So."]), "facts") == Completion("So.")
    assert read_response(Instance(1, 0, RANKED[0].request, resps=[(-1.5, True)]), "facts") == LLOutput(-1.5, True)


def test_an_instance_without_a_response_is_named():
    with pytest.raises(UsageError, match="facts: doc 4: request 0: there is no response yet"):
        read_response(RANKED[0], "facts")
