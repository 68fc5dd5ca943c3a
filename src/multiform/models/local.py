"""LocalModel: what models that run on this machine share, whichever engine computes them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from multiform.errors import UsageError
from multiform.labels import leading_label
from multiform.models.arguments import GenerationOptions, generation_options
from multiform.models.identity import identity
from multiform.models.model import Counters, Model, Usage, mark_truncated
from multiform.models.tokenizer import (
    Encoder,
    Seq2SeqEncoder,
    first_token,
    rolling_windows,
    score_rolling,
    special_tokens,
    think_end,
)
from multiform.models.torch.plan import Pair
from multiform.models.torch.sampling import Generation, in_force, num_beams, random_numbers, sampling
from multiform.models.torch.tree import Tokens
from multiform.prompts.chat import ChatTemplate
from multiform.prompts.prompt import Messages
from multiform.requests import (
    STOP_AT_LABEL,
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Request,
    Response,
    RollingRequest,
)

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedTokenizerBase

logger = logging.getLogger("multiform")
T = TypeVar("T")
Tokenized = TypeVar("Tokenized")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Arguments of local models about tokens, chat templates and thoughts.

    `prefix_token_id` takes the place of an empty context. With `truncation`, the tokenizer cuts prompts for generation
    that are longer than its own limit. `chat_template` names one of the tokenizer's templates; `chat_template_args`,
    `enable_thinking`, `reasoning_effort` and `thinking_budget` are variables of it. What a completion has up to
    `think_end_token`, a string or a token id, is removed.
    """

    prefix_token_id: int | None = None
    truncation: bool = False
    chat_template: str | None = None
    chat_template_args: Mapping[str, Any] | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None
    think_end_token: str | int | None = None

    @property
    def template_variables(self) -> dict[str, Any]:
        """The variables of the chat template.

        >>> TextOptions(chat_template_args={"date": "today"}, reasoning_effort="low").template_variables
        {'date': 'today', 'reasoning_effort': 'low'}
        """
        names = ("enable_thinking", "reasoning_effort", "thinking_budget")
        thinking = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {**(self.chat_template_args or {}), **thinking}

    def chat(self, tokenizer: PreTrainedTokenizerBase, model: str, apply: Callable[..., Any]) -> ChatTemplate:
        """The chat template of a model, which `apply` writes."""
        template, variables = self.chat_template, self.template_variables
        return ChatTemplate(tokenizer=tokenizer, model=model, apply=apply, template=template, variables=variables)


class Sequences(NamedTuple):
    """Requests as tokens: the pairs of continuations, the windows of whole texts and the prompts of completions."""

    pairs: list[Pair]
    windows: list[Pair]
    generations: list[Generation]


class LocalModel(Model):
    """A model of transformers' files, with its tokenizer: requests become tokens here, and an engine computes them."""

    handles_stop = True

    name: str
    #: The hash of its files or their commit on the hub, the revision that was asked for, and its number type.
    sha: str
    revision: str
    dtype: str
    tokenizer: PreTrainedTokenizerBase
    encoder: Encoder
    chat: ChatTemplate
    #: The context length in tokens, and how many of them scoring leaves free.
    max_length: int
    reserved: ClassVar[int] = 0
    #: The most tokens of a completion by a decoder that gets the prompt from an encoder; None without an encoder.
    decoder_length: int | None = None
    #: Whether prompts for generation that are longer than the tokenizer's limit are cut by it.
    truncation: bool
    #: What a completion has up to this string or token is removed.
    think_end: str | int | None
    counters: Counters
    _has_warned_about_limit = False

    def _use_tokenizer(
        self, tokenizer: PreTrainedTokenizerBase, texts: TextOptions, add_bos_token: bool | None
    ) -> None:
        """Set the tokenizer of the model, which has a name already, with its chat template and encoder."""
        self.tokenizer = tokenizer
        self.chat = texts.chat(tokenizer, self.name, self._apply_template)
        self.chat.check()
        prefix = first_token(tokenizer, texts.prefix_token_id)
        encoder_class = Encoder if self.decoder_length is None else Seq2SeqEncoder
        self.encoder = encoder_class(tokenizer=tokenizer, prefix_token_id=prefix, add_bos_token=add_bos_token)
        self.think_end = think_end(tokenizer, texts.think_end_token)
        self.truncation = texts.truncation
        self.counters = Counters()
        #: Tokens that were computed to plan a run, by kind, with their texts: the run needs them once more.
        self._planned_tokens: dict[str, tuple[Any, Any]] = {}

    def _make_identity(self, engine: str, **settings: Any) -> str:
        """The hash of the weights and of every setting that changes outputs."""
        return identity(
            engine,
            self.name,
            sha=self.sha,
            dtype=self.dtype,
            max_length=self.max_length,
            add_bos_token=self.encoder.add_bos_token,
            prefix_token_id=self.encoder.prefix_token_id,
            truncation=self.truncation,
            generation_config=in_force(self.generation_config),
            **settings,
        )

    @property
    @abstractmethod
    def generation_config(self) -> GenerationConfig:
        """That of the model, which a user may have replaced."""

    @abstractmethod
    def _score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation, counted."""

    @abstractmethod
    def _complete(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completion of each sequence, counted."""

    @abstractmethod
    def _computed_tokens(self, sequences: Sequences) -> int:
        """The tokens of prompts that the engine would compute."""

    @abstractmethod
    def _check_generation(self, request: GenerationRequest, options: GenerationOptions) -> None:
        """Raise a UsageError for options of a request that the engine does not have."""

    def _windows(self, tokens: Tokens) -> Iterator[Pair]:
        """The windows in which a whole text is scored."""
        return rolling_windows(tokens, self.encoder.prefix_token_id, self.max_length - self.reserved)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        pairs, cut = self._pairs(requests)
        yield from mark_truncated(self._score(pairs), cut)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        encoded = self.encoder.encode(request.text for request in requests)
        texts = [encoded[request.text] for request in requests]
        return score_rolling(texts, self._windows, self._score)

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        generations, cut = self._generations(requests)
        yield from mark_truncated(self._complete(generations), cut)

    def workload(self, requests: Sequence[Request]) -> Usage | None:
        if self.media:  # the number of an image's tokens is known only when it has been processed
            return None
        sequences = self._sequences(requests, for_later=True)
        pairs, windows, generations = sequences
        return Usage(
            prefill=self._computed_tokens(sequences),
            unshared=sum(pair.inputs for pair in (*pairs, *windows)) + sum(len(each.prompt) for each in generations),
            decode=sum(generation.limit for generation in generations),
            completions=len(generations),
        )

    def usage(self) -> Usage | None:
        return None if self.media else Usage() + self.counters

    def info(self) -> dict[str, Any]:
        return {
            "model_dtype": self.dtype,
            "model_revision": self.revision,
            "model_sha": self.sha,
            "generation_config": in_force(self.generation_config),
        }

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        self.check_parts(messages)
        return self.chat.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def chat_template_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__") + self.chat.variant

    def chat_template_text(self) -> str | None:
        return self.chat.text

    def tokenizer_info(self) -> dict[str, Any]:
        return {**special_tokens(self.tokenizer), "max_length": self.max_length}

    def _apply_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def _sequences(self, requests: Sequence[Request], *, for_later: bool = False) -> Sequences:
        """The tokens of requests; with `for_later` they are kept until these are run, and warnings wait until then."""
        scored = [request for request in requests if isinstance(request, LoglikelihoodRequest)]
        rolling = [request for request in requests if isinstance(request, RollingRequest)]
        generated = [request for request in requests if isinstance(request, GenerationRequest)]
        encoded = self.encoder.encode(request.text for request in rolling)
        windows = [window for request in rolling for window in self._windows(encoded[request.text])]
        pairs, _ = self._pairs(scored, for_later=for_later)
        generations, _ = self._generations(generated, for_later=for_later)
        return Sequences(pairs, windows, generations)

    def _pairs(
        self, requests: Sequence[LoglikelihoodRequest], *, for_later: bool = False
    ) -> tuple[list[Pair], set[int]]:
        """The tokens of each request, and the positions of those whose contexts are truncated."""
        texts = [(request.context, request.continuation) for request in requests]
        encoded = self._tokenize_once(
            "pairs", texts, lambda texts: list(self.encoder.pairs(texts)), for_later=for_later
        )
        length = self.max_length - self.reserved
        pairs = [self.encoder.fit(pair, length, text) for pair, (_, text) in zip(encoded, texts, strict=True)]
        cut = {index for index, (before, pair) in enumerate(zip(encoded, pairs, strict=True)) if before is not pair}
        if for_later:
            return pairs, cut
        self._warn_about_truncation(len(cut))
        if empty := sum(pair.start == len(pair.tokens) for pair in pairs):
            logger.warning("%d continuations are empty; their log-likelihood is 0", empty)
        return pairs, cut

    def _generations(
        self, requests: Sequence[GenerationRequest], *, for_later: bool = False
    ) -> tuple[list[Generation], set[int]]:
        """The prompt of each request, and the positions of those that are truncated."""
        texts = [request.context for request in requests]
        encode = partial(self.encoder.prompts, truncation=self.truncation)
        prompts = self._tokenize_once("prompts", texts, encode, for_later=for_later)
        tokens = [prompts[text].tolist() for text in texts]
        generations = [self._generation(index, *each) for index, each in enumerate(zip(requests, tokens, strict=True))]
        cut = {each.index for each in generations if len(each.prompt) < len(tokens[each.index])}
        if not for_later:
            self._warn_about_truncation(len(cut))
        return generations, cut

    def _tokenize_once(self, kind: str, texts: T, tokenize: Callable[[T], Tokenized], *, for_later: bool) -> Tokenized:
        """The tokens of texts, which may be kept from before; they are kept from now on with `for_later` alone."""
        known, tokens = self._planned_tokens.pop(kind, (None, None))
        tokens = tokens if known == texts else tokenize(texts)
        if for_later:
            self._planned_tokens[kind] = texts, tokens
        return tokens

    def _generation(self, index: int, request: GenerationRequest, prompt: list[int]) -> Generation:
        """A request with its prompt, truncated at the left where that leaves no room for the completion."""
        gen_kwargs = request.gen_kwargs
        labels = gen_kwargs.pop(STOP_AT_LABEL, ())
        options = generation_options(gen_kwargs)
        self._check_generation(request, options)
        if options.fills_context:  # a prompt that leaves too little room is truncated
            room = max(self.max_length - len(prompt) - options.reserved, self.max_length // 4, 1)
            options = replace(options, max_gen_toks=room)
        if self.decoder_length is None:
            max_prompt_length = self.max_length - options.max_gen_toks
        else:
            max_prompt_length = self.max_length if options.max_gen_toks <= self.decoder_length else 0
        if max_prompt_length < 1:
            message = f"max_gen_toks is {options.max_gen_toks} and the model reads {self.max_length} tokens in all"
            raise UsageError(message, where=self.name, hint="set a smaller max_gen_toks")
        prompt = prompt[-max_prompt_length:]
        end = self.tokenizer.eos_token
        return Generation(
            index=index,
            prompt=prompt,
            limit=self._completion_limit(options.max_gen_toks, len(prompt)),
            stops=(*options.until, end) if isinstance(end, str) and end else options.until,
            sampling=sampling(options, self.generation_config),
            rng=random_numbers(request),
            num_beams=options.num_beams or num_beams(self.generation_config),
            think_end=self.think_end,
            # A thought is removed from the text, and whether one comes is not known before its end.
            leading_label=leading_label(labels) if labels and self.think_end is None else None,
        )

    def _completion_limit(self, max_gen_toks: int, prompt_length: int) -> int:
        """The most tokens of a completion; `max_new_tokens` of the model takes precedence, as in `generate`."""
        configured = getattr(self.generation_config, "max_new_tokens", None)
        if configured is None:
            return max_gen_toks
        if not self._has_warned_about_limit:
            message = "the model's generation config sets max_new_tokens=%d, which takes precedence over max_gen_toks"
            logger.warning(message, configured)
            self._has_warned_about_limit = True
        return min(int(configured), self.decoder_length or self.max_length - prompt_length)

    def _warn_about_truncation(self, count: int) -> None:
        if count:
            logger.warning("%d contexts lose their beginning: the model reads %d tokens", count, self.max_length)
