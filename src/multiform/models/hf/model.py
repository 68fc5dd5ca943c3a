"""HFModel: a language model that transformers loads and this machine runs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import ModelError, UsageError, nearest
from multiform.inference.counters import Counters
from multiform.inference.decode import generate as generation
from multiform.inference.generation_options import generation_options
from multiform.inference.limits import budget_parts, fixed_rows, generation_limits, scoring_limits
from multiform.inference.lm_head import Head
from multiform.inference.memory import hold_memory
from multiform.inference.plan import Tokens
from multiform.inference.planner import Planner
from multiform.inference.sampling import random_numbers, sampling
from multiform.inference.sequences import Pair
from multiform.models.base import Model
from multiform.models.hf.accepted import check_others
from multiform.models.hf.backend import Backend
from multiform.models.hf.causal import CausalBackend
from multiform.models.hf.chat import Chat, chat_variables
from multiform.models.hf.identity import identity
from multiform.models.hf.load import Loaded, load
from multiform.models.hf.load import max_length as longest_input
from multiform.models.hf.source import Source
from multiform.models.hf.weights import NAMES as LOADING
from multiform.models.hf.weights import Loading
from multiform.models.seq2seq.backend import Seq2SeqBackend
from multiform.models.tokenizer import Encoder, rolling_windows
from multiform.requests import (
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Request,
    Response,
    RollingRequest,
)

logger = logging.getLogger("multiform")

#: Kinds of models, with lm-eval's names; by default a model's configuration tells.
BACKENDS = ("default", "causal", "seq2seq")


class HFModel(Model):
    """A model from a folder or the hub, decoder-only or encoder-decoder; the arguments have lm-eval's names.

    `batch_size` is how many texts are written at a time, or "auto" for as many as fit; scoring packs its
    passes by tokens, and takes batches of that many rows only for models that cannot do so. `max_length` is how many
    tokens the model reads; by default what its configuration says. `prefix_budget` is how much may
    be kept for requests that begin alike, in tokens or as memory ("2GB"). `chat_template` names one of the
    tokenizer's, `chat_template_args` and `enable_thinking` are variables of it. What a model writes up to
    `think_end_token`, a text or the number of a token, is left out of its answers.
    """

    def __init__(
        self,
        pretrained: str = "",
        *,
        revision: str = "main",
        subfolder: str = "",
        gguf_file: str | None = None,
        dtype: str = "auto",
        device: str | None = None,
        batch_size: int | str = "auto",
        max_batch_size: int = 64,
        max_length: int | None = None,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        tokenizer: str | None = None,
        truncation: bool = False,
        trust_remote_code: bool = False,
        peft: str | None = None,
        parallelize: bool = False,
        device_map: str | dict[str, Any] | None = None,
        attn_implementation: str | None = None,
        backend: str | None = "default",
        prefix_budget: int | str | None = None,
        chat_template: str | None = None,
        chat_template_args: Mapping[str, Any] | None = None,
        enable_thinking: bool | None = None,
        think_end_token: str | int | None = None,
        **others: Any,
    ) -> None:
        check_others({name: value for name, value in others.items() if name not in known()}, known())
        if backend not in (None, *BACKENDS):
            raise UsageError(f"unknown backend '{backend}'", hint=nearest(str(backend), BACKENDS, listed="backends"))
        if not pretrained:
            hint = "give a folder or a hub name: --model_args pretrained=DIR"
            raise UsageError("the model 'hf' needs the argument 'pretrained'", hint=hint)
        fixed_rows(batch_size)  # a wrong value shows before anything is loaded
        if prefix_budget is not None:
            budget_parts(prefix_budget)
        source = Source(
            pretrained=str(pretrained),
            revision=str(revision or "main"),
            subfolder=subfolder,
            gguf_file=gguf_file,
            dtype=dtype,
            device=device,
            tokenizer=tokenizer,
            trust_remote_code=trust_remote_code,
            peft=peft,
            parallelize=parallelize,
            device_map=device_map,
            attn_implementation=attn_implementation,
            backend=backend or "default",
            loading=Loading(**{name: others[name] for name in LOADING if name in others}),
        )
        loaded = self._load(source)
        if loaded.device.type == "cpu":
            hold_memory()
        self.source = source
        self.model = loaded.model
        self.tokenizer = loaded.tokenizer
        self.name = loaded.name
        self.sha = loaded.sha
        self.truncation = truncation
        self.max_length = int(max_length or longest_input(self.model, self.tokenizer))
        self.chat = Chat(
            tokenizer=self.tokenizer,
            model=self.name,
            write=self._write_chat,
            template=chat_template,
            variables=chat_variables(chat_template_args, enable_thinking),
        )
        if chat_template is not None:  # a wrong name shows now
            self.chat.check_name()
        self.think_end = self._text_of(think_end_token)
        self.counters = Counters()
        self.limits = scoring_limits(batch_size, int(max_batch_size), loaded.device)
        self.generation_limits = generation_limits(batch_size, int(max_batch_size), self.max_length, loaded.device)
        self.encoder = Encoder(
            tokenizer=self.tokenizer,
            prefix_token_id=self._prefix_token_id(prefix_token_id),
            add_bos_token=add_bos_token,
        )
        self.backend = self._make_backend(prefix_budget)
        self.identity = identity(
            self.name,
            sha=self.sha,
            gguf_file=gguf_file,
            dtype=str(self.model.dtype),
            max_length=self.max_length,
            add_bos_token=add_bos_token,
            prefix_token_id=self.encoder.prefix_token_id,
            truncation=truncation,
            **({"think_end_token": self.think_end} if self.think_end else {}),
            **source.loading.quantization,
            **({"backend": "seq2seq"} if self.model.config.is_encoder_decoder else {}),
        )

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        yield from self.backend.score(self._pairs(requests))

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        encoded = self.encoder.encode(request.text for request in requests)
        windows: list[Pair] = []
        owners: list[int] = []
        for index, request in enumerate(requests):
            tokens = encoded[request.text]
            windows += self._windows(tokens)
            owners += [index] * (len(windows) - len(owners))
            if not tokens:
                yield index, LLOutput(0.0, tokens=0)
        missing = Counter(owners)
        totals = dict.fromkeys(missing, 0.0)
        for position, output in self.backend.score(windows):
            owner = owners[position]
            totals[owner] += output.loglikelihood
            missing[owner] -= 1
            if not missing[owner]:
                yield owner, LLOutput(totals[owner], tokens=len(encoded[requests[owner].text]))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        for position, output in self.backend.write(self._rows(requests)):
            yield position, replace(output, text=after(output.text, self.think_end))

    def plan(self, requests: Sequence[Request]) -> str | None:
        """What scoring the requests and reading their prompts costs, in words."""
        if self.media:
            return None
        scored = [request for request in requests if isinstance(request, LoglikelihoodRequest)]
        rolling = [request for request in requests if isinstance(request, RollingRequest)]
        written = [request for request in requests if isinstance(request, GenerationRequest)]
        encoded = self.encoder.encode(request.text for request in rolling)
        windows = [window for request in rolling for window in self._windows(encoded[request.text])]
        costs = {
            "continuations": self.backend.score_cost(self._pairs(scored)),
            "whole texts": self.backend.score_cost(windows),
            "prompts": self.backend.read_cost(self._rows(written)),
        }
        parts = [f"{name}: {cost}" for name, cost in costs.items() if cost]
        return "\n".join(parts) or None

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        if self.chat.text is None:
            return super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        self.check_parts(messages)
        return self.chat.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def chat_template_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__") + self.chat.variant

    def chat_template_text(self) -> str | None:
        return self.chat.text

    def info(self) -> dict[str, Any]:
        return {
            "model_num_parameters": self.model.num_parameters(),
            "model_dtype": str(self.model.dtype),
            "model_revision": self.source.revision,
            "model_sha": self.sha,
        }

    def tokenizer_info(self) -> dict[str, Any]:
        tokenizer = self.tokenizer
        return {
            "tokenizer_pad_token": [tokenizer.pad_token, str(tokenizer.pad_token_id)],
            "tokenizer_eos_token": [tokenizer.eos_token, str(tokenizer.eos_token_id)],
            "tokenizer_bos_token": [tokenizer.bos_token, str(tokenizer.bos_token_id)],
            "eot_token_id": tokenizer.eos_token_id,
            "max_length": self.max_length,
        }

    def _load(self, source: Source) -> Loaded:
        return load(source)

    def _make_backend(self, prefix_budget: int | str | None) -> Backend:
        options: dict[str, Any] = {
            "encoder": self.encoder,
            "max_length": self.max_length,
            "limits": self.limits,
            "generation_limits": self.generation_limits,
            "counters": self.counters,
        }
        if self.model.config.is_encoder_decoder:
            return Seq2SeqBackend(model=self.model, **options)
        self.head = Head(self.model)
        self.planner = Planner(self.head, budget=prefix_budget)
        return CausalBackend(planner=self.planner, **options)

    def _prefix_token_id(self, given: int | None) -> int:
        for token in (given, self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise ModelError(
            "the tokenizer has no token for the beginning or the end of a text",
            where=self.name,
            hint="name one with prefix_token_id",
        )

    def _pairs(self, requests: Sequence[LoglikelihoodRequest]) -> list[Pair]:
        texts = [(request.context, request.continuation) for request in requests]
        whole = list(self.backend.pairs(texts))
        pairs = [self.backend.fit(pair, text) for pair, (_, text) in zip(whole, texts, strict=True)]
        self._warn_about(whole, pairs)
        return pairs

    def _windows(self, tokens: Tokens) -> Iterator[Pair]:
        return rolling_windows(tokens, self.encoder.prefix_token_id, self.max_length)

    def _rows(self, requests: Sequence[GenerationRequest]) -> list[generation.Row]:
        prompts = self.backend.prompts((request.context for request in requests), truncation=self.truncation)
        rows = [self._row(index, request, prompts[request.context].tolist()) for index, request in enumerate(requests)]
        whole = (len(prompts[request.context]) for request in requests)
        self._warn_about_cuts(sum(len(row.prompt) < length for row, length in zip(rows, whole, strict=True)))
        return rows

    def _row(self, index: int, request: GenerationRequest, prompt: list[int]) -> generation.Row:
        options = generation_options(request.gen_kwargs)
        room = self.backend.room(options.max_gen_toks)
        if room < 1:
            raise UsageError(
                f"max_gen_toks is {options.max_gen_toks} and the model reads {self.max_length} tokens in all",
                where=self.name,
                hint="set a smaller max_gen_toks",
            )
        end = self.tokenizer.eos_token
        return generation.Row(
            index=index,
            prompt=prompt[-room:],
            limit=options.max_gen_toks,
            stops=(*options.until, end) if isinstance(end, str) and end else options.until,
            sampling=sampling(options, self.model.generation_config),
            numbers=random_numbers(request),
        )

    def _write_chat(self, messages: list[dict[str, Any]], **options: Any) -> str:
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def _text_of(self, token: str | int | None) -> str | None:
        return self.tokenizer.decode([token]) if isinstance(token, int) else token

    def _warn_about_cuts(self, count: int) -> None:
        if count:
            logger.warning("%d contexts lose their beginning: the model reads %d tokens", count, self.max_length)

    def _warn_about(self, whole: Sequence[Pair], pairs: Sequence[Pair]) -> None:
        self._warn_about_cuts(sum(a is not b for a, b in zip(whole, pairs, strict=True)))
        empty = sum(pair.start == len(pair.tokens) for pair in pairs)
        if empty:
            logger.warning("%d continuations are empty; their log-likelihood is 0", empty)


def after(text: str, end: str | None) -> str:
    """What comes after the end of a thought, if there was one.

    >>> after("<think>so</think> yes", "</think>")
    'yes'
    """
    return text if end is None else text.rpartition(end)[2].lstrip()


def known() -> list[str]:
    """The names of all arguments."""
    named = [name for name in HFModel.__init__.__annotations__ if name not in ("others", "return")]
    return [*named, *LOADING]
