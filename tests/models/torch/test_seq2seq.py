"""Trials of encoder-decoder models: what changes in a batch is computed alone, and what the config lacks is found."""

from __future__ import annotations

import copy
import random
from array import array
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from multiform.models.hf.load import max_length
from multiform.models.model import Counters
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.seq2seq import (
    ALONE,
    PLAIN,
    TOGETHER,
    UNCACHED,
    Seq2SeqEngine,
    Seq2SeqRow,
    decoder_tokens,
    decodes_together,
    plain_row_logits,
    scores_together,
)
from tests.tiny_models import make_tokenizer
from tools.zoo.models import WITH_ENCODER, scaled, zoo_model

SIZES = {"layers": 2, "ffn_dim": 48, "attention_heads": 4}


@pytest.mark.parametrize(
    ("name", "scoring", "decoding"),
    [("t5", TOGETHER, TOGETHER), ("fsmt", PLAIN, TOGETHER), (f"prophetnet{WITH_ENCODER}", ALONE, UNCACHED)],
)
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_changes_in_a_batch_is_found_out(name: str, scoring: str, decoding: str) -> None:
    model = zoo_model(name)
    assert (scores_together(model, 40), decodes_together(model, 40)) == (scoring, decoding)


def test_a_short_text_does_not_change_the_attention_of_a_longer_one() -> None:
    # BigBird-Pegasus attends to all tokens of a short text, to some blocks of a longer one, and does not switch back.
    sizes = {f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in SIZES.items()}
    blocks = {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 256}
    config = transformers.BigBirdPegasusConfig(vocab_size=400, d_model=32, **sizes, **blocks)
    torch.manual_seed(1)
    model = scaled(transformers.AutoModelForSeq2SeqLM.from_config(config))
    numbers = random.Random(5)
    pairs = [
        Pair(array("i", numbers.choices(range(3, 400), k=length + 4)), length) for length in (200, 10, 150, 12, 90)
    ]
    expected = [alone(copy.deepcopy(model), pair) for pair in pairs]
    limits = BatchLimits(8, 10**6)
    tokenizer: Any = None
    counters = Counters()
    engine = Seq2SeqEngine(model, tokenizer, max_length=256, limits=limits, generation_limits=limits, counters=counters)
    for index in (0, 1, 2, 3, 4, 0):
        ((_, output),) = engine.score([pairs[index]])
        assert output.loglikelihood == pytest.approx(expected[index], abs=1e-4)
    together = dict(engine.score(pairs))
    assert [together[index].loglikelihood for index in range(len(pairs))] == pytest.approx(expected, abs=1e-4)


def alone(model: PreTrainedModel, pair: Pair) -> float:
    row = Seq2SeqRow(tuple(pair.context), tuple(decoder_tokens(model, pair.continuation)))
    lines = plain_row_logits(model, row, Counters())[0].double().log_softmax(-1)
    return float(lines[range(len(pair.continuation)), pair.continuation].sum())


def test_a_decoder_without_a_configured_start_begins_with_that_of_the_generation_config() -> None:
    model = zoo_model("switch_transformers")
    del model.config.decoder_start_token_id
    model.generation_config.decoder_start_token_id = 5
    assert decoder_tokens(model, [7, 8, 9]) == [5, 7, 8]


def test_the_context_of_an_encoder_ends_at_its_own_positions() -> None:
    model = zoo_model("led")
    model.config.max_encoder_position_embeddings = 512
    assert max_length(model, make_tokenizer(bos=False)) == 512
