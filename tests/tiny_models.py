"""Fixtures: tiny random models of several kinds, and the bundled one."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from multiform.errors import ModelError
from multiform.models.hf.model import BundledModel, HFModel
from multiform.models.torch import planner

TEXT = (
    "The dog and the cat sat on the mat. A dog is a good dog, and do dogs dig? Question: what is it?\n"
    "Answer: yes, the capital of France is Paris.\n\nQuestion: is 12 + 30 = 42? Answer: no. "
) * 4 + "dog\ndo\n" * 9


def make_tokenizer(*, bos: bool, text: str = TEXT) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE of 400 tokens, which adds a first token to each text or does not."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    names = {"eos_token": "</s>", "unk_token": "<unk>"} | ({"bos_token": "<s>"} if bos else {})
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


#: The sizes of all tiny decoders, and of those whose attention heads share keys and values.
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {"intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 96}
CONFIGS: dict[str, Callable[..., Any]] = {
    "llama": lambda **base: transformers.LlamaConfig(**base, **GROUPED),
    "mistral": lambda **base: transformers.MistralConfig(**base, **GROUPED, sliding_window=None),
    "qwen2": lambda **base: transformers.Qwen2Config(
        **base, intermediate_size=48, num_key_value_heads=4, max_position_embeddings=96
    ),
    "qwen3": lambda **base: transformers.Qwen3Config(**base, **GROUPED, head_dim=8),
    "gpt2": lambda vocab_size, **_: transformers.GPT2Config(
        vocab_size=vocab_size, n_embd=32, n_layer=2, n_head=4, n_positions=96, bos_token_id=0, eos_token_id=1
    ),
    "gemma2": lambda **base: transformers.Gemma2Config(
        **base, **GROUPED, head_dim=8, sliding_window=12, final_logit_softcapping=2.0, tie_word_embeddings=False
    ),
    "mamba": lambda vocab_size, **_: transformers.MambaConfig(
        vocab_size=vocab_size, hidden_size=32, num_hidden_layers=2, state_size=8
    ),
}


def llama_config(vocab_size: int, **options: Any) -> transformers.LlamaConfig:
    """A tiny Llama with as many tokens, and with options of its own."""
    return transformers.LlamaConfig(vocab_size=vocab_size, **SIZES, intermediate_size=48, **options)


def save_random(folder: Path, config: Any, tokenizer: Any) -> Path:
    """Write a random model of a configuration, and its tokenizer; equal calls give equal weights."""
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    torch.manual_seed(7)
    kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models gain nothing from more, and threads that wait for a busy processor cost much."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def every_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have models tried that have few requests, too: the tests are about what comes after."""
    monkeypatch.setattr(planner, "WORTH_TRIAL", 0)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder with a tiny random model of a kind; asked again, gives the same folder."""
    made: dict[tuple[str, bool], Path] = {}

    def make(kind: str = "llama", *, bos: bool = False) -> Path:
        if (kind, bos) not in made:
            folder = tmp_path_factory.mktemp("models") / f"tiny-{kind}{'-bos' if bos else ''}"
            tokenizer = make_tokenizer(bos=bos)
            config = CONFIGS[kind](vocab_size=len(tokenizer), **SIZES)
            config.eos_token_id, config.bos_token_id, config.pad_token_id = 1, 0, 1
            config.initializer_range = 0.4
            made[kind, bos] = save_random(folder, config, tokenizer)
        return made[kind, bos]

    return make


#: Encoder-decoder models: with relative positions and scaled logits, with learned positions and forced tokens, and with
#: a decoder that begins with the last token of the text.
SEQ2SEQ: dict[str, Callable[..., Any]] = {
    "t5": lambda **base: transformers.T5Config(
        **base,
        d_ff=48,
        d_kv=8,
        num_layers=2,
        num_heads=4,
        n_positions=96,
        decoder_start_token_id=2,
        initializer_factor=1.0,
    ),
    "bart": lambda **base: _bart(transformers.BartConfig, **base, forced_bos_token_id=0, forced_eos_token_id=1),
    "mbart": lambda **base: _bart(transformers.MBartConfig, **base, forced_eos_token_id=1),
}


def _bart(kind: Any, **options: Any) -> Any:
    sizes = {"layers": 2, "ffn_dim": 48, "attention_heads": 4}
    of_both = {f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in sizes.items()}
    return kind(**options, **of_both, max_position_embeddings=96, decoder_start_token_id=1, init_std=0.4)


@pytest.fixture(scope="session")
def seq2seq(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder with a tiny random encoder-decoder model of a kind; its tokenizer ends each text."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            folder = tmp_path_factory.mktemp("models") / f"tiny-{kind}"
            tokenizer = make_tokenizer(bos=False)
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A </s>" if kind == "bart" else "$A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
            )
            if kind == "bart":
                tokenizer.bos_token = "<s>"
            tokenizer.pad_token = "<unk>"
            config = SEQ2SEQ[kind](
                vocab_size=len(tokenizer), d_model=32, pad_token_id=2, eos_token_id=1, bos_token_id=0
            )
            made[kind] = save_random(folder, config, tokenizer)
        return made[kind]

    return make


@pytest.fixture(scope="session")
def llama(tiny: Callable[..., Path]) -> HFModel:
    return HFModel(str(tiny("llama")))


@pytest.fixture(scope="session")
def bundled() -> BundledModel:
    try:
        return BundledModel()
    except ModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def hflm() -> Any:
    """lm-eval's own local model."""
    pytest.importorskip("lm_eval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("lm_eval.models.huggingface").HFLM
