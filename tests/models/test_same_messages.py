"""One form gives the same messages to four kinds of models: hf, vLLM, an OpenAI-compatible server and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from multiform import evaluate
from tests.models.fake_server import fake_server
from tests.models.servers.test_anthropic import FakeAnthropic
from tests.models.vllm import fake_vllm

#: Writes messages so that they can be read back.
TEMPLATE = "{% for m in messages %}{{ {'role': m.role, 'content': m.content}|tojson }}\n{% endfor %}"
FORMS = ["mcq_cot", "generate", "open", "cot"]


@pytest.fixture
def folder(tiny: Callable[..., Path], tmp_path: Path) -> str:
    """A tiny model whose chat template writes the messages as they are."""
    tokenizer = AutoTokenizer.from_pretrained(tiny("llama"))
    tokenizer.chat_template = TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(tiny("llama"))
    model.config.max_position_embeddings = 8192
    model.save_pretrained(tmp_path / "chat")
    tokenizer.save_pretrained(tmp_path / "chat")
    return str(tmp_path / "chat")


def run(model: str, arguments: dict[str, Any], form: str, **options: Any) -> Any:
    return evaluate(
        model=model,
        model_args=arguments,
        tasks=f"quiz@{form}",
        limit=1,
        num_fewshot=2,
        apply_chat_template=True,
        system_instruction="Be brief.",
        gen_kwargs={"max_gen_toks": 2},
        use_cache=False,
        **options,
    )


def rendered_messages(results: Any) -> list[dict[str, str]]:
    """The messages in a prompt; the text of one that is to be continued ends the prompt."""
    context = results.forms[0].samples[0].instances[0].request.context
    *lines, last = context.split("\n")
    messages = [json.loads(line) for line in lines]
    return [*messages, json.loads(last + '"}')] if last else messages


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("multiturn", [True, False])
def test_four_kinds_of_models_get_the_same_messages(
    form: str, multiturn: bool, folder: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"fewshot_as_multiturn": multiturn}
    expected = rendered_messages(run("hf", {"pretrained": folder}, form, **options))
    assert [message["role"] for message in expected[:2]] == ["system", "user"]
    assert (expected[-1]["role"] == "assistant") == (form == "generate")
    with fake_vllm.installed(monkeypatch):
        assert rendered_messages(run("vllm", {"pretrained": folder}, form, **options)) == expected
    server.continues = True
    run("openai-chat", {"model": "tiny", "base_url": server.base_url}, form, **options)
    assert server.asked[0].payload["messages"] == expected
    assert server.asked[0].payload.get("continue_final_message", False) == (form == "generate")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    with fake_server(state=FakeAnthropic()) as other:
        run("anthropic", {"model": "claude-tiny", "base_url": other.base_url}, form, **options)
        payload = other.asked[0].payload
    assert [{"role": "system", "content": payload["system"]}, *payload["messages"]] == expected


def test_where_a_server_cannot_continue_the_begun_answer_is_the_end_of_what_the_user_says(
    folder: str, server: Any
) -> None:
    *before, prefill = rendered_messages(run("hf", {"pretrained": folder}, "generate"))
    results = run("openai-chat", {"model": "tiny", "base_url": server.base_url}, "generate")
    *others, last = server.asked[0].payload["messages"]
    assert others == before[:-1]
    assert last == {"role": "user", "content": f"{before[-1]['content']}\n{prefill['content']}"}
    assert results.run["server_prefill"] == "the last line of the user's message"
