"""A fixture that runs the fake server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from multiform.models.servers import client
from tests.models.fake_server import fake_server


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a server no longer than a test can."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "FIRST_CONTACT", 0.3)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake server; a key is in the environment, as users have it there."""
    shorten_waits(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with fake_server() as running:
        yield running
