"""Workload and Usage: the tokens that requests will take, and those that a model has computed."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def computed(self) -> int:
        """All tokens that were computed."""
        return self.prefill + self.decode

    @property
    def shared(self) -> int:
        """Prompt tokens that did not have to be computed, as requests share their prefixes."""
        return max(0, self.unshared - self.prefill)

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def since(self, earlier: Usage) -> Usage:
        """What was added after an earlier state, such as the beginning of a run."""
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in self.__dataclass_fields__})
