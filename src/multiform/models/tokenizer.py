"""Text to token ids: pairs of context and continuation, prompts, and windows over long texts."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from multiform.errors import ModelError, excerpt
from multiform.models.torch.plan import Pair
from multiform.models.torch.tree import Tokens
from multiform.requests import FailedRequest, LLOutput, Response

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")
#: The number of texts that are tokenized together.
CHUNK = 1024
Failed = TypeVar("Failed", bound=FailedRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A tokenizer with its settings for the first token.

    `prefix_token_id` takes the place of an empty context; None where the tokenizer has no token for that, and then only
    texts with a context can be scored. `add_bos_token` says whether the tokenizer
    adds its special tokens; None leaves that to the tokenizer. Text that already begins with the
    first token gets no second one.
    """

    tokenizer: PreTrainedTokenizerBase
    prefix_token_id: int | None
    add_bos_token: bool | None = None

    def encode(self, texts: Iterable[str]) -> dict[str, Tokens]:
        """The tokens of each text, with special tokens according to the settings."""
        first = "" if self.prefix_token_id is None else str(self.tokenizer.decode([self.prefix_token_id]))
        return self._encode(texts, first)

    def prompts(self, texts: Iterable[str], *, truncation: bool = False) -> dict[str, Tokens]:
        """The tokens of each text as a prompt for generation."""
        bos = self.tokenizer.bos_token
        encoded = self._encode(texts, bos if isinstance(bos, str) else "", truncation=truncation)
        return {text: tokens or prefix_tokens(self.prefix_token_id) for text, tokens in encoded.items()}

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The tokenized pair of each (context, continuation).

        White space at the end of a context is moved to the continuation, where tokenizers expect
        it. A continuation without any token (an empty string, or characters that the vocabulary
        lacks) gives a pair with nothing to score.
        """
        texts_alone = {text for context, text in texts if not context}
        without_context = encode_texts(self.tokenizer, texts_alone, special=False)
        moved = [move_whitespace(*pair) for pair in texts]
        contexts = self.encode(context for context, _ in moved)
        for chunk in _chunks(zip(texts, moved, strict=True)):
            wholes = self.encode(context + text for (original, _), (context, text) in chunk if original)
            for (original, text), (context, moved_text) in chunk:
                if original:
                    yield split(contexts[context], wholes[context + moved_text], self.prefix_token_id)
                else:
                    yield after_prefix(without_context[text], self.prefix_token_id)

    @staticmethod
    def fit(pair: Pair, max_length: int, text: str) -> Pair:
        """The pair truncated at the left to the context length; an error where the continuation `text` is longer."""
        check_length(pair.continuation_length, max_length, text)
        surplus = len(pair.tokens) - (max_length + 1)  # the last token is not an input of the model
        return Pair(pair.tokens[surplus:], pair.start - surplus) if surplus > 0 else pair

    def _encode(self, texts: Iterable[str], first: str, *, truncation: bool = False) -> dict[str, Tokens]:
        unique = dict.fromkeys(texts)
        begun = {text for text in unique if first and text.startswith(first)}
        plain = [text for text in unique if text not in begun]
        return encode_texts(self.tokenizer, begun, special=False, truncation=truncation) | encode_texts(
            self.tokenizer, plain, special=self.add_bos_token, truncation=truncation
        )


class Seq2SeqEncoder(Encoder):
    """Tokenizes for an encoder-decoder: what the encoder gets, and what the decoder writes."""

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The pair of each (context, continuation), which are tokenized separately.

        The context has the tokenizer's special tokens and the continuation has none. White space between them
        belongs to the continuation, as with decoder-only models.
        """
        prefix = self.prefix_token_id
        moved = [move_whitespace(*pair) for pair in texts]
        nonempty = (context for (original, _), (context, _) in zip(texts, moved, strict=True) if original)
        contexts = self.encode(nonempty)
        distinct = dict.fromkeys(continuation for _, continuation in moved)
        continuations = encode_texts(self.tokenizer, distinct, special=False)
        for (original, _), (context, continuation) in zip(texts, moved, strict=True):
            if not original:
                yield after_prefix(continuations[continuation], prefix)
                continue
            encoder_tokens = contexts[context] or prefix_tokens(prefix)
            yield Pair(encoder_tokens + continuations[continuation], len(encoder_tokens))

    def prompts(self, texts: Iterable[str], *, truncation: bool = False) -> dict[str, Tokens]:
        """The tokens of each text with the tokenizer's default special tokens, whatever `add_bos_token` says."""
        encoded = encode_texts(self.tokenizer, dict.fromkeys(texts), special=None, truncation=truncation)
        return {text: tokens or prefix_tokens(self.prefix_token_id) for text, tokens in encoded.items()}

    @staticmethod
    def fit(pair: Pair, max_length: int, text: str) -> Pair:
        """The same for the encoder, which gets the context alone."""
        check_length(pair.continuation_length, max_length, text)
        surplus = pair.start - max_length
        return Pair(pair.tokens[surplus:], max_length) if surplus > 0 else pair


def load_encoder(name: str, prefix_token_id: int | None, add_bos_token: bool | None) -> Encoder:
    """The encoder of a tokenizer from a folder or the hub, without its model."""
    tokenizer = load_tokenizer(name)
    prefix = first_token(tokenizer, prefix_token_id)
    return Encoder(tokenizer=tokenizer, prefix_token_id=prefix, add_bos_token=add_bos_token)


def first_token(tokenizer: PreTrainedTokenizerBase, prefix_token_id: int | None) -> int | None:
    """The token that takes the place of an empty context: the argument, or the tokenizer's first or last token."""
    tokens = (prefix_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    return next((int(token) for token in tokens if token is not None), None)


def prefix_tokens(prefix: int | None) -> Tokens:
    """What takes the place of an empty context; a ModelError where the tokenizer has no token for that."""
    if prefix is None:
        message = "a text has no context, and the tokenizer has no token for the beginning or the end of a text"
        raise ModelError(message, hint="name one with prefix_token_id")
    return array("i", [prefix])


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or of a name on the hub."""
    from transformers import AutoTokenizer

    from multiform.models import hf  # noqa: F401 - says which package is missing

    folder = Path(name).expanduser()
    if name.startswith(("/", "./", "../", "~")) and not folder.is_dir():
        raise ModelError(f"no folder '{name}'", where=name, hint="give a folder or a hub name: tokenizer=NAME")
    try:
        return AutoTokenizer.from_pretrained(folder if folder.is_dir() else name, local_files_only=folder.is_dir())
    except Exception as error:  # the loader raises almost every kind
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        hint = "give a folder or a hub name: tokenizer=NAME"
        raise ModelError(f"cannot load the tokenizer: {reason}", where=name, hint=hint) from error


def think_end(tokenizer: PreTrainedTokenizerBase, token: str | int | None) -> str | int | None:
    """The end of a thought, from the argument `think_end_token`; a special token by its id, as texts do not have it."""
    if token is None:
        return None
    if str(token).isdecimal():
        return int(token)
    is_special = token in tokenizer.all_special_tokens
    return int(tokenizer.convert_tokens_to_ids(token)) if is_special else token


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The special tokens of a tokenizer, for the results file."""
    return {
        "tokenizer_pad_token": [tokenizer.pad_token, str(tokenizer.pad_token_id)],
        "tokenizer_eos_token": [tokenizer.eos_token, str(tokenizer.eos_token_id)],
        "tokenizer_bos_token": [tokenizer.bos_token, str(tokenizer.bos_token_id)],
        "eot_token_id": tokenizer.eos_token_id,
    }


def move_whitespace(context: str, continuation: str) -> tuple[str, str]:
    """Move trailing white space of the context to the beginning of the continuation.

    >>> move_whitespace("Answer: ", "yes")
    ('Answer:', ' yes')
    """
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def split(context: Tokens, tokens: Tokens, prefix: int | None) -> Pair:
    """The pair of a whole text's tokens, split where its context's tokens end.

    A token may span the boundary: "do" and "g" are the one token "dog". Where that leaves nothing to
    score, the split moves back to the first token in which the whole differs from its context, so
    that every token with a part of the continuation is scored. A context without tokens becomes the
    prefix token.

    >>> from array import array
    >>> split(array("i", [5, 6]), array("i", [5, 9]), prefix=0)
    Pair(tokens=array('i', [5, 9]), start=1)
    """
    start = len(context)
    if start < len(tokens):
        # Where a token spans the boundary, this is not the whole text any more; lm-eval scores it like this.
        tokens = context + tokens[start:]
    elif tokens != context:
        pairs = zip(context, tokens, strict=False)
        start = next((index for index, (a, b) in enumerate(pairs) if a != b), len(tokens) - 1)
    if start > 0:
        return Pair(tokens, start)
    return Pair(prefix_tokens(prefix) + tokens, 1)


def after_prefix(continuation: Tokens, prefix: int | None) -> Pair:
    """The pair of a continuation without context, which follows the prefix token.

    A continuation that begins with the prefix token does not get a second one.
    """
    if len(continuation) > 1 and continuation[0] == prefix:
        return Pair(continuation, 1)
    return Pair(prefix_tokens(prefix) + continuation, 1)


def check_length(scored: int, max_length: int, text: str) -> None:
    """Refuse a continuation that is longer than the model's context."""
    if scored > max_length:
        raise ModelError(
            f"the continuation has {scored} tokens and the model reads at most {max_length}",
            where=excerpt(text),
            hint="shorten the text, or raise max_length if the model allows it",
        )


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    texts: Iterable[str],
    *,
    special: bool | None,
    truncation: bool = False,
) -> dict[str, Tokens]:
    """The tokens of each text; `special` says whether special tokens are added, None leaves that to the tokenizer."""
    options: dict[str, bool] = {} if special is None else {"add_special_tokens": special}
    tokens: dict[str, Tokens] = {}
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
            invalid = next((text for text in chunk if re.search(r"[\ud800-\udfff]", text)), None)
            if invalid is None:
                raise
            raise ModelError(
                "the text has half of a surrogate pair, which is not a character",
                where=excerpt(invalid),
                hint="repair the data",
            ) from error
        tokens.update(zip(chunk, (array("i", ids) for ids in encoded["input_ids"]), strict=True))
    return tokens


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def score_rolling(
    texts: Sequence[Tokens],
    windows_of: Callable[[Tokens], Iterable[Pair]],
    score: Callable[[Sequence[Pair]], Iterable[Response[LLOutput | Failed]]],
) -> Iterator[Response[LLOutput | Failed]]:
    """The log-likelihood of each text as the sum over its windows, as soon as the last of them is scored.

    A text of which a window fails has failed.
    """
    windows: list[Pair] = []
    owners: list[int] = []
    for index, tokens in enumerate(texts):
        windows += windows_of(tokens)
        owners += [index] * (len(windows) - len(owners))
        if not tokens:
            yield index, LLOutput(0.0, tokens=0)
    missing = Counter(owners)
    sums = dict.fromkeys(missing, 0.0)
    for position, output in score(windows):
        owner = owners[position]
        if isinstance(output, FailedRequest):
            if owner in sums:  # the first of its windows that fails
                del sums[owner]
                yield owner, output
            continue
        if owner not in sums:
            continue
        sums[owner] += output.loglikelihood
        missing[owner] -= 1
        if not missing[owner]:
            yield owner, LLOutput(sums[owner], tokens=len(texts[owner]))


def rolling_windows(tokens: Tokens, prefix: int | None, max_length: int) -> Iterator[Pair]:
    """Pairs that score each token of a text once, the first after the prefix token.

    Windows are as long as the model's context; the last one begins earlier, to have as much context as fits.

    >>> from array import array
    >>> [(p.context, p.continuation) for p in rolling_windows(array("i", [1, 2, 3, 4, 5]), 0, 3)]
    [([0], [1, 2, 3]), ([2, 3], [4, 5])]
    """
    yield from (Pair(prefix_tokens(prefix) + tokens[:max_length], 1) for _ in tokens[:1])
    for start in range(max_length, len(tokens), max_length):
        end = min(start + max_length, len(tokens))
        first = end - max_length - 1
        yield Pair(tokens[first:end], start - first)
