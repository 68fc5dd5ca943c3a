"""Arguments that lm-eval's local model has, too: chat templates, thoughts, and what is not needed or refused."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from multiform.errors import UsageError
from multiform.models.hf.model import HFModel
from multiform.requests import GenerationRequest, LoglikelihoodRequest

CHAT = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"
TOOLS = "tools {{ messages[0]['content'] }}{% if enable_thinking %} think{% endif %}{{ effort }}"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
def folder(tiny: Callable[..., Path], tmp_path: Path) -> Path:
    """A model whose tokenizer has two chat templates."""
    path = Path(shutil.copytree(tiny(), tmp_path / "two"))
    (path / "chat_template.jinja").write_text(CHAT)
    (path / "additional_chat_templates").mkdir()
    (path / "additional_chat_templates" / "tools.jinja").write_text(TOOLS)
    return path


def test_the_default_template_is_used(folder: Path) -> None:
    model = HFModel(str(folder))
    assert model.apply_chat_template(MESSAGES) == "[user] hi"
    assert model.chat_template_text() == CHAT


def test_a_template_may_be_named(folder: Path) -> None:
    model = HFModel(str(folder), chat_template="tools")
    assert model.apply_chat_template(MESSAGES) == "tools hi"
    assert model.chat_template_text() == TOOLS


def test_a_template_that_is_not_there_is_an_error_with_the_nearest_name(folder: Path) -> None:
    with pytest.raises(UsageError, match="no chat template 'tool'; did you mean 'tools'"):
        HFModel(str(folder), chat_template="tool")


def test_of_one_template_alone_a_name_changes_nothing_and_the_log_says_so(
    tiny: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(shutil.copytree(tiny(), tmp_path / "one"))
    (path / "chat_template.jinja").write_text(CHAT)
    assert HFModel(str(path), chat_template="tools").apply_chat_template(MESSAGES) == "[user] hi"
    assert "one: there is one chat template alone; it is used for 'tools'" in caplog.text


@pytest.mark.parametrize("given", [{"batch_size": "many"}, {"batch_size": 0}, {"prefix_budget": "lots"}])
def test_a_wrong_size_shows_before_anything_is_loaded(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        HFModel("no/such/model", **given)


def test_a_template_has_variables(folder: Path) -> None:
    model = HFModel(str(folder), chat_template="tools", enable_thinking=True, chat_template_args={"effort": " much"})
    assert model.apply_chat_template(MESSAGES) == "tools hi think much"


def test_prompts_of_other_templates_and_variables_have_other_names(folder: Path) -> None:
    options: list[dict[str, Any]] = [{}, {"chat_template": "tools"}, {"enable_thinking": False}]
    names = [HFModel(str(folder), **one).chat_template_name() for one in options]
    assert len(set(names)) == 3


def test_a_thought_is_left_out_of_the_completion(tiny: Callable[..., Path], llama: HFModel) -> None:
    request = GenerationRequest.of("The dog", {"until": [], "max_gen_toks": 12})
    [(_, whole)] = llama.generate([request])
    middle = whole.text[len(whole.text) // 2]
    thinking = HFModel(str(tiny()), think_end_token=middle)
    [(_, rest)] = thinking.generate([request])
    assert rest.text == whole.text.rpartition(middle)[2].lstrip()
    assert thinking.identity != llama.identity


@pytest.mark.parity
@pytest.mark.parametrize("is_special", [True, False])
@pytest.mark.parametrize("until", [[], ["e"]])
def test_the_end_of_a_thought_may_be_the_number_of_a_token(
    is_special: bool, until: list[str], tiny: Callable[..., Path], tmp_path: Path, hflm: Any
) -> None:
    """The third token of a completion ends a thought, whether texts show that token or not."""
    folder = str(shutil.copytree(tiny(), tmp_path / "thinking"))
    llama = HFModel(folder)
    options = {"until": until, "max_gen_toks": 12}
    prompt = "The capital of France is"
    ids = torch.tensor([llama.tokenizer(prompt)["input_ids"]])
    tokens = llama.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=False)
    token = int(tokens[0, -1])
    if is_special:
        llama.tokenizer.add_special_tokens(
            {"additional_special_tokens": [llama.tokenizer.convert_ids_to_tokens(token)]}
        )
        llama.tokenizer.save_pretrained(folder)
    theirs = hflm(pretrained=folder, device="cpu", dtype="float32", batch_size=1, think_end_token=token)
    request = type("Instance", (), {"args": (prompt, options)})()
    [expected] = theirs.generate_until([request], disable_tqdm=True)
    for think_end_token in (token, str(token)):
        [(_, rest)] = HFModel(folder, think_end_token=think_end_token).generate([GenerationRequest.of(prompt, options)])
        assert rest.text == expected
    [(_, whole)] = HFModel(folder).generate([GenerationRequest.of(prompt, options)])
    assert whole.text.endswith(expected)
    assert whole.text != expected


def test_a_special_token_by_its_text_ends_a_thought_as_by_its_number(tiny: Callable[..., Path]) -> None:
    by_text, by_number = (HFModel(str(tiny()), think_end_token=token) for token in ("</s>", 1))
    assert by_text.think_end == by_number.think_end == 1
    assert by_text.identity == by_number.identity


def test_probabilities_are_taken_in_float32_in_half_precision(
    tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "multiform"):
        model = HFModel(str(tiny()), dtype="bfloat16", softmax_dtype="float32")
    assert "'softmax_dtype' changes nothing: probabilities are always taken in float32" in caplog.text
    tokens = model.tokenizer("The dog sat")["input_ids"]
    with torch.inference_mode():
        logits = model.model(torch.tensor([tokens])).logits[0, -2]
    assert logits.dtype == torch.bfloat16
    expected = logits.float().log_softmax(-1)[tokens[-1]]
    in_half_precision = logits.log_softmax(-1)[tokens[-1]]
    [(_, output)] = model.loglikelihood([LoglikelihoodRequest("The dog", " sat")])
    assert len(tokens) == len(model.tokenizer("The dog")["input_ids"]) + 1
    # The model itself rounds differently in passes of other sizes, but not by this much.
    assert abs(output.loglikelihood - float(expected)) < 0.1
    assert float(torch.tensor(output.loglikelihood).bfloat16()) != output.loglikelihood != float(in_half_precision)


@pytest.mark.parametrize("given", [{"logits_cache": True}, {"softmax_dtype": "float32"}, {"use_fast_tokenizer": True}])
def test_what_is_not_needed_is_noted(
    given: dict[str, Any], tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "multiform"):
        HFModel(str(tiny()), **given)
    assert f"the model argument '{next(iter(given))}' changes nothing" in caplog.text


@pytest.mark.parametrize(
    "given",
    [
        {"backend": "causal"},
        {"backend": "default"},
        {"load_in_8bit": False},
        {"autogptq": False},
        {"delta": None},
        {"data_parallel_size": 1},
    ],
)
def test_defaults_of_lm_eval_are_taken(given: dict[str, Any], tiny: Callable[..., Path], llama: HFModel) -> None:
    assert HFModel(str(tiny()), **given).identity == llama.identity


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": "seq2seq"}, "backend=seq2seq: 'llama' is not an encoder-decoder model; leave backend out"),
        ({"backend": "seq2sec"}, "unknown backend 'seq2sec'; did you mean 'seq2seq'"),
        ({"quantization_config": {"bits": 4}}, "'quantization_config' is not supported; give load_in_8bit or"),
        ({"autogptq": "weights.safetensors"}, "'autogptq' is not supported; name a folder whose config.json says"),
        ({"mixed_precision_dtype": "bfloat16"}, "is not supported; set dtype"),
        ({"tensor_parallel_size": 2}, "'tensor_parallel_size' is not supported; give parallelize=True"),
        ({"pipeline_parallel_size": "2"}, "'pipeline_parallel_size' is not supported; give parallelize=True"),
        ({"data_parallel_size": 4}, "'data_parallel_size' is not supported; add --executor ray --workers N"),
        ({"logit_cache": True}, "unknown model argument 'logit_cache'; did you mean 'logits_cache'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(given: dict[str, Any], message: str, tiny: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=message):
        HFModel(str(tiny()), **given)


def test_a_model_runs_on_the_cpu_where_there_is_no_gpu(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert HFModel(str(tiny()), device="cuda:0").model.device.type == "cpu"
    assert "there is no device 'cuda:0' on this machine" in caplog.text
