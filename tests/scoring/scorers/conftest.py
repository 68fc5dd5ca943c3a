"""A model server to talk to."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake server; a key is in the environment, as users have it there."""
    spec = importlib.util.spec_from_file_location(
        "fake_server", Path(__file__).parents[2] / "models" / "fake_server.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fake_server", module)
    spec.loader.exec_module(module)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with module.fake_server() as running:
        yield running
