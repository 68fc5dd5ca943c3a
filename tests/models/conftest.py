"""A model server to talk to, and tiny random models where torch is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("torch"):
    from tests.tiny_models import bundled, hflm, llama, one_thread, seq2seq, tiny

    __all__ = ["bundled", "hflm", "llama", "one_thread", "seq2seq", "tiny"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake server; a key is in the environment, as users have it there."""
    spec = importlib.util.spec_from_file_location("fake_server", Path(__file__).parent / "fake_server.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fake_server", module)
    spec.loader.exec_module(module)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with module.fake_server() as running:
        yield running
