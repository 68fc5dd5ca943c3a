"""HFModel: a language model that transformers loads and that runs on this machine; and the bundled one.

The package of the bundled model holds a GGUF file, which transformers takes half a minute to read. It is converted
once, into the user's cache.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import torch
import transformers
from tokenizers import pre_tokenizers

from multiform.errors import UsageError, nearest
from multiform.models.arguments import GenerationOptions, argument_names, take_fields
from multiform.models.hf.load import Loaded, load, without_progress_bars
from multiform.models.hf.load import max_length as context_length
from multiform.models.hf.source import RULES, ModelSource
from multiform.models.identity import BUNDLED_NAME, build_once, converted_folder, gguf_file
from multiform.models.local import LocalModel, Sequences, TextOptions
from multiform.models.torch.device import (
    MATMULS,
    batch_limits,
    device_of,
    fixed_rows,
    hold_memory,
    is_mkl_slow,
    parse_budget,
    use_onednn,
)
from multiform.models.torch.engine import CausalEngine
from multiform.models.torch.forward import CausalLM
from multiform.models.torch.plan import Cost, Pair, describe
from multiform.models.torch.planner import Planner
from multiform.models.torch.sampling import Generation, check_config, num_beams
from multiform.models.torch.seq2seq import Seq2SeqEngine
from multiform.requests import Completion, GenerationRequest, LLOutput, Request, Response

if TYPE_CHECKING:
    from transformers import GenerationConfig

logger = logging.getLogger("multiform")


class HFModel(LocalModel):
    """A model from a folder or the hub, decoder-only or encoder-decoder; the arguments have lm-eval's names.

    `batch_size` is the number of completions that are decoded together, or "auto" for as many as fit; scoring
    fills forward passes by tokens, and uses batches of that many rows only for models that cannot share prefixes.
    `max_length` is the context length; by default that of the model's configuration. `prefix_budget` is how much
    of shared prefixes may stay cached, in tokens or as memory ("2GB"). `matmul` is what computes the products of linear
    layers: "torch", or "onednn" on a CPU. The other arguments are the fields of `ModelSource` and `TextOptions`.
    """

    stored = True
    stops_at_labels = True
    #: Arguments of a subclass beside those of the constructors and of `ModelSource` and `TextOptions`.
    more_arguments: ClassVar[Collection[str]] = ()

    def __init__(
        self,
        pretrained: str = "",
        *,
        batch_size: int | str = "auto",
        max_batch_size: int = 64,
        max_length: int | None = None,
        prefix_budget: int | str | None = None,
        matmul: str = "torch",
        **others: Any,
    ) -> None:
        accepted = [*get_type_hints(ModelSource), *get_type_hints(TextOptions)]
        arguments = RULES.resolve(others, accepted, suggestions=[*argument_names(type(self)), *self.more_arguments])
        source = take_fields(ModelSource, {"pretrained": pretrained, **arguments})
        texts = take_fields(TextOptions, arguments)
        if matmul not in MATMULS:
            raise UsageError(f"unknown matmul '{matmul}'", hint=nearest(matmul, MATMULS, listed="values"))
        fixed_rows(batch_size)
        if prefix_budget is not None:
            parse_budget(prefix_budget)
        loaded = self._load(source)
        runs_on_cpu = device_of(loaded.model).type == "cpu"
        if runs_on_cpu:
            hold_memory()
        if matmul == "onednn":
            use_onednn(loaded.model)
        elif runs_on_cpu and loaded.model.dtype == torch.float32 and is_mkl_slow():
            logger.debug("this CPU is about twice as fast with matmul=onednn among the model's arguments")
        self.source = source
        self.model = loaded.model
        self.name = loaded.name
        self.sha, self.revision, self.dtype = loaded.sha, source.revision, str(loaded.model.dtype)
        self.max_length = int(max_length or context_length(self.model, loaded.tokenizer))
        if self.model.config.is_encoder_decoder:
            names = ("max_position_embeddings", "max_decoder_position_embeddings")
            self.decoder_length = next(
                (n for name in names if (n := getattr(self.model.config, name, None))), sys.maxsize
            )
        self._use_tokenizer(loaded.tokenizer, texts, source.add_bos_token)
        self.limits, self.generation_limits = batch_limits(
            batch_size, int(max_batch_size), self.max_length, device_of(self.model)
        )
        self.identity = self._make_identity(
            "hf",
            gguf_file=source.gguf_file,
            **({"think_end_token": self.think_end} if self.think_end is not None else {}),
            **source.quantization,
            **({"backend": "seq2seq"} if self.model.config.is_encoder_decoder else {}),
        )
        self.engine = self._make_engine(prefix_budget)

    def keep_prefixes(self, keep: bool) -> None:
        if isinstance(self.engine, CausalEngine):  # an encoder gets a context as a whole
            self.engine.planner.keep_prefixes(keep)

    def plan(self, requests: Sequence[Request]) -> str | None:
        """The cost of scoring the requests and of prefilling their prompts, in words."""
        if self.media:  # the number of an image's tokens is known only when it has been processed
            return None
        costs = self._costs(self._sequences(requests))
        return "\n".join(f"{name}: {describe(cost)}" for name, cost in costs.items() if cost.sequences) or None

    def _costs(self, sequences: Sequences) -> dict[str, Cost]:
        return {
            "continuations": self.engine.scoring_cost(sequences.pairs),
            "whole texts": self.engine.scoring_cost(sequences.windows),
            "prompts": self.engine.prefill_cost(sequences.generations),
        }

    def _computed_tokens(self, sequences: Sequences) -> int:
        return sum(cost.computed for cost in self._costs(sequences).values())

    def info(self) -> dict[str, Any]:
        return {"model_num_parameters": self.model.num_parameters(), **super().info()}

    @property
    def generation_config(self) -> GenerationConfig:
        return self.model.generation_config

    def _load(self, source: ModelSource) -> Loaded:
        return load(source)

    def _make_engine(self, prefix_budget: int | str | None) -> CausalEngine | Seq2SeqEngine:
        options: dict[str, Any] = {
            "tokenizer": self.tokenizer,
            "limits": self.limits,
            "generation_limits": self.generation_limits,
            "counters": self.counters,
        }
        if self.model.config.is_encoder_decoder:
            return Seq2SeqEngine(self.model, max_length=self.max_length, identity=self.identity, **options)
        self.planner = Planner(
            CausalLM(self.model), budget=prefix_budget, max_length=self.max_length, identity=self.identity
        )
        return CausalEngine(planner=self.planner, **options)

    def _score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        self.counters.resume()
        for position, output in self.engine.score(pairs):
            self.counters.count_prompt(pairs[position].inputs)
            yield position, output

    def _complete(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        self.counters.resume()
        for position, output in self.engine.generate(generations):
            self.counters.count_prompt(len(generations[position].prompt))
            yield position, output

    def _check_generation(self, request: GenerationRequest, options: GenerationOptions) -> None:
        check_config(self.generation_config, is_sampled=options.temperature > 0, where=self.name)
        beams = options.num_beams or num_beams(self.generation_config)
        if beams > 1 and not self.model.can_generate():
            message = f"num_beams is {beams}, and the model's own code has no beam search"
            raise UsageError(message, where=self.name, hint="leave num_beams out")


class BundledModel(HFModel):
    """The small model that is used when no other is named."""

    stored = True

    def __init__(self, **arguments: Any) -> None:
        if "pretrained" in arguments:
            raise UsageError("the bundled model takes no argument 'pretrained'", hint="use --model hf for others")
        super().__init__(str(bundled_folder()), **arguments)
        self.name = BUNDLED_NAME

    def chat_template_name(self) -> str:
        return BUNDLED_NAME + self.chat.variant


def bundled_folder() -> Path:
    """The folder of the converted model, which is created if it does not exist."""
    folder = converted_folder()
    if not folder.exists():
        build_once(folder, lambda target: convert_gguf(gguf_file(), target))
    return folder


def convert_gguf(gguf: Path, target: Path) -> None:
    """Convert the model and tokenizer of a GGUF file to the files of transformers."""
    logger.warning(
        "converting the bundled model %s from its GGUF file; this happens once and takes half a minute", BUNDLED_NAME
    )
    with without_progress_bars():
        loaded = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        config = loaded.config
        del config.quantization_config
        # A model that was loaded from GGUF refuses to be saved.
        model = transformers.LlamaForCausalLM(config)
        model.load_state_dict(loaded.state_dict())
        model.save_pretrained(target)
    # The loader drops what "tokenizer.ggml.pre = smollm" in the file means: numbers are first split into
    # digits. Without that, white space before a digit gives tokens that the model does not expect.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(target)
