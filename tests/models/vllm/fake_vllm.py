"""A stand-in for the package vllm: the parts of its interface that are used, on a real model of transformers.

It forces tokens by the real logits processor, takes log-probabilities before that as vLLM does, and counts prompt
tokens that a prefix cache of blocks would have had.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import transformers

BLOCK = 4


@dataclass(kw_only=True)
class OlderSamplingParams:
    """Of a version that lists no given tokens in one step."""

    temperature: float = 1.0
    max_tokens: int | None = 16
    ignore_eos: bool = False
    detokenize: bool = True
    prompt_logprobs: int | None = None
    logprobs: int | None = None
    extra_args: dict[str, Any] | None = None


@dataclass(kw_only=True)
class SamplingParams(OlderSamplingParams):
    """Of the version that the harness is made for."""

    skip_special_tokens: bool = True
    logprob_token_ids: list[int] | None = None
    trace_decode_token_ids: list[int] | None = None
    repetition_penalty: float = 1.0
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None


@dataclass(kw_only=True)
class EngineArgs:
    model: str
    tokenizer: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    seed: int = 0
    trust_remote_code: bool = False
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float = 0.9
    tensor_parallel_size: int = 1
    quantization: str | None = None
    enforce_eager: bool = False
    kv_cache_dtype: str = "auto"
    logprobs_mode: str = "raw_logprobs"
    logits_processors: list[str] | None = None
    enable_trace_replay: bool = False
    disable_log_stats: bool = False

    def create_engine_config(self) -> Any:
        return SimpleNamespace(use_v2_model_runner=FAKE.uses_v2)


@dataclass(kw_only=True)
class OlderEngineArgs:
    """Of a version without logits processors for a batch."""

    model: str
    tokenizer: str | None = None
    dtype: str = "auto"
    seed: int = 0
    trust_remote_code: bool = False
    max_model_len: int | None = None
    logprobs_mode: str = "raw_logprobs"
    block_size: int | None = None
    disable_log_stats: bool = False


@dataclass
class Fake:
    """How the stand-in behaves, and what it was asked."""

    uses_v2: bool = False
    ignores_forced: bool = False
    refuses_forced: bool = False
    logprobs_of_forced_only: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)
    batches: list[list[Any]] = field(default_factory=list)

    def kinds(self) -> list[str]:
        """How each prompt was asked to be scored, after the check of the start."""
        names = {"logprob_token_ids": "labels", "prompt_logprobs": "prompt", "extra_args": "forced"}
        names["trace_decode_token_ids"] = "forced"
        return [
            next((kind for name, kind in names.items() if getattr(params, name, None) is not None), "generated")
            for prompt, params in self.asked
            if prompt != (1, 2)
        ]


FAKE = Fake()


@dataclass
class Logprob:
    logprob: float
    rank: int | None


class LLM:
    def __init__(self, **arguments: Any) -> None:
        sys.modules["vllm.engine.arg_utils"].EngineArgs(**arguments)
        FAKE.arguments = arguments
        self.model = transformers.AutoModelForCausalLM.from_pretrained(arguments["model"], dtype=torch.float32).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(arguments["tokenizer"])
        length = arguments.get("max_model_len") or self.model.config.max_position_embeddings
        self.max_model_len = length
        self.blocks: set[tuple[int, ...]] = set()
        self.processors = []
        for name in arguments.get("logits_processors") or ():
            module, _, attribute = name.partition(":")
            self.processors.append(getattr(importlib.import_module(module), attribute)(None, None, None))
        config = SimpleNamespace(max_model_len=length, dtype=torch.float32)
        self.llm_engine = SimpleNamespace(vllm_config=SimpleNamespace(model_config=config))

    def generate(self, prompts: list[Any], sampling_params: list[Any], *, use_tqdm: bool) -> list[Any]:
        assert use_tqdm is False
        assert len({_listing(params) for params in sampling_params}) == 1, "vLLM lists one kind in a batch"
        FAKE.batches.append(prompts)
        return [
            self._one(prompt["prompt_token_ids"], params)
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]

    @torch.inference_mode()
    def _one(self, prompt: list[int], params: Any) -> Any:
        FAKE.asked.append((tuple(prompt), params))
        assert len(prompt) + 1 <= self.max_model_len, "the prompt is too long"
        cached = 0 if params.prompt_logprobs is not None else self._cached(prompt)
        prompt_logprobs = None
        if params.prompt_logprobs is not None:
            lines = self.model(torch.tensor([prompt])).logits[0].double().log_softmax(-1)
            tokens = zip(lines[:-1], prompt[1:], strict=True)
            prompt_logprobs = [None, *({token: _entry(line, token)} for line, token in tokens)]
        output: list[int] = []
        listed: list[dict[int, Logprob]] = []
        reason = "length"
        while len(output) < min(params.max_tokens, self.max_model_len - len(prompt)):
            logits = self.model(torch.tensor([prompt + output])).logits[0, -1].float()
            line = logits.double().log_softmax(-1)
            token = int(self._processed(logits, output, params).argmax())
            output.append(token)
            if FAKE.logprobs_of_forced_only:
                listed.append({token: Logprob(0.0, 1)})
            elif getattr(params, "logprob_token_ids", None):
                listed.append({each: _entry(line, each) for each in (token, *params.logprob_token_ids)})
            elif params.logprobs is not None:
                listed.append({token: _entry(line, token)})
            text = self.tokenizer.decode(output) if params.detokenize else ""
            stopped = any(stop in text for stop in getattr(params, "stop", ()))
            if not params.ignore_eos and (token in params.stop_token_ids or stopped):
                reason = "stop"
                break
        completion = SimpleNamespace(token_ids=output, logprobs=listed or None, finish_reason=reason)
        return SimpleNamespace(
            prompt_token_ids=prompt, prompt_logprobs=prompt_logprobs, outputs=[completion], num_cached_tokens=cached
        )

    def _processed(self, logits: torch.Tensor, output: list[int], params: Any) -> torch.Tensor:
        if FAKE.refuses_forced and getattr(params, "extra_args", None):
            raise ValueError("extra_args are not supported")
        if FAKE.ignores_forced:
            return logits
        if getattr(params, "trace_decode_token_ids", None):
            assert FAKE.arguments.get("enable_trace_replay"), "trace replay is not enabled"
            return torch.nn.functional.one_hot(torch.tensor(params.trace_decode_token_ids[len(output)]), len(logits))
        for processor in self.processors:
            processor.validate_params(params)
            each = processor.new_req_logits_processor(params)
            logits = logits if each is None else each(output, logits.clone())
        return logits

    def _cached(self, prompt: list[int]) -> int:
        ends = range(BLOCK, len(prompt), BLOCK)
        cached = max((end for end in ends if tuple(prompt[:end]) in self.blocks), default=0)
        self.blocks |= {tuple(prompt[:end]) for end in ends}
        return cached


def _entry(line: torch.Tensor, token: int) -> Logprob:
    return Logprob(float(line[token]), int((line >= line[token]).sum()))


def _listing(params: Any) -> tuple[bool, bool]:
    return getattr(params, "logprob_token_ids", None) is not None, params.logprobs is not None


class AdapterLogitsProcessor:
    def __init__(self, *_: Any) -> None: ...


@contextmanager
def installed(monkeypatch: Any, *, older: bool = False, **behaviour: Any) -> Iterator[Fake]:
    """The stand-in as the package vllm."""
    global FAKE
    FAKE = Fake(**behaviour)
    contents: dict[str, dict[str, Any]] = {
        "vllm": {"LLM": LLM, "SamplingParams": OlderSamplingParams if older else SamplingParams, "__version__": "0.0"},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"EngineArgs": OlderEngineArgs if older else EngineArgs},
        "vllm.platforms": {"current_platform": SimpleNamespace(is_cpu=lambda: True)},
        "vllm.v1": {},
        "vllm.v1.sample": {},
        "vllm.v1.sample.logits_processor": {"AdapterLogitsProcessor": AdapterLogitsProcessor},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__path__ = []
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "multiform.models.vllm.processor", raising=False)
    yield FAKE
    sys.modules.pop("multiform.models.vllm.processor", None)
