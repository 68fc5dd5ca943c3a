"""Log-likelihoods of an encoder-decoder model, in batches; each context is encoded once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from multiform.models.torch.batching import run_batches
from multiform.models.torch.device import device_of
from multiform.models.torch.limits import Limits
from multiform.models.torch.scoring.loglikelihood import LoglikelihoodSums, token_logprobs
from multiform.models.torch.sequences import Pair
from multiform.models.usage import Counters
from multiform.requests import LLOutput, Response

#: Logits that are in memory at once: 1 GiB in float32.
ELEMENTS = 2**28


@dataclass(frozen=True, slots=True)
class Row:
    """A context, the decoder's input, and the continuations that are scored with it.

    Each target is the index of its pair and the continuation's tokens. `max_tokens` is the most tokens that this
    row, or any after it, has.
    """

    context: tuple[int, ...]
    decoder_input: tuple[int, ...]
    targets: list[tuple[int, list[int]]] = field(default_factory=list)
    max_tokens: int = 0


def score(
    model: PreTrainedModel,
    pairs: Sequence[Pair],
    limits: Limits,
    counters: Counters,
    *,
    encodes_once: bool = True,
) -> Iterator[Response[LLOutput]]:
    """The response of each pair, batch by batch.

    With `encodes_once` False, a row is computed by nothing but the model's own forward pass, encoder included.
    """
    sums = LoglikelihoodSums(pairs)
    yield from sums.empty()
    vocabulary = int(model.config.get_text_config(decoder=True).vocab_size)
    limits = replace(limits, tokens=min(limits.tokens, max(1, ELEMENTS // vocabulary)))

    encoded = EncodedContexts(model, counters)

    def run(batch: Sequence[Row]) -> list[Response[LLOutput]]:
        logits = encoded.batch_logits(batch) if encodes_once else plain_logits(model, batch[0], counters)
        return _score_rows(batch, logits, sums)

    for responses in run_batches(_rows(model, pairs), lambda row: row.max_tokens, limits, run):
        yield from responses


def _rows(model: PreTrainedModel, pairs: Sequence[Pair]) -> list[Row]:
    """The distinct inputs, with the longest contexts first and equal ones together.

    The last token of a continuation is not an input, so the one-token labels of one question are a single row.
    """
    rows: dict[object, Row] = {}
    for index, pair in enumerate(pairs):
        continuation = pair.continuation
        if continuation:
            row = Row(tuple(pair.context), tuple(decoder_tokens(model, continuation)))
            rows.setdefault((row.context, row.decoder_input), row).targets.append((index, continuation))
    ordered = sorted(rows.values(), key=lambda row: (-len(row.context), row.context, row.decoder_input))
    longest = [*accumulate((len(row.decoder_input) for row in reversed(ordered)), max)][::-1]
    return [replace(row, max_tokens=len(row.context) + length) for row, length in zip(ordered, longest, strict=True)]


def decoder_tokens(model: PreTrainedModel, continuation: Sequence[int]) -> list[int]:
    """The decoder's input for a continuation: its start token, and the continuation without its last token."""
    prepare = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if prepare is not None:  # some begin with another token than that of the configuration
        try:
            prepared: list[int] = prepare(labels=torch.tensor([continuation]))[0].tolist()
        except (AttributeError, ValueError):  # it needs a start token, and the configuration names none
            pass
        else:
            return prepared
    config = model.config.get_text_config(decoder=True)
    starts = [getattr(each, "decoder_start_token_id", None) for each in (model.config, model.generation_config)]
    start_token = next(token for token in (*starts, config.bos_token_id, config.pad_token_id, 0) if token is not None)
    return [start_token, *continuation[:-1]]


def restore_attention(encoder: nn.Module) -> None:
    """Let an encoder that switches its attention for a short text, and keeps it, switch back for a longer one.

    BigBird-Pegasus does so: without this, the numbers of a text would depend on those that were computed before it.
    """
    usual = getattr(encoder, "attention_type", None)
    if usual is None or not hasattr(encoder, "set_attention_type"):
        return
    longest_switched = 0

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module.attention_type != usual and _width(args, kwargs) > longest_switched:
            module.set_attention_type(usual)  # type: ignore[operator]

    def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        nonlocal longest_switched
        if module.attention_type != usual:
            longest_switched = max(longest_switched, _width(args, kwargs))

    encoder.register_forward_pre_hook(before, with_kwargs=True)
    encoder.register_forward_hook(after, with_kwargs=True)


def _width(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    ids: Tensor = args[0] if args else kwargs["input_ids"]
    return ids.shape[1]


class EncodedContexts:
    """The encoder's outputs for the contexts of the last batch: the next batch may begin with one of them."""

    def __init__(self, model: PreTrainedModel, counters: Counters) -> None:
        self.model = model
        self.counters = counters
        self.states: dict[tuple[int, ...], Tensor] = {}
        self.output_type: type[Any] = BaseModelOutput

    @torch.inference_mode()
    def batch_logits(self, rows: Sequence[Row]) -> Tensor:
        """The logits (row, token, vocabulary) of a batch in which each context is encoded once."""
        device = device_of(self.model)
        self._encode([row.context for row in rows])
        decoder_ids, _ = right_padded([row.decoder_input for row in rows])
        _, mask = right_padded([row.context for row in rows])
        states = pad_sequence([self.states[row.context] for row in rows], batch_first=True)
        # Padding stands to the right of every token that the decoder looks at, so it needs no mask.
        logits: Tensor = self.model(
            encoder_outputs=self.output_type(last_hidden_state=states),
            attention_mask=mask.to(device),
            decoder_input_ids=decoder_ids.to(device),
            use_cache=False,
        ).logits
        self.counters.count_prefill(decoder_ids.numel())
        return logits

    def _encode(self, contexts: Sequence[tuple[int, ...]]) -> None:
        """Encode the contexts that the last batch did not have, and forget those that this one does not have."""
        self.states = {context: self.states[context] for context in contexts if context in self.states}
        new = list(dict.fromkeys(context for context in contexts if context not in self.states))
        if not new:
            return
        ids, mask = (tensor.to(device_of(self.model)) for tensor in right_padded(new))
        encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
        self.output_type = type(encoded)
        for context, states in zip(new, encoded.last_hidden_state, strict=True):
            self.states[context] = states[: len(context)]
        self.counters.count_prefill(ids.numel())


@torch.inference_mode()
def plain_logits(model: PreTrainedModel, row: Row, counters: Counters) -> Tensor:
    """The logits (row, token, vocabulary) of one row, computed by nothing but the model's own forward pass."""
    ids, decoder_ids = (torch.tensor([tokens], device=device_of(model)) for tokens in (row.context, row.decoder_input))
    counters.count_prefill(ids.numel() + decoder_ids.numel())
    logits: Tensor = model(
        input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=decoder_ids, use_cache=False
    ).logits
    return logits


def _score_rows(rows: Sequence[Row], logits: Tensor, sums: LoglikelihoodSums) -> list[Response[LLOutput]]:
    targets = [
        (number * logits.shape[1] + position, owner, token)
        for number, row in enumerate(rows)
        for owner, continuation in row.targets
        for position, token in enumerate(continuation)
    ]
    lines, owners, tokens = zip(*targets, strict=True)
    distinct, inverse = np.unique(np.array(lines, dtype=np.int64), return_inverse=True)
    needed = logits.flatten(0, 1)[torch.from_numpy(distinct).to(logits.device)].float()
    scores = token_logprobs([(0, needed)], inverse, tokens)
    return list(sums.add(np.array(owners, dtype=np.int64), *scores))


def right_padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The rows as one tensor, padded at the right, and the mask that is 1 where a row has a token."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask
