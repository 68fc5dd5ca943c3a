"""In-place layers: the model's numbers to the last bit, and only for models that they are made for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from multiform.models.hf.model import HFModel
from multiform.models.torch.counters import Counters
from multiform.models.torch.forward import Forward, Mode
from multiform.models.torch.layers import has_standard_layers
from multiform.models.torch.scoring.by_plan import score_by_plan
from multiform.requests import LLOutput

START = "Question: is 12 + 30 = 42? Answer: no. Question: do dogs dig?\nAnswer:"
TEXTS = [(START, " yes"), (START, " no, the cat"), (START[:20], " the dog"), ("The", " dog sat on the mat")]


def scored(model: HFModel, mode: Mode) -> list[LLOutput]:
    pairs = list(model.encoder.pairs(TEXTS))
    outputs = dict(score_by_plan(Forward(model.head, mode), pairs, size=24, budget=512, counters=Counters()))
    return [outputs[index] for index in range(len(pairs))]


def states(model: HFModel, mode: Mode, places: torch.Tensor | None = None) -> torch.Tensor:
    """What a model makes of a row of tokens, with the attention that it has by itself."""
    ids = torch.arange(5, 25)[None]

    def attend(
        layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        whole = torch.ones(20, 20, dtype=torch.bool).tril()
        mask = whole if query.shape[2] == 20 else whole[places]
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=True)

    with torch.inference_mode():
        at = torch.arange(20) if places is None else places
        return Forward(model.head, mode).run_with_attention(ids, torch.arange(20)[None], attend, at)


def check(model: HFModel) -> None:
    """Layer by layer, the bits are the model's; of the last one, there is only what is read."""
    assert torch.equal(states(model, Mode.STANDARD_LAYERS), states(model, Mode.TREE_ATTENTION))
    needed = torch.tensor([3, 4, 11, 19])
    every = states(model, Mode.STANDARD_LAYERS)
    assert torch.allclose(states(model, Mode.STANDARD_LAYERS, needed), every[needed], atol=1e-4)
    for ours, theirs in zip(scored(model, Mode.STANDARD_LAYERS), scored(model, Mode.TREE_ATTENTION), strict=True):
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-5 * (ours.tokens or 0))
        assert (ours.is_greedy, ours.tokens) == (theirs.is_greedy, theirs.tokens)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2"])
def test_the_numbers_are_those_of_the_models_layers(kind: str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)))
    assert model.planner.forward.mode is Mode.STANDARD_LAYERS
    assert model.planner.scoring_mode(90) is Mode.TREE_ATTENTION  # where they save nothing: `benchmarks.layers`
    check(model)


@pytest.mark.bundled
def test_the_bundled_model_gives_the_same_numbers_in_either_mode(bundled: HFModel) -> None:
    check(bundled)


@pytest.mark.parametrize("kind", ["gpt2", "qwen3", "gemma2", "mamba"])
def test_other_layers_are_left_to_the_model(kind: str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny(kind)))
    assert not has_standard_layers(model.model)
    assert model.planner.forward.mode is not Mode.STANDARD_LAYERS


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_number_types_are_left_to_the_model(dtype: str, tiny: Callable[..., Path]) -> None:
    assert not has_standard_layers(HFModel(str(tiny()), dtype=dtype).model)


def test_layers_that_someone_has_changed_are_left_to_the_model(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    layer = model.model.model.layers[1]
    usual = layer.mlp.forward
    layer.mlp.forward = lambda states: 2 * usual(states)
    assert not has_standard_layers(model.model)


def test_layers_with_hooks_are_left_to_the_model(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    model.model.model.layers[1].register_forward_hook(lambda part, given, output: 2 * output)
    assert not has_standard_layers(model.model)
    same = HFModel(str(tiny()))
    same.model.get_input_embeddings().register_forward_pre_hook(lambda part, given: None)
    assert has_standard_layers(same.model)


def test_a_standard_model_that_does_more_fails_the_trial(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HFModel(str(tiny()))
    kind = type(model.model.model.layers[0].self_attn)
    usual = kind.forward

    def twice(self: Any, *arguments: Any, **options: Any) -> Any:
        output, weights = usual(self, *arguments, **options)
        return 2 * output, weights

    monkeypatch.setattr(kind, "forward", twice)
    assert has_standard_layers(model.model)
    assert model.planner.forward.mode is Mode.TREE_ATTENTION


def test_the_model_itself_is_not_touched(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    before = _logits(model)
    scored(model, Mode.STANDARD_LAYERS)
    assert not any("forward" in vars(part) for part in model.model.modules())
    assert torch.equal(_logits(model), before)


def _logits(model: HFModel) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model.model(input_ids=torch.arange(5, 25)[None]).logits
    return logits
