"""Half precision on CPUs that advertise AMX, which some virtual machines trap: the process dies without a message.

Only trying tells. So half precision is tried once in a child process, and the verdict is kept in the user's cache. If
the child dies, oneDNN is limited to the instructions below AMX by an environment variable, which it reads when it is
first used.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias

from multiform.errors import ModelError
from multiform.hashing import sha256
from multiform.paths import cache_root, replace_file

logger = logging.getLogger("multiform")

#: How half precision runs: as it is, only without AMX, or not at all.
Verdict: TypeAlias = Literal["runs", "limited", "crashes"]

VARIABLE, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
_CPUINFO = Path("/proc/cpuinfo")
#: Seconds after which a trial counts as failed; it takes as long as torch takes to start.
_TIMEOUT = 120
#: What is tried: a linear layer, a batch of products and attention, in both types.
_TRIAL = """
import torch
torch.set_num_threads(1)
for dtype in (torch.bfloat16, torch.float16):
    values = torch.ones(1, 4, 64, 64, dtype=dtype)
    torch.nn.Linear(64, 64, dtype=dtype)(values)
    torch.nn.functional.scaled_dot_product_attention(values, values, values)
    values[0] @ values[0]
"""
#: Signals that come from elsewhere, as when memory runs out, and say nothing about the CPU.
_FROM_ELSEWHERE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)
_WITHOUT_CORE_FILE = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"


@cache
def limit_instruction_set() -> Verdict:
    """Limit oneDNN to what this CPU really executes, by trying half precision where the CPU advertises AMX."""
    cpu = read_cpuinfo()
    has_amx = any(flag.startswith("amx_") for flag in cpu.get("flags", "").split())
    if not has_amx or _runs(cpu, os.environ.get(VARIABLE, "")):
        return "runs"
    if not _runs(cpu, WITHOUT_AMX):
        return "crashes"
    os.environ[VARIABLE] = WITHOUT_AMX
    return "limited"


def check_half_precision(*, where: str) -> None:
    """Raise a ModelError where half precision would end this process."""
    verdict = limit_instruction_set()
    if verdict == "crashes":
        message = "half precision crashes on this CPU, with AMX and without"
        raise ModelError(message, where=where, hint="give dtype=float32")
    if verdict != "limited":
        return
    if not _survives_in_fork():
        raise ModelError(
            "half precision crashes here: the CPU advertises AMX and traps it, and torch has already been used with it",
            where=where,
            hint=f"set {VARIABLE}={WITHOUT_AMX} before Python starts, or give dtype=float32",
        )
    logger.warning(
        "this CPU advertises AMX, but half precision crashes with it: it runs without, by %s=%s", VARIABLE, WITHOUT_AMX
    )


def read_cpuinfo() -> dict[str, str]:
    """What Linux says about the first core of this machine; empty elsewhere."""
    try:
        lines = [line.split(":", 1) for line in _CPUINFO.read_text().split("\n\n")[0].splitlines() if ":" in line]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, value in lines}


def _runs(cpu: Mapping[str, str], limit: str) -> bool:
    """Whether half precision runs with oneDNN under a limit, by a trial whose outcome is kept for later processes.

    A trial that says nothing about the CPU is logged and not kept.
    """
    depends_on = [f"{cpu.get('model name')} {cpu['flags']}", platform.node(), platform.release()]
    key = "\n".join([*depends_on, metadata.version("torch"), limit, _TRIAL])
    record = cache_root() / "half-precision" / sha256(key)[:24]
    with contextlib.suppress(OSError, ValueError, KeyError):  # none yet, or it is damaged
        return {"runs": True, "crashes": False}[record.read_text()]
    logger.info("this CPU advertises AMX: half precision is tried once in another process")
    status, error = _run_trial(limit)
    if status > 0 or status in _FROM_ELSEWHERE:
        reason = error or f"the trial ended with status {status}"
        logger.warning("half precision cannot be tried on this CPU, which advertises AMX: %s", reason)
        return True
    try:
        with replace_file(record) as partial:
            partial.write_text("crashes" if status else "runs")
    except OSError as problem:
        logger.debug("the verdict on half precision is not kept: %s", problem)
    return status == 0


def _run_trial(limit: str) -> tuple[int, str]:
    """The exit status of a trial in a new process, negative if it dies, and the last line of its errors."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= {VARIABLE: limit} if limit else {}
    command = [sys.executable, "-c", _WITHOUT_CORE_FILE + _TRIAL]
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM, "it takes too long"
    except OSError as error:
        return 1, str(error)
    return ended.returncode, (ended.stderr.strip().splitlines() or [""])[-1]


def _survives_in_fork() -> bool:
    """Whether half precision runs in a copy of this process.

    It does not if oneDNN was used before it was limited, for it reads its variable once.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads do not live on in a fork; this one uses none
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        faulthandler.disable()  # that this copy may die is expected
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_TIMEOUT)
        exec(_WITHOUT_CORE_FILE + _TRIAL, {})
        os._exit(0)
    finally:  # whatever happens, this copy must not go on with the program
        os._exit(1)
