"""Tiny random models to run the engine on."""

from tests.tiny_models import bundled, llama, one_thread, seq2seq, tiny

__all__ = ["bundled", "llama", "one_thread", "seq2seq", "tiny"]
