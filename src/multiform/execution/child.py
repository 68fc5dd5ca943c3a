"""Runs the program on standard input without rights: a script for a process of its own, which imports nothing of ours.

Arguments: seconds, megabytes, and the number of the pipe that reports go to. The first line of the report lists what
protects the machine; the second says ``passed``, or why not. A program that ends the process leaves the second out.
"""

import contextlib
import ctypes
import io
import json
import os
import resource
import signal
import sys

_NEW_USER, _NEW_NETWORK, _NEW_IPC, _NEW_MOUNTS = 0x10000000, 0x40000000, 0x08000000, 0x00020000
_NO_NEW_PRIVILEGES = 38

#: What a program may not do, by the beginnings of Python's audit events.
_REFUSED = (
    "ctypes.", "ftplib.", "http.", "imaplib.", "nntplib.", "poplib.", "smtplib.", "socket.", "subprocess.", "syslog.",
    "telnetlib.", "urllib.", "winreg.", "shutil.", "pty.", "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill",
    "os.killpg", "os.link", "os.mkdir", "os.posix_spawn", "os.remove", "os.removexattr", "os.rename", "os.rmdir",
    "os.setxattr", "os.spawn", "os.symlink", "os.system", "os.truncate", "os.utime", "resource.setrlimit",
    "resource.prlimit", "signal.pthread_kill", "sys.addaudithook",
)  # fmt: skip


def separated() -> bool:
    """Whether the process could get a network of its own, in which there is nothing."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    return any(libc.unshare(flags) == 0 for flags in (_NEW_USER | _NEW_NETWORK | _NEW_IPC | _NEW_MOUNTS, _NEW_NETWORK))


def limit(megabytes: int, seconds: float) -> None:
    """Limits on memory, time, the size and number of files, and new processes."""
    limits = {
        resource.RLIMIT_AS: megabytes * 2**20,
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_FSIZE: 2**20,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for kind, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # the system allows less already
            resource.setrlimit(kind, (most, most))


def guard(folder: str) -> None:
    """Refuse what would reach out of the process: files elsewhere, other processes, the network."""
    places = {sys.prefix, sys.base_prefix, folder, *filter(None, sys.path)}
    readable = tuple(os.path.realpath(path) + os.sep for path in places)
    inside = os.path.realpath(folder) + os.sep

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int):
                return
            real = os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if not real.startswith(inside if writes or set(str(mode or "")) & set("wax+") else readable):
                raise PermissionError(f"a program may not open {path!r}")
        elif event.startswith(_REFUSED):
            raise PermissionError(f"a program may not use {event}")

    sys.addaudithook(audit)


def main() -> None:
    """Read the program, give up every right, run it, and report."""
    seconds, megabytes, pipe = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    source = sys.stdin.buffer.read().decode("utf-8", "replace")
    protection = ["network namespace"] if separated() else ["sockets refused by Python"]
    limit(megabytes, seconds)
    os.write(pipe, (json.dumps([*protection, "resource limits", "audit hook"]) + "\n").encode())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    sys.stdin = sys.stdout = sys.stderr = io.StringIO()
    guard(os.getcwd())
    try:
        exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
        report = "passed"
    except BaseException as error:  # noqa: BLE001 - whatever a program raises, it has failed
        report = f"{type(error).__name__}: {error}"[:200]
    os.write(pipe, report.encode("utf-8", "replace"))
    os._exit(0)


if __name__ == "__main__":
    main()
