"""Token sequences: what is scored."""

from __future__ import annotations

from dataclasses import dataclass

from multiform.inference.plan import Tokens


@dataclass(frozen=True, slots=True)
class Pair:
    """A context and its continuation as one token sequence; the continuation begins at `start`, which is above 0."""

    tokens: Tokens
    start: int

    @property
    def context(self) -> list[int]:
        return self.tokens[: self.start].tolist()

    @property
    def continuation(self) -> list[int]:
        return self.tokens[self.start :].tolist()
