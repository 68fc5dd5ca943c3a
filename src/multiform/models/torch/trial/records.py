"""Records of trials: the verdicts on a model are kept, so that the next run does not try again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

from multiform.hashing import sha256, source_hash
from multiform.models.torch.batching import run_in_memory
from multiform.paths import cache_root, replace_file


class TrialRecords:
    """The verdicts on one model, by what was tried; in a file where the model has an identity."""

    def __init__(self, identity: str | None = None) -> None:
        self.path = _folder() / f"{_hash(identity)}.json" if identity else None
        self.verdicts = self._read()

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
                file.write_text(json.dumps(self._read() | self.verdicts, indent=1))
        except OSError:
            self.path = None

    def _read(self) -> dict[str, str]:
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
    content = [identity, transformers.__version__, torch.__version__, source_hash(Path(__file__).parents[1])]
    return sha256("\n".join(content))[:24]
