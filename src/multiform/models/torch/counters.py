"""Counters: how many tokens a model has computed so far, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Tokens computed in prefill and in decode, padding included, and the number of forward passes.

    The time between two counts belongs to the pass that is counted second; `resume` leaves out what came before.
    """

    prefill: int = 0
    decode: int = 0
    passes: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    #: Prompt tokens of the requests that have their responses, as if nothing were shared between them.
    unshared: int = 0
    #: Completions that are finished, and their tokens.
    completions: int = 0
    completion_tokens: int = 0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: float | None = None

    def resume(self) -> None:
        """Requests are about to be computed."""
        self._last = self.clock()

    def count_prefill(self, tokens: int) -> None:
        """Count a forward pass over that many prompt tokens."""
        self.prefill += tokens
        self.passes += 1
        self.prefill_seconds += self._elapsed()

    def count_decode(self, tokens: int) -> None:
        """Count a forward pass that adds one token to each of that many sequences."""
        self.decode += tokens
        self.passes += 1
        self.decode_seconds += self._elapsed()

    def count_prompt(self, tokens: int) -> None:
        """Count the response to a request with that many prompt tokens."""
        self.unshared += tokens

    def count_completion(self, tokens: int) -> None:
        """Count a completion of that many tokens."""
        self.completions += 1
        self.completion_tokens += tokens

    def _elapsed(self) -> float:
        now = self.clock()
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        return elapsed
