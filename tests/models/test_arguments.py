"""Arguments of models: numbers and yes-or-no are checked before anything is loaded."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from multiform.errors import UsageError
from multiform.models.arguments import ArgumentRules, Refusal, argument_names, check_arguments


class Base:
    def __init__(self, name: str = "", *, size: int | None = None, fast: bool = False) -> None: ...


class Child(Base):
    def __init__(self, *, share: float = 0.5, rows: int | str = "auto", **others: Any) -> None: ...


RIGHT = [
    {"name": 5, "size": 3, "fast": True},
    {"size": None, "fast": None},
    {"fast": 1},
    {"share": 1, "rows": "auto:2"},
    {"unknown": "the class says itself what it does not take"},
]
WRONG = {
    "size": ("three", "'size' must be a whole number, not 'three'; give e.g. size=8"),
    "fast": ("maybe", "'fast' must be true or false, not 'maybe'; give e.g. fast=true"),
    "share": ("half", "'share' must be a number, not 'half'; give e.g. share=0.5"),
}


@pytest.mark.parametrize("arguments", RIGHT)
def test_what_a_class_takes_is_accepted(arguments: dict[str, Any]) -> None:
    check_arguments(Child, arguments)


@pytest.mark.parametrize("name", WRONG)
def test_another_type_is_named(name: str) -> None:
    value, message = WRONG[name]
    with pytest.raises(UsageError) as raised:
        check_arguments(Child, {name: value})
    assert str(raised.value) == message


class Unknown(Child):
    def __init__(self, *, size: Nowhere = None, **others: Any) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("kind", [Unknown, lambda **_: None])
def test_what_has_no_types_is_left_to_the_model(kind: Any) -> None:
    check_arguments(kind, {"deep": "thought"})


@pytest.mark.parametrize("value", [True, 2.5])
def test_neither_yes_nor_a_fraction_is_a_whole_number(value: object) -> None:
    with pytest.raises(UsageError, match="'size' must be a whole number"):
        check_arguments(Child, {"size": value})


RULES = ArgumentRules(
    renamed={"pretrained": "model"},
    without_effect={"truncate": "prompts are always truncated"},
    ignored=("device",),
    refused={"delta": Refusal(hint="merge the weights"), "verify": Refusal(hint="trust it", only=[False])},
)


def test_arguments_of_lm_eval_get_their_own_names() -> None:
    assert RULES.resolve({"pretrained": "tiny", "device": "cpu"}, ["model"]) == {"model": "tiny"}


def test_an_argument_without_effect_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert RULES.resolve({"truncate": True}, ["model"]) == {}
    assert "the model argument 'truncate' changes nothing: prompts are always truncated" in caplog.text


@pytest.mark.parametrize("arguments", [{"delta": "folder"}, {"verify": False}])
def test_a_refused_argument_is_an_error_with_what_to_do(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"is not supported; (merge the weights|trust it)"):
        RULES.resolve(arguments, ["model"])


def test_a_refused_argument_is_accepted_at_its_default() -> None:
    assert RULES.resolve({"delta": None, "verify": True}, ["model"]) == {}


def test_an_unknown_argument_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="unknown model argument 'modle'; did you mean 'model'"):
        RULES.resolve({"modle": "tiny"}, ["model"])


def test_the_arguments_of_a_class_are_those_of_its_constructors() -> None:
    assert argument_names(Child) == ["name", "size", "fast", "share", "rows"]
