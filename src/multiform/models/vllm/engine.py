"""Engine: vLLM's `LLM`, what is sent to it, and the files of the model that it runs."""

from __future__ import annotations

import logging
import math
import time
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import transformers
from transformers import GenerationConfig, PreTrainedTokenizerBase

from multiform.errors import ModelError, UsageError
from multiform.models.hf.load import load_tokenizer, source_sha, without_progress_bars
from multiform.models.hf.source import ModelSource, file_options, first_line, hub_commit, local_folder, model_errors
from multiform.models.instruction_set import check_half_precision
from multiform.models.torch.sampling import PROCESSED, Generation, check_config, in_force, num_beams
from multiform.models.vllm.queries import FORCED_ARGUMENT, MAX_LABELS, Abilities, EngineOutput, Query
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")

T = TypeVar("T")
#: How tokens are forced: by our logits processor, by vLLM's replay of traces, or not at all.
Forcing: TypeAlias = Literal["processor", "replay", "none"]
PROCESSOR = "multiform.models.vllm.processor:ForcedTokens"
#: How many prompts vLLM gets first, and the seconds after which their number does not grow any more.
FIRST_CHUNK = 64
CHUNK_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running `vllm.LLM`; `params` is vLLM's `SamplingParams`."""

    llm: Any
    params: Any
    forcing: Forcing
    abilities: Abilities
    max_length: int
    dtype: str
    version: str

    def score(self, queries: Sequence[Query]) -> list[EngineOutput]:
        """The output for each query; all are of one kind."""
        return self._run([query.prompt for query in queries], [self._scoring(query) for query in queries])

    def complete(self, prompts: Sequence[Sequence[int]], options: Sequence[Mapping[str, Any]]) -> list[EngineOutput]:
        """The tokens generated after each prompt, with the sampling parameters of each."""
        return self._run(prompts, [self.params(**each) for each in options])

    def _scoring(self, query: Query) -> Any:
        options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 1, "ignore_eos": True, "detokenize": False}
        if query.kind == "labels":
            return self.params(**options, logprob_token_ids=list(dict.fromkeys(query.tokens)))
        if query.kind == "prompt":
            return self.params(**options, prompt_logprobs=0)
        tokens = list(query.tokens)
        how = (
            {"trace_decode_token_ids": tokens}
            if self.forcing == "replay"
            else {"extra_args": {FORCED_ARGUMENT: tokens}}
        )
        return self.params(**{**options, "max_tokens": len(tokens), "logprobs": 0}, **how)

    def _run(self, prompts: Sequence[Sequence[int]], params: Sequence[Any]) -> list[EngineOutput]:
        token_prompts = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        try:
            outputs = self.llm.generate(token_prompts, list(params), use_tqdm=False)
        except Exception as error:  # whatever vLLM raises
            raise ModelError(f"vLLM failed: {first_line(error)}", where="vllm") from error
        return [_engine_output(output) for output in outputs]


def start(arguments: Mapping[str, Any], *, force: bool, where: str) -> Engine:
    """Start vLLM with the arguments of its engine; `force` says that it may score by forced tokens."""
    import vllm
    from vllm.platforms import current_platform

    options = {"disable_log_stats": True, "logprobs_mode": "raw_logprobs", **arguments}
    if current_platform.is_cpu():
        # CPUs without half-precision units run bfloat16 many times slower than float32.
        if options.get("dtype", "auto") == "auto":
            options["dtype"] = "float32"
        # Prefixes are shared in whole blocks; the usual ones of 128 tokens are longer than most questions.
        options.setdefault("block_size", 32)
        if str(options["dtype"]).removeprefix("torch.") != "float32":
            check_half_precision(where=where)
    version = vllm.__version__
    forcing: Forcing = "none"
    try:
        forcing = _forcing(options) if force else "none"
        if forcing == "processor":
            options["logits_processors"] = [PROCESSOR]
        elif forcing == "replay":
            options["enable_trace_replay"] = True
        llm = vllm.LLM(**options)
    except (ModelError, UsageError):
        raise
    except Exception as error:  # whatever vLLM raises
        hint = f"tried with vLLM {version}, whose log above says more"
        raise ModelError(f"vLLM cannot load the model: {first_line(error)}", where=where, hint=hint) from error
    labels = MAX_LABELS if force and "logprob_token_ids" in _fields(vllm.SamplingParams) else 0
    config = llm.llm_engine.vllm_config.model_config
    engine = Engine(
        llm=llm,
        params=vllm.SamplingParams,
        forcing=forcing,
        abilities=Abilities(forced=forcing != "none", labels=labels),
        max_length=int(config.max_model_len),
        dtype=str(config.dtype),
        version=version,
    )
    return check_forcing(engine)


def check_forcing(engine: Engine) -> Engine:
    """The engine with the abilities that it really has: it forces tokens, and their log-probabilities are the model's.

    Two different tokens are forced after the same prompt. Both can be nearly certain only where log-probabilities are
    taken after all other tokens have been ruled out.
    """
    if not engine.abilities.forced:
        return engine
    queries = [Query(kind="forced", prompt=array("i", [1, 2]), tokens=(token, 3), pairs=(0,)) for token in (4, 5)]
    try:
        outputs = engine.score(queries)
    except ModelError as error:
        logger.warning("tokens cannot be forced: %s", error)
        outputs = []
    if [output.tokens for output in outputs] == [query.tokens for query in queries]:
        first = [output.logprobs[0][query.tokens[0]] for query, output in zip(queries, outputs, strict=True)]
        if min(first) < math.log(0.5) + 1e-3:
            return engine
    return replace(engine, abilities=replace(engine.abilities, forced=False))


def in_chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Consecutive chunks, so that outputs arrive early; each twice as large as the last, until one takes long.

    When a stop is requested, no further chunk begins.
    """
    size, begin = FIRST_CHUNK, 0
    while begin < len(items) and not stop_requested():
        started = time.monotonic()
        yield items[begin : begin + size]
        begin += size
        if time.monotonic() - started < CHUNK_SECONDS:
            size *= 2


def _forcing(options: Mapping[str, Any]) -> Forcing:
    """How the engine with these arguments forces tokens, before it is started."""
    from vllm.engine.arg_utils import EngineArgs

    known = EngineArgs.__dataclass_fields__
    # The newer model runner has another interface of logits processors, and replays traces.
    if "enable_trace_replay" in known and EngineArgs(**options).create_engine_config().use_v2_model_runner:
        return "replay"
    return "processor" if "logits_processors" in known else "none"


def _engine_output(output: Any) -> EngineOutput:
    """The parts of a `RequestOutput` that are used."""
    completion = output.outputs[0]
    tokens, listed = tuple(completion.token_ids), completion.logprobs or []
    return EngineOutput(
        tokens=tokens,
        logprobs=tuple({token: entry.logprob for token, entry in each.items()} for each in listed),
        ranks=tuple(each[token].rank for token, each in zip(tokens, listed, strict=False)),
        prompt=tuple(map(_prompt_entry, output.prompt_token_ids, output.prompt_logprobs or ())),
        at_limit=completion.finish_reason == "length",
        cached=output.num_cached_tokens or 0,
    )


def _prompt_entry(token: int, listed: Mapping[int, Any] | None) -> tuple[float, int] | None:
    return (listed[token].logprob, listed[token].rank) if listed and token in listed else None


def _fields(params: Any) -> Sequence[str]:
    return getattr(params, "__struct_fields__", ()) or tuple(getattr(params, "__annotations__", ()))


def check_model_config(config: GenerationConfig, *, is_sampled: bool, where: str) -> None:
    """Raise a UsageError for a setting of the model's generation config that vLLM would not follow."""
    check_config(config, is_sampled=is_sampled, where=where)
    ignored = [name for name in in_force(config) if name in PROCESSED]
    if num_beams(config) > 1:
        ignored.append("num_beams")
    if ignored:
        raise UsageError(
            f"the model's generation config sets {ignored[0]}, which vLLM does not follow",
            where=where,
            hint="remove it from generation_config.json, or use --model hf",
        )


def load_generation_config(name: str, **options: Any) -> GenerationConfig:
    """The generation config of a model, by its file or by its configuration."""
    try:
        return GenerationConfig.from_pretrained(name, **options)
    except OSError:  # there is no such file
        return GenerationConfig.from_model_config(transformers.AutoConfig.from_pretrained(name, **options))


def sampling_options(generation: Generation, end_tokens: Collection[int]) -> dict[str, Any]:
    """The arguments of vLLM's `SamplingParams` for a sequence to decode."""
    sampling = generation.sampling
    options: dict[str, Any] = {
        "max_tokens": generation.limit,
        "temperature": sampling.temperature,
        "repetition_penalty": sampling.repetition_penalty,
        "stop": list(generation.stops),
        "stop_token_ids": sorted(end_tokens),
        # A stop string may be a special token, and the text is decoded from the tokens again.
        "skip_special_tokens": False,
    }
    if sampling.temperature:
        random = {"top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p}
        options |= {**random, "seed": generation.rng.getrandbits(31)}
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is known of a model without its weights; `location` is its folder or hub name, `revision` its commit."""

    name: str
    location: str
    is_local: bool
    revision: str
    sha: str
    tokenizer: PreTrainedTokenizerBase
    generation_config: GenerationConfig


def load_files(source: ModelSource) -> Files:
    """The files of a source; a ModelError where there are none."""
    folder = local_folder(source.pretrained)
    if source.tokenizer:
        local_folder(source.tokenizer, "tokenizer")
    with without_progress_bars(), model_errors(source, folder):
        if not folder:  # all files are of one commit, even if the branch moves in between
            source = replace(source, revision=hub_commit(source.pretrained, source.revision))
        location = str(folder or source.pretrained)
        return Files(
            name=folder.name if folder else source.pretrained,
            location=location,
            is_local=folder is not None,
            revision=source.revision,
            sha=source_sha(source, folder),
            tokenizer=load_tokenizer(source, folder),
            generation_config=load_generation_config(location, **file_options(source, folder)),
        )
