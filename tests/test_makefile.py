"""`make test` ends with a message, whatever happens to the processes that run the tests."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]

GOOD = "import time\n\ndef test_good():\n    time.sleep(0.2)\n"


def run_as_make_does(folder: Path, bad: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """Run a folder of tests, one of them bad, with the options of the Makefile but a shorter timeout."""
    for number in range(4):
        (folder / f"test_good{number}.py").write_text(GOOD)
    (folder / "test_bad.py").write_text(
        f"import os, time\n\ndef test_bad():\n    {bad}\n\ndef test_after():\n    pass\n"
    )
    settings = dict(re.findall(r"^(\w+) \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    options = shlex.split(f"{settings['WORKERS']} {settings['TIMEOUT']}")
    options = [re.sub(r"timeout=\d+$", f"timeout={seconds - ('faulthandler' in each)}", each) for each in options]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=.", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_process_that_dies_ends_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    run = run_as_make_does(tmp_path, "os.abort()", seconds=60)
    assert run.returncode == 1
    assert "crashed while running 'test_bad.py::test_bad'" in run.stdout


def test_a_test_that_hangs_ends_the_run_with_its_stack(tmp_path: Path) -> None:
    run = run_as_make_does(tmp_path, "time.sleep(1000)", seconds=4)
    assert run.returncode == 1
    assert "crashed while running 'test_bad.py::test_bad'" in run.stdout
    assert 'test_bad.py", line 4 in test_bad' in run.stderr
