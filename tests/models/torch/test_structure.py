"""Half precision: what rounding would hide is found out in float32, and weights come back with the same bits."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
import torch
from torch import nn

from multiform.models.torch import structure
from multiform.models.torch.forward import CausalLM, ScoringWay
from multiform.models.torch.plan import Pair
from multiform.models.torch.planner import Decoding, Planner
from multiform.models.torch.seq2seq import PLAIN, scores_together
from multiform.models.torch.structure import in_float32
from multiform.models.torch.trial import loglikelihood_alone
from tests.models.torch.engines import engine_of
from tools.zoo.models import CUSTOM, zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = random.Random(1)
CONTEXT = [NUMBERS.randrange(3, 400) for _ in range(100)]
PAIRS = [
    Pair(array("i", [*CONTEXT, *(NUMBERS.randrange(3, 400) for _ in range(count))]), 100) for count in (1, 3, 5, 8)
]


@pytest.mark.parametrize("name", ["gpt_neo", f"{CUSTOM}window"])
def test_a_window_that_rounding_hides_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.zoo.models.GAIN", 0.7)
    planner = Planner(CausalLM(zoo_model(name).to(torch.bfloat16)), max_length=160)
    outputs = dict(engine_of(planner).score(PAIRS))
    for index, pair in enumerate(PAIRS):
        expected = loglikelihood_alone(planner.lm, pair)
        assert outputs[index].loglikelihood == pytest.approx(expected, abs=0.02 * len(pair.continuation))
    assert planner.lm.model.dtype == torch.bfloat16


def test_an_encoder_decoder_is_tried_in_float32() -> None:
    assert scores_together(zoo_model("fsmt").to(torch.bfloat16), 40) == PLAIN


def test_weights_have_the_same_bits_afterwards() -> None:
    model = zoo_model("helium").to(torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    inverse = model.model.rotary_emb.inv_freq.clone()
    with in_float32(model):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    after = model.state_dict()
    assert all(
        after[name].dtype == tensor.dtype and torch.equal(after[name], tensor) for name, tensor in before.items()
    )
    assert torch.equal(model.model.rotary_emb.inv_freq, inverse)


def test_where_there_is_no_memory_the_log_says_how_the_model_was_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(structure, "free_memory", lambda _: 0)
    model = zoo_model("gpt_neo").to(torch.bfloat16)
    with in_float32(model):
        assert model.dtype == torch.bfloat16
    assert "the model is tried in bfloat16, which hides differences of up to 3 %" in caplog.text


def test_eight_bit_weights_are_computed_one_sequence_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    """LLM.int8() keeps whole columns of inputs in half precision where any token of a pass is an outlier."""

    class Linear8bitLt(nn.Linear):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            is_outlier = (states.abs() > 3).flatten(0, -2).any(0)
            return super().forward(torch.where(is_outlier, states, (states * 16).round() / 16))

    model: Any = zoo_model("llama")
    for layer in model.model.layers:
        rounding = Linear8bitLt(layer.mlp.gate_proj.in_features, layer.mlp.gate_proj.out_features, bias=False)
        rounding.weight = layer.mlp.gate_proj.weight
        layer.mlp.gate_proj = rounding
    planner = Planner(CausalLM(model), max_length=160)
    outputs = dict(engine_of(planner).score(PAIRS))
    for index, pair in enumerate(PAIRS):
        assert outputs[index].loglikelihood == pytest.approx(loglikelihood_alone(planner.lm, pair), abs=1e-4)
    assert planner.scoring(110) is ScoringWay.ALONE
    assert planner.decoding(110) is Decoding.ALONE
    assert "eight-bit weights" in caplog.text


def test_the_memory_of_a_token_is_that_in_the_models_own_type() -> None:
    """The trial of decoding is in float32, in which keys and values take twice the memory."""
    lm = CausalLM(zoo_model("llama (dynamic RoPE)").to(torch.bfloat16))
    planner = Planner(lm, max_length=160)
    planner.decoding(40)
    assert planner.token_bytes == Planner(lm, max_length=160).token_bytes
    assert 2 * planner.token_bytes == Planner(CausalLM(lm.model.float()), max_length=160).token_bytes
