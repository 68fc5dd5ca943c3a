"""WeightOptions, naming and describing a model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.hf.model import HFModel
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest

CHAT = (
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.fixture
def copy(tiny: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny(), tmp_path / "copy"))


def test_the_registry_finds_the_model() -> None:
    assert models.get("hf").load() is HFModel


def test_an_unknown_argument_is_an_error_with_the_nearest_name(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="unknown model argument 'batchsize'; did you mean 'batch_size'"):
        HFModel(str(tiny()), batchsize=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float33"}, "unknown dtype 'float33'; did you mean 'float32'"),
        ({"device": "gpu"}, "device 'gpu' cannot be used"),
        ({"batch_size": 0}, "batch_size must be a positive number or 'auto', not '0'"),
        ({"batch_size": "many"}, "batch_size must be"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(
    options: dict[str, Any], message: str, tiny: Callable[..., Path]
) -> None:
    with pytest.raises(UsageError, match=message):
        HFModel(str(tiny()), **options)


@pytest.mark.parametrize("path", ["/no/such/folder", "./nowhere", "a/b/c"])
def test_a_folder_that_is_not_there_is_an_error(path: str) -> None:
    with pytest.raises(ModelError, match=f"folder '{path}' does not exist; give a folder with config.json"):
        HFModel(path)


def test_no_model_named_is_an_error_that_says_how() -> None:
    with pytest.raises(UsageError, match="needs the argument 'pretrained'; give a folder or a hub name"):
        HFModel()


def test_a_folder_without_a_model_is_an_error_that_says_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the folder has no config.json; tried folder .* with transformers"):
        HFModel(str(tmp_path))


def test_a_name_that_the_hub_does_not_give_is_an_error_that_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"cannot load the model: .*; tried hub name 'no-one/nothing' at 'main'"):
        HFModel("no-one/nothing")


def test_a_torn_weight_file_is_an_error(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot load the model"):
        HFModel(str(copy))


def test_missing_weights_are_an_error_and_not_random_numbers(copy: Path) -> None:
    weights = safetensors.torch.load_file(copy / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    safetensors.torch.save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 of the model's weights, for example 'model\.layers\.0\.mlp"):
        HFModel(str(copy))


def test_an_unknown_architecture_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "from-the-future"}))
    with pytest.raises(ModelError, match="from-the-future"):
        HFModel(str(tmp_path))


def test_a_local_folder_needs_no_network(tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    HFModel(str(tiny()))


def test_a_cpu_runs_in_float32_unless_told_otherwise(tiny: Callable[..., Path]) -> None:
    assert HFModel(str(tiny())).model.dtype == torch.float32
    assert HFModel(str(tiny()), dtype="bfloat16").model.dtype == torch.bfloat16


def test_the_identity_stays_when_the_folder_moves(tiny: Callable[..., Path], tmp_path: Path) -> None:
    moved = shutil.copytree(tiny(), tmp_path / tiny().name)
    assert HFModel(str(moved)).identity == HFModel(str(tiny())).identity


@pytest.mark.parametrize(
    "options", [{"dtype": "bfloat16"}, {"max_length": 50}, {"add_bos_token": True}, {"prefix_token_id": 5}]
)
def test_the_identity_changes_with_settings_that_change_responses(
    options: dict[str, Any], llama: HFModel, tiny: Callable[..., Path]
) -> None:
    assert HFModel(str(tiny()), **options).identity != llama.identity


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"device": "cpu"}, {"max_length": 96}])
def test_the_identity_stays_with_settings_that_do_not(
    options: dict[str, Any], llama: HFModel, tiny: Callable[..., Path]
) -> None:
    assert HFModel(str(tiny()), **options).identity == llama.identity


def test_the_identity_changes_with_weights_of_equal_size(copy: Path) -> None:
    before = HFModel(str(copy)).identity
    weights = safetensors.torch.load_file(copy / "model.safetensors")
    changed = {name: tensor + 0.01 for name, tensor in weights.items()}
    safetensors.torch.save_file(changed, copy / "model.safetensors", metadata={"format": "pt"})
    assert HFModel(str(copy)).identity != before


def test_the_description_has_the_names_of_lm_eval(llama: HFModel) -> None:
    info = llama.info()
    assert info.pop("model_num_parameters") == sum(p.numel() for p in llama.model.parameters())
    assert len(info.pop("model_sha")) == 16
    assert info.pop("generation_config") == {"eos_token_id": 1}
    assert info == {"model_dtype": "torch.float32", "model_revision": "main"}
    assert llama.tokenizer_info() == {
        "tokenizer_pad_token": ["<unk>", "2"],
        "tokenizer_eos_token": ["</s>", "1"],
        "tokenizer_bos_token": [None, "None"],
        "eot_token_id": 1,
        "max_length": 96,
    }
    json.dumps(llama.tokenizer_info())


def test_a_model_without_a_chat_template_says_so(llama: HFModel) -> None:
    with pytest.raises(ModelError, match="has no chat template; run without --apply_chat_template"):
        llama.apply_chat_template([{"role": "user", "content": "hi"}])


def test_a_chat_ends_open_for_a_response_or_within_the_last_message(copy: Path) -> None:
    model = chatting(copy)
    messages = [{"role": "user", "content": "hi"}]
    assert model.apply_chat_template(messages) == "[user] hi\n[assistant] "
    begun = [*messages, {"role": "assistant", "content": "The"}]
    assert model.apply_chat_template(begun, add_generation_prompt=False) == "[user] hi\n[assistant] The"


def test_a_template_without_system_role_leaves_the_system_message_out(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"role": "system", "content": "be good"}, {"role": "user", "content": "hi"}]
    assert chatting(copy).apply_chat_template(messages) == "[user] hi\n[assistant] "
    assert "left out the system message" in caplog.text


def test_the_name_of_the_chat_template_is_that_of_lm_eval(llama: HFModel) -> None:
    assert llama.chat_template_name() == llama.tokenizer.name_or_path.replace("/", "__")


def chatting(folder: Path) -> HFModel:
    (folder / "chat_template.jinja").write_text(CHAT)
    return HFModel(str(folder))


def test_a_tokenizer_without_first_and_last_token_scores_what_has_a_context(
    tiny: Callable[..., Path], llama: HFModel, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny(), tmp_path / "model")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    assert config.pop("eos_token")
    path.write_text(json.dumps(config))
    model = HFModel(str(folder))
    assert (model.tokenizer.bos_token_id, model.tokenizer.eos_token_id) == (None, None)
    request = LoglikelihoodRequest("The dog", " sat on the mat")
    assert list(model.loglikelihood([request])) == list(llama.loglikelihood([request]))
    for run in (
        lambda: model.loglikelihood([LoglikelihoodRequest("", "The dog")]),
        lambda: model.loglikelihood_rolling([RollingRequest("The dog")]),
        lambda: model.generate([GenerationRequest.of("", {"max_gen_toks": 2})]),
    ):
        with pytest.raises(ModelError, match=r"a text has no context.*name one with prefix_token_id"):
            list(run())
    named = HFModel(str(folder), prefix_token_id=1)
    alone = LoglikelihoodRequest("", "The dog")
    assert list(named.loglikelihood([alone])) == list(llama.loglikelihood([alone]))


@pytest.mark.parametrize(("dtype", "is_said"), [("auto", True), ("float32", False), ("bfloat16", False)])
def test_the_log_says_that_a_checkpoint_in_half_precision_runs_in_float32(
    dtype: str, is_said: bool, tiny: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    HFModel(str(tiny()), dtype="bfloat16").model.save_pretrained(tmp_path)
    for path in tiny().glob("tokenizer*"):
        shutil.copy(path, tmp_path)
    with caplog.at_level("INFO", logger="multiform"):
        HFModel(str(tmp_path), dtype=dtype, device="cpu")
    assert ("the checkpoint is in bfloat16 and runs in float32" in caplog.text) is is_said
