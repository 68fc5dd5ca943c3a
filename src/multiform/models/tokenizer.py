"""Text to token ids: pairs of context and continuation, prompts, and windows over long texts.

The rules are those of lm-eval 0.4.13, so that scores agree token for token. Where it stops with
a failed assertion, this module goes on; `split` and `Encoder.pairs` say how.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from transformers import PreTrainedTokenizerBase

from multiform.errors import ModelError, shorten
from multiform.inference.plan import Tokens
from multiform.inference.sequences import Pair

T = TypeVar("T")

#: How many texts are tokenised at a time.
CHUNK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A tokenizer with its settings for the first token.

    `prefix_token_id` stands in for an empty context. `add_bos_token` says whether the tokenizer
    adds its special tokens; None leaves that to the tokenizer. Text that already begins with the
    first token gets no second one.
    """

    tokenizer: PreTrainedTokenizerBase
    prefix_token_id: int
    add_bos_token: bool | None = None

    def encode(self, texts: Iterable[str]) -> dict[str, Tokens]:
        """The tokens of each text, with special tokens as the settings say."""
        return self._encode(texts, str(self.tokenizer.decode([self.prefix_token_id])))

    def prompts(self, texts: Iterable[str], *, truncation: bool = False) -> dict[str, Tokens]:
        """The tokens of each text as the beginning of a generation."""
        bos = self.tokenizer.bos_token
        encoded = self._encode(texts, bos if isinstance(bos, str) else "", truncation=truncation)
        return {text: tokens or array("i", [self.prefix_token_id]) for text, tokens in encoded.items()}

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The pair of each (context, continuation).

        White space at the end of a context belongs to the continuation, where tokenizers expect
        it. A continuation without any token (an empty string, or characters that the vocabulary
        lacks) stays without: its pair has nothing to score.
        """
        bare = encode_texts(self.tokenizer, {text for context, text in texts if not context}, special=False)
        moved = [move_whitespace(*pair) for pair in texts]
        contexts = self.encode(context for context, _ in moved)
        for chunk in _chunks(zip(texts, moved, strict=True)):
            wholes = self.encode(context + text for (given, _), (context, text) in chunk if given)
            for (given, text), (context, rest) in chunk:
                if given:
                    yield split(contexts[context], wholes[context + rest], self.prefix_token_id)
                else:
                    yield after_prefix(bare[text], self.prefix_token_id)

    def _encode(self, texts: Iterable[str], first: str, *, truncation: bool = False) -> dict[str, Tokens]:
        unique = dict.fromkeys(texts)
        begun = {text for text in unique if first and text.startswith(first)}
        plain = [text for text in unique if text not in begun]
        return encode_texts(self.tokenizer, begun, special=False, truncation=truncation) | encode_texts(
            self.tokenizer, plain, special=self.add_bos_token, truncation=truncation
        )


def move_whitespace(context: str, continuation: str) -> tuple[str, str]:
    """The pair with the context's trailing white space at the head of the continuation.

    >>> move_whitespace("Answer: ", "yes")
    ('Answer:', ' yes')
    """
    bare = context.rstrip()
    return bare, context[len(bare) :] + continuation


def split(context: Tokens, whole: Tokens, prefix: int) -> Pair:
    """The pair of a whole text's tokens, cut where its context's tokens end.

    A token may span the join: "do" and "g" are the one token "dog". Where that leaves nothing to
    score, the cut moves back to the first token in which the whole differs from its context, so
    that every token with a part of the continuation is scored. A context without tokens is the
    prefix token.

    >>> from array import array
    >>> split(array("i", [5, 6]), array("i", [5, 9]), prefix=0)
    Pair(tokens=array('i', [5, 9]), start=1)
    """
    start = len(context)
    if start < len(whole):
        # Where a token spans the join, this is not the whole text any more; lm-eval's scores have it so.
        whole = context + whole[start:]
    elif whole != context:
        pairs = zip(context, whole, strict=False)
        start = next((index for index, (a, b) in enumerate(pairs) if a != b), len(whole) - 1)
    if start > 0:
        return Pair(whole, start)
    return Pair(array("i", [prefix]) + whole, 1)


def after_prefix(continuation: Tokens, prefix: int) -> Pair:
    """The pair of a continuation without context: it follows the prefix token.

    A continuation that brings the prefix token along does not get a second one.
    """
    if len(continuation) > 1 and continuation[0] == prefix:
        return Pair(continuation, 1)
    return Pair(array("i", [prefix]) + continuation, 1)


def fit(pair: Pair, max_length: int, text: str) -> Pair:
    """The pair without what is too much at its left: the model reads all tokens but the last."""
    check_length(len(pair.tokens) - pair.start, max_length, text)
    surplus = len(pair.tokens) - (max_length + 1)
    return Pair(pair.tokens[surplus:], pair.start - surplus) if surplus > 0 else pair


def check_length(scored: int, max_length: int, text: str) -> None:
    """Refuse a continuation with more tokens than a model reads."""
    if scored > max_length:
        raise ModelError(
            f"the continuation has {scored} tokens and the model reads at most {max_length}",
            where=shorten(text),
            hint="shorten the text, or raise max_length if the model allows it",
        )


def rolling_windows(tokens: Tokens, prefix: int, max_length: int) -> Iterator[Pair]:
    """Pairs that score each token of a text once, the first after the prefix token.

    Windows are as long as the model reads; the last one reaches back for as much context as fits.

    >>> from array import array
    >>> [(p.context, p.continuation) for p in rolling_windows(array("i", [1, 2, 3, 4, 5]), 0, 3)]
    [([0], [1, 2, 3]), ([2, 3], [4, 5])]
    """
    yield from (Pair(array("i", [prefix]) + tokens[:max_length], 1) for _ in tokens[:1])
    for start in range(max_length, len(tokens), max_length):
        end = min(start + max_length, len(tokens))
        first = end - max_length - 1
        yield Pair(tokens[first:end], start - first)


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[str],
    *,
    special: bool | None,
    truncation: bool = False,
) -> dict[str, Tokens]:
    """The tokens of each text; `special` says whether the tokenizer adds its special ones, None leaves that to it."""
    options: dict[str, bool] = {} if special is None else {"add_special_tokens": special}
    found: dict[str, Tokens] = {}
    for chunk in _chunks(texts):
        try:
            encoded = tokenizer(
                chunk,
                truncation=truncation,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
                **options,
            )
        except (UnicodeEncodeError, TypeError) as error:
            bad = next((text for text in chunk if not _is_unicode(text)), None)
            if bad is None:
                raise
            raise ModelError(
                "the text has half of a surrogate pair, which is no character",
                where=shorten(bad),
                hint="repair the data",
            ) from error
        found.update(zip(chunk, (array("i", ids) for ids in encoded["input_ids"]), strict=True))
    return found


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
