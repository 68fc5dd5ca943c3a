"""Tiny random models to run the engine on."""

from tests.tiny_models import bundled, every_trial, llama, one_thread, seq2seq, tiny

__all__ = ["bundled", "every_trial", "llama", "one_thread", "seq2seq", "tiny"]
