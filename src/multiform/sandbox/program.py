"""Programs of models: the sandbox that they run in, and one program, called by its tests from another process."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from math import comb
from pathlib import Path
from typing import Any

from multiform.errors import ModelError, UsageError, nearest
from multiform.sandbox.guest import STARTED

logger = logging.getLogger("multiform")

#: What `--sandbox` takes; `docker` may be followed by a colon and an image.
SANDBOXES = ("bwrap", "landlock", "docker", "none")
#: What the kernel of this system offers, in the order of preference.
_AUTOMATIC = ("bwrap", "landlock")
IMAGE = f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
#: The folder of what runs inside.
GUEST = Path(__file__).with_name("guest")
_IN_SANDBOX = "/run/multiform"
#: The size of the only folder that a program can write to.
_FOLDER_BYTES = 64 * 2**20
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
#: The whole environment of a program.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": "/tmp", "LANG": "C.UTF-8"}
#: Seconds for starting the processes and ending them, beside those of the program.
_STARTING = 30.0
_INSTALL = "install bubblewrap (e.g. apt install bubblewrap)"

_chosen: ContextVar[str | None] = ContextVar("sandbox", default=None)


@contextlib.contextmanager
def using_sandbox(name: str | None) -> Iterator[None]:
    """Run programs in this sandbox; None stands for that of the environment, or the best one that works here."""
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def is_sandbox(name: object) -> bool:
    """Whether a value names a sandbox.

    >>> is_sandbox("bwrap"), is_sandbox("docker:python:3.12"), is_sandbox("jail")
    (True, True, False)
    """
    return isinstance(name, str) and (name in SANDBOXES or bool(re.fullmatch(r"docker:\S+", name)))


def chosen_sandbox() -> str:
    """The sandbox that was asked for, else the best one that works here; a UsageError where there is none."""
    if os.name != "posix":
        raise UsageError("programs of models only run on Linux and macOS", hint="run them in a container")
    name = _chosen.get() or os.environ.get("MULTIFORM_SANDBOX") or None
    if name is not None and not is_sandbox(name):
        raise UsageError(f"no sandbox '{name}'", where="--sandbox", hint=nearest(name, SANDBOXES, listed="sandboxes"))
    if name is not None:
        problem = _problem(name)
        if problem is None:
            return name
        hint = f"{_INSTALL}, or leave the flag out" if name == "bwrap" else "leave the flag out, or give another one"
        hint = "start the engine, and pull the image" if name.startswith("docker") else hint
        raise UsageError(f"{name} does not work here: {problem}", where="--sandbox", hint=hint)
    problems = {known: _problem(known) for known in _AUTOMATIC}
    working = [known for known, problem in problems.items() if problem is None]
    if not working:
        reasons = "; ".join(f"{known}: {problem}" for known, problem in problems.items())
        message = f"programs of models only run in a sandbox, and there is none here ({reasons})"
        hint = f"{_INSTALL}, give --sandbox docker, or run all of this in a container and give --sandbox none "
        raise UsageError(message, where="--sandbox", hint=f"{hint}(also $MULTIFORM_SANDBOX)")
    return working[0]


@cache
def _problem(name: str) -> str | None:
    """Why a sandbox does not work here, by a try; None where it does."""
    from multiform.sandbox.guest import main  # noqa: F401  (writes its bytecode, which then is read in the sandbox)

    if name in _AUTOMATIC and not sys.platform.startswith("linux"):
        return "it needs Linux"
    program = {"bwrap": "bwrap", "docker": "docker"}.get(name.partition(":")[0])
    if program is not None and shutil.which(program) is None:
        return f"{program} is not installed"
    report, words = run_in_sandbox(name, "", "", seconds=10.0, megabytes=2048)
    if report is None:
        return words
    return None if report["passed"] else str(report["result"])


def run_in_sandbox(
    sandbox: str, source: str, checks: str, *, seconds: float, megabytes: int
) -> tuple[dict[str, Any] | None, str]:
    """The report of the tests' process; None where it could not be started, with what was said instead."""
    container = f"multiform-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="program-", ignore_cleanup_errors=True) as folder:
        job = {
            "sandbox": sandbox,
            "program": source.encode("utf-8", "replace").decode(),  # no source has halves of surrogate pairs
            "seconds": seconds,
            "megabytes": megabytes,
            "folder": folder,
            "readable": [*_readable_paths(), str(GUEST)],
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
            texts = [text.encode("utf-8", "replace") for text in (json.dumps(job), checks)]
            parts = b"".join(len(text).to_bytes(8, "big") + text for text in texts)  # each after its length
            output, words = process.communicate(parts, timeout=seconds + _STARTING)
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


def command(name: str, container: str) -> list[str]:
    """The command that starts the process of the tests; `container` is what a container is called."""
    if name == "bwrap":
        return [*_bubblewrap(), *_python(sys.executable, _IN_SANDBOX)]
    if name.startswith("docker"):
        return [*_docker(name.partition(":")[2] or IMAGE, container), *_python("python3", _IN_SANDBOX)]
    return _python(sys.executable, str(GUEST.parent))


def _python(executable: str, folder: str) -> list[str]:
    start = f"import sys; sys.path.insert(0, {folder!r}); from guest.main import main; del sys.path[0]; main()"
    return [executable, "-I", "-B", "-c", start]


def _bubblewrap() -> list[str]:
    """Namespaces without a network and other processes, and a file system of what Python needs, read-only."""
    places = [part for path in _readable_paths() if path not in _DEVICES for part in ("--ro-bind-try", path, path)]
    guest = ["--ro-bind", str(GUEST), f"{_IN_SANDBOX}/guest"]
    size = ["--size", str(_FOLDER_BYTES)] if _bubblewrap_version() >= (0, 7) else []
    return [
        *(str(shutil.which("bwrap")), "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--hostname", "sandbox", *places, *guest, "--dev", "/dev", "--remount-ro", "/dev"),
        *(*size, "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/", "--"),
    ]


@cache
def _bubblewrap_version() -> tuple[int, ...]:
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _docker(image: str, container: str) -> list[str]:
    return [
        *("docker", "run", "--rm", "--interactive", "--name", container, "--network", "none", "--read-only"),
        *("--tmpfs", f"/tmp:rw,noexec,nosuid,size={_FOLDER_BYTES},mode=1777", "--workdir", "/tmp"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "256", "--memory", "4g"),
        *("--user", "65534:65534", "--ipc", "none", "--volume", f"{GUEST}:{_IN_SANDBOX}/guest:ro"),
        *(option for name, value in ENVIRONMENT.items() for option in ("--env", f"{name}={value}")),
        image,
    ]


def _readable_paths() -> Sequence[str]:
    """What Python and its packages need: the interpreter, its environment and the system's libraries."""
    prefixes = [sys.prefix, sys.base_prefix, *map(os.path.realpath, (sys.prefix, sys.base_prefix))]
    return [path for path in dict.fromkeys([*prefixes, *_SYSTEM, *_DEVICES]) if os.path.exists(path)]


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

    The tests run in another process than the program, which cannot forge their result. Without tests, a program
    passes that runs to its end, by its own word. It gets an empty folder, no environment and no network.

    >>> run_program("def f(x): return 2 * x", "assert f(2) == 4").result
    'passed'
    >>> run_program("def f(x): return x", "assert f(2) == 4").result
    'AssertionError: '
    """
    sandbox = sandbox or chosen_sandbox()
    report, words = run_in_sandbox(sandbox, source, checks, seconds=seconds, megabytes=megabytes)
    if report is None:
        message = f"the sandbox {sandbox} could not be started for a program: {words}"
        raise ModelError(message, hint="check the memory and the processes of the machine, and run it again")
    protection = (sandbox, *report["protection"])
    if report["protection"]:
        _say_once(protection)
    return Outcome(report["passed"] is True, str(report["result"]), protection)


@cache
def _say_once(protection: tuple[str, ...]) -> None:
    logger.info("programs of the model run in a sandbox: %s", ", ".join(protection))
    if protection[0] == "none":
        logger.warning("--sandbox none: programs of the model run with your rights on your files and your network")


class CodeEval:
    """The metric `code_eval` of the library evaluate: the same arguments and results, but in a sandbox."""

    def compute(
        self,
        *,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: Sequence[int] = (1, 10, 100),
        num_workers: int = 4,
        timeout: float = 3.0,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """The value of pass@k for each k, and what became of each program by problem.

        >>> tests, programs = ["assert f(2) == 4"], [["def f(x): return 2 * x", "def f(x): return x"]]
        >>> CodeEval().compute(references=tests, predictions=programs, k=[1, 2])[0]
        {'pass@1': 0.5, 'pass@2': 1.0}
        """
        sandbox = chosen_sandbox()  # here, as threads do not know what was chosen
        places = [(problem, number) for problem, programs in enumerate(predictions) for number in range(len(programs))]

        def outcome(place: tuple[int, int]) -> Outcome:
            problem, number = place
            program, tests = predictions[problem][number], references[problem]
            return run_program(program, tests, seconds=timeout, sandbox=sandbox)

        results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        with ThreadPoolExecutor(max_workers=num_workers) as pool:
            for (problem, number), result in zip(places, pool.map(outcome, places), strict=True):
                verdict = {"passed": result.passed, "result": result.result}
                results[problem].append((number, {"task_id": problem, "completion_id": number, **verdict}))
        # The probability that at least one of `most` programs, drawn from all without repetition, passes.
        counts = [(len(entries), sum(entry["passed"] for _, entry in entries)) for entries in results.values()]
        values = {
            f"pass@{most}": sum(1.0 - comb(n - right, most) / comb(n, most) for n, right in counts) / len(counts)
            for most in k
            if counts and min(counts)[0] >= most
        }
        return values, results
