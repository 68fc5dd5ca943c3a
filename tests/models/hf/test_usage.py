"""The tokens that a local model will compute, and those that it has computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from multiform.models.hf.model import HFModel
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest

CONTEXT = "Question: what is it? The dog and the cat sat on the mat.\nAnswer:"
SCORED = [LoglikelihoodRequest(CONTEXT, f" {word}") for word in ("dog", "cat", "mat")]
GENERATED = [GenerationRequest.of(CONTEXT, {"max_gen_toks": 5, "until": []}, sample=i) for i in range(2)]


@pytest.fixture
def model(tiny: Callable[..., Path]) -> HFModel:
    return HFModel(str(tiny()), device="cpu")


def test_what_was_planned_is_what_was_computed(model: HFModel) -> None:
    work = model.workload(SCORED)
    assert work is not None
    assert work.prefill < work.unshared  # three continuations of one context
    before = model.usage()
    assert before is not None
    list(model.loglikelihood(SCORED))
    usage = model.usage()
    assert usage is not None
    assert (usage.since(before).prefill, usage.since(before).unshared) == (work.prefill, work.unshared)
    new = usage.since(before)
    assert new.unshared - new.prefill == work.unshared - work.prefill
    assert usage.prefill_seconds > 0


def test_completions_have_a_most_and_a_length(model: HFModel) -> None:
    work = model.workload(GENERATED)
    assert work is not None
    assert (work.decode, work.completions) == (10, 2)
    list(model.generate(GENERATED))
    usage = model.usage()
    assert usage is not None
    assert usage.completions == 2
    assert 2 <= usage.completion_tokens <= 10
    assert usage.unshared == work.unshared


def test_whole_texts_are_counted(model: HFModel) -> None:
    work = model.workload([RollingRequest(CONTEXT)])
    assert work is not None
    list(model.loglikelihood_rolling([RollingRequest(CONTEXT)]))
    usage = model.usage()
    assert usage is not None
    assert usage.unshared == usage.prefill == work.prefill == work.unshared


def test_planning_tokenizes_once(model: HFModel, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(model.loglikelihood(SCORED)), list(model.generate(GENERATED))
    model.workload([*SCORED, *GENERATED])
    monkeypatch.setattr(model.encoder.tokenizer.__class__, "__call__", None)  # nothing is tokenized from here on
    assert (list(model.loglikelihood(SCORED)), list(model.generate(GENERATED))) == expected


def test_tokens_that_were_kept_for_other_texts_are_not_taken(model: HFModel) -> None:
    expected = list(model.loglikelihood(SCORED[:1]))
    model.workload(SCORED)
    assert list(model.loglikelihood(SCORED[:1])) == expected


def test_repeats_share_the_prompts_kv_cache_and_have_seeds_of_their_own(tiny: Callable[..., Path]) -> None:
    options = {"max_gen_toks": 6, "do_sample": True, "temperature": 1.0, "until": []}
    prompt = "Question: what is it? The dog and the cat sat on the mat."
    model = HFModel(str(tiny("llama")))
    completions = dict(model.generate([GenerationRequest.of(prompt, options, repeat) for repeat in range(8)]))
    usage = model.usage()
    assert usage is not None
    assert usage.prefill * 8 == usage.unshared
    assert len({completion.text for completion in completions.values()}) > 4
