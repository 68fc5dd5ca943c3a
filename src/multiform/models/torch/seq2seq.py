"""Encoder-decoder models: log-likelihoods, completions, and the trials that allow batches of either.

Each context is encoded once for all of its continuations. The decoding loop is that of transformers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from multiform.models.model import Counters
from multiform.models.torch.device import device_of, run_batches
from multiform.models.torch.forward import LoglikelihoodSums, Targets
from multiform.models.torch.plan import BatchLimits, Pair
from multiform.models.torch.sampling import Generation
from multiform.models.torch.structure import in_float32
from multiform.models.torch.transformers_loop import generate_batch
from multiform.models.torch.trial import FEW, attempt, generate_steps, is_close, trial_tokens
from multiform.requests import Completion, LLOutput, Response

#: Logits that are in memory at once: 1 GiB in float32.
MAX_LOGITS = 2**28
#: Verdicts: sequences go into one batch, each is computed alone, or each alone and without a cache; and each alone,
#: by a plain forward pass that encodes its context again.
TOGETHER, ALONE, UNCACHED, PLAIN = "together", "alone", "uncached", "plain"


@dataclass(frozen=True, slots=True)
class Seq2SeqRow:
    """A context, the decoder's input, and the continuations that are scored with it.

    Each target is the index of its pair and the continuation's tokens. `max_tokens` is the most tokens that this
    row, or any after it, has.
    """

    context: tuple[int, ...]
    decoder_input: tuple[int, ...]
    targets: list[tuple[int, list[int]]] = field(default_factory=list)
    max_tokens: int = 0


def score_seq2seq(
    model: PreTrainedModel,
    pairs: Sequence[Pair],
    limits: BatchLimits,
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
    limits = replace(limits, tokens=min(limits.tokens, max(1, MAX_LOGITS // vocabulary)))

    encoded = EncodedContexts(model, counters)

    def run(batch: Sequence[Seq2SeqRow]) -> list[Response[LLOutput]]:
        logits = encoded.batch_logits(batch) if encodes_once else plain_row_logits(model, batch[0], counters)
        return _score_rows(batch, logits, sums)

    for responses in run_batches(_rows(model, pairs), lambda row: row.max_tokens, limits, run):
        yield from responses


def _rows(model: PreTrainedModel, pairs: Sequence[Pair]) -> list[Seq2SeqRow]:
    """The distinct inputs, with the longest contexts first and equal ones together.

    The last token of a continuation is not an input, so the one-token labels of one question are a single row.
    """
    rows: dict[object, Seq2SeqRow] = {}
    for index, pair in enumerate(pairs):
        continuation = pair.continuation
        if continuation:
            row = Seq2SeqRow(tuple(pair.context), tuple(decoder_tokens(model, continuation)))
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
    def batch_logits(self, rows: Sequence[Seq2SeqRow]) -> Tensor:
        """The logits (row, token, vocabulary) of a batch in which each context is encoded once."""
        self._encode([row.context for row in rows])
        decoder_ids, _ = _pad(self.model, [row.decoder_input for row in rows])
        _, mask = _pad(self.model, [row.context for row in rows])
        states = pad_sequence([self.states[row.context] for row in rows], batch_first=True)
        # Padding stands to the right of every token that the decoder looks at, so it needs no mask.
        logits: Tensor = self.model(
            encoder_outputs=self.output_type(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=decoder_ids,
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
        ids, mask = _pad(self.model, new)
        encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
        self.output_type = type(encoded)
        for context, states in zip(new, encoded.last_hidden_state, strict=True):
            self.states[context] = states[: len(context)]
        self.counters.count_prefill(ids.numel())


@torch.inference_mode()
def plain_row_logits(model: PreTrainedModel, row: Seq2SeqRow, counters: Counters) -> Tensor:
    """The logits (row, token, vocabulary) of one row, computed by nothing but the model's own forward pass."""
    ids, decoder_ids = (torch.tensor([tokens], device=device_of(model)) for tokens in (row.context, row.decoder_input))
    counters.count_prefill(ids.numel() + decoder_ids.numel())
    logits: Tensor = model(
        input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=decoder_ids, use_cache=False
    ).logits
    return logits


def _score_rows(rows: Sequence[Seq2SeqRow], logits: Tensor, sums: LoglikelihoodSums) -> list[Response[LLOutput]]:
    targets = Targets()
    for number, row in enumerate(rows):
        for owner, continuation in row.targets:
            targets.add(owner, number * logits.shape[1], continuation)
    distinct, lines = targets.distinct_lines()
    needed = logits.flatten(0, 1)[torch.from_numpy(distinct).to(logits.device)].float()
    return sums.add([(0, needed)], lines, targets)


def _pad(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """The rows as one tensor, padded at the right, and the mask that is 1 where a row has a token."""
    ids = [torch.tensor(row) for row in rows]
    tensors = ids, [torch.ones_like(row) for row in ids]
    padded, mask = (pad_sequence(tensor, batch_first=True).to(device_of(model)) for tensor in tensors)
    return padded, mask


def generate_seq2seq(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    generations: Sequence[Generation],
    limits: BatchLimits,
    counters: Counters,
    *,
    use_cache: bool = True,
) -> Iterator[Response[Completion]]:
    """The completion of each sequence, batch by batch.

    Sequences of one batch have the same limit, because some models force their end token there.
    """

    def run(batch: Sequence[Generation]) -> list[Response[Completion]]:
        ids, mask = _pad(model, [generation.prompt for generation in batch])
        inputs, options = {"input_ids": ids, "attention_mask": mask}, {"use_cache": use_cache, "with_prompts": False}
        responses = generate_batch(model, tokenizer, batch, inputs, counters, **options)
        counters.count_prefill(ids.numel())
        return responses

    ordered = sorted(generations, key=lambda each: (each.limit, -len(each.prompt), each.prompt))
    for _, group in groupby(ordered, key=lambda each: each.limit):
        for responses in run_batches(list(group), lambda each: each.max_own_tokens, limits, run):
            yield from responses


def scores_together(model: PreTrainedModel, length: int) -> str:
    """Whether contexts of up to `length` tokens can be scored in one batch, or each alone, and are encoded once."""
    continuations = [_tokens(model, size, seed=size) for size in (8, 3, 5, 6)]
    rows = [
        Seq2SeqRow(tuple(context), tuple(decoder_tokens(model, continuation)))
        for context, continuation in zip(_contexts(model, length), continuations, strict=True)
    ]
    # A second continuation of the last context, which is encoded by then.
    rows.append(Seq2SeqRow(rows[-1].context, rows[0].decoder_input))
    with in_float32(model):
        expected = attempt(lambda: [plain_row_logits(model, row, Counters())[0] for row in rows])
        for verdict, batches in ((TOGETHER, [rows[:4], rows[4:]]), (ALONE, [[row] for row in rows])):
            logits = attempt(lambda batches=batches: _logits(model, batches)) if expected else None  # type: ignore[misc]
            if logits is not None and all(
                is_close(model, actual[: len(each)], each) for actual, each in zip(logits, expected or (), strict=True)
            ):
                return verdict
    return PLAIN


def _logits(model: PreTrainedModel, batches: Sequence[Sequence[Seq2SeqRow]]) -> list[Tensor]:
    """The logits of rows that are computed batch by batch."""
    encoded = EncodedContexts(model, Counters())
    return [line for batch in batches for line in encoded.batch_logits(batch)]


def decodes_together(model: PreTrainedModel, length: int) -> str:
    """Whether completions of contexts of up to `length` tokens can be generated in one batch."""
    contexts = _contexts(model, length)
    with in_float32(model):
        alone = attempt(lambda: [_generate_logits(model, [context])[0] for context in contexts])
        if alone is None:  # as with ProphetNet, whose decoder takes no cached positions
            return UNCACHED
        together = attempt(lambda: _generate_logits(model, contexts)) or []
        agree = len(together) == len(alone) and all(map(partial(is_close, model), together, alone))
        return TOGETHER if agree else ALONE


def _generate_logits(model: PreTrainedModel, contexts: Sequence[Sequence[int]]) -> list[Tensor]:
    """The logits (step, vocabulary) by which `generate` chooses the first tokens for each context."""
    ids, mask = _pad(model, contexts)
    return list(torch.stack(generate_steps(model, {"input_ids": ids, "attention_mask": mask}).logits, 1).float())


def _contexts(model: PreTrainedModel, length: int) -> list[list[int]]:
    """Contexts of several lengths; the last is too short for attention that needs many tokens."""
    return [_tokens(model, max(1, size), seed=size) for size in (length, length // 2, length // 3, min(FEW, length))]


def _tokens(model: PreTrainedModel, count: int, *, seed: int) -> list[int]:
    tokens = trial_tokens(model.config.get_text_config(decoder=True))
    return random.Random(seed).choices(tokens, k=count)
