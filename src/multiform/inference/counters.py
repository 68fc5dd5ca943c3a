"""What a model has computed so far, in tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Tokens that went through the model: those it read, and those it wrote, with padding; and how often it ran."""

    prefill: int = 0
    decode: int = 0
    passes: int = 0

    def read(self, tokens: int) -> None:
        """Count a pass that reads so many tokens."""
        self.prefill += tokens
        self.passes += 1

    def wrote(self, tokens: int) -> None:
        """Count a pass that adds one token to each of so many texts."""
        self.decode += tokens
        self.passes += 1
