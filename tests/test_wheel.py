"""The wheel: installed into a clean environment of each Python that this machine has, it works as README says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
COMMANDS = (
    ("ls", "tasks"),
    ("show", "quiz@mcqa"),
    ("run", "--tasks", "quiz@mcqa+cloze", "--model", "dummy", "--output_path", "results", "--log_samples"),
    ("report", "results"),
    ("docs", "tour"),
)


def interpreter(version: str) -> str | None:
    """The Python of that version: this one, one on the path, or one of pyenv."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    places = sorted(versions.glob(f"{version}.*/bin/python3"))
    return str(places[-1]) if places else shutil.which(f"python{version}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    return next(folder.glob("multiform-*.whl"))


def test_the_wheel_has_the_pages_the_library_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"multiform/docs/tour.md", "multiform/docs/benchmarks/arc.md", "multiform/py.typed"} <= names
    assert {f"multiform/docs/{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")} <= names
    assert "multiform/tasks/library/commonsense/arc.yaml" in names
    assert any(name.startswith("multiform/report/assets/") for name in names)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_without_extras(version: str, wheel: Path, tmp_path: Path) -> None:
    _install(version, tmp_path, [str(wheel)])
    for command in COMMANDS:
        _run(["multiform", *command], tmp_path)
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_newcomer_gets_to_a_report_in_five_commands(version: str, wheel: Path, tmp_path: Path) -> None:
    """The first commands of README on two documents, with the wheel in the place of the repository.

    Before them comes the torch that README advises.
    """
    block = re.findall(r"(?:^    .+\n)+", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert [command[0] for command in commands] == ["pip", "pip", "multiform", "multiform"]
    _install(version, tmp_path, ["torch==2.13.0"])
    for command in commands:
        _run(["2" if word == "40" else word.replace(".[", f"{wheel}[") for word in command], tmp_path)
    assert "<title>quiz" in (tmp_path / "report.html").read_text(encoding="utf-8")
    results = json.loads(next((tmp_path / "results").rglob("results_*.json")).read_text(encoding="utf-8"))
    assert {"quiz@mcqa", "quiz@cloze", "quiz@generate"} <= set(results["results"])


def _install(version: str, folder: Path, packages: list[str]) -> None:
    """Install packages into a new environment of that Python."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    _run(["pip", "install", "-q", *packages], folder)


def _run(command: list[str], folder: Path) -> None:
    """Run a program of the environment, without what the shell sets for Multiform."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MULTIFORM"))}
    environment |= {"MULTIFORM_CACHE": str(folder / "cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    program = folder / "venv" / "bin" / command[0]
    done = subprocess.run(
        [program, *command[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stderr)
