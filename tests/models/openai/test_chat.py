"""A chat model on a server: what is sent, what comes back, and what it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.openai import OpenAIChat
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.results import sample_lines, to_json


def model(server: Any, **arguments: Any) -> OpenAIChat:
    return OpenAIChat(model="tiny", base_url=server.base_url, **arguments)


def written(one: OpenAIChat, context: str, sample: int = 0, **gen_kwargs: Any) -> Completion:
    [(position, completion)] = one.generate([GenerationRequest.of(context, gen_kwargs, sample)])
    assert position == 0
    return completion


def test_it_is_registered() -> None:
    assert models.get("openai-chat").load() is models.get("local-chat-completions").load() is OpenAIChat


def test_a_plain_prompt_is_what_the_user_says(server: Any) -> None:
    assert written(model(server), "2 + 2?", max_gen_toks=8) == Completion("You said: 2 + 2?")
    [asked] = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.payload == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "2 + 2?"}],
        "max_tokens": 8,
        "temperature": 0.0,
        "seed": 1234,
    }


def test_a_chat_reaches_the_server_as_messages(server: Any) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2?\n"},
        {"role": "assistant", "content": "The answer is"},
    ]
    one = model(server)
    context = one.apply_chat_template(chat, add_generation_prompt=False)
    assert isinstance(context, str)
    assert hash(GenerationRequest.of(context, {})) == hash(GenerationRequest.of(str(context), {}))
    written(one, context)
    assert server.asked[0].payload["messages"] == chat


def test_generation_arguments(server: Any) -> None:
    written(
        model(server),
        "x",
        sample=2,
        until=["a", "b", "c", "d", "e"],
        max_new_tokens=7,
        do_sample=True,
        temperature=0.5,
        top_p=0.9,
        frequency_penalty=0.1,
    )
    payload = server.asked[0].payload
    assert payload["stop"] == ["a", "b", "c", "d"]  # servers take no more
    assert payload["seed"] == 1236  # another one for each repeat
    sent = {name: payload[name] for name in ("max_tokens", "temperature", "top_p", "frequency_penalty")}
    assert sent == {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "frequency_penalty": 0.1}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, 0.0),
        ({"temperature": 0.7}, 0.7),
        ({"do_sample": False, "temperature": 0.7}, 0.0),
        ({"do_sample": True}, 1.0),
    ],
)
def test_temperature(server: Any, given: dict[str, Any], sent: float) -> None:
    written(model(server), "x", **given)
    assert server.asked[0].payload["temperature"] == sent


def test_no_seed(server: Any) -> None:
    written(model(server, seed=None), "x")
    assert "seed" not in server.asked[0].payload


def test_a_text_is_cut_at_every_stop_string(server: Any) -> None:
    server.reply = lambda prompt: "one two three"
    assert written(model(server), "x", until=["a", "b", "c", "d", " three"], max_gen_toks=50).text == "one two"


def test_a_text_that_ran_into_the_limit_says_so(server: Any) -> None:
    server.reply = lambda prompt: "one two three four"
    assert written(model(server), "x", max_gen_toks=2) == Completion("one two", truncated=True)
    assert written(model(server), "x", max_gen_toks=2, until=["two"]) == Completion("one ")


@pytest.mark.parametrize("content", [None, {"parts": []}])
def test_an_answer_without_text_is_empty(server: Any, content: Any) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "length"}
    server.fail(body=json.dumps({"choices": [choice]}).encode())
    assert written(model(server), "x") == Completion("", truncated=True)


@pytest.mark.parametrize("body", [{"choices": []}, {"ok": True}, [], {"choices": [{"text": "no chat"}]}])
def test_an_answer_of_another_kind_is_an_error(server: Any, body: Any) -> None:
    server.fail(body=json.dumps(body).encode())
    with pytest.raises(ModelError, match=r"the answer has no (choices|message)"):
        written(model(server), "x")


def test_log_likelihoods_are_refused(server: Any) -> None:
    one = model(server)
    with pytest.raises(ModelError, match=r"openai-chat: a chat server gives no log-likelihoods.*@generate"):
        one.loglikelihood([LoglikelihoodRequest("a", "b")])
    with pytest.raises(ModelError, match="no log-likelihoods"):
        one.loglikelihood_rolling([RollingRequest("a")])
    assert not server.asked


def test_identity_is_the_server_the_model_and_what_changes_answers(server: Any) -> None:
    one = model(server)
    assert one.identity == f"openai-chat {server.base_url}/chat/completions tiny seed=1234"
    assert model(server, num_concurrent=9, timeout=5, max_retries=0).identity == one.identity
    assert model(server, seed=1).identity != one.identity
    assert OpenAIChat(model="other", base_url=server.base_url).identity != one.identity


@pytest.mark.parametrize("ending", ["", "/", "/chat/completions", "/completions"])
def test_the_base_url_may_be_the_endpoint(server: Any, ending: str) -> None:
    assert OpenAIChat(model="tiny", base_url=server.base_url + ending).identity == model(server).identity


def test_the_base_url_may_come_from_the_environment(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert OpenAIChat(model="tiny").identity == model(server).identity


def test_the_key_may_have_another_place(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    written(model(server, api_key_env="OTHER_KEY"), "x")
    written(model(server, api_key="sk-given"), "x")
    assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer sk-other", "Bearer sk-given"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": "localhost:8000"}, "no http or https URL"),
        ({"base_url": "http://"}, "no http or https URL"),
        ({"model": ""}, "needs the argument 'model'"),
        ({"num_concurrent": 0}, "num_concurrent is 0; give a number of 1 or more"),
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"modle": "x"}, "unknown model argument 'modle'; did you mean 'model'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OpenAIChat(**{"model": "tiny", "base_url": "http://localhost/v1", **arguments})


def test_a_whole_run_in_a_chat(server: Any) -> None:
    server.reply = lambda prompt: "The best answer is B"
    results = multiform.evaluate(
        model="openai-chat",
        model_args={"model": "tiny", "base_url": server.base_url, "api_key": "sk-given", "num_concurrent": 4},
        tasks=["quiz@generate"],
        num_fewshot=1,
        limit=6,
        apply_chat_template=True,
    )
    assert 0 <= results["quiz@generate"]["exact_match,none"] <= 1
    assert results["quiz@generate"]["invalid,none"] == 0
    roles = [message["role"] for message in server.asked[0].payload["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"]
    text = json.dumps([to_json(results), *sample_lines(results.forms[0])], default=str)
    assert "sk-given" not in text
    assert "sk-very-secret" not in text
    assert to_json(results)["config"]["model_args"]["api_key"] == "***"


@pytest.mark.parametrize("name", ["openai-chat", "local-chat-completions", "openai-chat-completions"])
def test_a_form_that_scores_likelihoods_is_refused_before_anything_is_loaded(name: str, tmp_path: Path) -> None:
    task = {"task": "t", "dataset_path": str(tmp_path / "missing.jsonl"), "test_split": "test"}
    choices = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer", "formats": "mcqa"}
    with pytest.raises(UsageError, match="gives no log-likelihoods, which 't' scores") as refused:
        multiform.evaluate(model=name, tasks=[multiform.TaskConfig.from_dict({**task, **choices})])
    assert "@generate" in str(refused.value)


def test_a_chat_model_as_an_object_is_refused_as_well(server: Any) -> None:
    model = OpenAIChat(model="tiny", base_url=server.base_url)
    with pytest.raises(UsageError, match="the model 'tiny' gives no log-likelihoods"):
        multiform.evaluate(model=model, tasks=["quiz@mcqa"], limit=2)
