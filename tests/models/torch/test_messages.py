"""What the log says about models that cannot share prefixes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import transformers

from multiform.models.hf.model import HFModel
from multiform.models.torch.structure import obstacle
from multiform.requests import GenerationRequest, LoglikelihoodRequest
from tests.tiny_models import GROUPED, SIZES

CONTEXT = "The dog and the cat sat on the mat. A dog is a good dog."
#: Gemma 2 caps its attention weights, which no window has to do with.
SPECIAL = "its attention is of a special kind"


def test_where_only_completions_are_affected_the_log_says_so(
    tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(str(tiny("gemma2")))
    list(model.loglikelihood([LoglikelihoodRequest("The", " dog")]))
    list(model.generate([GenerationRequest.of(CONTEXT, {"max_gen_toks": 4})]))
    assert f"completions are generated without shared prefixes, which takes longer: {SPECIAL}" in caplog.text
    assert "prefixes are not shared" not in caplog.text


def test_a_reason_is_given_once(tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    model = HFModel(str(tiny("gemma2")))
    for words in (CONTEXT, CONTEXT + " Is it?"):
        list(model.generate([GenerationRequest.of(words, {"max_gen_toks": 4})]))
    assert caplog.text.count(SPECIAL) == 1


def test_chunked_attention_is_called_that() -> None:
    """Llama 4 caches keys and values, of a chunk."""
    sizes = {"vocab_size": 64, "intermediate_size_mlp": 16, "head_dim": 8, "num_local_experts": 2}
    config = transformers.Llama4TextConfig(**sizes, **SIZES, **GROUPED, attention_chunk_size=8)
    model = transformers.AutoModelForCausalLM.from_config(config)
    assert obstacle(model) == "its attention is cut into chunks of 8 tokens"
