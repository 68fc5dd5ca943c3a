"""Trials of an encoder-decoder model: whether batches give what the model itself gives each sequence alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.models.seq2seq.scoring import EncodedContexts, Row, decoder_tokens, plain_logits, right_padded
from multiform.models.torch.decode.processors import greedy_config
from multiform.models.torch.device import device_of
from multiform.models.torch.trial.exact import in_float32
from multiform.models.torch.trial.scoring import attempt, tolerance
from multiform.models.torch.trial.sequences import FEW, trial_tokens
from multiform.models.usage import Counters

#: Verdicts: sequences go into one batch, each is computed alone, or each alone and without a cache; and each alone,
#: by a plain forward pass that encodes its context again.
TOGETHER, ALONE, UNCACHED, PLAIN = "together", "alone", "uncached", "plain"
#: Tokens that each sequence of a trial gets.
STEPS = 4


def scores_together(model: PreTrainedModel, length: int) -> str:
    """Whether contexts of up to `length` tokens can be scored in one batch, or each alone, and are encoded once."""
    with in_float32(model):
        return _scoring_verdict(model, length)


def _scoring_verdict(model: PreTrainedModel, length: int) -> str:
    continuations = [_tokens(model, size, seed=size) for size in (8, 3, 5, 6)]
    rows = [
        Row(tuple(context), tuple(decoder_tokens(model, continuation)))
        for context, continuation in zip(_contexts(model, length), continuations, strict=True)
    ]
    # A second continuation of the last context, which is encoded by then.
    rows.append(Row(rows[-1].context, rows[0].decoder_input))
    expected = attempt(lambda: [plain_logits(model, row, Counters())[0] for row in rows])
    if expected is None:
        return PLAIN
    for verdict, batches in ((TOGETHER, [rows[:4], rows[4:]]), (ALONE, [[row] for row in rows])):
        logits = attempt(lambda batches=batches: _logits(model, batches))  # type: ignore[misc]
        if logits is not None and all(
            _is_close(model, actual[: len(each)], each) for actual, each in zip(logits, expected, strict=True)
        ):
            return verdict
    return PLAIN


def _logits(model: PreTrainedModel, batches: Sequence[Sequence[Row]]) -> list[Tensor]:
    """The logits of rows that are computed batch by batch."""
    encoded = EncodedContexts(model, Counters())
    return [line for batch in batches for line in encoded.batch_logits(batch)]


def decodes_together(model: PreTrainedModel, length: int) -> str:
    """Whether completions of contexts of up to `length` tokens can be generated in one batch."""
    with in_float32(model):
        return _decoding_verdict(model, length)


def _decoding_verdict(model: PreTrainedModel, length: int) -> str:
    contexts = _contexts(model, length)
    alone = attempt(lambda: [_generated(model, [context])[0] for context in contexts])
    if alone is None:  # as with ProphetNet, whose decoder takes no cached positions
        return UNCACHED
    together = attempt(lambda: _generated(model, contexts))
    if together is None:
        return ALONE
    agree = all(_is_close(model, actual, expected) for actual, expected in zip(together, alone, strict=True))
    return TOGETHER if agree else ALONE


@torch.inference_mode()
def _generated(model: PreTrainedModel, contexts: Sequence[Sequence[int]]) -> list[Tensor]:
    """The logits (step, vocabulary) by which `generate` chooses the first tokens for each context."""
    ids, mask = (tensor.to(device_of(model)) for tensor in right_padded(contexts))
    config = greedy_config(model, STEPS, pad_token_id=0)
    config.update(min_new_tokens=STEPS, return_dict_in_generate=True, output_logits=True)
    output = model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
    return list(torch.stack(output.logits, 1).float())


def _contexts(model: PreTrainedModel, length: int) -> list[list[int]]:
    """Contexts of several lengths; the last is too short for attention that needs many tokens."""
    return [_tokens(model, max(1, size), seed=size) for size in (length, length // 2, length // 3, min(FEW, length))]


def _tokens(model: PreTrainedModel, count: int, *, seed: int) -> list[int]:
    tokens = trial_tokens(model.config.get_text_config(decoder=True))
    return random.Random(seed).choices(tokens, k=count)


def _is_close(model: PreTrainedModel, actual: Tensor, expected: Tensor) -> bool:
    scale = expected.abs().max().clamp(min=1.0)
    return bool((actual - expected).abs().max() <= tolerance(model) * scale)
