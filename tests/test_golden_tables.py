"""What commands print, as whole texts: each file of `golden/tables` has a command in its first line, and its output.

The commands run in a folder with the files of `golden/tables/tasks`. Of JSON only the shape is kept: names, and the
kinds of values. To write the outputs again, or those of a new file that holds a command alone::

    make golden
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden" / "tables"
CASES = sorted(file.stem for file in GOLDEN.glob("*.txt"))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the commands print, from a process in which no other test has registered anything."""
    folder = tmp_path_factory.mktemp("printed")
    done = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", CASES)
def test_the_command_prints_the_golden_text(name: str, printed: Path) -> None:
    text = (printed / f"{name}.txt").read_text(encoding="utf-8")
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert text == golden, "if that is meant: make golden"


def write_outputs(destination: Path) -> None:
    """Run the command of every golden file, and write the same files with what is printed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "folder")
        shutil.copytree(GOLDEN / "tasks", folder)
        os.environ |= {
            "MULTIFORM_STORE": f"{place}/answers.db",
            "XDG_CACHE_HOME": f"{place}/cache",
            "HF_HUB_OFFLINE": "1",
        }
        os.environ.pop("MULTIFORM_DATASET_MIRROR", None)
        os.chdir(folder)
        for name in CASES:
            command = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").partition("\n")[0]
            text = f"{command}\n{output(shlex.split(command)[2:])}"
            (destination / f"{name}.txt").write_text(text, encoding="utf-8")


def output(argv: list[str]) -> str:
    """What a command prints; of one that fails, the message and the exit code as well."""
    from multiform.cli.main import main
    from multiform.tasks.folders import LIBRARY

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(argv)
    text = stdout.getvalue()
    if code:
        errors = [line for line in stderr.getvalue().splitlines(keepends=True) if line.startswith("error:")]
        return "".join([text, *errors, f"exit code {code}\n"])
    if "--json" in argv:
        return json.dumps(shape(json.loads(text)), indent=2, ensure_ascii=False) + "\n"
    lines = text.replace(str(LIBRARY), "LIBRARY").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def shape(value: Any) -> Any:
    """A value of JSON with the kinds of what it holds; a list has the shape of its first item."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    kinds = {str: "text", bool: "true or false", int: "number", float: "number", type(None): None}
    return kinds[type(value)]


if __name__ == "__main__":
    write_outputs(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN)
