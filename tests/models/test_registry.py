"""The registry: one entry for each model, whose modules are imported only when they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from multiform.errors import UsageError
from multiform.models import ModelEntry, models, register_model
from multiform.models.dummy import DummyModel
from multiform.requests import GenerationRequest


def test_every_entry_says_what_the_model_is() -> None:
    assert [name for name in models if not models.get(name).about] == []


def test_an_entry_creates_the_model() -> None:
    model = models.get("dummy")(text=" yes")
    assert isinstance(model, DummyModel)
    assert [output.text for _, output in model.generate([GenerationRequest.of("?", {})])] == [" yes"]


def test_a_class_is_registered_by_a_decorator_and_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_entries", dict(models._entries))

    @register_model("mine", "also-mine")
    class Mine(DummyModel):
        pass

    assert models.get("mine").load() is models.get("also-mine").load() is Mine


def test_a_model_without_a_signature_or_chat_has_neither() -> None:
    entry = ModelEntry(factory=DummyModel)
    assert entry.signature({}) is None
    assert entry.chat({}) is None


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'dummy'"):
        models.get("dumy")


@pytest.mark.process
def test_the_registry_imports_neither_torch_nor_transformers() -> None:
    code = "import sys, multiform.models; sys.exit(bool({'torch', 'transformers', 'httpx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
