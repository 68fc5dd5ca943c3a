"""Generation arguments."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models.arguments import GenerationOptions, generation_options


def test_nothing_given_is_greedy_with_256_tokens() -> None:
    assert generation_options({}) == GenerationOptions(max_gen_toks=256, temperature=0.0)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"max_completion_tokens": 4}, 4),
        ({"max_completion_tokens": 4, "max_tokens": 3}, 3),
        ({"max_tokens": 3, "max_new_tokens": 2}, 2),
        ({"max_new_tokens": 2, "max_gen_toks": 1}, 1),
        ({"max_gen_toks": None, "max_tokens": "7"}, 7),
    ],
)
def test_the_first_name_of_the_token_limit_counts(given: dict[str, Any], limit: int) -> None:
    assert generation_options(given).max_gen_toks == limit


@pytest.mark.parametrize(
    ("given", "temperature"),
    [
        ({"temperature": 0.7}, 0.7),
        ({"temperature": 0.7, "do_sample": False}, 0.0),
        ({"do_sample": True}, 1.0),
        ({"do_sample": True, "temperature": 0}, 0.0),
        ({"do_sample": True, "temperature": 0.5}, 0.5),
    ],
)
def test_sampling_follows_do_sample_and_temperature(given: dict[str, Any], temperature: float) -> None:
    assert generation_options(given).temperature == temperature


@pytest.mark.parametrize(
    ("given", "until"),
    [("\n", ("\n",)), (["a", "b"], ("a", "b")), (None, ()), (["", "x"], ("x",)), ((), ())],
)
def test_until_is_a_string_or_a_list(given: Any, until: tuple[str, ...]) -> None:
    assert generation_options({"until": given}).until == until


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_gen_tok": 5}, "unknown generation argument 'max_gen_tok'; did you mean 'max_gen_toks'"),
        ({"until": 3}, "until must be a string"),
        ({"temperature": "hot"}, "temperature must be a number of at least 0, not 'hot'"),
        ({"top_p": 3}, "top_p must be a number from 0 to 1"),
        ({"max_gen_toks": 0}, "max_gen_toks must be a number of at least 1"),
        ({"max_gen_toks": 1.5}, "max_gen_toks must be"),
        ({"num_beams": 0}, "num_beams must be a number of at least 1"),
        ({"do_sample": "yes"}, "do_sample must be true or false"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generation_options(given)
