"""Loads a model, its tokenizer and its chat template from a folder or from the hub."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from multiform.errors import ModelError, UsageError
from multiform.models.arguments import take_fields
from multiform.models.hf.source import (
    ModelSource,
    check_gguf_file,
    file_options,
    first_line,
    hub_commit,
    local_folder,
    model_errors,
    pick_device,
    pick_dtype,
    placement,
    quantization_config,
)
from multiform.models.identity import converted_folder, fingerprint, foreign_code
from multiform.models.instruction_set import check_half_precision, limit_instruction_set
from multiform.models.local import TextOptions
from multiform.models.torch.device import HALF, device_of
from multiform.prompts.chat import ChatTemplate

logger = logging.getLogger("multiform")

#: The context length of a model whose configuration names none.
DEFAULT_MAX_LENGTH = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model with its tokenizer, ready to run; `sha` is a hash of its files, or their commit on the hub."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    sha: str


def load(source: ModelSource, auto_class: Any = None) -> Loaded:
    """The model and the tokenizer of a source, in evaluation mode on their device.

    `auto_class` is the class of transformers that loads the model; by default the one for the source's backend.
    """
    device = pick_device(source.device)
    dtype = pick_dtype(source.dtype, device)
    folder = local_folder(source.pretrained)
    for argument in ("tokenizer", "peft"):  # before weights are loaded
        if name := getattr(source, argument):
            local_folder(name, argument)
    if folder and source.gguf_file:
        check_gguf_file(folder / source.subfolder, source.gguf_file)
    with without_progress_bars(), model_errors(source, folder):
        if not folder:  # all files are of one commit, even if the branch moves in between
            source = replace(source, revision=hub_commit(source.pretrained, source.revision))
        config = transformers.AutoConfig.from_pretrained(source.pretrained, **file_options(source, folder))
        auto_class = _auto_class(source, config, auto_class)
        quantized_by = _quantization_method(config, source)
        tokenizer = load_tokenizer(source, folder)
        saved_in = getattr(config.get_text_config(), "dtype", None) or config.dtype
        if str(source.dtype) == "auto" and dtype is torch.float32 and saved_in in HALF:
            message = (
                "the checkpoint is in %s and runs in float32, as on every CPU; lm-eval runs it as it is (dtype=%s)"
            )
            name = str(saved_in).removeprefix("torch.")
            logger.info(message, name, name)
        model = _load_weights(source, folder, dtype, device, auto_class, quantized_by)
        if source.peft:
            model = _with_adapter(model, tokenizer, source)
        sha = source_sha(source, folder)
    if device_of(model).type == "cpu":
        limit_instruction_set()  # for float32, too: oneDNN reads the limit once, and the next model may be in bfloat16
        if quantized_by or source.quantization or any(tensor.dtype in HALF for tensor in model.parameters()):
            check_half_precision(where=source.pretrained)
    model.eval()
    return Loaded(model=model, tokenizer=tokenizer, name=folder.name if folder else source.pretrained, sha=sha)


def _auto_class(source: ModelSource, config: transformers.PretrainedConfig, auto_class: Any) -> Any:
    """The class that loads a model: the argument, or the one for the backend that the user or the config names."""
    seq2seq = getattr(config, "is_encoder_decoder", False)
    if auto_class and seq2seq:
        message = f"'{config.model_type}' is an encoder-decoder model"
        raise ModelError(message, where=source.pretrained, hint="use a decoder-only one, or --model hf for texts")
    if auto_class:
        return auto_class
    check_backend(source, config)
    if seq2seq and source.backend != "causal":
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForCausalLM


def check_backend(source: ModelSource, config: transformers.PretrainedConfig) -> None:
    """Refuse the seq2seq backend for a model that is not an encoder-decoder."""
    if source.backend == "seq2seq" and not getattr(config, "is_encoder_decoder", False):
        message = f"backend=seq2seq: '{config.model_type}' is not an encoder-decoder model"
        raise UsageError(message, where=source.pretrained, hint="leave backend out")


def max_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The context length of a model, by its configuration or its tokenizer."""
    config = getattr(model.config, "text_config", None) or model.config
    for name in ("n_positions", "max_position_embeddings", "max_encoder_position_embeddings", "n_ctx"):
        value = getattr(config, name, None)
        if value is not None:
            return int(value)
    # Tokenizers without a limit have a number of thirty digits.
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit is not None and limit < 10**12 else DEFAULT_MAX_LENGTH


def load_tokenizer(source: ModelSource, folder: Path | None) -> PreTrainedTokenizerBase:
    """The tokenizer of a source, with a padding token."""
    options = file_options(source, folder)
    if source.tokenizer:
        folder = local_folder(source.tokenizer, "tokenizer")
        options = {"trust_remote_code": source.trust_remote_code, **({"local_files_only": True} if folder else {})}
    if source.add_bos_token is not None:
        # The tokenizer then has a template with its first token, even if its files have none.
        options["add_bos_token"] = source.add_bos_token
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder or source.tokenizer or source.pretrained, **options)
    if source.add_bos_token and tokenizer("a")["input_ids"] == tokenizer("a", add_special_tokens=False)["input_ids"]:
        logger.warning("add_bos_token=True changes nothing: the tokenizer adds no token to a text")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
    return tokenizer


def load_chat(arguments: Mapping[str, Any]) -> ChatTemplate:
    """The chat template of an `hf` model with these arguments, without its weights."""
    names = ("pretrained", "revision", "subfolder", "gguf_file", "tokenizer", "trust_remote_code")
    source = take_fields(ModelSource, {name: arguments[name] for name in names if name in arguments})
    texts = take_fields(TextOptions, dict(arguments))
    folder = local_folder(source.pretrained)
    with without_progress_bars(), model_errors(source, folder):
        tokenizer = load_tokenizer(source, folder)
    return texts.chat(tokenizer, source.pretrained, tokenizer.apply_chat_template)


def load_bundled_chat(arguments: Mapping[str, Any]) -> ChatTemplate:
    """The chat template of the bundled model, which has been converted."""
    return load_chat({"pretrained": str(converted_folder()), **arguments})


def _load_weights(
    source: ModelSource,
    folder: Path | None,
    dtype: torch.dtype | str,
    device: torch.device,
    auto_class: Any,
    quantized_by: str | None,
) -> PreTrainedModel:
    options = file_options(source, folder)
    device_map = source.device_map or ("auto" if source.parallelize else None)
    if quantization := quantization_config(source):
        options["quantization_config"] = quantization
    if (quantization or quantized_by) and not device_map:
        # Quantized weights cannot be moved once they are loaded.
        device_map = {"": str(device)}
    options |= placement(source, device_map)
    if source.attn_implementation:
        options["attn_implementation"] = source.attn_implementation
    try:
        model, report = auto_class.from_pretrained(
            folder or source.pretrained, dtype=dtype, output_loading_info=True, **options
        )
    except ImportError as error:
        if not quantized_by:
            raise
        raise ModelError(
            f"the checkpoint is quantized ('{quantized_by}') and cannot be loaded here: {first_line(error)}",
            where=source.pretrained,
            hint="install what is missing, or name a checkpoint that is not quantized",
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        # transformers fills these with random numbers and goes on; the scores would mean nothing.
        raise ModelError(
            f"the checkpoint lacks {len(missing)} of the model's weights, for example '{missing[0]}'",
            where=source.pretrained,
            hint="check that the weights belong to config.json",
        )
    return model if device_map else model.to(device)


def _quantization_method(config: transformers.PretrainedConfig, source: ModelSource) -> str | None:
    """How the weights of a checkpoint are quantized; None where they are not, or where loading dequantizes them."""
    quantization = getattr(config, "quantization_config", None)
    if not quantization or source.gguf_file:
        return None
    settings = quantization if isinstance(quantization, dict) else quantization.to_dict()
    method = settings.get("quant_method", "unknown method")
    return str(getattr(method, "value", method))


def _with_adapter(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: ModelSource) -> PreTrainedModel:
    try:
        import peft
    except ImportError as error:
        raise ModelError("an adapter needs the package 'peft'", hint="run: pip install peft") from error
    assert source.peft
    adapter = local_folder(source.peft, "peft")
    if model.config.get_text_config().vocab_size < len(tokenizer):
        model.resize_token_embeddings(len(tokenizer))
    try:
        with warnings.catch_warnings():
            # Where an adapter does not have all its weights, peft fills in neutral ones and goes on.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            wrapped = peft.PeftModel.from_pretrained(model, str(adapter or source.peft))
    except Exception as error:  # loaders raise almost every kind, down to KeyError
        hint = f"check that it was trained on this model; tried with peft {peft.__version__}"
        # A list of missing weights may be long.
        raise ModelError(f"cannot load the adapter: {first_line(error)[:300]}", where=source.peft, hint=hint) from error
    if wrapped.active_peft_config.is_prompt_learning:
        raise ModelError(
            "adapters that add prompt tokens are not supported",
            where=source.peft,
            hint="use an adapter that changes weights, such as LoRA",
        )
    # The layers are adapted in place: the inner model is a plain one with the wrapper's outputs.
    return wrapped.get_base_model()


def source_sha(source: ModelSource, folder: Path | None) -> str:
    """The fingerprint or commit of the model, and those of a tokenizer, an adapter and code from elsewhere."""
    hashes = [fingerprint(folder / source.subfolder, gguf_file=source.gguf_file) if folder else source.revision]
    for argument, name in (("tokenizer", source.tokenizer), ("peft", source.peft)):
        if name:
            other_folder = local_folder(name, argument)
            hashes.append(fingerprint(other_folder) if other_folder else f"{name}@{hub_commit(name, 'main')}")
    if folder and source.trust_remote_code:
        hashes += [f"{name}@{hub_commit(name, 'main')}" for name in foreign_code(folder / source.subfolder)]
    return "+".join(hashes)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers; Multiform shows its own."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()
