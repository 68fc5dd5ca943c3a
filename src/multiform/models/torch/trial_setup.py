"""What trials need: their token sequences, and the records of their verdicts.

The sequences branch, and are long enough to be cut into several forward passes. The verdicts on a model are kept, so
that the next run does not try again.
"""

from __future__ import annotations

import json
import os
import random
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from multiform.hashing import sha256, source_hash
from multiform.models.torch.batching import run_in_memory
from multiform.models.torch.sequences import Pair
from multiform.paths import cache_root, replace_file

#: The inputs of the longest sequence, for a model that is the same at every length: enough for attention in two parts.
SHORT = 128
#: The inputs of a trial that only rules out what is wrong at every length: it costs next to nothing.
SHORTEST_TRIAL = 24
#: Tokens of a sequence after the shared prefix, and those of them that are scored.
SUFFIX = 16
SCORED = 8
#: The tokens of a short sequence, fewer than any window has.
FEW = 5
#: The number of different tokens in a trial.
TOKENS = 1000


def trial_tokens(config: Any) -> list[int]:
    """Ordinary tokens of a vocabulary: the special ones mean something else to some models."""
    names = [name for name in config.to_dict() if name.endswith("token_id")]
    special = {getattr(config, name) for name in names if isinstance(getattr(config, name, None), int)}
    return [token for token in range(min(int(config.vocab_size), TOKENS)) if token not in special]


def trial_length(longest: int, max_length: int) -> int:
    """The length at which a model is tried before a run whose longest sequence has `longest` tokens.

    Lengths are rounded up, so that one trial serves many runs, but not beyond the model's own.

    >>> trial_length(300, 2048), trial_length(300, 310), trial_length(400, 310)
    (320, 310, 400)
    """
    step = max(SHORT, 1 << longest.bit_length()) // 8
    rounded = max(SHORT, -(-longest // step) * step)
    return max(longest, min(rounded, max_length))


def trial_pairs(length: int, tokens: Sequence[int]) -> list[Pair]:
    """Sequences of up to `length` inputs that branch early, late and at the end, scored at their ends, and a short one.

    In the order of a prefix tree, one branch comes before the rest of the longest sequence and the others come after
    it: so tokens are at other positions of a forward pass than they would be alone, on either side.
    """
    numbers = random.Random(length)
    lowest, *middle, highest = tokens

    def words(count: int) -> list[int]:
        return numbers.choices(middle, k=count)

    suffix_length = max(1, min(SUFFIX, length // 4))
    longest = words(length + 1)
    branches = [(length // 3, lowest), (2 * length // 3, highest), (length - suffix_length, highest)]
    sequences = [longest, *([*longest[:depth], first, *words(suffix_length)] for depth, first in branches), words(FEW)]
    return [Pair(array("i", sequence), max(1, len(sequence) - min(SCORED, suffix_length))) for sequence in sequences]


def state_pairs(length: int, tokens: Sequence[int]) -> list[Pair]:
    """Sequences of up to `length` inputs for a trial of copied states, scored at their ends, and a short one.

    Two branches of one length leave a common trunk, so that their states are computed in one batch, and sequences of
    several lengths come from them, so that copies of both, and two of the first, go on in one batch.
    """
    numbers = random.Random(length)
    lowest, *middle, highest = tokens

    def words(count: int) -> list[int]:
        return numbers.choices(middle, k=max(1, count))

    suffix_length = max(3, min(SUFFIX, length // 4))
    trunk = words(length // 2)
    branches = [[*trunk, first, *words(length - suffix_length - len(trunk))] for first in (lowest, highest)]
    suffixes = ((0, suffix_length), (0, 2), (1, suffix_length // 2 + 1))
    sequences = [[*branches[number], *words(count)] for number, count in suffixes]
    short = words(FEW)
    return [
        Pair(array("i", sequence), max(1, len(sequence) - min(SCORED, suffix_length)))
        for sequence in (*sequences, trunk, short)
    ]


def trial_prompts(length: int, tokens: Sequence[int]) -> tuple[list[list[int]], int]:
    """Prompts of several lengths up to `length`, and the length of the prefix that the first two share.

    The last is short: beside the others, nearly all of its row is padding.
    """
    numbers = random.Random(length)
    shared = numbers.choices(tokens, k=max(1, length // 2))
    first, second, third = (
        numbers.choices(tokens, k=max(1, count)) for count in (length - len(shared), length // 4, FEW)
    )
    return [[*shared, *first], [*shared, *second], third], len(shared)


class TrialRecords:
    """The verdicts on one model, by what was tried; in a file where the model has an identity."""

    def __init__(self, identity: str | None = None) -> None:
        self.path = _folder() / f"{_hash(identity)}.json" if identity else None
        self.verdicts = self._read_verdicts()

    def verdict(self, question: str, ask: Callable[[], str], otherwise: str) -> str:
        """The verdict on a question: the kept one, or that of a trial.

        A trial that runs out of memory gives the verdict `otherwise`, which is not kept.
        """
        if question not in self.verdicts:
            verdict = run_in_memory(ask)
            if verdict is None:
                return otherwise
            self._add(question, verdict)
        return self.verdicts[question]

    def _add(self, question: str, verdict: str) -> None:
        """Keep a verdict; where the folder cannot be written to, for this run only."""
        self.verdicts[question] = verdict
        if not self.path:
            return
        try:
            with replace_file(self.path) as file:
                file.write_text(json.dumps(self._read_verdicts() | self.verdicts, indent=1))
        except OSError:
            self.path = None

    def _read_verdicts(self) -> dict[str, str]:
        try:
            content = json.loads(self.path.read_text()) if self.path else {}
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def _folder() -> Path:
    """The folder of the records: beside the stored responses, or in the user's cache."""
    store = os.environ.get("MULTIFORM_STORE")
    return (Path(store).expanduser().parent if store else cache_root()) / "trials"


def _hash(identity: str) -> str:
    # A verdict on another version of the engine would say nothing.
    content = [identity, transformers.__version__, torch.__version__, source_hash(Path(__file__).parent)]
    return sha256("\n".join(content))[:24]
