"""One program of a model: run in a sandbox, called by its tests from another process."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from typing import Any

from multiform.errors import ModelError
from multiform.execution.guest import STARTED
from multiform.execution.sandbox import (
    ENVIRONMENT,
    GUEST,
    chosen_sandbox,
    command,
    container_name,
    readable_paths,
)

logger = logging.getLogger("multiform")

#: Seconds for starting the processes and ending them, beside those of the program.
_STARTING = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program passed its tests, and why not; `protection` lists what kept it from the machine."""

    passed: bool
    result: str
    protection: tuple[str, ...] = ()


def run_program(
    source: str, checks: str = "", *, seconds: float = 3.0, megabytes: int = 2048, sandbox: str | None = None
) -> Outcome:
    """Run an untrusted Python program, then its tests, which call what it defines.

    The tests run in another process than the program, which cannot forge their verdict. Without tests, a program
    passes that runs to its end, by its own word. It gets an empty folder, no environment and no network.

    >>> run_program("def f(x): return 2 * x", "assert f(2) == 4").result
    'passed'
    >>> run_program("def f(x): return x", "assert f(2) == 4").result
    'AssertionError: '
    """
    sandbox = sandbox or chosen_sandbox()
    report, words = start(sandbox, source, checks, seconds=seconds, megabytes=megabytes)
    if report is None:
        message = f"the sandbox {sandbox} could not be started for a program: {words}"
        raise ModelError(message, hint="check the memory and the processes of the machine, and run it again")
    protection = (sandbox, *report["protection"])
    if report["protection"]:
        _say_once(protection)
    return Outcome(report["passed"] is True, str(report["result"]), protection)


def start(
    sandbox: str, source: str, checks: str, *, seconds: float, megabytes: int
) -> tuple[dict[str, Any] | None, str]:
    """The report of the tests' process; None where it could not be started, with what was said instead."""
    container = container_name()
    with tempfile.TemporaryDirectory(prefix="program-", ignore_cleanup_errors=True) as folder:
        job = {
            "sandbox": sandbox,
            "program": source.encode("utf-8", "replace").decode(),  # no source has halves of surrogate pairs
            "seconds": seconds,
            "megabytes": megabytes,
            "folder": folder,
            "readable": [*readable_paths(), str(GUEST)],
        }
        process = subprocess.Popen(
            command(sandbox, container),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(os.environ) if sandbox.startswith("docker") else {**ENVIRONMENT, "HOME": folder},
            start_new_session=True,
        )
        try:
            output, words = process.communicate(_parts(json.dumps(job), checks), timeout=seconds + _STARTING)
            late = False
        except subprocess.TimeoutExpired as error:
            output, words, late = error.stdout or b"", b"it took too long", True
            if sandbox.startswith("docker"):
                subprocess.run(["docker", "kill", container], capture_output=True, check=False)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.communicate()
    started, _, report = output.partition(b"\n")
    if started + b"\n" != STARTED:
        return None, _summary(words.decode("utf-8", "replace"))
    try:
        return json.loads(report), ""
    except ValueError:
        result = "timed out" if late else "the process of its tests ended"
        return {"passed": False, "result": result, "protection": []}, ""


def _summary(words: str) -> str:
    """What a process said on one line; the last line of a traceback."""
    lines = words.strip().splitlines() or ["it ended without a word"]
    return " ".join((lines[-1] if "Traceback" in words else " ".join(lines)).split())[:300]


def _parts(*texts: str) -> bytes:
    """The texts, each after its length."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    return b"".join(len(data).to_bytes(8, "big") + data for data in encoded)


@cache
def _say_once(protection: tuple[str, ...]) -> None:
    logger.info("programs of the model run in a sandbox: %s", ", ".join(protection))
    if protection[0] == "none":
        logger.warning("--sandbox none: programs of the model run with your rights on your files and your network")
