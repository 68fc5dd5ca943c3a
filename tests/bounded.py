"""Runs many attacks in one child process with limits of memory and time, and says what came of each."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import multiform

#: The most address space of the child, in bytes, and its CPU seconds; far more than all attacks of a table need.
_MEMORY = 6 * 2**30
_SECONDS = 120
#: No attack computes for longer, in seconds, or needs more memory, in MB.
MOST_SECONDS = 2.5
MOST_MEMORY = 600


def outcomes(script: str, attacks: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    """What a script wrote about each attack; an attack that ends the child, or keeps it for 20 s, has none.

    The script defines ``attack(case)``, which returns a mapping.
    """
    (folder / "script.py").write_text(_BEFORE + script + _AFTER)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))

    environment = {**os.environ, "PYTHONPATH": str(Path(multiform.__file__).parents[1])}
    command = [sys.executable, str(folder / "script.py"), str(folder)]
    found: dict[str, dict[str, Any]] = {}
    waiting = dict(attacks)
    while waiting:
        (folder / "attacks.json").write_text(json.dumps(waiting))
        subprocess.run(
            command, stderr=subprocess.DEVNULL, timeout=600, check=False, preexec_fn=limit, cwd=folder, env=environment
        )
        found |= dict(map(json.loads, (folder / "outcomes.jsonl").read_text().splitlines()))
        waiting = {name: case for name, case in waiting.items() if name not in found}
        waiting.pop(next(iter(waiting), ""), None)  # it has ended the child
    return found


_BEFORE = """
import json, resource, signal, sys, time
from pathlib import Path

"""
_AFTER = """

def usage():
    return [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]

folder = Path(sys.argv[1])
with (folder / "outcomes.jsonl").open("w") as log:
    for name, case in json.loads((folder / "attacks.json").read_text()).items():
        signal.alarm(20)
        before = usage()
        outcome = attack(case)
        after = usage()
        outcome["seconds"] = sum(a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime for a, b in zip(after, before))
        outcome["memory"] = (after[0].ru_maxrss - before[0].ru_maxrss) / 1024
        print(json.dumps([name, outcome]), file=log, flush=True)
"""

#: Runs a command in a folder, as `Folder.run` of the tests of the command line does.
COMMAND = """
import contextlib, io, os
from multiform.cli.main import main

os.environ |= {"MULTIFORM_STORE": str(Path(sys.argv[1]) / "answers.db"), "HF_HUB_OFFLINE": "1",
               "XDG_CACHE_HOME": str(Path(sys.argv[1]) / "cache"), "HF_HOME": str(Path(sys.argv[1]) / "hf")}

def attack(case):
    os.chdir(case["folder"])
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(case["argv"].split())
    return {"code": code, "shown": out.getvalue(), "executed": Path("executed").exists()}
"""


def lay_out(files: Mapping[str, Any], folder: Path) -> None:
    """Write files into a folder: text, bytes, ``("pipe",)``, ``("link", target)``, or a function of the path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == ("pipe",):
            os.mkfifo(path)
        elif isinstance(content, tuple):
            path.symlink_to(content[1])
        elif callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def check(outcome: Mapping[str, Any] | None, code: int, says: str) -> None:
    """The attack came to nothing but one message, or to nothing at all where the code is 0."""
    assert outcome is not None, "the process that read it has ended or hangs"
    shown = outcome["shown"]
    assert outcome["code"] == code, shown
    assert len([line for line in shown.splitlines() if line.startswith("error:")]) == (1 if code else 0), shown
    assert says in shown
    assert "Traceback" not in shown
    assert "this is a bug" not in shown
    assert not outcome["executed"]
    assert outcome["seconds"] < MOST_SECONDS
    assert outcome["memory"] < MOST_MEMORY
