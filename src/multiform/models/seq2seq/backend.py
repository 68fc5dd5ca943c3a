"""Encoder-decoder models: the encoder reads the context, and the decoder writes the continuation."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from transformers import PreTrainedModel

from multiform.inference.counters import Counters
from multiform.inference.decode.generate import Row
from multiform.inference.limits import Limits
from multiform.inference.plan import Tokens
from multiform.inference.sequences import Pair
from multiform.models.seq2seq import generate as seq2seq_generate
from multiform.models.seq2seq import score as seq2seq_score
from multiform.models.tokenizer import Encoder, after_prefix, check_length, encode_texts, move_whitespace
from multiform.requests import Completion, LLOutput, Response

logger = logging.getLogger("multiform")


@dataclass(slots=True, kw_only=True)
class Seq2SeqBackend:
    """A context is read by the encoder as a whole, so that contexts which only begin alike share nothing."""

    model: PreTrainedModel
    encoder: Encoder
    max_length: int
    limits: Limits
    generation_limits: Limits
    counters: Counters
    told: bool = field(default=False, init=False)

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The pair of each (context, continuation), whose tokens are found apart.

        The context has the tokenizer's special tokens and the continuation has none. White space between them
        belongs to the continuation, as with decoder-only models.
        """
        prefix = self.encoder.prefix_token_id
        moved = [move_whitespace(*pair) for pair in texts]
        contexts = self.encoder.encode(context for (given, _), (context, _) in zip(texts, moved, strict=True) if given)
        rests = encode_texts(self.encoder.tokenizer, dict.fromkeys(rest for _, rest in moved), special=False)
        for (given, _), (context, rest) in zip(texts, moved, strict=True):
            if not given:
                yield after_prefix(rests[rest], prefix)
                continue
            read = contexts[context] or array("i", [prefix])
            yield Pair(read + rests[rest], len(read))

    def fit(self, pair: Pair, text: str) -> Pair:
        """The pair with as much of its context's end as the encoder reads."""
        check_length(len(pair.tokens) - pair.start, self.max_length, text)
        surplus = pair.start - self.max_length
        return Pair(pair.tokens[surplus:], self.max_length) if surplus > 0 else pair

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        self._tell()
        return seq2seq_score.score(self.model, pairs, self.limits, self.counters)

    def prompts(self, texts: Iterable[str], *, truncation: bool) -> dict[str, Tokens]:
        """The tokens of each text with the tokenizer's own special ones, whatever `add_bos_token` says."""
        found = encode_texts(self.encoder.tokenizer, dict.fromkeys(texts), special=None, truncation=truncation)
        return {text: tokens or array("i", [self.encoder.prefix_token_id]) for text, tokens in found.items()}

    def room(self, max_gen_toks: int) -> int:
        """All that the encoder reads: the text that is written takes no part of it.

        A decoder that has learned its positions has no more of them.
        """
        positions = getattr(self.model.config, "max_position_embeddings", None)
        return self.max_length if positions is None or max_gen_toks <= positions else 0

    def write(self, rows: Sequence[Row]) -> Iterator[Response[Completion]]:
        self._tell()
        return seq2seq_generate.generate(
            self.model, self.encoder.tokenizer, rows, self.generation_limits, self.counters
        )

    def score_cost(self, pairs: Sequence[Pair]) -> str | None:
        if not pairs:
            return None
        contexts = {pair.tokens[: pair.start].tobytes(): pair.start for pair in pairs}
        scored = sum(len(pair.tokens) - pair.start for pair in pairs)
        read = f"{len(contexts):,} contexts of {sum(contexts.values()):,} tokens"
        return f"{len(pairs):,} sequences in batches: {read} for the encoder, {scored:,} tokens for the decoder"

    def read_cost(self, rows: Sequence[Row]) -> str | None:
        tokens = sum(len(row.prompt) for row in rows)
        return f"{len(rows):,} sequences in batches: {tokens:,} tokens for the encoder" if rows else None

    def _tell(self) -> None:
        if not self.told:
            logger.warning("prefixes are not shared, which takes longer: the model is an encoder-decoder")
            self.told = True
