"""Counters: how many tokens a model has computed so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Tokens computed in prefill and in decode, padding included, and the number of forward passes."""

    prefill: int = 0
    decode: int = 0
    passes: int = 0

    def count_prefill(self, tokens: int) -> None:
        """Count a forward pass over that many prompt tokens."""
        self.prefill += tokens
        self.passes += 1

    def count_decode(self, tokens: int) -> None:
        """Count a forward pass that adds one token to each of that many sequences."""
        self.decode += tokens
        self.passes += 1
