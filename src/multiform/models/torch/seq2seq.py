"""Encoder-decoder models: log-likelihoods, completions, and the trials that allow batches of either.

Each context is encoded once for all of its continuations. The decoding loop is that of transformers.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from multiform.models.model import Counters
from multiform.models.torch.device import device_of, run_batches
from multiform.models.torch.forward import MAX_LOGITS, LoglikelihoodSums, Targets, pad_rows
from multiform.models.torch.plan import BatchLimits, Cost, Pair
from multiform.models.torch.planner import TrialRecords
from multiform.models.torch.sampling import Generation
from multiform.models.torch.structure import in_float32
from multiform.models.torch.transformers_loop import beam_search, generate_batch
from multiform.models.torch.trial import FEW, attempt, generate_steps, is_close, trial_length, trial_tokens
from multiform.requests import Completion, LLOutput, Response

logger = logging.getLogger("multiform")

LIMIT_NOTE = "max_gen_toks limits the completion; lm-eval adds the prompt's tokens to it for encoder-decoders"
#: Verdicts: sequences go into one batch, each is computed alone, or each alone and without a cache; and each alone,
#: by a plain forward pass that encodes its context again.
TOGETHER, ALONE, UNCACHED, PLAIN = "together", "alone", "uncached", "plain"


@dataclass(frozen=True, slots=True)
class Seq2SeqRow:
    """A context, the decoder's input, and the continuations that are scored with it.

    Each target is the index of its pair and the continuation's tokens.
    """

    context: tuple[int, ...]
    decoder_input: tuple[int, ...]
    targets: list[tuple[int, list[int]]] = field(default_factory=list)


@dataclass
class Seq2SeqEngine:
    """Encoder-decoder models: a context is encoded as a whole, so contexts with a common prefix share nothing.

    The verdicts of trials are kept for later runs of the model with this `identity`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    _: KW_ONLY
    max_length: int
    limits: BatchLimits
    generation_limits: BatchLimits
    counters: Counters
    identity: str | None = None

    def __post_init__(self) -> None:
        self.records = TrialRecords(self.identity, device_of(self.model).type)
        #: These log a message once.
        self._inform = cache(logger.info)
        self._warn = cache(partial(logger.warning, "prefixes are not shared, which takes longer: %s"))
        _restore_attention(self.model.get_encoder())

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation, batch by batch."""
        sums = LoglikelihoodSums([pair.continuation_length for pair in pairs])
        yield from sums.empty()
        if not (rows := _rows(self.model, pairs)):
            return
        verdict = self._verdict("scoring", [row.context for row in rows], scores_together, otherwise=PLAIN)
        if verdict != TOGETHER:
            self._warn("its log-likelihoods change in a batch, so each sequence is computed alone")
        vocabulary = int(self.model.config.get_text_config(decoder=True).vocab_size)
        limits = replace(self.limits, tokens=min(self.limits.tokens, max(1, MAX_LOGITS // vocabulary)))
        encoded = EncodedContexts(self.model, self.counters)

        def run(batch: Sequence[Seq2SeqRow]) -> list[Response[LLOutput]]:
            if verdict == PLAIN:
                return _score_rows(batch, plain_row_logits(self.model, batch[0], self.counters), sums)
            return _score_rows(batch, encoded.batch_logits(batch), sums)

        def length_of(row: Seq2SeqRow) -> int:
            return len(row.context) + len(row.decoder_input)

        for responses in run_batches(rows, length_of, _limits(limits, verdict), run):
            yield from responses

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completion of each sequence, batch by batch; those with several beams come last.

        Sequences of one batch have the same limit, because some models force their end token there.
        """
        single = [generation for generation in generations if generation.num_beams == 1]
        prompts, verdict = [generation.prompt for generation in single], TOGETHER
        if prompts:
            verdict = self._verdict("decoding", prompts, decodes_together, otherwise=ALONE)
            self._inform(LIMIT_NOTE)
        if verdict != TOGETHER:
            self._warn("its completions change in a batch, so each is generated alone")
        options = {"use_cache": verdict != UNCACHED, "with_prompts": False}

        def run(batch: Sequence[Generation]) -> list[Response[Completion]]:
            ids, mask = pad_rows([generation.prompt for generation in batch], device_of(self.model))
            inputs = {"input_ids": ids, "attention_mask": mask}
            responses = generate_batch(self.model, self.tokenizer, batch, inputs, self.counters, **options)
            self.counters.count_prefill(ids.numel())
            return responses

        ordered = sorted(single, key=lambda each: (each.limit, -len(each.prompt), each.prompt))
        limits = _limits(self.generation_limits, verdict)
        for _, group in groupby(ordered, key=lambda each: each.limit):
            for responses in run_batches(list(group), lambda each: each.max_own_tokens, limits, run):
                yield from responses
        yield from beam_search(self.model, self.tokenizer, generations, self.counters)

    def _verdict(
        self, what: str, contexts: Sequence[Sequence[int]], trial: Callable[[PreTrainedModel, int], str], otherwise: str
    ) -> str:
        """The verdict of a trial with contexts as long as these."""
        self._warn("the model is an encoder-decoder")
        length = trial_length(max(map(len, contexts)), self.max_length)
        return self.records.verdict(f"{what} {length}", lambda: trial(self.model, length), otherwise)

    def scoring_cost(self, pairs: Sequence[Pair]) -> Cost:
        """The cost of scoring the pairs."""
        return Cost.in_batches(len(pairs), sum(len(pair.tokens) for pair in pairs))

    def prefill_cost(self, generations: Sequence[Generation]) -> Cost:
        """The cost of encoding the prompts."""
        return Cost.in_batches(len(generations), sum(len(generation.prompt) for generation in generations))


def _limits(limits: BatchLimits, verdict: str) -> BatchLimits:
    """The limits of a batch: one row, where rows change each other's numbers."""
    return limits if verdict == TOGETHER else replace(limits, rows=1)


def _restore_attention(encoder: nn.Module) -> None:
    """Let an encoder that switches its attention for a short text, and keeps it, switch back for the next one.

    BigBird-Pegasus does so: without this, the numbers of a text would depend on those that were computed before it.
    """
    usual = getattr(encoder, "attention_type", None)

    def switch_back(module: nn.Module, _: Any) -> None:
        if module.attention_type != usual:
            module.set_attention_type(usual)  # type: ignore[operator]

    if usual is not None and hasattr(encoder, "set_attention_type"):
        encoder.register_forward_pre_hook(switch_back)


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
    return sorted(rows.values(), key=lambda row: (-len(row.context), row.context, row.decoder_input))


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


@dataclass(slots=True)
class EncodedContexts:
    """The encoder's outputs for the contexts of the last batch: the next batch may begin with one of them."""

    model: PreTrainedModel
    counters: Counters
    states: dict[tuple[int, ...], Tensor] = field(default_factory=dict)
    output_type: type[Any] = BaseModelOutput

    @torch.inference_mode()
    def batch_logits(self, rows: Sequence[Seq2SeqRow]) -> Tensor:
        """The logits (row, token, vocabulary) of a batch in which each context is encoded once."""
        self._encode([row.context for row in rows])
        device = device_of(self.model)
        decoder_ids, _ = pad_rows([row.decoder_input for row in rows], device)
        _, mask = pad_rows([row.context for row in rows], device)
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
        ids, mask = pad_rows(new, device_of(self.model))
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
            targets.add(owner, number, 0, continuation)
    return sums.add(logits, targets)


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
        if expected is None:
            return PLAIN
        for verdict, batches in ((TOGETHER, [rows[:4], rows[4:]]), (ALONE, [[row] for row in rows])):
            logits = attempt(partial(_logits, model, batches))
            if logits and all(
                is_close(model, actual[: len(each)], each) for actual, each in zip(logits, expected, strict=True)
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
    ids, mask = pad_rows(contexts, device_of(model))
    return list(torch.stack(generate_steps(model, {"input_ids": ids, "attention_mask": mask}).logits, 1).float())


def _contexts(model: PreTrainedModel, length: int) -> list[list[int]]:
    """Contexts of several lengths; the last is too short for attention that needs many tokens."""
    return [_tokens(model, max(1, size), seed=size) for size in (length, length // 2, length // 3, min(FEW, length))]


def _tokens(model: PreTrainedModel, count: int, *, seed: int) -> list[int]:
    tokens = trial_tokens(model.config.get_text_config(decoder=True))
    return random.Random(seed).choices(tokens, k=count)
