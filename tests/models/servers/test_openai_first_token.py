"""Labels by the tokens that a server lists in the place of the first one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import multiform
from multiform.errors import ModelError
from multiform.models.servers.openai_chat import OpenAIChat, merge_alternatives, unlisted_score
from multiform.requests import FailedRequest, LoglikelihoodRequest
from tests.models.fake_server import Fault

LABELS = (" A", " B", " C", " D")


def listing(*pairs: tuple[str, Any]) -> Fault:
    """A chat completion that lists these tokens."""
    top = [{"token": token, "logprob": value} for token, value in pairs]
    choice = {"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": top}]}, "finish_reason": "length"}
    return Fault(body=json.dumps({"choices": [choice]}).encode())


def scores(server: Any, fault: Fault, labels: tuple[str, ...] = LABELS) -> list[Any]:
    model = OpenAIChat(model="tiny", base_url=server.base_url, max_retries=0)
    server.faults.append(fault)
    outputs = dict(model.loglikelihood([LoglikelihoodRequest("Pick one.", label) for label in labels]))
    return [outputs[position] for position in range(len(labels))]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("others", [(), (("x", -0.01), ("y", -5.0)), (("x", 0.0),)], ids=["alone", "last", "certain"])
def test_the_only_label_that_is_listed_wins(server: Any, place: int, others: tuple[tuple[str, float], ...]) -> None:
    outputs = [
        output.loglikelihood
        for output in scores(server, listing(*others, (LABELS[place].strip(), -30.0 if others else -0.1)))
    ]
    best = [index for index, value in enumerate(outputs) if value == max(outputs)]
    assert best == [place]


def test_labels_that_are_not_listed_do_not_win_by_their_length(server: Any) -> None:
    labels = (" 10", " 9", " 100")
    outputs = scores(server, listing(("word", -0.01), ("9", -8.0)), labels)
    for lengths in ([len(label) for label in labels], [len(label.strip()) for label in labels]):
        norms = [output.loglikelihood / length for output, length in zip(outputs, lengths, strict=True)]
        assert max(norms) == norms[1]
        assert norms.count(max(norms)) == 1


def test_a_token_that_is_listed_twice_has_both_probabilities() -> None:
    merged = merge_alternatives([("A", -1.0), ("B", -1.2), ("A", -3.0), ("A", -1.0)])
    assert merged["A"] == pytest.approx(math.log(math.exp(-1) + math.exp(-3)))
    assert merged["B"] == -1.2


def test_the_first_of_two_entries_is_not_lost(server: Any) -> None:
    outputs = scores(server, listing(("A", -0.2), ("B", -2.0), ("A", -9.0)))
    assert outputs[0].loglikelihood > outputs[1].loglikelihood
    assert outputs[0].is_greedy


def test_the_score_of_an_unlisted_label_is_at_most_the_rest() -> None:
    assert unlisted_score(LABELS, {"A": math.log(0.5), "B": math.log(0.4999)}) < math.log(1e-4)
    assert unlisted_score(LABELS, {"A": -0.5, "B": -math.inf, "C": -3e38}) < -0.5


@pytest.mark.parametrize(
    "pairs",
    [
        [("A", 0.5), ("B", -1.0)],
        [("A", -0.1), ("B", -0.1), ("C", -0.2)],
        [("A", 0.0), ("B", 0.0), ("C", 0.0)],
        [("A", -9999.0), ("B", -9999.0)],
        [("A", -math.inf), ("B", -math.inf)],
        [("A", -2.0), ("B", -2.0), ("C", -2.0)],
        [("A", math.nan)],
        [("A", "-1.0")],
        [("A", None)],
        [],
    ],
    ids=["positive", "more than 1", "all 0", "all -9999", "all -inf", "all alike", "NaN", "text", "null", "nothing"],
)
def test_numbers_that_cannot_be_right_are_refused(server: Any, pairs: list[tuple[str, Any]]) -> None:
    with pytest.raises(ModelError, match="first token"):
        merge_alternatives(pairs)
    outputs = scores(server, listing(*pairs))
    assert all(isinstance(output, FailedRequest) for output in outputs)


def test_the_right_answer_of_a_run_is_not_lost_to_unlisted_labels(server: Any) -> None:
    """Of each document the right label alone is listed, as the least likely of all tokens."""
    gold = {sample["prompt"]: sample["gold"] for sample in dummy_samples()}
    server.fault_of = lambda prompt: listing(("x", -1e-9), ("y", -25.0), ("ABCD"[gold[prompt]], -35.0))
    results = multiform.evaluate(
        model="openai-chat", model_args={"model": "tiny", "base_url": server.base_url}, tasks=["quiz@mcqa"], limit=6
    )
    assert results["quiz@mcqa"]["acc,none"] == 1.0
    assert results.forms[0].ties == 0


def dummy_samples() -> list[dict[str, Any]]:
    return multiform.evaluate(model="dummy", tasks=["quiz@mcqa"], limit=6).samples()
