"""The same responses as lm-eval's own local model, on the same folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import processors

from multiform.models.hf.model import HFModel, bundled_folder
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest
from tests.tiny_models import make_tokenizer

pytestmark = pytest.mark.parity

#: lm-eval's log_softmax is off by up to this much for each token on a CPU.
PER_TOKEN = 3e-5

QUESTION = (
    "The following are multiple choice questions (with answers) about biology.\n\n"
    "Which organelle makes energy?\nA. nucleus\nB. mitochondrion\nC. wall\nD. root\nAnswer:"
)
PAIRS = [
    *((QUESTION, f" {label}") for label in "ABCD"),
    *((QUESTION, f" {text}") for text in ("the nucleus", "the mitochondrion", "a cell wall", "roots")),
    ("Question: what is 12 + 30?\nAnswer: ", "42"),
    ("", "The dog sat on the mat."),
    ("The dog\n\n", "and the cat"),
    ("long " * 40, " dog"),
]
PROMPTS = ["The capital of France is", "Question: what is it?\nAnswer:", "1, 2, 3, 4,"]


def instances(arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [type("Instance", (), {"args": item, "task_name": "test"})() for item in arguments]


def compare(ours: HFModel, theirs: Any, pairs: Sequence[tuple[str, str]]) -> None:
    expected = theirs.loglikelihood(instances(pairs), disable_tqdm=True)
    outputs = dict(ours.loglikelihood([LoglikelihoodRequest(*pair) for pair in pairs]))
    tokens = [len(pair.continuation) for pair in ours.encoder.pairs(pairs)]
    for index, (loglikelihood, greedy) in enumerate(expected):
        tolerance = PER_TOKEN * tokens[index]
        assert outputs[index].loglikelihood == pytest.approx(loglikelihood, abs=tolerance), pairs[index]
        assert outputs[index].is_greedy == greedy, pairs[index]


def compare_rolling(ours: HFModel, theirs: Any, texts: Sequence[str]) -> None:
    expected = theirs.loglikelihood_rolling(instances([(text,) for text in texts]), disable_tqdm=True)
    outputs = dict(ours.loglikelihood_rolling([RollingRequest(text) for text in texts]))
    for index, text in enumerate(texts):
        tolerance = PER_TOKEN * len(ours.encoder.encode([text])[text])
        assert outputs[index].loglikelihood == pytest.approx(expected[index], abs=tolerance)


def compare_generation(ours: HFModel, theirs: Any, options: dict[str, Any]) -> None:
    expected = theirs.generate_until(instances([(prompt, dict(options)) for prompt in PROMPTS]), disable_tqdm=True)
    outputs = dict(ours.generate([GenerationRequest.of(prompt, options) for prompt in PROMPTS]))
    assert [outputs[index].text for index in range(len(PROMPTS))] == expected


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma2"])
@pytest.mark.parametrize("bos", [False, True])
def test_tiny_models_score_as_in_lm_eval(kind: str, bos: bool, hflm: Any, tiny: Callable[..., Path]) -> None:
    folder = str(tiny(kind, bos=bos))
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=4)
    compare(HFModel(folder), theirs, PAIRS)


@pytest.mark.parametrize("length", [16, 96])
def test_a_rolling_score_is_that_of_lm_eval(length: int, hflm: Any, tiny: Callable[..., Path]) -> None:
    folder = str(tiny())
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=4, max_length=length)
    compare_rolling(HFModel(folder, max_length=length), theirs, [QUESTION, "The dog", "Answer: " * 30])


@pytest.mark.parametrize("options", [{}, {"until": ["\n\n"], "max_gen_toks": 20}, {"until": " ", "max_tokens": 9}])
def test_tiny_models_write_as_in_lm_eval(options: dict[str, Any], hflm: Any, tiny: Callable[..., Path]) -> None:
    folder = str(tiny())
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=2)
    compare_generation(HFModel(folder), theirs, {"max_gen_toks": 12, **options})


@pytest.mark.parametrize("add_bos_token", [None, True, False])
@pytest.mark.parametrize("template", ["none", "first", "last"])
def test_the_first_token_is_that_of_lm_eval(
    add_bos_token: bool | None, template: str, hflm: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Tokenizers with a first token that their template adds, or does not, or that add a last token instead."""
    folder = str(shutil.copytree(tiny(bos=True), tmp_path / template))
    if template != "first":
        tokenizer = make_tokenizer(bos=True)
        single = "$A </s>" if template == "last" else "$A"
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=[("</s>", 1)]
        )
        tokenizer.save_pretrained(folder)
    theirs = hflm(
        pretrained=folder, device="cpu", dtype="float32", batch_size=1, max_length=64, add_bos_token=add_bos_token
    )
    ours = HFModel(folder, max_length=64, add_bos_token=add_bos_token)
    compare(ours, theirs, [*PAIRS, ("<s>The dog", " sat")])
    compare_rolling(ours, theirs, [QUESTION, "The dog", "<s>The dog"])
    compare_generation(ours, theirs, {"until": [], "max_gen_toks": 8})


def test_a_first_token_that_the_tokenizer_does_not_have_is_reported(
    tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    HFModel(str(tiny(bos=False)), add_bos_token=True)
    assert "add_bos_token=True changes nothing: the tokenizer adds no token to a text" in caplog.text


@pytest.mark.bundled
def test_the_bundled_model_scores_and_writes_as_in_lm_eval(bundled: HFModel, hflm: Any) -> None:
    theirs = hflm(pretrained=str(bundled_folder()), device="cpu", dtype="float32", batch_size=4)
    compare(bundled, theirs, PAIRS)
    compare_generation(bundled, theirs, {"until": ["\n"], "max_gen_toks": 16})
    compare_generation(bundled, theirs, {"until": ["."], "max_gen_toks": 10})
