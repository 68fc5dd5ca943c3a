"""Commands import what they use, and begin at once."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

import multiform

pytestmark = pytest.mark.process

HEAVY = {"torch", "transformers", "datasets", "pyarrow", "numpy", "scipy", "pandas", "httpx"}
CODE = "import sys; from multiform.cli.main import main; main(); print(*sys.modules, file=sys.stderr)"


def loaded(*argv: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    done = subprocess.run([sys.executable, "-c", CODE, *argv], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "run --help",
        "--version",
        "ls tasks",
        "ls formats",
        "ls models",
        "ls metrics",
        "ls filters",
        "show quiz@mcqa --doc 0",
        "show quiz@cot --doc 0 --num_fewshot 2 --json",
        "validate quiz",
    ],
)
def test_a_light_command_loads_nothing_heavy(command: str) -> None:
    assert loaded(*command.split()) & HEAVY == set()


def test_help_reads_neither_tasks_nor_templates() -> None:
    assert loaded("--help") & {"jinja2", "yaml", "multiform.tasks", "multiform.forms"} == set()


def test_listing_tasks_with_a_cached_index_reads_no_configuration() -> None:
    loaded("ls", "tasks")
    heavier = {"jinja2", "yaml", "multiform.tasks.config", "multiform.forms", "multiform.tasks.manager"}
    assert loaded("ls", "tasks") & heavier == set()


def test_help_takes_a_quarter_of_a_second_at_most() -> None:
    times = []
    for _ in range(3):
        before = cpu()
        subprocess.run([sys.executable, "-m", "multiform.cli.main", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(cpu() - before)
    assert min(times) < 0.25


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_every_public_name_is_there_and_they_are_sorted_and_listed() -> None:
    assert [name for name in multiform.__all__ if getattr(multiform, name, None) is None] == []
    assert dir(multiform) == sorted(multiform.__all__)


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="module 'multiform' has no attribute 'evaluat'"):
        multiform.evaluat  # type: ignore[attr-defined]  # noqa: B018


def test_a_public_name_stays_what_it_is_once_modules_are_imported() -> None:
    code = "import multiform.run, multiform.cli.run, multiform; print(callable(multiform.evaluate))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"
