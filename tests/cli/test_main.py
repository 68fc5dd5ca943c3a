"""`multiform` itself: help, version, what it loads."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

COMMANDS = ["run", "show", "ls", "validate"]
HEAVY = {"torch", "transformers", "datasets", "pandas"}

LOADED = """\
import sys
from multiform.cli.main import main
for command in sys.argv[1:]:
    assert main(command.split()) == 0, command
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def test_help_names_every_command(folder):
    ran = folder.run("--help")
    assert ran.code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in ran.out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(folder, command):
    ran = folder.run(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"examples:\n  multiform {command} " in ran.out


def test_no_command_prints_the_help(folder):
    ran = folder.run()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("usage: multiform")


def test_help_is_a_command_as_well(folder):
    assert folder.run("help").out == folder.run("--help").out
    assert folder.run("help", "ls").out == folder.run("ls", "--help").out


def test_version_is_printed(folder):
    assert folder.run("--version").out.strip() == version("multiform")


@pytest.mark.process
def test_ctrl_c_while_python_exits_prints_no_traceback():
    code = "import atexit, os, signal, sys; from multiform.cli.main import main; sys.argv[1:] = ['--version']\n"
    code += "atexit.register(os.kill, os.getpid(), signal.SIGINT); sys.exit(main())"
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (-signal.SIGINT, b"")


@pytest.mark.process
@pytest.mark.parametrize(
    "commands",
    [
        ["--help", "--version", "run --help"],
        ["ls tasks", "ls groups", "ls tags", "ls formats", "ls models", "ls metrics", "ls filters", "ls scorers"],
        ["show quiz", "show quiz@generate --num_fewshot 2 --json"],
        ["validate quiz@all --limit 2"],
        ["run --model dummy --tasks quiz@mcqa --limit 2"],
    ],
    ids=["help", "ls", "show", "validate", "run"],
)
def test_nothing_heavy_is_imported(folder, commands):
    command = [sys.executable, "-c", LOADED, *commands]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder.path, check=False)
    assert done.returncode == 0, done.stderr
    assert HEAVY & set(done.stderr.split()) == set()


@pytest.mark.process
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["rum"], "error: multiform: no command 'rum'; did you mean 'run'?\n"),
        (["run", "--tasks", "quizz"], "error: quizz: no task, tag or file of that name; did you mean 'quiz'?\n"),
        (
            ["show", "quiz", "--doc", "99999"],
            "error: --doc: no document 99999; write N, A:B or all; there are documents 0 to 143\n",
        ),
    ],
    ids=["command", "task", "document"],
)
def test_wrong_input_is_one_line_on_standard_error(folder, argv, message):
    ran = folder.process(*argv)
    assert (ran.code, ran.out, ran.err) == (2, "", message)


@pytest.mark.process
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_is_no_error(folder, closed):
    command = shlex.join(folder.command("run", "--model", "dummy", "--tasks", "quiz", "--limit", "2"))
    assert subprocess.run(f"{command} {closed}", shell=True, cwd=folder.path, check=False).returncode == 0


@pytest.mark.process
def test_the_installed_command_is_the_same(folder):
    script = Path(sys.executable).with_name("multiform")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, folder.run("--version").out)


@pytest.mark.process
@pytest.mark.parametrize("trusted", [False, True], ids=["working folder", "PYTHONPATH"])
def test_code_of_the_working_folder_is_not_imported(folder, trusted):
    folder.task("process_docs: !function helper.f\n", name="tasks/task.yaml")
    folder.write({"tasks/rows.jsonl": (folder.path / "rows.jsonl").read_text()})
    folder.write({"helper.py": "open('executed', 'w').close()\ndef f(docs):\n    return docs\n"})
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *([str(folder.path)] if trusted else [])])
    ran = folder.process("validate", "tasks/task.yaml", env={**os.environ, "PYTHONPATH": path})
    assert ran.code == (0 if trusted else 2), ran
    assert (folder.path / "executed").exists() == trusted
