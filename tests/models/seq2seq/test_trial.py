"""Trials of encoder-decoder models: what changes in a batch is computed alone, and what the config lacks is found."""

from __future__ import annotations

import pytest

from multiform.models.hf.load import max_length
from multiform.models.seq2seq.scoring import decoder_tokens
from multiform.models.seq2seq.trial import ALONE, PLAIN, TOGETHER, UNCACHED, decodes_together, scores_together
from tests.tiny_models import make_tokenizer
from zoo.models import WITH_ENCODER, zoo_model


@pytest.mark.parametrize(
    ("name", "scoring", "decoding"),
    [("t5", TOGETHER, TOGETHER), ("fsmt", PLAIN, TOGETHER), (f"prophetnet{WITH_ENCODER}", ALONE, UNCACHED)],
)
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_changes_in_a_batch_is_found_out(name: str, scoring: str, decoding: str) -> None:
    model = zoo_model(name)
    assert (scores_together(model, 40), decodes_together(model, 40)) == (scoring, decoding)


def test_a_decoder_without_a_configured_start_begins_with_that_of_the_generation_config() -> None:
    model = zoo_model("switch_transformers")
    del model.config.decoder_start_token_id
    model.generation_config.decoder_start_token_id = 5
    assert decoder_tokens(model, [7, 8, 9]) == [5, 7, 8]


def test_the_context_of_an_encoder_ends_at_its_own_positions() -> None:
    model = zoo_model("led")
    model.config.max_encoder_position_embeddings = 512
    assert max_length(model, make_tokenizer(bos=False)) == 512
