"""Echoed prompts with wrong numbers: each is corrected to the exact score, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import multiform
from multiform.errors import ModelError
from multiform.models.servers import openai_completions
from multiform.models.servers.exchange import RefusedError
from multiform.models.servers.openai_logprobs import Convention, score_text
from multiform.requests import FailedRequest, GenerationRequest, LLOutput
from tests.models.fake_server import Fault, logprob
from tests.models.servers.conftest import model, scored

PAIRS = [
    ("The dog and the cat sat", " on the mat"),
    ("Question: is 12 + 30 = 42?\nAnswer:", " yes"),
    ("Question: is 12 + 30 = 42?\nAnswer:", " no, never"),
]
#: The lists of an echo, of which each entry belongs to one token.
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def change(key: str, new: Callable[[list[Any]], list[Any]]) -> Callable[[dict[str, Any]], None]:
    """What replaces one list of an echo."""

    def distort(logprobs: dict[str, Any]) -> None:
        logprobs[key] = new(logprobs[key])

    return distort


def numbers(new: Callable[[float], float]) -> Callable[[dict[str, Any]], None]:
    """What replaces every log-probability."""
    return change("token_logprobs", lambda values: [value if value is None else new(value) for value in values])


def every_list(new: Callable[[list[Any]], list[Any]]) -> Callable[[dict[str, Any]], None]:
    def distort(logprobs: dict[str, Any]) -> None:
        for key in LISTS:
            logprobs[key] = new(logprobs[key])

    return distort


def add_first(*keys: str, generated: bool) -> Callable[[dict[str, Any]], None]:
    """Put a token before the others, in these lists alone."""
    entries = {"tokens": "<s>", "token_logprobs": None, "top_logprobs": None, "text_offset": 0}

    def distort(logprobs: dict[str, Any]) -> None:
        for key in keys:
            values = [entries[key], *logprobs[key]]
            if key != "tokens" and key != "text_offset" and values[1] is None:
                values[1] = -2.5 if key == "token_logprobs" else {}
            logprobs[key] = values if generated else values[:-1]

    return distort


def without_context(logprobs: dict[str, Any]) -> None:
    logprobs["token_logprobs"] = [None, *(logprob("", token) for token in logprobs["tokens"][1:])]
    logprobs["top_logprobs"] = None


#: What is wrong; what it becomes for a text, and for token ids.
KINDS: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "nothing": (lambda logprobs: None, "exact", "exact"),
    "positive": (numbers(abs), "refused", "refused"),
    "probabilities": (numbers(math.exp), "refused", "refused"),
    "one is positive": (change("token_logprobs", lambda v: [*v[:-2], 0.5, v[-1]]), "refused", "refused"),
    "too small for a float": (numbers(lambda value: -(10**400)), "refused", "refused"),
    "one is too small for a float": (
        change("token_logprobs", lambda v: [*v[:-2], -(10**400), v[-1]]),
        "refused",
        "refused",
    ),
    "all 0": (numbers(lambda value: 0.0), "refused", "refused"),
    "all -9999": (numbers(lambda value: -9999.0), "refused", "refused"),
    "all -inf": (numbers(lambda value: -math.inf), "refused", "refused"),
    "all alike": (numbers(lambda value: -1.5), "refused", "refused"),
    "NaN": (numbers(lambda value: math.nan), "refused", "refused"),
    "null in the context": (change("token_logprobs", lambda v: [*v[:2], None, *v[3:]]), "refused", "refused"),
    "one place too early": (change("token_logprobs", lambda v: [*v[1:], None]), "refused", "refused"),
    "one place too early, with a number": (change("token_logprobs", lambda v: [*v[1:], -1.0]), "refused", "refused"),
    "one place too late": (change("token_logprobs", lambda v: [None, *v[:-1]]), "refused", "refused"),
    "one place too late, with a number": (
        change("token_logprobs", lambda v: [None, -1.0, *v[1:-1]]),
        "refused",
        "refused",
    ),
    "without context": (without_context, "refused", "refused"),
    "a first token": (add_first(*LISTS, generated=True), "exact", "refused"),
    "a first token in place of the last": (add_first(*LISTS, generated=False), "exact", "refused"),
    "a first token among the tokens alone": (add_first("tokens", generated=True), "refused", "refused"),
    "a first token among the numbers alone": (add_first("token_logprobs", generated=True), "refused", "refused"),
    "a first number in place of the last": (add_first("token_logprobs", generated=False), "refused", "refused"),
    "no beginning": (every_list(lambda values: values[2:]), "refused", "refused"),
    "no first token": (every_list(lambda values: values[1:]), "refused", "refused"),
    "no end": (every_list(lambda values: values[:-2]), "refused", "refused"),
    "no generated token": (every_list(lambda values: values[:-1]), "exact", "exact"),
    "fewer numbers": (change("token_logprobs", lambda values: values[:-1]), "refused", "refused"),
    "in the reverse order": (every_list(lambda values: values[::-1]), "refused", "refused"),
    "other tokens": (change("tokens", lambda tokens: [token[::-1] + "x" for token in tokens]), "refused", "refused"),
    "one other token": (change("tokens", lambda v: [*v[:-3], "cats", *v[-2:]]), "refused", "refused"),
    "tokens in capitals": (change("tokens", lambda tokens: list(map(str.upper, tokens))), "refused", "refused"),
    "marks for white space": (
        change("tokens", lambda tokens: [token.replace(" ", "▁") for token in tokens]),
        "refused",
        "exact",
    ),
    "no white space": (change("tokens", lambda tokens: list(map(str.strip, tokens))), "refused", "exact"),
    "offsets of 0": (change("text_offset", lambda offsets: [0] * len(offsets)), "exact", "exact"),
    "offsets of -1": (change("text_offset", lambda offsets: [-1] * len(offsets)), "exact", "exact"),  # as SGLang's
    "offsets counted twice": (change("text_offset", lambda offsets: [2 * n for n in offsets]), "exact", "exact"),
    "offsets that go back": (change("text_offset", lambda offsets: offsets[::-1]), "exact", "exact"),
    "offsets as text": (change("text_offset", lambda offsets: list(map(str, offsets))), "exact", "exact"),
    "fewer likeliest tokens": (change("top_logprobs", lambda tops: tops[:1]), "exact", "exact"),
}
#: Seen where two prompts are compared, and not in one response.
COMPARED = {"one place too late, with a number", "without context", "a first number in place of the last"}


def outcomes(one: Any) -> list[LLOutput] | str:
    """The scores, or "refused" where the server or each of its responses is."""
    try:
        outputs = scored(one, PAIRS)
    except ModelError:
        return "refused"
    failed = [isinstance(output, FailedRequest) for output in outputs]
    assert all(failed) == any(failed)
    return "refused" if all(failed) else outputs


def check(server: Any, arguments: dict[str, Any], kind: str, *, always: bool) -> None:
    expected = scored(model(server, **arguments), PAIRS)
    distort, by_text, by_ids = KINDS[kind]
    if always:
        server.distort = distort
    else:
        server.fault_of = lambda prompt: Fault(distort=distort)
    results = outcomes(model(server, max_retries=1, **arguments))
    if (by_ids if "tokenizer" in arguments else by_text) == "refused":
        assert results == "refused"
        return
    assert isinstance(results, list)
    assert [output.loglikelihood for output in results] == [output.loglikelihood for output in expected]
    assert [output.tokens for output in results] == [output.tokens for output in expected]


@pytest.mark.parametrize("always", [True, False], ids=["always", "after the probe"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_echo_of_a_text_is_corrected_or_refused(kind: str, always: bool, server: Any) -> None:
    if always or kind not in COMPARED:
        check(server, {}, kind, always=always)


@pytest.mark.parametrize("always", [True, False], ids=["always", "after the probe"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_echo_of_token_ids_is_corrected_or_refused(
    kind: str, always: bool, server: Any, tokenizer: Path
) -> None:
    if always or kind not in COMPARED:
        check(server, {"tokenizer": str(tokenizer)}, kind, always=always)


def echo(*tokens: str) -> dict[str, Any]:
    """An echo whose tokens have the log-probabilities -1, -2, -4, ..., so that a sum shows which were added."""
    values = [None, *(-(2.0 ** min(place, 99)) for place in range(len(tokens) - 1))]
    return {"logprobs": {"tokens": list(tokens), "token_logprobs": values, "text_offset": [0] * len(tokens)}}


PIECES = {
    # context, continuation, the tokens with a generated one, the places of those that are scored
    "between characters": ("a€", "€", ["a", "\ufffd", "\ufffd", "\ufffd", "\ufffd", "!"], [3, 4]),
    "after white space": ("är", " ß", ["\ufffd", "\ufffd", "r", " \ufffd", "\ufffd", "!"], [3, 4]),
    "of four bytes": ("😀", "😁.", ["\ufffd", "\ufffd", "\ufffd", "\ufffd", ".", "!"], [2, 3, 4]),
    "in a token of two": ("日", "本x", ["\ufffd", "\ufffd\ufffd", "\ufffd", "\ufffd\ufffd", "x", "!"], [2, 3, 4]),
    "in bytes": ("€", " 5", ["bytes:\\xe2\\x82", "bytes:\\xac", " 5", "!"], [2]),
    "across the border": ("x €", "€y", ["x", " \ufffd", "\ufffd\ufffd", "\ufffd\ufffd", "y", "!"], [2, 3, 4]),
    "completed by the last": ("a", "€b", ["a", "", "€", "b", "!"], [1, 2, 3]),
    "completed in the context": ("a€", "b", ["a", "", "€", "b", "!"], [3]),
    "a character of the text": ("\ufffd", " b", ["\ufffd", " b", "!"], [1]),
    "a whole character": ("ä", "ö", ["ä", "ö", "!"], [1]),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_characters_are_on_their_side_of_the_border(name: str) -> None:
    context, text, tokens, places = PIECES[name]
    output = score_text(echo(*tokens), context + text, len(context), Convention())
    assert output.loglikelihood == sum(-(2.0 ** (place - 1)) for place in places)
    assert output.tokens == len(places)


def test_pieces_that_can_be_put_together_in_two_ways_are_refused() -> None:
    tokens = ["a", *["\ufffd"] * 5, "!"]  # the first or the second of the two characters may have three of them
    with pytest.raises(RefusedError, match="do not say where the continuation begins; name the model's tokenizer"):
        score_text(echo(*tokens), "a你好", 2, Convention())
    assert score_text(echo(*tokens), "a你好", 1, Convention()).tokens == 5


def test_a_long_text_of_pieces_alone_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"do not spell the prompt.*; name the model's tokenizer"):
        score_text(echo(*["\ufffd"] * 1000), "你" * 500, 400, Convention(generated=0))


def test_a_number_in_the_place_of_no_probability_is_none() -> None:
    response = echo("The", " dog", "!")
    response["logprobs"]["token_logprobs"][0] = 0.0
    assert score_text(response, "The dog", 3, Convention()).loglikelihood == -1.0
    with pytest.raises(RefusedError, match="no probability for the first token"):
        score_text(response, "The dog", 0, Convention())


def test_a_tokenizer_of_another_model_is_named(server: Any, tokenizer: Path) -> None:
    one = model(server, tokenizer=str(tokenizer))
    server.decode = lambda token: f" word{token}"
    with pytest.raises(ModelError, match=r"token 0 of a prompt is .* word\d+' in the response; name the tokenizer of"):
        scored(one, PAIRS)
    assert len(server.asked) == 1


def test_prompts_in_the_tokens_of_another_model_are_not_completed(server: Any, tokenizer: Path) -> None:
    one = model(server, tokenizer=str(tokenizer))
    decode, server.decode = server.decode, lambda token: f" word{token}"
    with pytest.raises(ModelError, match="name the tokenizer of the server's model"):
        one.generate([GenerationRequest.of("The dog", {})])
    server.decode = decode
    server.distort = numbers(lambda value: 0.0)  # which are not needed here
    assert dict(one.generate([GenerationRequest.of("The dog", {})]))


def test_a_tokenizer_is_not_loaded_where_all_responses_are_stored(
    server: Any, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"model": "tiny", "base_url": server.base_url, "tokenizer": str(tokenizer)}
    model(server, tokenizer=str(tokenizer))

    def run() -> list[dict[str, Any]]:
        options: dict[str, Any] = {"limit": 2, "use_cache": tmp_path / "answers.db", "model_args": arguments}
        return multiform.evaluate(model="openai-completions", tasks=["quiz@cloze"], **options).samples("quiz@cloze")

    first = run()
    monkeypatch.setattr(openai_completions, "load_encoder", None)
    assert run() == first


def test_a_server_of_vllm_that_adds_a_first_token_is_refused(server: Any, tokenizer: Path) -> None:
    server.lists = server.forces = True
    server.distort = add_first(*LISTS, generated=True)
    with pytest.raises(ModelError, match="puts the token '<s>' before the tokens of a prompt; turn that off"):
        scored(model(server, tokenizer=str(tokenizer)), PAIRS)


def test_a_wrong_server_is_refused_before_any_data_is_read(server: Any, tmp_path: Path) -> None:
    server.distort = numbers(abs)
    task = {"task": "t", "dataset_path": str(tmp_path / "missing.jsonl"), "test_split": "test", "formats": "cloze"}
    config = multiform.TaskConfig.from_dict(
        {**task, "doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    )
    model_args = {"model": "tiny", "base_url": server.base_url}
    with pytest.raises(ModelError, match=r"the server echoes prompts, and its echo of .*not all .* numbers up to 0"):
        multiform.evaluate(model="openai-completions", model_args=model_args, tasks=[config])


def test_a_probe_that_fails_for_a_while_changes_nothing(server: Any) -> None:
    expected = scored(model(server), PAIRS)
    identity = model(server).identity
    one = model(server)
    assert one.scoring == "echo"
    server.probe_faults.extend([Fault(status=500), Fault(distort=numbers(abs))])
    assert scored(one, PAIRS) == expected
    assert one.identity == identity


def test_a_wrong_document_is_named_with_what_was_seen(server: Any) -> None:
    model_args = {"model": "tiny", "base_url": server.base_url, "max_retries": 1}

    def run() -> multiform.Results:
        options: dict[str, Any] = {"limit": 3, "on_error": "skip", "use_cache": False}
        return multiform.evaluate(model="openai-completions", model_args=model_args, tasks=["quiz@cloze"], **options)

    question = run().samples()[1]["prompt"]
    server.fault_of = lambda prompt: Fault(distort=numbers(abs)) if prompt.startswith(question) else None
    [failed] = run().forms[0].failed
    assert failed.doc_id == 1
    assert failed.reason.startswith("not all log-probabilities of the response are numbers up to 0: ")


def byte_sizes(tokenizer: Any, ids: list[int]) -> list[int]:
    """The number of bytes of each token of a byte-level vocabulary, which has one character for each byte."""
    return [len(tokenizer.convert_ids_to_tokens(token)) for token in ids]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    context=st.text(st.sampled_from("aé€日本😀한ก\u0301 ."), min_size=1, max_size=8),
    text=st.text(st.sampled_from("bß本😁ไ\ufffd ,"), min_size=1, max_size=8),
)
def test_any_text_in_pieces_is_scored_exactly_or_refused(context: str, text: str, loaded: Any) -> None:
    whole = context + text
    boundary = len(context.rstrip())
    ids = loaded(whole).input_ids
    ends = list(accumulate(byte_sizes(loaded, ids)))
    assert ends[-1] == len(whole.encode())
    border = len(whole[:boundary].encode())
    start = next(place for place, end in enumerate(ends) if end > border)
    response = echo(*(loaded.decode([token]) for token in ids), "!")
    try:
        output = score_text(response, whole, boundary, Convention(adds_first=False))
    except RefusedError:
        return
    values = response["logprobs"]["token_logprobs"]
    assert output.tokens == len(ids) - start
    assert output.loglikelihood == sum(values[start : len(ids)])


@pytest.fixture(scope="session")
def loaded(tokenizer: Path) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(tokenizer)
