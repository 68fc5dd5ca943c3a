"""Decoding by the model's own `generate`: hybrid models begin with a copy of the state after a common prefix."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from multiform.models.model import Counters
from multiform.models.torch.forward import CausalLM
from multiform.models.torch.planner import Decoding, Planner
from multiform.models.torch.sampling import Generation, Sampling
from multiform.models.torch.transformers_loop import greedy_config, prompt_inputs
from tests.models.torch.engines import engine_of
from tools.zoo.check import NumberTokenizer
from tools.zoo.models import zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = random.Random(4)
SHARED = [NUMBERS.randrange(3, 400) for _ in range(60)]
PROMPTS = [[*SHARED, *(NUMBERS.randrange(3, 400) for _ in range(length))] for length in (3, 9, 20)]


def generations() -> list[Generation]:
    options: dict[str, Any] = {"limit": 6, "stops": (), "sampling": Sampling(), "rng": random.Random(1)}
    return [Generation(index=index, prompt=prompt, **options) for index, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("name", ["qwen3_next", "falcon_h1", "llama4_text"])
def test_a_common_prefix_is_prefilled_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer: Any = NumberTokenizer()
    model = zoo_model(name)
    planner, counters = Planner(CausalLM(model), max_length=160), Counters()
    assert planner.decoding(90) is Decoding.RESUMED
    completions = dict(engine_of(planner, counters=counters, tokenizer=tokenizer).generate(generations()))
    assert counters.prefill == len(SHARED) + sum(len(prompt) - len(SHARED) for prompt in PROMPTS)
    for index, prompt in enumerate(PROMPTS):
        ids = torch.tensor([prompt])
        output = model.generate(**prompt_inputs(model, ids), generation_config=greedy_config(model, 6, 2))
        assert completions[index].text == tokenizer.decode(output[0, len(prompt) :].tolist(), skip_special_tokens=True)
    assert "without shared prefixes" not in caplog.text


def test_a_model_whose_generate_begins_anew_is_not_given_a_state() -> None:
    """`generate` gives Mamba 2 the whole prompt, whatever state it has."""
    planner = Planner(CausalLM(zoo_model("mamba2")), max_length=160)
    assert planner.decoding(90) is Decoding.ALONE
