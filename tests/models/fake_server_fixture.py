"""A fixture that runs the fake server, and what is asked of models behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform.forms.media import media_from
from multiform.models import Model
from multiform.models.servers import client
from multiform.prompts.media import Media
from multiform.prompts.prompt import Content
from multiform.requests import GenerationRequest
from tests.models.fake_server import FakeServer, fake_server


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a server no longer than a test can."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "FIRST_CONTACT", 0.3)


def completion_of(model: Model, context: Content, **gen_kwargs: Any) -> Any:
    """What a model writes after one context."""
    [(_, completion)] = model.generate([GenerationRequest.of(context, gen_kwargs)])
    return completion


def asked_with_image(server: FakeServer, model: Model, context: str) -> tuple[dict[str, Any], Media]:
    """What a server is sent for a context with a picture, and the picture; skips the test without Pillow."""
    image = media_from(pytest.importorskip("PIL.Image").new("RGB", (2, 2), "red"), "image", Path)
    list(model.generate([GenerationRequest.of(context, {}, 0, (image,))]))
    return server.asked[0].payload, image


def check_a_whole_run(server: FakeServer, provider: str, name: str, **options: Any) -> None:
    """A model of a provider is asked once for each document, and its answers are read."""
    server.reply = lambda prompt: "The best answer is B"
    results = multiform.evaluate(
        model=provider,
        model_args={"model": name, "base_url": server.base_url},
        tasks=["quiz@generate"],
        limit=5,
        **options,
    )
    assert results["quiz@generate"]["invalid,none"] == 0
    assert len(server.asked) == 5


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake server; a key is in the environment, as users have it there."""
    shorten_waits(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with fake_server() as running:
        yield running
