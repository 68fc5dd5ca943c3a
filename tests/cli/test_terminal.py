"""What a run shows: in a terminal of 80 columns, in a pipe, and never of the libraries that it uses."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import warnings

import pytest

from multiform.cli.parser import quiet_libraries
from tests.cli.conftest import Folder

COLUMNS = 80
RUN = ("run", "quiz@mcqa+cloze+generate", "--model", "dummy", "--limit", "6", "--output_path", "out")


def shown_in_terminal(folder: Folder, *argv: str) -> str:
    """What a command writes to a terminal of 80 columns that is its standard output and error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        folder.command(*argv), cwd=folder.path, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait(60) == 0
    return written.decode()


def without_codes(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()


@pytest.mark.process
def test_a_run_in_a_terminal_of_80_columns_ends_with_all_there_is_to_know(folder: Folder) -> None:
    lines = without_codes(shown_in_terminal(folder, *RUN))
    paths = [line for line in lines if "/" in line and "out" in line]  # which nothing may split
    assert max(len(line) for line in lines if line not in paths) <= COLUMNS
    text = "\n".join(lines)
    order = ["planning", "running 54 requests for 18 documents", "Best − worst", "differences: ", "took 0:0"]
    order += ["next: multiform report out"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.process
def test_a_run_in_a_pipe_has_plain_lines(folder: Folder) -> None:
    ran = folder.process(*RUN)
    assert "\x1b" not in ran.err + ran.out
    assert "\r" not in ran.err
    assert re.search(
        r"^100% · 54 of 54 requests · [\d,.]+ requests/s · 0:\d\d · about 0:00 left$", ran.err, re.MULTILINE
    )
    scores = re.findall(r"^  quiz@(\w+) +\w+ +(\d\.\d{4}) \(\d\.\d{4} to \d\.\d{4}\)  6/6$", ran.err, re.MULTILINE)
    assert scores == re.findall(r"^ (\w+) .* (\d\.\d{4}) ± ", ran.out, re.MULTILINE)


def test_libraries_say_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("a library's warning", stacklevel=1)
        logging.getLogger("a_library").warning("a library's log")
        bars = "from tqdm import tqdm\nfor _ in tqdm(range(3)): pass"
        done = subprocess.run([sys.executable, "-c", bars], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert capfd.readouterr().err == ""
    assert "TQDM_DISABLE" not in os.environ


def test_what_libraries_say_is_there_for_those_who_look_for_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("multiform")
    propagate, logger.propagate = logger.propagate, True
    try:
        with quiet_libraries(), caplog.at_level(logging.DEBUG, logger="multiform"):
            logging.getLogger("a_library").warning("a library's log")
    finally:
        logger.propagate = propagate
    assert "a_library: a library's log" in [
        record.getMessage() for record in caplog.records if record.name == "multiform"
    ]
