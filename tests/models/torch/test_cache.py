"""Prefixes that are kept from one call to the next: the same numbers, for fewer tokens, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from multiform.models.hf.model import HFModel
from multiform.models.model import Counters
from multiform.models.torch.cache import KeptPrefixes, KVCache
from multiform.models.torch.forward import Forward, ScoringWay
from multiform.models.torch.plan import BatchLimits, Pair, Span, plan
from multiform.models.torch.scoring import score_by_plan, score_in_batches
from multiform.models.torch.tree import LEAST_LOADED, build_tree, recurring_prefixes

SHOTS = [[20 + (7 * at + form) % 300 for at in range(70)] for form in range(2)]


def chunk(first: int, documents: int = 40) -> list[Pair]:
    """Two forms of some documents with fixed shots, and two answers of two tokens to each."""
    return [
        Pair(array("i", [*shots, 3 + number % 7, number % 90, 5, answer, 9]), len(shots) + 3)
        for shots in SHOTS
        for number in range(first, first + documents)
        for answer in (8, 11)
    ]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("mode", [ScoringWay.TREE_ATTENTION, ScoringWay.MASKED])
def test_chunks_give_the_numbers_of_whole_sequences(kind: str, mode: ScoringWay, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)))
    if kind == "gemma2":  # a sliding window, and another function after the LM head
        mode = ScoringWay.MASKED
    kept, counters = KeptPrefixes(1000), Counters()
    forward = Forward(model.planner.lm, mode)
    for first in (0, 40, 80):
        before = counters.prefill
        pairs = chunk(first)
        outputs = dict(score_by_plan(forward, pairs, size=64, budget=4096, counters=counters, kept=kept))
        expected = dict(score_in_batches(model.planner.lm, pairs, BatchLimits(4, 4096), Counters()))
        for index, output in expected.items():
            assert outputs[index].loglikelihood == pytest.approx(output.loglikelihood, abs=1e-4)
            assert outputs[index].is_greedy == output.is_greedy
        sequences = [pair.tokens[:-1] for pair in pairs]
        nodes = plan(sequences, [pair.start - 1 for pair in pairs], size=64, budget=4096).cost.nodes
        assert counters.prefill - before == (nodes if first == 0 else nodes - 2 * len(SHOTS[0]))
    assert [len(prefix.tokens) for prefix in kept.entries()] == [70, 70]


def test_outputs_within_a_kept_prefix_are_computed(llama: HFModel) -> None:
    kept, counters = KeptPrefixes(1000), Counters()
    forward = Forward(llama.planner.lm, ScoringWay.TREE_ATTENTION)
    dict(score_by_plan(forward, chunk(0), size=64, budget=4096, counters=counters, kept=kept))
    inside = [Pair(array("i", SHOTS[0]), 68), Pair(array("i", SHOTS[1]), 10)]
    outputs = dict(score_by_plan(forward, inside, size=64, budget=4096, counters=counters, kept=kept))
    expected = dict(score_in_batches(llama.planner.lm, inside, BatchLimits(4, 4096), Counters()))
    for index, output in expected.items():
        assert outputs[index].loglikelihood == pytest.approx(output.loglikelihood, abs=1e-4)


def cache_of(length: int) -> KVCache:
    import torch

    cache = KVCache()
    cache.update(0, torch.zeros(1, 1, length, 2), torch.zeros(1, 1, length, 2))
    return cache


def keep(kept: KeptPrefixes, tokens: list[int]) -> None:
    kept.add(array("i", tokens), cache_of(len(tokens)), [Span(0, len(tokens))])


def held(kept: KeptPrefixes) -> list[list[int]]:
    return [prefix.tokens.tolist() for prefix in kept.entries()]


def test_memory_is_bounded_and_what_was_used_last_stays() -> None:
    kept = KeptPrefixes(6)
    keep(kept, [1, 1])
    keep(kept, [2, 2])
    keep(kept, [3, 3])
    assert kept.longest(array("i", [1, 1, 5]))[0] == 2
    keep(kept, [4, 4, 4])
    assert held(kept) == [[1, 1], [4, 4, 4]]
    assert sum(map(len, held(kept))) <= kept.most
    keep(kept, [5] * 7)
    assert held(kept) == [[1, 1], [4, 4, 4]]


def test_prefixes_in_use_are_not_dropped_for_others() -> None:
    kept = KeptPrefixes(6)
    keep(kept, [1, 1, 1])
    keep(kept, [2, 2])
    kept.use(kept.entries()[:1])
    keep(kept, [3, 3, 3])
    assert held(kept) == [[1, 1, 1], [3, 3, 3]]
    keep(kept, [4, 4, 4, 4])
    assert held(kept) == [[1, 1, 1], [3, 3, 3]]


def test_a_longer_prefix_takes_the_place_of_its_beginning() -> None:
    kept = KeptPrefixes(100)
    keep(kept, [1, 2])
    keep(kept, [1, 2, 3])
    keep(kept, [1, 2])
    assert held(kept) == [[1, 2, 3]]


def test_kept_keys_are_a_copy_of_their_own_size() -> None:
    kept, cache = KeptPrefixes(10), cache_of(512)
    kept.add(array("i", [1, 2, 3]), cache, [Span(0, 1), Span(7, 9)])
    [(_, copy)] = kept.entries()
    assert copy.length == 3
    assert copy.layers[0][0].shape == (1, 1, 3, 2)


def test_what_recurs_is_what_many_branches_share() -> None:
    long = list(range(LEAST_LOADED))
    many = [array("i", [*long, number, 1]) for number in range(40)]
    other = [array("i", [9, *long, number]) for number in range(40)]
    few = [array("i", [8, *long, number]) for number in range(5)]
    short = [array("i", [7, number]) for number in range(99)]
    sequences = [*many, *other, *few, *short]
    branches = build_tree(sequences, [len(tokens) - 1 for tokens in sequences])
    prefixes = recurring_prefixes(branches, most=999)
    found = [branches[number].tokens[:length].tolist() for number, length in prefixes.items()]
    assert sorted(found) == sorted([long, [9, *long]])
    assert len(recurring_prefixes(branches, most=LEAST_LOADED + 1)) == 1
