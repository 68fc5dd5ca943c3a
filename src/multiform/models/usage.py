"""Workload, Usage and Counters: the tokens that requests will take, and those that a model has computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The tokens that requests take, before any of them is computed.

    `prefill` are the prompt tokens that will be computed, and `unshared` those without shared prefixes. `decode` is the
    most that the completions may have together, of which there are `completions`.
    """

    prefill: int = 0
    unshared: int = 0
    decode: int = 0
    completions: int = 0


@dataclass(slots=True, kw_only=True)
class Usage:
    """What a model has computed so far: prompt tokens (`prefill`), tokens of completions (`decode`), and how long each
    took.

    `unshared` are the prompt tokens of all requests with a response, as if nothing were shared between them.
    `completion_tokens` are those of the `completions` that are finished.
    """

    prefill: int = 0
    decode: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    unshared: int = 0
    completions: int = 0
    completion_tokens: int = 0

    @property
    def computed_tokens(self) -> int:
        """All tokens that were computed."""
        return self.prefill + self.decode

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def since(self, earlier: Usage) -> Usage:
        """What was added after an earlier state, such as the beginning of a run."""
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Usage))


@dataclass(slots=True, kw_only=True)
class Counters(Usage):
    """The usage of a model that is still counting: padding included, with the number of forward passes.

    The time between two counts belongs to the pass that is counted second; `resume` leaves out what came before.
    """

    passes: int = 0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: float | None = None

    def resume(self) -> None:
        """Requests are about to be computed."""
        self._last = self.clock()

    def count_prefill(self, tokens: int) -> None:
        """Count a forward pass over that many prompt tokens."""
        self.prefill += tokens
        self.passes += 1
        self.prefill_seconds += self._seconds_since_last()

    def count_decode(self, tokens: int) -> None:
        """Count a forward pass that adds one token to each of that many sequences."""
        self.decode += tokens
        self.passes += 1
        self.decode_seconds += self._seconds_since_last()

    def count_prompt(self, tokens: int) -> None:
        """Count the response to a request with that many prompt tokens."""
        self.unshared += tokens

    def count_completion(self, tokens: int) -> None:
        """Count a completion of that many tokens."""
        self.completions += 1
        self.completion_tokens += tokens

    def _seconds_since_last(self) -> float:
        now = self.clock()
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        return elapsed
