"""lm-eval's local model on the models of the zoo, in batches of one, where it works."""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from multiform.models.torch.plan import Pair
from multiform.requests import LLOutput
from tools.zoo.models import POSITIONS, TOKENS, VOCABULARY


@dataclass(frozen=True, slots=True)
class PeerScores:
    """What lm-eval gives pairs and prompts; None where it fails."""

    outputs: list[LLOutput] | None
    texts: list[str] | None


def lm_eval_scores(
    model: PreTrainedModel, pairs: Sequence[Pair], prompts: Sequence[list[int]], new_tokens: int, tokenizer: Any
) -> PeerScores | None:
    """The log-likelihoods and the texts of lm-eval; None where it is not installed or does not take the model."""
    try:
        huggingface = importlib.import_module("lm_eval.models.huggingface")
    except ImportError:
        return None
    logging.getLogger("lm_eval").setLevel(logging.CRITICAL)
    with contextlib.suppress(Exception):  # whatever lm-eval raises
        backend = "seq2seq" if model.config.is_encoder_decoder else "causal"
        peer = huggingface.HFLM(
            pretrained=copy.deepcopy(model),
            tokenizer=_number_tokenizer(),
            backend=backend,
            max_length=POSITIONS,
            device=str(model.device),
        )
        return PeerScores(_outputs(peer, pairs), _texts(peer, prompts, new_tokens, tokenizer))
    return None


def _outputs(peer: Any, pairs: Sequence[Pair]) -> list[LLOutput] | None:
    requests = [(("", ""), pair.context, pair.continuation) for pair in pairs]
    try:
        scores = [peer._loglikelihood_tokens([request], disable_tqdm=True)[0] for request in requests]
    except Exception:  # noqa: BLE001 - whatever lm-eval raises
        return None
    return [
        LLOutput(total, greedy, len(pair.continuation)) for (total, greedy), pair in zip(scores, pairs, strict=True)
    ]


def _texts(peer: Any, prompts: Sequence[list[int]], new_tokens: int, tokenizer: Any) -> list[str] | None:
    is_encoder_decoder = peer.model.config.is_encoder_decoder
    texts = []
    for prompt in prompts:
        start = 1 if is_encoder_decoder else len(prompt)
        ids = torch.tensor([prompt])
        try:
            output = peer._model_generate(
                context=ids, max_length=start + new_tokens, stop=[], attention_mask=torch.ones_like(ids)
            )
        except Exception:  # noqa: BLE001 - whatever lm-eval raises
            return None
        texts.append(tokenizer.decode(output[0, start:].tolist(), skip_special_tokens=True))
    return texts


def _number_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are numbers; lm-eval asks it for special tokens alone, as pairs are tokens already."""
    vocabulary = {f"<{name}>": number for name, number in TOKENS.items()}
    vocabulary |= {str(number): number for number in range(len(TOKENS), VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad_token_id>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {name.removesuffix("_id"): f"<{name}>" for name in TOKENS}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
