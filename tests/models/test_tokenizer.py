"""Encoding of context and continuation, compared with lm-eval's."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from multiform.errors import ModelError
from multiform.models.tokenizer import Encoder, rolling_windows, split
from multiform.models.torch.plan import Pair

NASTY = [
    ("The dog", " and"),
    ("The dog ", "and"),
    ("The dog \n\t ", " and"),
    ("", "The dog"),
    ("", "</s>The dog"),
    ("", "<s>The dog"),
    ("<s>The dog", " is"),
    ("Question: is 12 + 30 = ", "42"),
    ("Answer:", "\n\nyes"),
    ("naïve 日本", "語 🙂"),
    ("a\u00a0", "b"),
    ("x", " " * 7),
    ("the</s>", "cat"),
    ("Is it?\r\n", "\r\nno"),
]
TEXTS = st.text(alphabet="dogs catTheis.:?\n <>/é日0", max_size=14)


def encoder(folder: Path, **options: Any) -> Encoder:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    return Encoder(tokenizer=tokenizer, **{"prefix_token_id": first, **options})


@pytest.fixture(scope="session")
def theirs(hflm: Any, tiny: Callable[..., Path]) -> Callable[..., Any]:
    """lm-eval's model on a tiny folder, made once for each set of options."""
    made: dict[str, Any] = {}

    def make(bos: bool, **options: Any) -> Any:
        key = repr((bos, options))
        if key not in made:
            made[key] = hflm(pretrained=str(tiny(bos=bos)), device="cpu", **options)
        return made[key]

    return make


def lm_eval_pair(model: Any, context: str, continuation: str) -> tuple[list[int], list[int]] | None:
    """What lm-eval scores for a pair, or None where its own checks stop it."""
    seen: list[tuple[Any, list[int], list[int]]] = []
    original = model._loglikelihood_tokens
    model._loglikelihood_tokens = lambda requests, **_: seen.extend(requests)
    try:
        model.loglikelihood([type("Request", (), {"args": (context, continuation)})], disable_tqdm=True)
    except IndexError:
        return None
    finally:
        model._loglikelihood_tokens = original
    _, context_tokens, continuation_tokens = seen[0]
    return (context_tokens, continuation_tokens) if context_tokens and continuation_tokens else None


@pytest.mark.parity
@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("options", [{}, {"add_bos_token": True}, {"prefix_token_id": 2}], ids=str)
def test_pairs_are_those_of_lm_eval(
    bos: bool, options: dict[str, Any], theirs: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    model = theirs(bos, **options)
    ours = encoder(tiny(bos=bos), **options)
    for texts, pair in zip(NASTY, ours.pairs(NASTY), strict=True):
        assert (pair.context, pair.continuation) == lm_eval_pair(model, *texts), texts


@pytest.mark.parity
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=TEXTS, continuation=TEXTS, bos=st.booleans())
def test_any_pair_is_that_of_lm_eval_where_it_has_one(
    context: str, continuation: str, bos: bool, theirs: Callable[..., Any], tiny: Callable[..., Path]
) -> None:
    expected = lm_eval_pair(theirs(bos), context, continuation)
    assume(expected is not None)
    (pair,) = encoder_for(bos, tiny).pairs([(context, continuation)])
    assert (pair.context, pair.continuation) == expected


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(context=TEXTS, continuation=TEXTS.filter(bool), bos=st.booleans())
def test_every_pair_has_context_and_continuation(
    context: str, continuation: str, bos: bool, tiny: Callable[..., Path]
) -> None:
    (pair,) = encoder_for(bos, tiny).pairs([(context, continuation)])
    assert pair.context
    assert pair.continuation


_encoders: dict[bool, Encoder] = {}


def encoder_for(bos: bool, tiny: Callable[..., Path]) -> Encoder:
    if bos not in _encoders:
        _encoders[bos] = encoder(tiny(bos=bos))
    return _encoders[bos]


def test_a_token_across_the_join_is_scored_whole(tiny: Callable[..., Path]) -> None:
    ours = encoder(tiny())
    dog = ours.tokenizer.encode("dog", add_special_tokens=False)
    assert len(dog) == 1
    assert len(ours.tokenizer.encode("do")) == 1
    (pair,) = ours.pairs([("do", "g")])
    assert (pair.context, pair.continuation) == ([ours.prefix_token_id], dog)


def test_the_cut_moves_back_to_the_first_token_that_differs() -> None:
    assert split(array("i", [1, 2, 3, 4]), array("i", [1, 7, 8]), prefix=0).continuation == [7, 8]


def test_the_cut_moves_back_by_one_where_the_whole_is_shorter_than_its_context() -> None:
    assert split(array("i", [1, 2, 3]), array("i", [1, 2]), prefix=0) == Pair(array("i", [1, 2]), 1)


def test_a_context_of_white_space_counts_as_empty(tiny: Callable[..., Path]) -> None:
    ours = encoder(tiny())
    spaced, bare = ours.pairs([(" ", "the"), ("", " the")])
    assert spaced == bare


def test_an_empty_continuation_has_nothing_to_score(tiny: Callable[..., Path]) -> None:
    (pair,) = encoder(tiny()).pairs([("The dog", "")])
    assert pair.continuation == []


def test_an_empty_prompt_is_the_prefix_token(tiny: Callable[..., Path]) -> None:
    assert encoder(tiny()).prompts([""])[""].tolist() == [1]


def test_a_prompt_with_its_own_first_token_gets_no_second(tiny: Callable[..., Path]) -> None:
    prompts = encoder(tiny(bos=True)).prompts(["<s>The dog", "The dog"])
    assert prompts["<s>The dog"] == prompts["The dog"]


def test_many_texts_are_encoded_as_each_alone(tiny: Callable[..., Path]) -> None:
    ours = encoder(tiny())
    texts = [f"The dog {number}" for number in range(3000)]
    encoded = ours.encode(texts)
    assert all(encoded[text].tolist() == ours.tokenizer.encode(text) for text in texts[::500])


def test_half_a_surrogate_pair_is_an_error_that_shows_the_text(tiny: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"'bad \\ud83d': .*surrogate"):
        encoder(tiny()).encode(["bad \ud83d"])


@pytest.mark.parametrize(("length", "expected"), [(7, range(1, 9)), (8, range(9)), (20, range(9))])
def test_a_long_pair_loses_its_beginning(length: int, expected: range) -> None:
    pair = Encoder.fit(Pair(array("i", range(9)), 6), length, "text")
    assert pair.tokens.tolist() == list(expected)
    assert pair.continuation == [6, 7, 8]


def test_a_continuation_beyond_the_context_length_is_an_error_that_names_it() -> None:
    with pytest.raises(ModelError, match="'some text': the continuation has 6 tokens"):
        Encoder.fit(Pair(array("i", range(9)), 3), 5, "some text")


@pytest.mark.parity
@given(count=st.integers(0, 40), length=st.integers(1, 12))
def test_rolling_windows_are_those_of_lm_eval(count: int, length: int) -> None:
    utils = pytest.importorskip("lm_eval.utils")
    tokens = list(range(100, 100 + count))
    expected = [
        utils.make_disjoint_window(window)
        for window in utils.get_rolling_token_windows(
            token_list=tokens, prefix_token=0, max_seq_len=length, context_len=1
        )
    ]
    windows = rolling_windows(array("i", tokens), 0, length)
    assert [(window.context, window.continuation) for window in windows] == expected
