"""A fixture that runs the fake server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.models.fake_server import fake_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake server; a key is in the environment, as users have it there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with fake_server() as running:
        yield running
