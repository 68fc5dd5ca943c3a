"""What the Linux kernel refuses a process: system calls (seccomp), files (Landlock), resources and other processes."""

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Sequence

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SET_DEATH_SIGNAL, _SET_DUMPABLE = 38, 22, 1, 4
_NEW_USER, _NEW_PROCESSES, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x08000000
_SIGKILL = 9

#: The numbers of refused system calls on x86-64 and on ARM, by name; None where there is no such call.
with open(f"{os.path.dirname(__file__)}/refused_calls.txt") as _file:
    _REFUSED: dict[str, list[int | None]] = {
        line.split()[0]: [None if number == "-" else int(number) for number in line.split()[1:]]
        for line in _file
        if line.strip() and not line.startswith("#")
    }
#: System calls that are refused with some values of an argument: numbers, the argument, and the values.
_REFUSED_VALUES = {
    "prctl": ((157, 167), 0, (_SET_DEATH_SIGNAL, _SET_DUMPABLE)),
    "fcntl": ((72, 25), 1, (8, 10, 15, 1026)),  # signals to whoever owns a file, and notices about folders
    "ioctl": ((16, 29), 1, (0x5410, 0x5412, 0x541C, 0x8901, 0x8902)),  # the same, and input for a terminal
}
#: System calls that are allowed on the process itself alone: numbers, with the argument that names a process.
_OWN_PROCESS = {"tgkill": (234, 131), "prlimit64": (302, 261), "sched_setaffinity": (203, 122)}
_CLONE, _CLONE3, _CLONE_THREAD = (56, 220), 435, 0x00010000
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

#: Landlock: reading, what a file allows and what a folder of one's own; all rights by the version that knows them.
_READ_FILE, _READ_FOLDER = 4, 8
_FILE_RIGHTS = 2 | _READ_FILE | 0x4000
_OWN_FOLDER = 2 | _READ_FILE | _READ_FOLDER | 16 | 32 | 128 | 256 | 0x4000
_KNOWN_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_CREATE_RULES, _ADD_RULE, _RESTRICT = 444, 445, 446


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def limit_resources(megabytes: int, seconds: float) -> None:
    """Limit memory, computing time, the size and number of files."""
    limits = {
        resource.RLIMIT_AS: megabytes * 2**20,
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_FSIZE: 2**20,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    for limit, most in limits.items():
        try:
            resource.setrlimit(limit, (most, most))
        except (ValueError, OSError):  # the system allows less already
            continue


def hide_from_siblings() -> None:
    """Keep other processes of the same user from reading and changing this one's memory and files."""
    if sys.platform.startswith("linux"):
        _libc().prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends."""
    if sys.platform.startswith("linux"):
        _libc().prctl(_SET_DEATH_SIGNAL, _SIGKILL, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up all rights that root has over others."""
    header = struct.pack("Ii", 0x20080522, 0)
    _libc().capset(header, bytes(24))


def leave_namespaces() -> bool:
    """Move into namespaces without other processes and without a network, where the system allows to make them.

    The process that returns is the first of its namespace: when it ends, the kernel ends all others.
    """
    if _libc().unshare(_NEW_USER | _NEW_PROCESSES | _NEW_NETWORK | _NEW_IPC) != 0:
        return False
    child = os.fork()
    if child == 0:
        die_with_parent()
        return True
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def refuse_system_calls() -> bool:
    """Install the seccomp filter; whether there is one for this machine. It stays for threads and children."""
    libc = _libc()
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if platform.machine() not in _MACHINES:
        return False
    instructions = b"".join(_filter(*_MACHINES[platform.machine()], os.getpid()))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
    return bool(libc.prctl(_SET_SECCOMP, 2, program, 0, 0) == 0)


def _filter(column: int, architecture: int, pid: int) -> Iterable[bytes]:
    """The instructions of the filter, for the numbers of one machine."""

    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("HBBI", code, then, otherwise, value)

    refuse = step(_RETURN, _ERROR | _EPERM)
    allow = step(_RETURN, _ALLOW)

    def argument(position: int) -> bytes:
        return step(_LOAD, 16 + 8 * position)  # the lower half: all of these arguments are of 32 bits

    def only_for(number: int, block: Sequence[bytes]) -> Iterable[bytes]:
        return [step(_EQUAL, number, 0, len(block)), *block]

    yield step(_LOAD, 4)
    yield from (step(_EQUAL, architecture, 1, 0), step(_RETURN, _KILL))
    yield step(_LOAD, 0)
    yield from (step(_AT_LEAST, 0x40000000, 0, 1), refuse)  # the numbers of x32, which mean the same calls
    yield from only_for(_CLONE3, [step(_RETURN, _ERROR | _ENOSYS)])  # its flags are out of sight: libc takes clone
    yield from only_for(_CLONE[column], [argument(0), step(_ANY_BIT, _CLONE_THREAD, 0, 1), allow, refuse])
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            yield from only_for(number, [refuse])
    for pair, position, values in _REFUSED_VALUES.values():
        tests = [instruction for value in values for instruction in (step(_EQUAL, value, 0, 1), refuse)]
        yield from only_for(pair[column], [argument(position), *tests, allow])
    for pair in _OWN_PROCESS.values():
        own = [step(_EQUAL, 0, 1, 0), step(_EQUAL, pid, 0, 1), allow, refuse]
        yield from only_for(pair[column], [argument(0), *own])
    yield allow


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 for none."""
    return max(0, int(_libc().syscall(_CREATE_RULES, None, 0, 1))) if sys.platform.startswith("linux") else 0


def restrict_files(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Allow reading below some paths, writing below others, and no other file; whether the kernel does it."""
    version = landlock_version()
    if version == 0:
        return False
    rights = _KNOWN_RIGHTS[min(version, 5)]
    attributes = struct.pack("Q", rights)
    attributes += struct.pack("Q", 3) if version >= 4 else b""  # no TCP
    attributes += struct.pack("Q", 3) if version >= 6 else b""  # no abstract sockets, no signals
    libc = _libc()
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    rules = libc.syscall(_CREATE_RULES, attributes, len(attributes), 0)
    reading = [(path, _READ_FILE | _READ_FOLDER) for path in readable]
    for path, allowed in [*reading, *((path, _OWN_FOLDER) for path in writable)]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed &= rights if os.path.isdir(path) else rights & _FILE_RIGHTS
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    restricted = libc.syscall(_RESTRICT, rules, 0) == 0
    os.close(rules)
    return bool(restricted)
