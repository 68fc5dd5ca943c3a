"""Scoring from copied states: recurrent and hybrid models compute a common prefix once, and give their own numbers."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from multiform.models.model import Counters
from multiform.models.torch import scoring
from multiform.models.torch.cache import ModelState
from multiform.models.torch.forward import CausalLM, ScoringWay
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.planner import Decoding, Planner
from multiform.models.torch.trial import loglikelihood_alone, scoring_trial
from tests.models.torch.engines import engine_of
from tools.zoo.models import CUSTOM, zoo_model

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]

LIMITS = BatchLimits(8, 4096)


def few_shot_pairs() -> list[Pair]:
    """Questions after the same examples, with several continuations each."""
    numbers = random.Random(4)

    def words(count: int) -> list[int]:
        return [numbers.randrange(3, 400) for _ in range(count)]

    examples = words(70)
    questions = [[*examples, *words(length)] for length in (20, 20, 27)]
    return [
        Pair(array("i", [*question, *words(count)]), len(question)) for question in questions for count in (1, 4, 6)
    ]


def planner_of(name: str, **options: Any) -> Planner:
    return Planner(CausalLM(zoo_model(name)), max_length=160, **options)


def check(planner: Planner, pairs: Sequence[Pair]) -> Counters:
    if planner.scoring(110).copies_states:
        _ = planner.state_budget  # which costs a forward pass
    counters = Counters()
    outputs = dict(engine_of(planner, LIMITS, counters).score(pairs))
    assert sorted(outputs) == list(range(len(pairs)))
    for index, pair in enumerate(pairs):
        expected = loglikelihood_alone(planner.lm, pair)
        assert outputs[index].loglikelihood == pytest.approx(expected, abs=3e-5 * (len(pair.tokens) - pair.start))
    return counters


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next", "bamba", "rwkv", "llama4_text", "gpt_neo", f"{CUSTOM}window"])
def test_a_common_prefix_is_computed_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    pairs, planner = few_shot_pairs(), planner_of(name)
    assert planner.scoring(110) is ScoringWay.AT_ONCE
    counters = check(planner, pairs)
    assert counters.prefill < sum(pair.inputs for pair in pairs) / 4
    cost = engine_of(planner, LIMITS).scoring_cost(pairs)
    assert cost is not None
    assert cost.computed == cost.nodes == 70 + 2 * 20 + 27 + 3 * (3 + 5)
    assert "not shared" not in caplog.text


def test_a_model_that_forgets_its_state_takes_the_tokens_after_it_one_by_one() -> None:
    """Mamba reads several tokens as the beginning of a text, whatever its state."""
    pairs, planner = few_shot_pairs(), planner_of("mamba")
    assert planner.scoring(110) is ScoringWay.STEPWISE
    trial = scoring_trial(planner.lm, 128)
    assert trial is not None
    assert not trial.allows(ScoringWay.AT_ONCE, 512)
    assert check(planner, pairs).prefill < sum(pair.inputs for pair in pairs) / 2


@pytest.mark.parametrize("name", [f"{CUSTOM}nocache", "recurrent_gemma", "doge (kept window)"])
def test_a_state_that_cannot_be_copied_is_not_shared(name: str, caplog: pytest.LogCaptureFixture) -> None:
    planner = planner_of(name)
    assert planner.scoring(110) in (ScoringWay.PADDED, ScoringWay.ALONE)
    check(planner, few_shot_pairs())
    assert "prefixes are not shared" in caplog.text


def test_without_a_budget_nothing_is_shared() -> None:
    planner = planner_of("mamba2", budget=0)
    assert planner.scoring(110) is ScoringWay.PADDED
    assert planner.decoding(110) is Decoding.ALONE


def test_a_budget_limits_the_states_that_are_kept() -> None:
    pairs = few_shot_pairs()
    cost = engine_of(planner_of("mamba2", budget=90), LIMITS).scoring_cost(pairs)
    assert cost is not None
    assert cost.cached <= 90
    check(planner_of("mamba2", budget=90), pairs)


def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, planner = few_shot_pairs(), planner_of("mamba2")
    _ = planner.scoring(110), planner.state_budget
    original = scoring._resume

    def resumed(head: Any, ids: torch.Tensor, *others: Any) -> Any:
        if len(ids) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return original(head, ids, *others)

    monkeypatch.setattr(scoring, "_resume", resumed)
    check(planner, pairs)


def test_a_copy_of_a_state_leaves_the_original_alone() -> None:
    for name in ("qwen3_next", "rwkv"):
        model = zoo_model(name)
        with torch.inference_mode():
            state = ModelState.of(model(input_ids=torch.tensor([[5, 6, 7, 8]]), use_cache=True))
            first, second = (
                model(input_ids=torch.tensor([[9, 10], [11, 12]]), use_cache=True, **state.rows([0, 0]).inputs).logits
                for _ in range(2)
            )
        assert torch.equal(first, second)
        assert state.nbytes > 0
