"""The tests' process: it starts the program in a process of its own, calls it from there, and reports the result.

The program never runs in the process that decides. It gets the arguments of the tests' calls and sees neither the
tests nor the expected values; results come back as plain values, and are compared here.
"""

import builtins
import importlib
import io
import json
import os
import signal
import socket
import sys
import time
from types import CodeType
from typing import Any, NoReturn

from . import STARTED
from .kernel import (
    die_with_parent,
    drop_capabilities,
    hide_from_siblings,
    leave_namespaces,
    limit_resources,
    refuse_system_calls,
    restrict_files,
)
from .peer import Peer

_LINUX = sys.platform.startswith("linux")


def main() -> None:
    """Read the job from standard input, run it, and write the report to standard output.

    The tests are read when the program's process exists, which otherwise would have a copy of them.
    """
    source, report = os.dup(0), os.dup(1)
    job = json.loads(_read_part(source))
    protection = _separate(job) if job["sandbox"] == "landlock" else []
    _close_streams()
    ours, theirs = socket.socketpair()
    limit_resources(job["megabytes"], job["seconds"])
    pid = os.fork()
    if pid == 0:
        os.close(source)
        os.close(report)
        ours.close()
        _run_program(job, theirs)
    theirs.close()
    hide_from_siblings()
    protection += _refuse_calls(job)
    os.write(report, STARTED)
    tests = _Tests(pid, ours, report, [*protection, "resource limits"])
    tests.run(_read_part(source).decode(), job["seconds"])


def _read_part(source: int) -> bytes:
    """The next part of the input, which begins with its length; nothing beyond it is read."""
    return _read_bytes(source, int.from_bytes(_read_bytes(source, 8), "big"))


def _read_bytes(source: int, length: int) -> bytes:
    data = b""
    while len(data) < length:
        chunk = os.read(source, length - len(data))
        if not chunk:
            raise SystemExit("the job is cut off")
        data += chunk
    return data


def _separate(job: Any) -> list[str]:
    """Namespaces and Landlock, which bubblewrap and a container bring themselves."""
    namespaces = ["process and network namespaces"] if leave_namespaces() else []
    if not restrict_files([*job["readable"], *sys.path], [job["folder"], os.devnull]):
        raise SystemExit("the kernel has no Landlock")
    return [*namespaces, "Landlock"]


def _refuse_calls(job: Any) -> list[str]:
    """The filter of system calls; it is a must where nothing else keeps processes and networks apart."""
    if job["sandbox"] == "none" or not _LINUX:
        return []
    drop_capabilities()
    filtered = refuse_system_calls()
    if not filtered and job["sandbox"] == "landlock":
        raise SystemExit("there is no seccomp filter for this machine")
    return ["seccomp"] if filtered else []


def _close_streams() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    sys.stdin = sys.stdout = sys.stderr = io.StringIO()


def _run_program(job: Any, connection: socket.socket) -> NoReturn:
    """The program's process: run it, then answer calls to what it defines. It ends with the tests' process."""
    die_with_parent()
    _refuse_calls(job)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    peer = Peer(connection, guarded=False, on_end=lambda: os._exit(0))
    try:
        exec(compile(job["program"], "<program>", "exec"), names)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises, it has failed
        peer.send(["failed", describe(error)])
        os._exit(0)
    peer.names = names
    peer.send(["ready"])
    while True:
        peer.serve(*peer.receive())


class _Tests:
    """The tests of one program."""

    def __init__(self, pid: int, connection: socket.socket, report: int, protection: list[str]) -> None:
        self._pid = pid
        self._report = report
        self._protection = protection
        self._peer = Peer(connection, guarded=True, on_end=self._end_of_program)

    def run(self, checks: str, seconds: float) -> NoReturn:
        """Run the tests once the program has run to its end."""
        signal.signal(signal.SIGALRM, lambda *_: self._finish("timed out"))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        state, *content = self._peer.receive()
        if state != "ready":
            self._finish(str(content[0]) if state == "failed" and content else "it sent something else than its state")
        try:
            code = compile(checks, "<tests>", "exec")
            exec(code, {"__name__": "__main__", **self._names(code)})
        except BaseException as error:  # noqa: BLE001 - whatever the tests raise, the program has failed
            self._finish(describe(error))
        self._finish("passed", passed=True)

    def _names(self, code: CodeType) -> dict[str, Any]:
        """The names of the program that the tests use.

        Where the tests use names of its own, it replaces neither builtins nor modules of Python: a program that
        defines `abs` would decide what counts as close.
        """
        used = [name for name in self._peer.ask("names") if name in _names_in(code) and name[:2] != "__"]
        own = [name for name in used if not (hasattr(builtins, name) or name in sys.stdlib_module_names)]
        modules = [name for name in used if name in sys.stdlib_module_names] if own else []
        found = {name: self._peer.lookup(name) for name in own or used}
        return {**found, **{name: importlib.import_module(name) for name in modules}}

    def _end_of_program(self) -> NoReturn:
        """The program's process has ended, or closed the connection: then it does not end by itself."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        for _ in range(100):
            if pid:
                break
            time.sleep(0.01)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        self._finish("timed out" if code == -signal.SIGXCPU else f"it ended the process (status {code})")

    def _finish(self, result: str, *, passed: bool = False) -> NoReturn:
        """Report the result, and end; the kernel then ends the program's process."""
        report = {"passed": passed, "result": result[:200], "protection": self._protection}
        os.write(self._report, json.dumps(report).encode())
        os._exit(0)


def _names_in(code: CodeType) -> set[str]:
    """The names that a piece of code and the functions in it look up."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))


def describe(error: BaseException) -> str:
    """An error on one line."""
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except Exception:  # noqa: BLE001 - its text may be anybody's code
        return "an error without a text"
