"""Scoring by plan: the numbers of whole sequences, for less."""

from __future__ import annotations

import logging
import random
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from multiform.models.hf.model import HFModel
from multiform.models.model import Counters
from multiform.models.torch.attention import TreeAttention, apply_window, attention_mask
from multiform.models.torch.device import PASS_TOKENS, prefix_budget
from multiform.models.torch.forward import Forward, ScoringWay
from multiform.models.torch.plan import BatchLimits, Pair, plan
from multiform.models.torch.scoring import score_by_plan, score_in_batches, scoring_plan
from multiform.requests import LLOutput, LoglikelihoodRequest, RollingRequest

SHOTS = "Question: what is it?\nAnswer: yes, the cat.\n\n" * 2
QUESTIONS = ["is 12 + 30 = 42?", "what is the capital of France?", "do dogs dig?", "what sat on the mat?"]
CHOICES = [" yes", " no", " Paris is", " Paris is the capital", " the cat", "", " the cat sat on the mat"]
REQUESTS = [
    LoglikelihoodRequest(f"{SHOTS}Question: {question}\nAnswer:", choice)
    for question in QUESTIONS
    for choice in CHOICES
]


def pairs_of(model: HFModel) -> list[Pair]:
    return list(model.encoder.pairs([(request.context, request.continuation) for request in REQUESTS]))


def whole(model: HFModel, pairs: Sequence[Pair]) -> dict[int, LLOutput]:
    return dict(score_in_batches(model.planner.lm, pairs, BatchLimits(4, 4096), Counters()))


def same(ours: dict[int, LLOutput], expected: dict[int, LLOutput]) -> None:
    assert sorted(ours) == sorted(expected)
    for index, output in expected.items():
        assert ours[index].loglikelihood == pytest.approx(output.loglikelihood, abs=1e-4)
        assert (ours[index].is_greedy, ours[index].tokens) == (output.is_greedy, output.tokens)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("llama", ScoringWay.TREE_ATTENTION),
        ("llama", ScoringWay.MASKED),
        ("gpt2", ScoringWay.TREE_ATTENTION),
        ("gpt2", ScoringWay.MASKED),
    ],
)
@pytest.mark.parametrize(("size", "budget"), [(512, 4096), (32, 4096), (7, 4096), (32, 20), (32, 0)])
def test_a_plan_scores_as_whole_sequences_do(
    kind: str, mode: ScoringWay, size: int, budget: int, tiny: Callable[..., Path]
) -> None:
    model = HFModel(str(tiny(kind)))
    pairs = pairs_of(model)
    forward = Forward(model.planner.lm, mode)
    same(dict(score_by_plan(forward, pairs, size=size, budget=budget, counters=Counters())), whole(model, pairs))


@pytest.mark.parametrize("batch_size", [1, 4, 16, "auto"])
def test_scores_depend_on_neither_batch_size_order_nor_neighbours(
    batch_size: int | str, llama: HFModel, tiny: Callable[..., Path]
) -> None:
    expected = whole(llama, pairs_of(llama))
    model = HFModel(str(tiny()), batch_size=batch_size)
    order = random.Random(3).sample(range(len(REQUESTS)), len(REQUESTS))
    same(
        {order[at]: output for at, output in model.loglikelihood([REQUESTS[index] for index in order])},
        expected,
    )
    alone = dict(model.loglikelihood(REQUESTS[3:4]))[0]
    assert alone.loglikelihood == pytest.approx(expected[3].loglikelihood, abs=1e-4)


@pytest.mark.bundled
@pytest.mark.parametrize("mode", [ScoringWay.TREE_ATTENTION, ScoringWay.MASKED])
def test_the_bundled_model_scores_by_plan_as_by_whole_sequences(bundled: HFModel, mode: ScoringWay) -> None:
    assert bundled.planner.mode is ScoringWay.TREE_ATTENTION
    pairs = pairs_of(bundled)[:14]
    forward = Forward(bundled.planner.lm, mode)
    same(dict(score_by_plan(forward, pairs, size=64, budget=4096, counters=Counters())), whole(bundled, pairs))


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_only_what_is_scored_reaches_the_vocabulary(kind: str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)))
    pairs = pairs_of(model)
    assert model.planner.mode is ScoringWay.TREE_ATTENTION
    rows = {"projected": 0, "computed": 0}

    def count(name: str) -> Callable[..., None]:
        def see(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            rows[name] += inputs[0].shape[:-1].numel() if name == "projected" else inputs[0].numel()

        return see

    parts = {"projected": model.model.get_output_embeddings(), "computed": model.model.get_input_embeddings()}
    hooks = [part.register_forward_pre_hook(count(name)) for name, part in parts.items()]
    list(model.loglikelihood(REQUESTS))
    for hook in hooks:
        hook.remove()
    scored = {tuple(pair.tokens[:depth]) for pair in pairs for depth in range(pair.start, len(pair.tokens))}
    assert rows["projected"] == len(scored) < rows["computed"] / 2


def test_the_counters_say_what_the_plan_said(llama: HFModel) -> None:
    pairs = [pair for pair in pairs_of(llama) if pair.start < len(pair.tokens)]
    planned = scoring_plan(pairs, size=llama.planner.pass_size, budget=llama.planner.budget).cost
    before = llama.counters.prefill
    list(llama.loglikelihood(REQUESTS))
    assert llama.counters.prefill - before == planned.computed == planned.nodes
    assert planned.tokens > 4 * planned.computed


def test_the_cached_prefix_stays_within_the_budget(tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFModel(str(tiny()), prefix_budget=24)
    _ = model.planner.mode
    cached: list[int] = []
    run = Forward.run

    def watched(self: Forward, branches: Any, step: Any, cache: Any, *others: Any) -> Any:
        cached.append(cache.length)
        return run(self, branches, step, cache, *others)

    monkeypatch.setattr(Forward, "run", watched)
    monkeypatch.setitem(PASS_TOKENS, "cpu", 32)
    same(dict(model.loglikelihood(REQUESTS)), whole(model, pairs_of(model)))
    assert 0 < max(cached) <= 24


@pytest.mark.parametrize(("given", "tokens"), [(100, 100), ("100", 100), ("5KB", 50), ("2MB", 20000), ("0", 0)])
def test_a_budget_is_a_number_of_tokens_or_an_amount_of_memory(given: int | str, tokens: int) -> None:
    assert prefix_budget(given, 100, torch.device("cpu")) == tokens


def test_without_a_setting_the_budget_is_a_part_of_the_free_memory() -> None:
    assert prefix_budget(None, 1024, torch.device("cpu")) > 1000


def test_running_out_of_memory_halves_the_pass_and_loses_no_response(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    expected = whole(model, pairs_of(model))
    _ = model.planner.mode

    def fail(_: Any, __: Any, options: dict[str, Any]) -> None:
        if options["input_ids"].shape[1] > 100:
            raise torch.OutOfMemoryError("out of memory")

    hook = model.model.model.register_forward_pre_hook(fail, with_kwargs=True)
    same(dict(model.loglikelihood(REQUESTS)), expected)
    hook.remove()


def test_prefixes_are_shared_beyond_a_sliding_window(
    tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(tiny("gemma2")))
    pairs = pairs_of(model)
    assert model.planner.short_length == 12 < min(pair.start for pair in pairs)
    with caplog.at_level(logging.WARNING):
        same(dict(model.loglikelihood(REQUESTS)), whole(model, pairs))
    assert "not shared" not in caplog.text
    assert model.counters.prefill == scoring_plan(pairs, size=512, budget=2**31).cost.nodes


def test_what_a_window_hides_is_counted_in_the_tokens_of_a_sequence() -> None:
    sequences = [array("i", [1, 2, 3, 4, 5, 6]), array("i", [1, 2, 7, 8, 9])]
    (step,) = plan(sequences, [0, 0], size=512, budget=512).passes
    depths = torch.tensor([0, 1, 2, 3, 4, 5, 2, 3, 4])
    seen = apply_window(attention_mask(step, torch.float32), depths, 3, longest=6)[0, 0] == 0
    assert [line.nonzero()[:, 0].tolist() for line in seen] == [
        *([0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]),
        *([0, 1, 6], [1, 6, 7], [6, 7, 8]),
    ]


def test_short_sequences_of_a_model_with_a_window_are_planned(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny("gemma2")))
    requests = [LoglikelihoodRequest("The dog", text) for text in (" sat", " is", " sat on")]
    pairs = list(model.encoder.pairs([(request.context, request.continuation) for request in requests]))
    assert model.planner.scoring(max(len(pair.tokens) for pair in pairs)).is_planned
    same(dict(model.loglikelihood(requests)), whole(model, pairs))


@pytest.mark.parametrize("budget", [None, 0])
def test_a_recurrent_model_gives_its_own_numbers(budget: int | None, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny("mamba")), prefix_budget=budget)
    same(dict(model.loglikelihood(REQUESTS[:7])), whole(model, pairs_of(model)[:7]))


def test_a_plan_is_described_in_words(llama: HFModel) -> None:
    told = llama.plan([*REQUESTS, RollingRequest("The dog and the cat")])
    assert told is not None
    assert told.startswith("continuations: 24 sequences of ")
    assert "whole texts: 1 sequences" in told


@pytest.mark.parametrize("seed", range(8))
def test_tree_attention_is_attention_with_the_mask(seed: int) -> None:
    numbers = random.Random(seed)
    prefix = [numbers.randrange(3) for _ in range(numbers.choice([0, 40, 200]))]
    sequences = [
        array("i", [*prefix, *(numbers.randrange(2) for _ in range(numbers.randrange(1, 200)))]) for _ in range(9)
    ]
    size, budget = numbers.choice([16, 100, 512]), numbers.choice([0, 50, 10**6])
    torch.manual_seed(seed)
    for cached in (0, 50):
        whole_sequences = [array("i", [9] * cached) + each for each in sequences]
        made = plan(whole_sequences, [cached] * 9, size=size, budget=cached + budget, cached=cached)
        for step in made.passes:
            columns = step.cached + step.computed_tokens
            query, (key, value) = torch.randn(1, 6, step.computed_tokens, 8), torch.randn(2, 1, 2, columns, 8)
            mask = attention_mask(step, torch.float32)
            expected = scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
            lengths = [piece.stop - piece.start for piece in step.chunks]
            ended = [numbers.random() < 0.5 for _ in lengths]
            ours = TreeAttention(mask[0, 0], lengths, ended)(query, key, value, 8**-0.5)
            assert torch.allclose(ours, expected, atol=1e-5)


def test_the_model_itself_is_not_touched(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        before = model.model(input_ids=ids).logits
        dict(
            score_by_plan(
                Forward(model.planner.lm, ScoringWay.TREE_ATTENTION),
                pairs_of(model),
                size=24,
                budget=512,
                counters=Counters(),
            )
        )
        assert torch.equal(model.model(input_ids=ids).logits, before)
    assert not any("forward" in vars(part) for part in model.model.modules())
