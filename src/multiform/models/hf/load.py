"""Load a model and its tokenizer, from a folder or from the hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.errors import ModelError, UsageError
from multiform.inference.device import device_of, pick_device, pick_dtype
from multiform.models.hf.identity import fingerprint
from multiform.models.hf.source import Source, file_options, first_line, local_folder, model_errors
from multiform.models.hf.weights import placement, quantization_config

logger = logging.getLogger("multiform")

#: The context length of a model whose configuration names none.
DEFAULT_MAX_LENGTH = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that is ready to answer; `sha` stands for the content of its files."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    name: str
    sha: str


def load(source: Source, auto: Any = None) -> Loaded:
    """The model and the tokenizer of a source, in evaluation mode on their device.

    `auto` finds the class of the model; by default it is the one for the source's backend.
    """
    device = pick_device(source.device)
    dtype = pick_dtype(source.dtype, device)
    folder = local_folder(source.pretrained)
    with without_progress_bars(), model_errors(source, folder):
        config = transformers.AutoConfig.from_pretrained(source.pretrained, **file_options(source, folder))
        auto = _auto(source, config, auto)
        tokenizer = load_tokenizer(source, folder)
        model = _load_weights(source, folder, dtype, device, auto, _method(config, source))
        if source.peft:
            model = _with_adapter(model, tokenizer, source)
    model.eval()
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        device=device_of(model),
        name=folder.name if folder else source.pretrained,
        sha=_sha(source, folder, config),
    )


def _auto(source: Source, config: transformers.PretrainedConfig, auto: Any) -> Any:
    """The loader for the kind of a model: the one that is given, what the user says, or what its configuration says."""
    seq2seq = getattr(config, "is_encoder_decoder", False)
    if auto and seq2seq:
        what = f"'{config.model_type}' is an encoder-decoder model"
        raise ModelError(what, where=source.pretrained, hint="use a decoder-only one, or --model hf for texts")
    if auto:
        return auto
    check_backend(source, config)
    if seq2seq and source.backend != "causal":
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM


def check_backend(source: Source, config: transformers.PretrainedConfig) -> None:
    """Refuse to take a model for an encoder-decoder that is none."""
    if source.backend == "seq2seq" and not getattr(config, "is_encoder_decoder", False):
        what = f"backend=seq2seq: '{config.model_type}' is no encoder-decoder model"
        raise UsageError(what, where=source.pretrained, hint="leave backend out")


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many tokens the model can read, as its configuration or its tokenizer says."""
    config = getattr(model.config, "text_config", None) or model.config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        value = getattr(config, name, None)
        if value is not None:
            return int(value)
    # Tokenizers say "no limit" with a number of thirty digits.
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit is not None and limit < 10**12 else DEFAULT_MAX_LENGTH


def load_tokenizer(source: Source, folder: Path | None) -> PreTrainedTokenizerBase:
    """The tokenizer of a source, which can pad."""
    if source.tokenizer:
        other = local_folder(source.tokenizer)
        options: dict[str, Any] = {"trust_remote_code": source.trust_remote_code}
        if other:
            options["local_files_only"] = True
        tokenizer = transformers.AutoTokenizer.from_pretrained(other or source.tokenizer, **options)
    else:
        options = file_options(source, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder or source.pretrained, **options)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
    return tokenizer


def _load_weights(
    source: Source, folder: Path | None, dtype: torch.dtype | str, device: torch.device, auto: Any, method: str | None
) -> PreTrainedModel:
    options = file_options(source, folder)
    placed = source.device_map or ("auto" if source.parallelize else None)
    if quantized := quantization_config(source.loading):
        options["quantization_config"] = quantized
    if (quantized or method) and not placed:
        # Quantized weights cannot be moved once they are loaded.
        placed = {"": str(device)}
    options |= placement(source.loading, placed)
    if source.attn_implementation:
        options["attn_implementation"] = source.attn_implementation
    try:
        model, report = auto.from_pretrained(
            folder or source.pretrained, dtype=dtype, output_loading_info=True, **options
        )
    except ImportError as error:
        if not method:
            raise
        raise ModelError(
            f"the checkpoint is quantized ('{method}'), and a package for that is missing: {first_line(error)}",
            where=source.pretrained,
            hint="install the package, or name a checkpoint that is not quantized",
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        # transformers fills these with random numbers and goes on; the scores would mean nothing.
        raise ModelError(
            f"the checkpoint lacks {len(missing)} of the model's weights, for example '{missing[0]}'",
            where=source.pretrained,
            hint="check that the weights belong to config.json",
        )
    return model if placed else model.to(device)


def _method(config: transformers.PretrainedConfig, source: Source) -> str | None:
    """How the weights of a checkpoint are quantized; None where they are not, or not any more once they are read."""
    found = getattr(config, "quantization_config", None)
    if not found or source.gguf_file:
        return None
    settings = found if isinstance(found, dict) else found.to_dict()
    method = settings.get("quant_method", "unknown method")
    return str(getattr(method, "value", method))


def _with_adapter(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: Source) -> PreTrainedModel:
    try:
        import peft
    except ImportError as error:
        raise ModelError("an adapter needs the package 'peft'", hint="run: pip install peft") from error
    assert source.peft
    adapter = local_folder(source.peft)
    if model.config.get_text_config().vocab_size < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer))
    wrapped = peft.PeftModel.from_pretrained(model, str(adapter or source.peft))
    if wrapped.active_peft_config.is_prompt_learning:
        raise ModelError(
            "adapters that add prompt tokens are not supported",
            where=source.peft,
            hint="use an adapter that changes weights, such as LoRA",
        )
    # The layers are adapted in place: the inner model is a plain one, and answers as the wrapper does.
    return wrapped.get_base_model()


def _sha(source: Source, folder: Path | None, config: transformers.PretrainedConfig) -> str:
    revision = getattr(config, "_commit_hash", None) or source.revision
    parts = [fingerprint(folder / source.subfolder) if folder else revision]
    for other in (source.tokenizer, source.peft):
        if other:
            place = local_folder(other)
            parts.append(fingerprint(place) if place else other)
    return "+".join(parts)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """No progress bars of transformers; ours is the one that a user sees."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()
