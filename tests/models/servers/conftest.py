"""A small tokenizer, and what is asked of a completions model behind the fake server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiform.models.servers.openai_completions import OpenAICompletions
from multiform.requests import LoglikelihoodRequest

PAIRS = [
    ("The dog", " and the cat"),
    ("The dog ", "and"),
    ("Question: is 12 + 30 = 42?\nAnswer:", " yes"),
    ("Question: is 12 + 30 = 42?\nAnswer:", " no, never"),
    ("", "The dog sat"),
]


def model(server: Any, **arguments: Any) -> OpenAICompletions:
    one = OpenAICompletions(model="tiny", base_url=server.base_url, **arguments)
    if one.tokenizer_name and Path(one.tokenizer_name, "tokenizer.json").is_file():
        server.decode = lambda token: str(one.encoder.tokenizer.decode([token]))
    return one


def scored(one: OpenAICompletions, pairs: list[tuple[str, str]]) -> list[Any]:
    outputs = dict(one.loglikelihood([LoglikelihoodRequest(*pair) for pair in pairs]))
    assert sorted(outputs) == list(range(len(pairs)))
    return [outputs[position] for position in range(len(pairs))]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small byte-level tokenizer."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers import models as kinds

    made = Tokenizer(kinds.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([" ".join(context + text for context, text in PAIRS)] * 5, trainer)
    whole = transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    whole.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}"
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    whole.save_pretrained(folder)
    return folder
