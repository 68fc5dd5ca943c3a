"""HFModel: a language model that transformers loads and that runs on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import UsageError
from multiform.inference.counters import Counters
from multiform.inference.device import hold_memory
from multiform.inference.generation_config import check_config, in_force, num_beams
from multiform.inference.generation_options import generation_options
from multiform.inference.limits import generation_limits, scoring_limits
from multiform.inference.lm_head import LMHead
from multiform.inference.plan import Tokens
from multiform.inference.planner import Planner
from multiform.inference.sampling import random_numbers, sampling
from multiform.inference.sequences import Generation, Pair
from multiform.models.arguments import argument_names
from multiform.models.chat import ChatTemplate, template_variables
from multiform.models.hf.backend import Backend, CausalBackend
from multiform.models.hf.identity import identity
from multiform.models.hf.load import Loaded, load
from multiform.models.hf.load import max_length as context_length
from multiform.models.hf.rules import RULES, check_values
from multiform.models.hf.source import Source
from multiform.models.hf.weights import NAMES as WEIGHT_OPTIONS
from multiform.models.hf.weights import WeightOptions
from multiform.models.local import LocalModel
from multiform.models.rolling import rolling_windows
from multiform.models.seq2seq.backend import Seq2SeqBackend
from multiform.models.tokenizer import Encoder, TokenizedOnce, first_token, think_end
from multiform.models.usage import Workload
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


class HFModel(LocalModel):
    """A model from a folder or the hub, decoder-only or encoder-decoder; the arguments have lm-eval's names.

    `batch_size` is the number of completions that are decoded together, or "auto" for as many as fit; scoring
    fills forward passes by tokens, and uses batches of that many rows only for models that cannot share prefixes.
    `max_length` is the context length; by default that of the model's configuration. `prefix_budget` is how much
    of shared prefixes may stay cached, in tokens or as memory ("2GB"). `chat_template` names one of the tokenizer's
    templates, `chat_template_args` and `enable_thinking` are variables of it. What a completion has up to
    `think_end_token`, a string or a token id, is removed.
    """

    stored = True

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
        weight_options = RULES.resolve(others, WEIGHT_OPTIONS, suggestions=argument_names(type(self)))
        check_values(pretrained, backend, batch_size, prefix_budget)
        source = Source(
            pretrained=str(pretrained),
            revision=str(revision or "main"),
            subfolder=subfolder,
            gguf_file=gguf_file,
            dtype=dtype,
            device=device,
            tokenizer=tokenizer,
            add_bos_token=add_bos_token,
            trust_remote_code=trust_remote_code,
            peft=peft,
            parallelize=parallelize,
            device_map=device_map,
            attn_implementation=attn_implementation,
            backend=backend or "default",
            weights=WeightOptions(**weight_options),
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
        self.max_length = int(max_length or context_length(self.model, self.tokenizer))
        self.chat = ChatTemplate(
            tokenizer=self.tokenizer,
            model=self.name,
            apply=self._apply_template,
            template=chat_template,
            variables=template_variables(chat_template_args, enable_thinking),
        )
        if chat_template is not None:
            self.chat.check_name()
        self.think_end = think_end(self.tokenizer, think_end_token)
        self.counters = Counters()
        self._tokenized_pairs = TokenizedOnce[list[tuple[str, str]], list[Pair]]()
        self._tokenized_prompts = TokenizedOnce[list[str], dict[str, Tokens]]()
        self.limits = scoring_limits(batch_size, int(max_batch_size), loaded.device)
        self.generation_limits = generation_limits(batch_size, int(max_batch_size), self.max_length, loaded.device)
        self.encoder = Encoder(
            tokenizer=self.tokenizer,
            prefix_token_id=first_token(self.tokenizer, prefix_token_id, where=self.name),
            add_bos_token=add_bos_token,
        )
        self.backend = self._make_backend(prefix_budget)
        self.identity = self._make_identity()
        self.backend.keep_verdicts(self.identity)

    def _make_identity(self) -> str:
        """The hash of the weights and of every setting that changes outputs."""
        source = self.source
        return identity(
            self.name,
            sha=self.sha,
            gguf_file=source.gguf_file,
            dtype=str(self.model.dtype),
            max_length=self.max_length,
            add_bos_token=source.add_bos_token,
            prefix_token_id=self.encoder.prefix_token_id,
            truncation=self.truncation,
            generation_config=in_force(self.model.generation_config),
            **({"think_end_token": self.think_end} if self.think_end is not None else {}),
            **source.weights.quantization,
            **({"backend": "seq2seq"} if self.model.config.is_encoder_decoder else {}),
        )

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        generations, cut = self._generations(requests)
        self.counters.resume()
        for position, output in self.backend.generate(generations):
            self.counters.count_prompt(len(generations[position].prompt))
            is_marked = position in cut and isinstance(output, Completion)
            yield position, replace(output, context_truncated=True) if is_marked else output

    def plan(self, requests: Sequence[Request]) -> str | None:
        """The cost of scoring the requests and of prefilling their prompts, in words."""
        if self.media:
            return None
        pairs, windows, generations = self._sequences(requests)
        costs = {
            "continuations": self.backend.describe_scoring(pairs),
            "whole texts": self.backend.describe_scoring(windows),
            "prompts": self.backend.describe_prefill(generations),
        }
        lines = [f"{name}: {cost}" for name, cost in costs.items() if cost]
        return "\n".join(lines) or None

    def workload(self, requests: Sequence[Request]) -> Workload | None:
        if self.media:
            return None
        pairs, windows, generations = self._sequences(requests, for_later=True)
        return Workload(
            prefill=sum(map(self.backend.scoring_tokens, (pairs, windows))) + self.backend.prefill_tokens(generations),
            unshared=sum(pair.inputs for pair in (*pairs, *windows)) + sum(len(each.prompt) for each in generations),
            decode=sum(generation.limit for generation in generations),
            completions=len(generations),
        )

    def info(self) -> dict[str, Any]:
        return {
            "model_num_parameters": self.model.num_parameters(),
            "model_dtype": str(self.model.dtype),
            "model_revision": self.source.revision,
            "model_sha": self.sha,
            "generation_config": in_force(self.model.generation_config),
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
        self.head = LMHead(self.model)
        self.planner = Planner(self.head, budget=prefix_budget, max_length=self.max_length)
        return CausalBackend(planner=self.planner, **options)

    def _score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation, counted."""
        self.counters.resume()
        for position, output in self.backend.score(pairs):
            self.counters.count_prompt(pairs[position].inputs)
            yield position, output

    def _sequences(
        self, requests: Sequence[Request], *, for_later: bool = False
    ) -> tuple[list[Pair], list[Pair], list[Generation]]:
        """The pairs of continuations, the windows of whole texts and the prompts of completions.

        With `for_later` the tokens are kept until the requests are run, and warnings wait until then.
        """
        scored = [request for request in requests if isinstance(request, LoglikelihoodRequest)]
        rolling = [request for request in requests if isinstance(request, RollingRequest)]
        generated = [request for request in requests if isinstance(request, GenerationRequest)]
        encoded = self.encoder.encode(request.text for request in rolling)
        windows = [window for request in rolling for window in self._windows(encoded[request.text])]
        pairs, _ = self._pairs(scored, for_later=for_later)
        generations, _ = self._generations(generated, for_later=for_later)
        return pairs, windows, generations

    def _pairs(
        self, requests: Sequence[LoglikelihoodRequest], *, for_later: bool = False
    ) -> tuple[list[Pair], set[int]]:
        """The tokens of each request, and the positions of those whose contexts are truncated."""
        texts = [(request.context, request.continuation) for request in requests]
        full = self._tokenized_pairs.take(texts, lambda texts: list(self.backend.pairs(texts)))
        if for_later:
            self._tokenized_pairs.keep(texts, full)
        pairs = [self.backend.fit(pair, text) for pair, (_, text) in zip(full, texts, strict=True)]
        cut = {index for index, (before, pair) in enumerate(zip(full, pairs, strict=True)) if before is not pair}
        empty = sum(pair.start == len(pair.tokens) for pair in pairs)
        if not for_later:
            self._warn_about_truncation(len(cut))
        if empty and not for_later:
            logger.warning("%d continuations are empty; their log-likelihood is 0", empty)
        return pairs, cut

    def _windows(self, tokens: Tokens) -> Iterator[Pair]:
        return rolling_windows(tokens, self.encoder.prefix_token_id, self.max_length)

    def _generations(
        self, requests: Sequence[GenerationRequest], *, for_later: bool = False
    ) -> tuple[list[Generation], set[int]]:
        """The prompt of each request, and the positions of those that are truncated."""
        texts = [request.context for request in requests]
        prompts = self._tokenized_prompts.take(
            texts, lambda texts: self.backend.prompts(texts, truncation=self.truncation)
        )
        if for_later:
            self._tokenized_prompts.keep(texts, prompts)
        generations = [
            self._generation(index, request, prompts[request.context].tolist())
            for index, request in enumerate(requests)
        ]
        lengths = [len(prompts[request.context]) for request in requests]
        cut = {generation.index for generation in generations if len(generation.prompt) < lengths[generation.index]}
        if not for_later:
            self._warn_about_truncation(len(cut))
        return generations, cut

    def _generation(self, index: int, request: GenerationRequest, prompt: list[int]) -> Generation:
        options = generation_options(request.gen_kwargs)
        config = self.model.generation_config
        check_config(config, is_sampled=options.temperature > 0, where=self.name)
        max_prompt_length = self.backend.max_prompt_length(options.max_gen_toks)
        if max_prompt_length < 1:
            raise UsageError(
                f"max_gen_toks is {options.max_gen_toks} and the model reads {self.max_length} tokens in all",
                where=self.name,
                hint="set a smaller max_gen_toks",
            )
        beams = options.num_beams or num_beams(config)
        if beams > 1 and not self.model.can_generate():
            message = f"num_beams is {beams}, and the model's own code has no beam search"
            raise UsageError(message, where=self.name, hint="leave num_beams out")
        end = self.tokenizer.eos_token
        prompt = prompt[-max_prompt_length:]
        return Generation(
            index=index,
            prompt=prompt,
            limit=self._completion_limit(options.max_gen_toks, len(prompt)),
            stops=(*options.until, end) if isinstance(end, str) and end else options.until,
            sampling=sampling(options, config),
            rng=random_numbers(request),
            num_beams=beams,
            think_end=self.think_end,
        )

    def _completion_limit(self, max_gen_toks: int, prompt_length: int) -> int:
        """The most tokens of a completion; `max_new_tokens` of the model takes precedence, as in `generate`."""
        configured = self._max_new_tokens(self.model.generation_config)
        if configured is None:
            return max_gen_toks
        if not self.model.config.is_encoder_decoder:
            return min(configured, self.max_length - prompt_length)
        positions = getattr(self.model.config, "max_position_embeddings", None)
        return configured if positions is None else min(configured, positions)

    def _apply_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        return str(self.tokenizer.apply_chat_template(messages, **options))
