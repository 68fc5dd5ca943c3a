"""One program in a process of its own, with limits on time, memory, files and processes, and without a network."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from multiform.errors import UsageError

logger = logging.getLogger("multiform")

_CHILD = Path(__file__).with_name("child.py")
#: Seconds for starting the process and ending it, beside those of the program.
_STARTING = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a program ran to its end, and why not; `protection` lists what kept it from the machine."""

    passed: bool
    result: str
    protection: tuple[str, ...] = ()


def run_program(source: str, *, seconds: float = 3.0, megabytes: int = 2048) -> Outcome:
    """Run an untrusted Python program.

    It gets an empty folder, no environment, nothing on its standard streams, and no network.

    >>> run_program("assert 1 + 1 == 2").passed, run_program("assert 1 + 1 == 3").result
    (True, 'AssertionError: ')
    """
    if os.name != "posix":
        hint = "run it on Linux, best in a container"
        raise UsageError("programs of models are only run where their rights can be limited", hint=hint)
    read_end, write_end = os.pipe()
    try:
        with tempfile.TemporaryDirectory(prefix="program-", ignore_cleanup_errors=True) as folder:
            status = _run(source, seconds, megabytes, write_end, folder)
    finally:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            first, _, report = pipe.read(10_000).decode("utf-8", "replace").partition("\n")
    protection = tuple(json.loads(first)) if first.startswith("[") else ()
    _say_once(protection)
    if status in (-signal.SIGALRM, -signal.SIGXCPU, None):
        return Outcome(False, "timed out", protection)
    return Outcome(report == "passed", report or f"it ended the process (status {status})", protection)


def _run(source: str, seconds: float, megabytes: int, pipe: int, folder: str) -> int | None:
    """The exit status of the process; None where it had to be killed."""
    command = [sys.executable, "-I", "-B", str(_CHILD), str(seconds), str(megabytes), str(pipe)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": folder, "LANG": "C.UTF-8"},
        pass_fds=(pipe,),
        start_new_session=True,
    )
    try:
        process.communicate(source.encode("utf-8", "replace"), timeout=seconds + _STARTING)
        return process.returncode
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@cache
def _say_once(protection: tuple[str, ...]) -> None:
    logger.info("programs of the model run in processes of their own: %s", ", ".join(protection) or "none started")
    if protection and "network namespace" not in protection:
        logger.warning("no network namespace can be made here: only Python keeps programs from the network")
