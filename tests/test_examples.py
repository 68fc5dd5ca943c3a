"""The scripts in `examples/` run offline, and print what their docstrings say."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def documented(script: Path) -> tuple[list[str], str]:
    """The command of a script's docstring, after `python`, and the output that stands below it."""
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    before, _, output = docstring.partition("\nprints::\n\n")
    command = next(line.split() for line in before.splitlines() if line.startswith("    python "))
    return command[1:], textwrap.dedent(output).strip()


@pytest.mark.parametrize("script", [pytest.param(script, id=script.stem) for script in SCRIPTS])
def test_the_example_prints_what_its_docstring_says(script: Path) -> None:
    command, output = documented(script)
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False, cwd=EXAMPLES.parent
    )
    assert done.returncode == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == output.splitlines()


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in EXAMPLES.iterdir() if file.is_file() and f"`{file.name}`" not in listed] == [
        "README.md"
    ]
