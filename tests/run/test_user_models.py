"""The responses of models that a user has written: never old ones, unless the user asks for the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import Model, evaluate, register_model
from multiform.models import models
from multiform.requests import Completion, LLOutput
from multiform.run.store import default_path


@pytest.fixture(autouse=True)
def _own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test finds the models that are registered here."""
    monkeypatch.setattr(models, "_entries", dict(models._entries))


def choosing(index: int, **attributes: Any) -> type[Model]:
    """A model as a user would write it, which prefers the choice of that index; its identity does not say so."""

    class Mine(Model):
        name = identity = "mine"

        def __init__(self, **arguments: Any) -> None:
            self.asked = 0

        def loglikelihood(self, requests: Any) -> Iterator[tuple[int, LLOutput]]:
            for position, _ in enumerate(requests):
                self.asked += 1
                yield position, LLOutput(-1.0 if position % 4 == index else -2.0)

        def loglikelihood_rolling(self, requests: Any) -> Iterator[tuple[int, LLOutput]]:
            raise NotImplementedError

        def generate(self, requests: Any) -> Iterator[tuple[int, Completion]]:
            raise NotImplementedError

    return type("Mine", (Mine,), attributes)


def picked(**options: Any) -> int:
    """The choice that the model picks of the first document."""
    results = evaluate(tasks="quiz@mcqa", limit=1, **options)
    (sample,) = results.forms[0].samples
    values = [output.loglikelihood for output in sample.outputs if isinstance(output, LLOutput)]
    return values.index(max(values))


def test_a_registered_model_whose_code_changed_gives_no_old_responses() -> None:
    register_model("mine")(choosing(0))
    assert picked(model="mine") == 0
    register_model("mine")(choosing(2))
    assert picked(model="mine") == 2
    assert not default_path().exists()


def test_a_model_object_whose_code_changed_gives_no_old_responses() -> None:
    assert [picked(model=choosing(index)()) for index in (0, 2)] == [0, 2]


@pytest.mark.parametrize("use_cache", [True, "answers.db"])
def test_naming_a_store_stores_the_responses(
    use_cache: bool | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    picked(model=choosing(0)(), use_cache=use_cache)
    again = choosing(0)()
    assert (picked(model=again, use_cache=use_cache), again.asked) == (0, 0)  # type: ignore[attr-defined]


def test_a_class_that_says_so_is_stored() -> None:
    kind = choosing(0, stored=True)
    picked(model=kind())
    again = kind()
    assert (picked(model=again), again.asked) == (0, 0)  # type: ignore[attr-defined]


def test_a_subclass_of_a_stored_model_is_not_stored() -> None:
    stored = choosing(0, stored=True)

    class Other(stored):  # type: ignore[valid-type, misc]
        pass

    assert (stored.stored, Other.stored) == (True, False)


def test_a_model_in_the_place_of_a_built_in_one_is_asked_itself(tmp_path: Path) -> None:
    """What the store knows about the built-in `hf` says nothing about it."""
    register_model("hf")(choosing(3))
    assert picked(model="hf", model_args={"pretrained": str(tmp_path)}) == 3
