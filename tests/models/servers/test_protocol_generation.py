"""How a completion ended, in the words of four interfaces: kept in the samples and counted apart from wrong ones."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.models import models
from multiform.models.servers import client
from multiform.requests import Completion, FailedRequest, GenerationRequest
from multiform.results import to_json
from multiform.run.store import output_line, read_output

TEXT = "The best answer is B"


def openai_chat(reason: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"content": TEXT}, "finish_reason": reason}]}


def openai_completions(reason: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": TEXT, "finish_reason": reason}]}


def anthropic(reason: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": TEXT}], "stop_reason": reason}


def gemini(reason: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": reason}]}


OPENAI = {
    "stop": None,
    "length": "cut off",
    "content_filter": "filtered",
    "tool_calls": "other",
    "function_call": "other",
    None: "other",
    "something_new": "other",
    "model_length": "cut off",
    "error": "failed",
    "abort": "failed",
    "insufficient_system_resource": "failed",
    "eos_token": None,
    "refusal": "refused",
}
ANTHROPIC = {
    "end_turn": None,
    "stop_sequence": None,
    "max_tokens": "cut off",
    "model_context_window_exceeded": "cut off",
    "refusal": "refused",
    "tool_use": "other",
    "pause_turn": "other",
    None: "other",
    # of other servers that speak its protocol
    "content_filter": "filtered",
    "guardrail_intervened": "filtered",
    "length": "cut off",
    "error": "failed",
    "something_new": "other",
}
GEMINI = {
    "STOP": None,
    "MAX_TOKENS": "cut off",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "OTHER": "other",
    "FINISH_REASON_UNSPECIFIED": "other",
    "MALFORMED_FUNCTION_CALL": "other",
    None: "other",
}
INTERFACES = {
    "openai-chat": (openai_chat, OPENAI),
    "openai-completions": (openai_completions, OPENAI),
    "anthropic": (anthropic, ANTHROPIC),
    "gemini": (gemini, GEMINI),
}
KINDS = [(name, reason) for name, (_, endings) in INTERFACES.items() for reason in endings]


@pytest.mark.parametrize(("interface", "reason"), KINDS, ids=str)
def test_the_end_of_a_completion_is_known(interface: str, reason: str | None, server: Any) -> None:
    response, endings = INTERFACES[interface]
    server.respond = lambda path, payload: response("stop")  # to the probe that follows a failure
    server.fail(body=json.dumps(response(reason)).encode())
    model = models.get(interface).load()(model="tiny", base_url=server.base_url, max_retries=0)
    [(_, completion)] = model.generate([GenerationRequest.of("x", {})])
    if endings[reason] == "failed":
        assert completion == FailedRequest(reason=f"the generation ended with finish reason '{reason}'")
        return
    assert isinstance(completion, Completion)
    assert completion.text == TEXT
    assert completion.ending == endings[reason]
    assert completion.truncated == (endings[reason] == "cut off")
    usual = endings[reason] is None or reason in ("length", "max_tokens", "MAX_TOKENS")
    assert completion.finish_reason == (None if usual else reason or "null")
    # The store keeps it, and reads what it has written before.
    request = GenerationRequest.of("x", {})
    assert read_output(output_line(completion), request) == completion
    assert read_output(json.dumps([TEXT, completion.truncated]), request) == Completion(TEXT, completion.truncated)


def test_a_refusal_beside_the_text_is_one(server: Any) -> None:
    message = {"content": None, "refusal": "I cannot help with that."}
    server.fail(body=json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())
    model = models.get("openai-chat").load()(model="tiny", base_url=server.base_url)
    assert list(model.generate([GenerationRequest.of("x", {})])) == [(0, Completion("", finish_reason="refusal"))]


def test_a_stop_string_ends_a_completion_whatever_the_server_says(server: Any) -> None:
    server.fail(body=json.dumps(openai_chat("content_filter")).encode())
    model = models.get("openai-chat").load()(model="tiny", base_url=server.base_url)
    assert list(model.generate([GenerationRequest.of("x", {"until": [" is"]})])) == [(0, Completion("The best answer"))]


def test_an_interface_that_gives_no_reason_ends_by_itself(server: Any) -> None:
    server.fail(body=json.dumps({"choices": [{"message": {"content": "four"}}]}).encode())
    model = models.get("openai-chat").load()(model="tiny", base_url=server.base_url)
    assert list(model.generate([GenerationRequest.of("x", {})])) == [(0, Completion("four"))]


def run(server: Any, **options: Any) -> multiform.Results:
    model_args = {"model": "tiny", "base_url": server.base_url, "num_concurrent": 1}
    return multiform.evaluate(model="openai-chat", model_args=model_args, tasks=["quiz@generate"], limit=8, **options)


@pytest.fixture
def ended(server: Any) -> Any:
    """A server that ends the completions of four of eight documents in another way than the model would."""
    server.reply = lambda prompt: TEXT
    for reason in ("refusal", "content_filter", "length", None):
        server.fail(body=json.dumps(openai_chat(reason)).encode())
    return server


NOTE = (
    "quiz@generate: of the completions of 8 documents, 1 refused, 1 filtered, 1 cut off at a limit, 1 ended otherwise"
)


def test_unusual_ends_are_counted_in_the_results(ended: Any, tmp_path: Path) -> None:
    results = run(ended, output_path=tmp_path, log_samples=True, use_cache=tmp_path / "answers.db")
    assert NOTE in " ".join(results.table().split())
    counts = {"refused": 1, "filtered": 1, "cut off": 1, "other": 1}
    assert to_json(results)["forms"]["quiz@generate"]["endings"] == counts
    samples = results.samples("quiz@generate")
    assert [sample.get("finish_reasons") for sample in samples] == [
        ["refusal"],
        ["content_filter"],
        None,
        ["null"],
        *[None] * 4,
    ]
    assert samples[2]["completions_truncated"] == [True]
    # The same from the files, scored again, and from the store.
    again = [
        multiform.read_results(tmp_path),
        multiform.rescore(tmp_path),
        run(ended, use_cache=tmp_path / "answers.db"),
    ]
    assert len(ended.asked) == 8
    for other in again:
        assert other.forms[0].endings == counts
        assert other.samples("quiz@generate") == samples


def test_responses_that_were_stored_without_a_reason_are_still_used(server: Any, tmp_path: Path) -> None:
    store = tmp_path / "answers.db"
    server.reply = lambda prompt: TEXT
    run(server, use_cache=store)
    with closing(sqlite3.connect(store)) as database:
        lines = {line for (line,) in database.execute("SELECT output FROM answers")}
    assert lines == {json.dumps([TEXT, False])}  # as they have always been
    run(server, use_cache=store)
    assert len(server.asked) == 8


def test_completions_that_end_by_themselves_are_not_mentioned(server: Any) -> None:
    server.reply = lambda prompt: TEXT
    results = run(server)
    assert "of the completions" not in results.table()
    assert to_json(results)["forms"]["quiz@generate"]["endings"] == {}


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [("model_version", "model_version", ["tiny", "tiny-2"]), ("system_fingerprint", "system_fingerprint", ["a", "b"])],
)
def test_a_model_that_changes_during_a_run_is_noticed(
    server: Any, name: str, key: str, values: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def reply(prompt: str) -> str:
        setattr(server, name, values[len(server.asked) > 4])
        return TEXT

    setattr(server, name, values[0])
    server.reply = reply
    results = run(server)
    counts = to_json(results)["config"]["server_versions"][key]
    assert list(counts) == values
    assert counts[values[1]] == 4
    assert f"the server's {key} changed during the run: {values[0]} (" in " ".join(results.table().split())
    assert f"the server's {key} changed: '{values[0]}' and '{values[1]}'" in caplog.text


@pytest.mark.parametrize("interface", INTERFACES)
def test_each_interface_says_which_model_wrote_a_response(interface: str, server: Any) -> None:
    response, _ = INTERFACES[interface]
    key = "modelVersion" if interface == "gemini" else "model"
    for version in ("one", "one", "two"):
        server.fail(body=json.dumps({**response("stop"), key: version}).encode())
    arguments: dict[str, Any] = {"num_concurrent": 1, "fingerprint": False}
    model = models.get(interface)(model="tiny", base_url=server.base_url, **arguments)
    list(model.generate([GenerationRequest.of(f"x {n}", {}) for n in range(3)]))
    assert model.info()["server_versions"] == {"model_version": {"one": 2, "two": 1}}


def test_a_model_that_stays_the_same_is_not_mentioned(server: Any) -> None:
    server.system_fingerprint = "a"
    results = run(server)
    assert "server_versions" not in to_json(results)["config"]
    assert "changed during the run" not in results.table()


def test_a_generation_that_ends_in_an_error_is_requested_again(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0.001)
    server.reply = lambda prompt: TEXT
    server.fail(times=2, body=json.dumps(openai_chat("error")).encode())
    results = run(server)
    assert not results.forms[0].failed
    assert len(server.asked) == 10
