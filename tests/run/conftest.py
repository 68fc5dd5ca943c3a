"""Runs of a command line in processes of their own, whose model takes its time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

#: A command line whose model takes its time and notes every request that it is asked.
SLOW = """
import os, sys, time
from multiform.cli.main import main
from multiform.models import register_model
from multiform.models.dummy import DummyModel

@register_model("slow")
class SlowModel(DummyModel):
    name = "slow"
    stored = True

    def loglikelihood(self, requests):
        with open("asked.txt", "a") as asked:
            for position, output in super().loglikelihood(requests):
                print(repr(requests[position]), file=asked, flush=True)
                time.sleep(float(os.environ.get("PAUSE", 0.01)))
                yield position, output

sys.exit(main(sys.argv[1:]))
"""
RUN = ["run", "--model", "slow", "--tasks", "quiz@mcqa+cloze", "--json", "--limit", "20"]


class Runs:
    """Runs of one command in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "slow.py").write_text(SLOW)
        self.env = {**os.environ, "MULTIFORM_STORE": str(folder / "answers.db")}

    def start(self, *more: str, pause: float = 0.01, script: str = "slow.py") -> subprocess.Popen[bytes]:
        """Start a run whose model takes `pause` seconds for each response."""
        command = [sys.executable, script, *RUN, *more]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.env, "PAUSE": str(pause)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also in the background
        )

    def finish(self, *more: str) -> dict[str, Any]:
        process = self.start(*more)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        made: dict[str, Any] = json.loads(out)
        return made

    def asked(self) -> list[str]:
        """What the model was asked since the last time, in order."""
        file = self.folder / "asked.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def await_responses(self, number: int) -> None:
        """Wait until so many requests are asked."""
        file = self.folder / "asked.txt"
        while not file.exists() or len(file.read_bytes().splitlines()) < number:
            time.sleep(0.01)

    def stopped(self, signum: int, *more: str) -> tuple[int, str, list[str]]:
        """Start a run, stop it after some responses: its exit code, what it said, and what it had asked."""
        process = self.start(*more)
        self.await_responses(60)
        process.send_signal(signum)
        _, err = process.communicate(timeout=60)
        return process.returncode, err.decode(), self.asked()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)
