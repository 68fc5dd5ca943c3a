"""Log-likelihoods: right, and the same in every batch."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from multiform.errors import ModelError
from multiform.models.hf.model import HFModel
from multiform.models.model import Counters
from multiform.models.tokenizer import rolling_windows
from multiform.models.torch import forward
from multiform.models.torch.device import PASS_TOKENS, run_batches
from multiform.models.torch.forward import ScoringWay, token_logprobs
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.scoring import batch_plan, score_in_batches
from multiform.requests import LLOutput, LoglikelihoodRequest, RollingRequest

CONTEXTS = ["The dog", "Question: what is it?\nAnswer:", "", "the capital of France is", "A"]
CONTINUATIONS = [" yes", " no, the cat sat on the mat.", " Paris", "\n\n", " 42"]
REQUESTS = [LoglikelihoodRequest(a, b) for a in CONTEXTS for b in CONTINUATIONS]


def by_hand(model: HFModel, pair: Pair) -> LLOutput:
    """One pair alone, in float64 log-probabilities over all logits."""
    with torch.no_grad():
        logits = model.model(torch.tensor([pair.tokens[:-1].tolist()])).logits[0].double()
    rows = logits[pair.start - 1 :].log_softmax(-1)
    target = torch.tensor(pair.continuation)
    return LLOutput(float(rows[range(len(target)), target].sum()), bool((rows.argmax(-1) == target).all()))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2", "mamba"])
def test_scores_are_those_of_each_pair_alone(kind: str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)), batch_size=4)
    outputs = dict(model.loglikelihood(REQUESTS))
    pairs = model.encoder.pairs([(r.context, r.continuation) for r in REQUESTS])
    assert sorted(outputs) == list(range(len(REQUESTS)))
    for index, pair in enumerate(pairs):
        expected = by_hand(model, pair)
        assert outputs[index].loglikelihood == pytest.approx(expected.loglikelihood, abs=1e-4)
        assert outputs[index].is_greedy == expected.is_greedy


@pytest.mark.parametrize("batch_size", [1, 3, 64, "auto"])
def test_scores_depend_on_neither_batch_size_nor_order(
    batch_size: int | str, llama: HFModel, tiny: Callable[..., Path]
) -> None:
    expected = dict(llama.loglikelihood(REQUESTS))
    order = random.Random(5).sample(range(len(REQUESTS)), len(REQUESTS))
    model = HFModel(str(tiny()), batch_size=batch_size)
    for position, output in model.loglikelihood([REQUESTS[index] for index in order]):
        before = expected[order[position]]
        assert output.loglikelihood == pytest.approx(before.loglikelihood, abs=1e-4)
        assert output.is_greedy == before.is_greedy


def test_a_greedy_continuation_is_marked_as_such(llama: HFModel) -> None:
    ids = llama.encoder.encode(["The dog"])["The dog"].tolist()
    with torch.no_grad():
        best = int(llama.model(torch.tensor([ids])).logits[0, -1].argmax())
    greedy = {token: Pair(array("i", [*ids, token]), len(ids)) for token in (best, best - 1)}
    outputs = dict(llama.engine.score(list(greedy.values())))
    assert [outputs[0].is_greedy, outputs[1].is_greedy] == [True, False]


def batch_lengths(model: HFModel, pairs: Sequence[Pair], limits: BatchLimits, way: ScoringWay) -> list[list[int]]:
    batches = batch_plan(model.planner.lm, pairs, limits, way, max_kept=0).batches
    return [[row.stop - row.start for row in batch.rows] for batch in batches]


def test_one_token_labels_of_a_question_are_one_row(llama: HFModel) -> None:
    pairs = [Pair(array("i", [1, 2, label]), 2) for label in (7, 8, 9)]
    assert batch_lengths(llama, pairs, BatchLimits(8, 512), ScoringWay.PADDED) == [[2]]


def test_rows_come_longest_first_in_batches_or_alone(llama: HFModel) -> None:
    pairs = [Pair(array("i", range(length)), 1) for length in (3, 9, 5)]
    assert batch_lengths(llama, pairs, BatchLimits(8, 512), ScoringWay.PADDED) == [[8, 4, 2]]
    assert batch_lengths(llama, pairs, BatchLimits(8, 512), ScoringWay.ALONE) == [[8], [4], [2]]
    assert batch_lengths(llama, pairs, BatchLimits(8, 16), ScoringWay.PADDED) == [[8, 4], [2]]


def test_every_request_of_a_batch_is_scored_by_its_own_row(llama: HFModel) -> None:
    # One sequence is the beginning of another: what a model gives the first need not be what it gives the second.
    pairs = [Pair(array("i", [1, 2, 3, 4]), 2), Pair(array("i", [1, 2, 3, 4, 5, 6]), 2)]
    planned = batch_plan(llama.planner.lm, pairs, BatchLimits(8, 512), ScoringWay.PADDED, max_kept=0)
    assert [
        [(output.request, output.start, output.stop) for output in branch.needed] for branch in planned.branches
    ] == [
        [(0, 1, 3)],
        [(1, 1, 5)],
    ]
    outputs = dict(score_in_batches(llama.planner.lm, pairs, BatchLimits(8, 512), Counters()))
    for index, pair in enumerate(pairs):
        assert outputs[index].loglikelihood == pytest.approx(by_hand(llama, pair).loglikelihood, abs=1e-4)


def test_an_empty_continuation_is_certain(llama: HFModel) -> None:
    assert list(llama.loglikelihood([LoglikelihoodRequest("The dog", "")])) == [(0, LLOutput(0.0, True, 0))]


def test_responses_come_as_soon_as_there_are_enough(tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFModel(str(tiny()))
    monkeypatch.setitem(PASS_TOKENS, "cpu", 12)
    _ = model.planner.mode
    before = model.counters.passes
    outputs = model.loglikelihood(REQUESTS)
    next(outputs)
    first = model.counters.passes
    list(outputs)
    assert before < first < model.counters.passes


def test_a_batch_holds_no_more_rows_and_tokens_than_the_limits_say() -> None:
    lengths = (50, 30, 10, 10, 10, 10)
    sizes = list(run_batches(lengths, lambda length: length, BatchLimits(rows=3, tokens=60), len))
    assert sizes == [1, 2, 3]


def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_lost() -> None:
    done: list[int] = []

    def run(batch: Sequence[int]) -> int:
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        done.extend(batch)
        return len(batch)

    assert list(run_batches(range(10), lambda _: 5, BatchLimits(rows=8, tokens=1000), run)) == [2, 2, 2, 2, 2]
    assert done == list(range(10))


def test_one_row_that_does_not_fit_is_an_error() -> None:
    def run(batch: Sequence[int]) -> int:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    with pytest.raises(ModelError, match="one sequence of 5 tokens does not fit into memory"):
        list(run_batches(range(10), lambda _: 5, BatchLimits(rows=8, tokens=1000), run))


def test_another_error_of_torch_is_not_taken_for_a_lack_of_memory() -> None:
    def run(batch: Sequence[int]) -> int:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        list(run_batches(range(10), lambda _: 5, BatchLimits(rows=8, tokens=1000), run))


def test_a_rolling_score_is_the_sum_over_windows(tiny: Callable[..., Path]) -> None:
    text = "The dog and the cat sat on the mat. " * 4
    model = HFModel(str(tiny()), max_length=16)
    tokens = model.encoder.encode([text])[text]
    assert len(tokens) > 32
    outputs = dict(model.loglikelihood_rolling([RollingRequest(text), RollingRequest(""), RollingRequest("A")]))
    windows = rolling_windows(tokens, model.encoder.prefix_token_id, model.max_length)
    expected = sum(by_hand(model, window).loglikelihood for window in windows)
    assert outputs[0].loglikelihood == pytest.approx(expected, abs=1e-3)
    assert outputs[1] == LLOutput(0.0, tokens=0)
    assert outputs[0].tokens == len(tokens)
    assert set(outputs) == {0, 1, 2}


def test_of_several_likeliest_tokens_the_first_is_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = torch.tensor([[0.0, 3.0, 3.0], [1.0, 0.0, 2.0]])
    places, tokens = np.array([0, 0, 0, 1, 1]), [0, 1, 2, 0, 2]
    monkeypatch.setattr(forward, "CHUNK_LOGITS", 3)  # each line by itself
    logprobs, greedy = token_logprobs(lines, places, tokens)
    assert greedy.tolist() == [False, True, False, False, True]
    assert logprobs == pytest.approx(lines.double().log_softmax(-1)[places, tokens].numpy(), abs=1e-6)
