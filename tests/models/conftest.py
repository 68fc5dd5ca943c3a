"""A model server to talk to, and tiny random models where torch is installed."""

from __future__ import annotations

import importlib.util

from tests.models.fake_server_fixture import server

__all__ = ["server"]

if importlib.util.find_spec("torch"):
    from tests.tiny_models import bundled, every_trial, hflm, llama, one_thread, seq2seq, tiny

    __all__ += ["bundled", "every_trial", "hflm", "llama", "one_thread", "seq2seq", "tiny"]
