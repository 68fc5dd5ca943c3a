"""A completions model on a server: log-likelihoods by token ids and by text, windows, generation."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.errors import ModelError, UsageError
from multiform.models import models
from multiform.models.servers.openai_completions import OpenAICompletions
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    RollingRequest,
)
from tests.models.fake_server import Fault
from tests.models.servers.conftest import PAIRS, model, scored


def rolling(one: OpenAICompletions, *texts: str) -> list[Any]:
    outputs = dict(one.loglikelihood_rolling([RollingRequest(text) for text in texts]))
    return [outputs[position] for position in range(len(texts))]


def test_arguments_have_the_names_of_lm_eval(server: Any) -> None:
    given: dict[str, Any] = {
        "num_concurrent": 2,
        "max_retries": 3,
        "tokenized_requests": False,
        "batch_size": 16,
        "device": "cpu",
    }
    more: dict[str, Any] = {
        "header": {"x-a": "1"},
        "auth_token": "secret",
        "custom_prefix_token_id": 5,
        "tokenizer_backend": "none",
    }
    one = OpenAICompletions(pretrained="tiny", base_url=server.base_url, tokenizer="nope", **given, **more)
    assert (one.name, one.tokenizer_name, one.prefix_token_id) == ("tiny", None, 5)
    list(one.generate([GenerationRequest.of("x", {})]))
    sent = server.asked[0].headers
    assert (sent["Authorization"], sent["x-a"]) == ("Bearer secret", "1")
    with pytest.raises(UsageError, match="'verify_certificate' is not supported; set SSL_CERT_FILE"):
        model(server, verify_certificate=False)


def test_another_tokenizer_in_the_same_folder_is_another_model(server: Any, tokenizer: Path, tmp_path: Path) -> None:
    """Log-likelihoods are those of the tokens that were sent: with other ones, stored responses do not count."""
    folder = shutil.copytree(tokenizer, tmp_path / "tokenizer")
    first = model(server, tokenizer=str(folder)).identity
    assert model(server, tokenizer=str(folder)).identity == first
    settings = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**settings, "added_tokens": settings["added_tokens"][:1]}))
    assert model(server, tokenizer=str(folder)).identity != first


def test_it_is_registered() -> None:
    assert models.get("openai-completions").load() is models.get("local-completions").load() is OpenAICompletions


class TestByTokenIds:
    def test_the_continuation_is_scored_after_its_context(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer))
        [output] = scored(one, [PAIRS[0]])
        context, whole = (one.encoder.tokenizer(text).input_ids for text in ("The dog", "The dog and the cat"))
        [asked] = server.asked
        assert asked.path == "/v1/completions"
        assert asked.payload["prompt"] == whole
        assert {k: asked.payload[k] for k in ("echo", "logprobs", "max_tokens", "temperature")} == {
            "echo": True,
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": 0,
        }
        expected = server.likelihood([f"t{token}" for token in whole], len(context))
        assert output.loglikelihood == pytest.approx(expected[0])
        assert output.is_greedy == expected[1]
        assert output.tokens == len(whole) - len(context)

    @pytest.mark.parametrize(("lists", "forces"), [(True, False), (False, True), (True, True)])
    def test_a_server_of_vllm_scores_by_the_tokens_that_it_generates(
        self, lists: bool, forces: bool, server: Any, tokenizer: Path
    ) -> None:
        question = "Question: is 12 + 30 = 42?\nAnswer:"
        pairs = [*PAIRS, (question, "\n"), (question, "."), (question, "d"), (question, " and the cat")]
        expected = scored(model(server, tokenizer=str(tokenizer)), pairs)
        server.asked.clear()
        server.lists, server.forces = lists, forces
        one = model(server, tokenizer=str(tokenizer), num_concurrent=1)
        outputs = scored(one, pairs)
        sums = [output.loglikelihood for output in expected]
        assert [output.loglikelihood for output in outputs] == pytest.approx(sums)
        assert [output.tokens for output in outputs] == [output.tokens for output in expected]
        asked = [asked.payload for asked in server.asked]
        labels = [payload for payload in asked if "logprob_token_ids" in payload]
        forced = [payload for payload in asked if "vllm_xargs" in payload]
        # Those of one prompt are asked together.
        assert max((len(payload["logprob_token_ids"]) for payload in labels), default=0) == (4 if lists else 0)
        assert bool(forced) == forces
        # A text that is longer than its context is echoed in any case.
        assert any(payload["echo"] for payload in asked)
        assert [payload["prompt"] for payload in asked] == sorted(payload["prompt"] for payload in asked)
        assert one.info()["server_scoring"]["others"] == ("forced tokens" if forces else "echoed prompts")

    def test_tokens_that_a_server_did_not_generate_are_asked_for_again(self, server: Any, tokenizer: Path) -> None:
        server.lists = server.forces = True
        one = model(server, tokenizer=str(tokenizer), max_retries=1)
        assert one.abilities.forced
        server.forces = False
        [output] = scored(one, [("Question: is 12 + 30 = 42?\nAnswer:", " and the cat")])
        assert isinstance(output, FailedRequest)
        assert "did not generate the tokens" in output.reason

    def test_an_empty_context_is_the_first_token(self, server: Any, tokenizer: Path) -> None:
        scored(model(server, tokenizer=str(tokenizer)), [("", "The dog")])
        assert server.asked[0].payload["prompt"][0] == 0

    def test_another_first_token(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer), prefix_token_id=1)
        scored(one, [("", "The dog")])
        assert server.asked[0].payload["prompt"][0] == 1
        assert "prefix_token_id=1" in one.identity

    def test_what_is_too_long_loses_its_beginning(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer), max_length=6)
        scored(one, [("The dog and the cat and the dog", " sat")])
        whole = one.encoder.tokenizer("The dog and the cat and the dog sat").input_ids
        assert server.asked[0].payload["prompt"] == whole[-5:]

    def test_a_continuation_that_is_too_long_is_an_error(self, server: Any, tokenizer: Path) -> None:
        with pytest.raises(ModelError, match="the continuation has"):
            scored(model(server, tokenizer=str(tokenizer), max_length=3), [("The", " dog and the cat")])

    def test_an_empty_continuation_is_certain(self, server: Any, tokenizer: Path) -> None:
        assert scored(model(server, tokenizer=str(tokenizer)), [("The dog", "")]) == [LLOutput(0.0, True, 0)]
        assert not server.asked

    def test_what_is_truncated_says_so(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer), max_length=7)
        pairs = [("The dog and the cat and the dog", " sat"), ("The dog", " sat")]
        assert [output.context_truncated for output in scored(one, pairs)] == [True, False]
        requests = [GenerationRequest.of(context, {"max_gen_toks": 2}) for context, _ in pairs]
        written: dict[int, Any] = dict(one.generate(requests))
        assert [written[position].context_truncated for position in (0, 1)] == [True, False]

    def test_rolling_windows_score_every_token_once(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer), max_length=8, num_concurrent=3)
        text = "The dog and the cat sat on the mat. " * 3
        outputs = rolling(one, text, "", "dog")
        ids = one.encoder.tokenizer(text).input_ids
        assert outputs[0].tokens == len(ids)
        assert outputs[1] == LLOutput(0.0, tokens=0)
        expected = server.likelihood([f"t{token}" for token in [0, *ids]], 1)[0]
        # The first token of a window has the one before it as context, so the sum is that of one long text.
        assert outputs[0].loglikelihood == pytest.approx(expected)
        assert max(len(asked.payload["prompt"]) for asked in server.asked) <= 7

    def test_a_prompt_is_sent_as_ids_and_cut(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer), max_length=8)
        list(one.generate([GenerationRequest.of("The dog and the cat sat", {"max_gen_toks": 4})]))
        assert server.asked[0].payload["prompt"] == one.encoder.tokenizer("The dog and the cat sat").input_ids[-3:]

    def test_no_room_for_the_text(self, server: Any, tokenizer: Path) -> None:
        with pytest.raises(UsageError, match="max_gen_toks is 7 and max_length 8"):
            model(server, tokenizer=str(tokenizer), max_length=8).generate(
                [GenerationRequest.of("x", {"max_tokens": 7})]
            )

    def test_the_chat_template_of_the_tokenizer(self, server: Any, tokenizer: Path) -> None:
        one = model(server, tokenizer=str(tokenizer))
        assert one.apply_chat_template([{"role": "user", "content": "Hi"}]) == "<user>Hi<bot>"

    def test_a_tokenizer_that_is_not_there(self, server: Any, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="cannot load the tokenizer"):
            scored(model(server, tokenizer=str(tmp_path)), PAIRS)


class TestByText:
    @pytest.mark.parametrize("omitted", [(), ("text_offset",)], ids=["offsets", "no offsets"])
    @pytest.mark.parametrize("first", [None, "<s>", ""], ids=["no first token", "<s>", "empty first token"])
    def test_the_servers_tokens_say_where_a_continuation_begins(
        self, server: Any, omitted: tuple[str, ...], first: str | None
    ) -> None:
        server.omitted, server.first_token = omitted, first
        pairs = PAIRS if first is not None else PAIRS[:-1]
        for (context, text), output in zip(pairs, scored(model(server), pairs), strict=True):
            added = [] if first is None else [first]
            before, after = (re.findall(r"\s*\S+", part) for part in (context, text))
            tokens = [*added, *re.findall(r"\s*\S+", context + text)]
            expected = server.likelihood(tokens, len(added) + len(before))
            assert output.tokens == len(after)
            assert output.loglikelihood == pytest.approx(expected[0])

            assert output.is_greedy == expected[1]

    def test_a_token_that_spans_the_boundary_is_scored(self, server: Any) -> None:
        [output] = scored(model(server), [("The do", "g sat")])
        assert output.loglikelihood == pytest.approx(server.likelihood(["The", " dog", " sat"], 1)[0])
        assert output.tokens == 2

    def test_without_a_first_token_an_empty_context_cannot_be_scored(self, server: Any) -> None:
        [failed, output] = scored(model(server), [("", "The dog"), ("The", " dog")])
        assert re.search(r"no probability for the first token.*name the model's tokenizer", failed.reason)
        assert failed.retried == 0
        assert output.tokens == 1

    def test_tokens_that_do_not_spell_the_prompt(self, server: Any) -> None:
        logprobs = {"tokens": ["▁The", "▁dog", "▁sat"], "token_logprobs": [None, -1.0, -2.0]}
        server.fail(body=json.dumps({"choices": [{"text": "", "logprobs": logprobs}]}).encode())
        [failed] = scored(model(server), [("The dog", " sat")])
        assert re.search("do not spell the prompt.*▁dog.*; name the model's tokenizer", failed.reason)

    def test_a_response_without_tokens(self, server: Any) -> None:
        server.omitted = ("tokens",)
        with pytest.raises(ModelError, match=r"its echo of 'one two three four' cannot be used: .* has no tokens"):
            scored(model(server, max_retries=0), PAIRS[:1])

    @pytest.mark.parametrize(
        "change",
        [
            {"token_logprobs": None},
            {"token_logprobs": [None, -1.0]},
            {"token_logprobs": ["-1.0"] * 6},
            {"token_logprobs": [None, -1.0, -1.0, float("nan"), -1.0, -1.0]},
            {"token_logprobs": [None, -1.0, -1.0, -1.0, float("inf"), -1.0]},
            {"token_logprobs": [None, -1.0, None, None, None, -1.0]},
            {"tokens": ["The", " dog"]},
            {"tokens": [1, 2, 3]},
        ],
        ids=str,
    )
    def test_log_probabilities_that_are_none_are_asked_for_again(self, server: Any, change: dict[str, Any]) -> None:
        [expected] = scored(model(server), PAIRS[:1])
        logprobs = {"tokens": ["The", " dog", " and", " the", " cat", " x"], "token_logprobs": [None, *[-1.0] * 5]}
        server.fail(body=json.dumps({"choices": [{"text": "", "logprobs": {**logprobs, **change}}]}).encode())
        assert scored(model(server), PAIRS[:1]) == [expected]

    def test_without_likeliest_tokens_nothing_is_greedy(self, server: Any) -> None:
        server.omitted = ("top_logprobs",)
        assert not any(output.is_greedy for output in scored(model(server), PAIRS[:-1]))

    def test_a_whole_text(self, server: Any) -> None:
        server.first_token = "<s>"
        [output] = rolling(model(server), "The dog sat")
        assert output.loglikelihood == pytest.approx(server.likelihood(["<s>", "The", " dog", " sat"], 1)[0])
        assert not output.is_greedy or output.tokens == 3

    def test_generation(self, server: Any) -> None:
        server.reply = lambda prompt: f"{prompt} is four. And more"
        request = GenerationRequest.of("2 + 2", {"until": ["."], "max_gen_toks": 50})
        assert list(model(server).generate([request])) == [(0, Completion("2 + 2 is four"))]
        assert server.asked[0].payload["prompt"] == "2 + 2"

    def test_max_length_needs_a_tokenizer(self, server: Any) -> None:
        with pytest.raises(UsageError, match="max_length needs a tokenizer"):
            model(server, max_length=100)

    def test_there_is_no_chat_template(self, server: Any) -> None:
        with pytest.raises(ModelError, match="no chat template"):
            model(server).apply_chat_template([{"role": "user", "content": "Hi"}])


class TestWithoutEcho:
    """A server that does not echo prompts scores labels by the first token that it writes, and nothing else."""

    def run(self, server: Any, task: Any) -> multiform.Results:
        model_args = {"model": "tiny", "base_url": server.base_url}
        return multiform.evaluate(model="openai-completions", model_args=model_args, tasks=[task], limit=5)

    def test_labels(self, server: Any, caplog: pytest.LogCaptureFixture) -> None:
        server.echoes = False
        results = self.run(server, "quiz@mcqa")
        assert 0 <= results["quiz@mcqa"]["acc,none"] <= 1
        assert [asked.payload["logprobs"] for asked in server.asked] == [20] * 5
        assert "labels are scored by the first token" in caplog.text

    def test_texts_are_refused_before_they_are_asked(self, server: Any) -> None:
        server.echoes = False
        with pytest.raises(UsageError, match=r"scores labels of one token alone, and not what 'quiz@cloze'.*@mcqa"):
            self.run(server, "quiz@cloze")
        assert not server.asked

    def test_without_any_log_probabilities_all_is_refused(self, server: Any) -> None:
        server.echoes, server.alternatives = False, 0
        with pytest.raises(UsageError, match=r"gives no log-likelihoods, which 'quiz@mcqa' scores.*@generate"):
            self.run(server, "quiz@mcqa")
        self.run(server, "quiz@generate")

    def test_a_server_that_ignores_echo_is_probed_once_for_it(self, server: Any) -> None:
        """llama.cpp's server lists the tokens that it generates, in the layout of a chat."""
        server.echoes, server.chat_layout = False, True
        assert model(server).scoring == "first_token"
        assert [probe.payload.get("echo", False) for probe in server.probes] == [True, False]

    def test_an_echo_that_fails_once_is_an_echo(self, server: Any) -> None:
        server.probe_faults.append(Fault(body=b'{"choices": [{"index": 0, "text": "", "logprobs": null}]}'))
        assert model(server).scoring == "echo"


def test_likelihoods_have_the_time_of_their_request(server: Any, tokenizer: Path) -> None:
    outputs = scored(model(server, tokenizer=str(tokenizer)), PAIRS)
    assert all(0 <= output.seconds < 60 for output in outputs)


def test_a_whole_run_of_likelihoods(server: Any) -> None:
    results = multiform.evaluate(
        model="openai-completions",
        model_args={"model": "tiny", "base_url": server.base_url, "num_concurrent": 4},
        tasks=["quiz@mcqa", "quiz@cloze"],
        limit=5,
    )
    assert 0 <= results["quiz@mcqa"]["acc,none"] <= 1
    assert 0 <= results["quiz@cloze"]["acc,none"] <= 1


@pytest.mark.parity
def test_likelihoods_of_lm_eval(server: Any, tokenizer: Path) -> None:
    """lm-eval's client and ours, asked the same of the same server, say the same."""
    pytest.importorskip("lm_eval")
    pytest.importorskip("tenacity", reason="lm-eval's client needs the 'api' extra of lm-eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    theirs = LocalCompletionsAPI(
        model="tiny",
        base_url=f"{server.base_url}/completions",
        tokenizer_backend="huggingface",
        tokenizer=str(tokenizer),
        max_length=12,
    )
    ours = model(server, tokenizer=str(tokenizer), max_length=12)
    requests = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(PAIRS)]
    expected = theirs.loglikelihood(requests, disable_tqdm=True)
    for output, (likelihood, greedy) in zip(scored(ours, PAIRS), expected, strict=True):
        assert math.isclose(output.loglikelihood, likelihood)
        assert output.is_greedy == greedy
    text = "The dog and the cat sat on the mat. " * 4
    [total] = theirs.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (text,), 0)], disable_tqdm=True)
    [whole] = rolling(ours, text)
    assert math.isclose(whole.loglikelihood, total)
