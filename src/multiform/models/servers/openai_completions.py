"""OpenAICompletions: a model behind a completions endpoint."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from multiform.errors import ModelError, UsageError
from multiform.models.arguments import argument_names
from multiform.models.identity import fingerprint
from multiform.models.model import Completions, Loglikelihoods, mark_truncated, no_chat_template, no_loglikelihoods
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import RefusedError, mapping_in
from multiform.models.servers.openai_chat import (
    MAX_STOPS,
    NUMBERS,
    PROBE_ATTEMPTS,
    OpenAIProtocol,
    Scoring,
    completion_alternatives,
    score_labels,
)
from multiform.models.servers.openai_logprobs import (
    Convention,
    Echo,
    check_tokens,
    compare_echoes,
    echo_of_ids,
    echo_of_text,
    echoed_logprobs,
    only_choice,
    query_arguments,
    query_scores,
    score_text,
    token_spellings,
)
from multiform.models.servers.protocol import (
    completion,
    finish_reason,
    generation_arguments,
    stop_strings,
    token_limit,
)
from multiform.models.servers.server_model import SEED, ServerModel, at_least
from multiform.models.tokenizer import Encoder, load_encoder, rolling_windows, score_rolling
from multiform.models.torch.plan import Pair
from multiform.models.torch.tree import Tokens
from multiform.models.vllm.queries import MAX_LABELS, Abilities, Query, scoring_queries
from multiform.prompts.chat import ChatTemplate
from multiform.prompts.prompt import Messages
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    RollingRequest,
)

logger = logging.getLogger("multiform")

T = TypeVar("T")
#: Requests the log-probabilities of the prompt's tokens; the server generates one token more.
ECHO: Mapping[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
#: The context length for windows over long texts, where `max_length` is not set.
DEFAULT_MAX_LENGTH = 2048
_ECHO_PROMPT = "one two three four"
#: The same end in another context: what a server says about both shows how it counts.
_OTHER_PROMPT = "one two nine four"


class EchoProbe:
    """What the echoes of known prompts say about a server; `encoder` where prompts are sent as token ids."""

    def __init__(self, client: Client, payload: Callable[[Any], dict[str, Any]], encoder: Encoder | None) -> None:
        self._client = client
        self._payload = payload
        self._encoder = encoder

    @cached_property
    def convention(self) -> Convention:
        """How the server echoes prompts, by two known ones; a ModelError where what it says cannot be right.

        Where the server does not respond to them, nothing is known, and each response is checked on its own.
        """
        first, second = (self._echo(prompt) for prompt in (_ECHO_PROMPT, _OTHER_PROMPT))
        if first is None or second is None:
            message = "%s: the server did not respond when its log-probabilities were checked"
            logger.warning(message, self._client.shown)
            return Convention()
        if problem := compare_echoes(first, second):
            raise self._error(f"its log-probabilities of two known texts cannot be right: {problem}")
        return Convention(
            adds_first=bool(first.added), first_is_null=first.values[0] is None, generated=first.generated
        )

    @cached_property
    def has_known_tokens(self) -> bool:
        """Whether the server's tokens are known to be the tokenizer's; a ModelError where they are others."""
        ids, spellings = self._tokens(_ECHO_PROMPT)

        def read(choice: Mapping[str, Any]) -> bool:
            check_tokens(echoed_logprobs(choice).get("tokens"), ids, spellings)
            return True

        return bool(self._probe(_ECHO_PROMPT, ids, read))

    def _echo(self, prompt: str) -> Echo | None:
        """The echo of a known prompt; None where the server sends no response."""
        if self._encoder is None:
            return self._probe(prompt, prompt, lambda choice: echo_of_text(choice, prompt, Convention()))
        ids, spellings = self._tokens(prompt)
        return self._probe(prompt, ids, lambda choice: echo_of_ids(choice, ids, spellings, Convention()))

    def _tokens(self, prompt: str) -> tuple[list[int], dict[int, frozenset[str]]]:
        """The token ids of a prompt, and how a server may spell them."""
        assert self._encoder is not None
        ids = self._encoder.encode([prompt])[prompt].tolist()
        return ids, token_spellings(self._encoder.tokenizer, ids)

    def _probe(self, prompt: str, sent: Any, read: Callable[[Mapping[str, Any]], T]) -> T | None:
        """What is read from the echo of a known prompt; None where the server sends no response."""
        problems: list[str] = []

        def read_response(response: Any) -> T:
            try:
                return read(only_choice(response))
            except (ModelError, RefusedError) as error:
                problems.append(str(error))
                raise

        result = self._client.single(self._payload(sent), read_response, attempts=PROBE_ATTEMPTS)
        if result is None and problems:
            raise self._error(f"its echo of {prompt!r} cannot be used: {problems[-1]}")
        return result

    def _error(self, message: str) -> ModelError:
        advice = "use another server, or a format in which the model writes (@generate, @cot)"
        hint = None if "; " in message else advice  # a refusal has its own
        what = f"the server echoes prompts, and {self._client.clean(message)}"
        return ModelError(what, where=self._client.shown, hint=hint)


class OpenAICompletions(OpenAIProtocol, ServerModel):
    """A model on a server that completes prompts, and scores continuations where the server echoes prompts.

    With the `tokenizer` of the model, prompts are sent as token ids, split into context and
    continuation as for a local model, and truncated at the left to `max_length`. Without one,
    text is sent, and the server's own tokens say where a continuation begins. A server that only gives the
    log-probabilities of the tokens that it writes scores labels of one token.
    `seed` is sent with every request; ``seed=none`` leaves it out.
    """

    kind = "openai-completions"
    stored = True

    def __init__(
        self,
        *,
        seed: int | None = SEED,
        tokenizer: str | None = None,
        tokenized_requests: bool = True,
        max_length: int | None = None,
        add_bos_token: bool = False,
        **arguments: Any,
    ) -> None:
        accepted = [*argument_names(type(self)), "prefix_token_id"]
        resolved = self.rules.resolve(arguments, accepted, where=self.kind)
        self.seed = seed
        self.tokenizer_name = tokenizer if tokenized_requests else None
        self.max_length = None if max_length is None else int(at_least(2, max_length, "max_length"))
        self.add_bos_token = add_bos_token
        self.prefix_token_id = resolved.pop("prefix_token_id", None)
        self._has_scored = False
        super().__init__(**resolved)
        if self.max_length is not None and self.tokenizer_name is None:
            raise UsageError("max_length needs a tokenizer to count with", where=self.kind, hint="add tokenizer=NAME")

    def path(self) -> str:
        return "completions"

    def settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "tokenizer": self.tokenizer_name,
            "max_length": self.max_length,
            "add_bos_token": self.add_bos_token,
            "prefix_token_id": self.prefix_token_id,
        }

    def local_files(self) -> dict[str, str]:
        folder = Path(self.tokenizer_name).expanduser() if self.tokenizer_name else None
        return {"tokenizer_files": fingerprint(folder, weights=False)} if folder and folder.is_dir() else {}

    @cached_property
    def server_facts(self) -> dict[str, Any]:
        return {**super().server_facts, "scoring": self.scoring}

    def info(self) -> dict[str, Any]:
        if not self._has_scored or not (self.abilities.forced or self.abilities.labels):
            return super().info()
        known, others = self.abilities, "forced tokens" if self.abilities.forced else "echoed prompts"
        return {
            **super().info(),
            "server_scoring": {"labels": "one step" if known.labels else others, "others": others},
        }

    @cached_property
    def scoring(self) -> Scoring:
        """How the server scores continuations: it is probed for echoed prompts, then for top log-probabilities."""
        if self.client.single(self._echo_payload(_ECHO_PROMPT), _check_echo, attempts=PROBE_ATTEMPTS):
            return "echo"
        return "first_token" if self._alternatives else "none"

    @cached_property
    def _alternatives(self) -> int:
        """How many alternatives the server lists for the first token that it writes; 0 where it lists none."""

        def has_some(response: Any) -> bool:
            return bool(completion_alternatives(only_choice(response)))

        payloads = {number: self._first_token_payload(_ECHO_PROMPT, number) for number in NUMBERS}
        listed = (n for n in NUMBERS if self.client.single(payloads[n], has_some, attempts=PROBE_ATTEMPTS))
        return next(listed, 0)

    def check_scoring(self, *, labels: bool, form: str) -> None:
        if self.scoring == "none" or (self.scoring == "first_token" and not labels):
            raise no_loglikelihoods(self.name, form, labels=self.scoring == "first_token")
        # A server that contradicts itself is refused before any data is read; a tokenizer is loaded when it is needed.
        if self.scoring == "echo" and self.tokenizer_name is None:
            self._echo_probe.convention  # noqa: B018

    @cached_property
    def _echo_probe(self) -> EchoProbe:
        return EchoProbe(self.client, self._echo_payload, None if self.tokenizer_name is None else self.encoder)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        if self.scoring == "first_token":
            self.client.probe = self._first_token_payload(_ECHO_PROMPT, self._alternatives)
            return score_labels(
                self.client,
                requests,
                lambda request: self._first_token_payload(request.context, self._alternatives),
                lambda response: completion_alternatives(only_choice(response)),
            )
        self.check_scoring(labels=False, form="a request")
        texts = [(request.context, request.continuation) for request in requests]
        if self.tokenizer_name is None:
            return self._score_texts([(context + text, len(context.rstrip())) for context, text in texts])
        pairs = list(self.encoder.pairs(texts))
        if self.max_length is None:
            return self._score_pairs(pairs)
        # The server gets the whole pair and generates one token more.
        fitting = [
            self.encoder.fit(pair, self.max_length - 2, text) for pair, (_, text) in zip(pairs, texts, strict=True)
        ]
        truncated = {index for index, pair in enumerate(pairs) if fitting[index] is not pair}
        self._warn_about_truncation(truncated)
        return mark_truncated(self._score_pairs(fitting), truncated)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        self.check_scoring(labels=False, form="a request")
        texts = [request.text for request in requests]
        if self.tokenizer_name is None:
            return self._score_texts([(text, 0) for text in texts])
        encoded = self.encoder.encode(texts)
        longest = (self.max_length or DEFAULT_MAX_LENGTH) - 2

        def windows(tokens: Tokens) -> Iterator[Pair]:
            return rolling_windows(tokens, self.encoder.prefix_token_id, longest)

        return score_rolling([encoded[text] for text in texts], windows, self._score_pairs)

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        if self.tokenizer_name is None:
            return super().generate(requests)
        if self.scoring == "echo":
            self._echo_probe.has_known_tokens  # noqa: B018  (prompts in the tokens of another model are refused)
        # All at once: tokenizers are not made for several threads.
        encoded = self.encoder.prompts(request.context for request in requests)
        prompts = {request: encoded[request.context].tolist() for request in requests}
        truncated: set[int] = set()
        if self.max_length is not None:
            lengths = {request: _max_prompt_length(request, self.max_length) for request in requests}
            full, prompts = prompts, {request: ids[-lengths[request] :] for request, ids in prompts.items()}
            truncated = {i for i, request in enumerate(requests) if len(prompts[request]) < len(full[request])}
        special = {*self.encoder.tokenizer.all_special_tokens} - {self.encoder.tokenizer.eos_token}

        def payload(request: GenerationRequest) -> dict[str, Any]:
            # vLLM and SGLang look for special tokens, such as the end of some thoughts, only where they are told.
            shown = {} if special.isdisjoint(stop_strings(request)) else {"skip_special_tokens": False}
            return {**self.payload(request), "prompt": prompts[request], **shown}

        self._warn_about_truncation(truncated)
        return mark_truncated(self.client.ask(requests, payload, self.completion), truncated)

    def _warn_about_truncation(self, truncated: Collection[int]) -> None:
        if truncated:
            logger.warning("%d contexts lose their beginning: max_length is %s", len(truncated), self.max_length)

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        arguments = generation_arguments(request, self.seed, most_stops=MAX_STOPS)
        return {"model": self.name, "prompt": request.context, **arguments}

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        choice = only_choice(response)
        text = choice.get("text")
        if not isinstance(text, str):
            raise ModelError("the response has no text", hint="check that it is a completions endpoint")
        return completion(request, response, text, finish_reason(choice, "finish_reason"))

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        if self.tokenizer_name is None:
            raise no_chat_template(self.name)
        tokenizer = self.encoder.tokenizer
        template = ChatTemplate(tokenizer=tokenizer, model=self.tokenizer_name, apply=tokenizer.apply_chat_template)
        return template.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def chat_template_name(self) -> str:
        return self.tokenizer_name or self.name

    @cached_property
    def encoder(self) -> Encoder:
        """The model's tokenizer, loaded when it is first needed."""
        assert self.tokenizer_name is not None
        return load_encoder(self.tokenizer_name, self.prefix_token_id, self.add_bos_token)

    @cached_property
    def abilities(self) -> Abilities:
        """What the server supports besides echoed prompts: log-probabilities of given tokens, forced tokens."""
        prompt = array("i", [1, 2])
        queries = (
            Query(kind="labels", prompt=prompt, tokens=(4, 5, 6), pairs=(0, 1, 2)),
            Query(kind="forced", prompt=prompt, tokens=(4, 5, 6), pairs=(0,)),
        )
        can_label, can_force = (
            self.client.single(self._query_payload(query), partial(query_scores, query), attempts=1) is not None
            for query in queries
        )
        logger.info(
            "%s: continuations of one token are scored %s, others by %s",
            self.name,
            "in one step" if can_label else "like others",
            "forced tokens" if can_force else "echoed prompts",
        )
        return Abilities(forced=can_force, labels=MAX_LABELS if can_label else 0)

    def _score_pairs(self, pairs: Sequence[Pair]) -> Loglikelihoods:
        """The score of each pair, requested in the order of their prefix tree."""
        yield from ((index, LLOutput(0.0, True, 0)) for index, pair in enumerate(pairs) if not pair.inputs)
        convention, queries = self._echo_probe.convention, scoring_queries(pairs, self.abilities)
        # All at once: tokenizers are not made for several threads.
        echoed = {id for query in queries if query.kind == "prompt" for id in query.prompt}
        spellings = token_spellings(self.encoder.tokenizer, echoed)
        self._has_scored = True
        self.client.probe = self._echo_payload(_ECHO_PROMPT)

        def parse(query: Query, response: Any) -> dict[int, LLOutput]:
            if query.kind != "prompt":
                return query_scores(query, response)
            position = query.pairs[0]
            echo = echo_of_ids(only_choice(response), query.prompt, spellings, convention)
            return {position: echo.score(pairs[position].start)}

        for number, scores in self.client.ask(queries, self._query_payload, parse):
            for position in queries[number].pairs:
                yield position, scores if isinstance(scores, FailedRequest) else scores[position]

    def _query_payload(self, query: Query) -> dict[str, Any]:
        payload = self._echo_payload(query.prompt.tolist())
        return payload if query.kind == "prompt" else {**payload, **query_arguments(query)}

    def _score_texts(self, texts: Sequence[tuple[str, int]]) -> Loglikelihoods:
        """The log-likelihood of each text from a character on."""
        convention = self._echo_probe.convention
        scored = [(index, item) for index, item in enumerate(texts) if item[1] < len(item[0])]
        yield from ((index, LLOutput(0.0, True, 0)) for index, (text, start) in enumerate(texts) if start >= len(text))
        self.client.probe = self._echo_payload(_ECHO_PROMPT)
        responses = self.client.ask(
            [item for _, item in scored],
            lambda item: self._echo_payload(item[0]),
            lambda item, response: score_text(only_choice(response), *item, convention),
        )
        for position, output in responses:
            yield scored[position][0], output

    def _echo_payload(self, prompt: Any) -> dict[str, Any]:
        seed = {} if self.seed is None else {"seed": self.seed}
        return {"model": self.name, "prompt": prompt, **ECHO, **seed}

    def _first_token_payload(self, prompt: str, number: int) -> dict[str, Any]:
        return {**self._echo_payload(prompt), "echo": False, "logprobs": number}


def _max_prompt_length(request: GenerationRequest, max_length: int) -> int:
    """The most tokens of a prompt that leave room for the completion in `max_length`."""
    length = max_length - 1 - token_limit(request)
    if length < 1:
        message = f"max_gen_toks is {token_limit(request)} and max_length {max_length}"
        raise UsageError(message, where=OpenAICompletions.kind, hint="set a smaller max_gen_toks")
    return length


def _check_echo(response: Any) -> bool:
    """Whether a response has the log-probabilities of the prompt's tokens.

    The layout of a chat has those of generated tokens alone: such a server, llama.cpp's for one, ignores `echo`. Any
    other response without them may be a passing fault, for which a ModelError is raised.
    """
    choice = only_choice(response)
    if isinstance(mapping_in(choice, "logprobs").get("content"), list):
        return False
    logprobs = echoed_logprobs(choice)
    if not any(isinstance(value, float | int) for value in logprobs["token_logprobs"][1:-1]):
        raise ModelError("the response has no log-probabilities of the prompt")
    return True
