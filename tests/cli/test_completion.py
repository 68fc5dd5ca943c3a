"""`multiform completion`, and what a shell gets when Tab is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from multiform.cli.ls import SHELLS
from multiform.cli.main import main

argcomplete = pytest.importorskip("argcomplete")


def completions(line: str, tmp_path) -> list[str]:
    """What the shell would offer at the end of the line."""
    out = tmp_path / "completions"
    settings = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(out), "_ARGCOMPLETE_IFS": "\n"}
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    code = "import sys; from multiform.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings, **asked}, check=False, timeout=60)
    return [word.strip() for word in out.read_text().split("\n")]


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("multiform va", "validate"),
        ("multiform run arc_e", "arc_easy"),
        ("multiform run --tasks qui", "quiz"),
        ("multiform show quiz@c", "quiz@cloze"),
        ("multiform run quiz@mcqa+c", "quiz@mcqa+cot"),
        ("multiform run quiz --model bun", "bundled"),
        ("multiform run quiz --log_s", "--log_samples"),
        ("multiform docs to", "tour"),
        ("multiform ls mod", "models"),
    ],
)
def test_the_shell_completes(line, word, tmp_path):
    assert word in completions(line, tmp_path)


@pytest.mark.process
def test_completion_imports_nothing_heavy():
    code = (
        "import sys; from multiform.cli.main import parser; from multiform.cli.ls import complete_tasks\n"
        "parser('run'); complete_tasks('arc'); complete_tasks('quiz@')\n"
        "assert not {'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_code_for_a_shell_names_the_command(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "multiform" in capsys.readouterr().out


#: For each shell: a script that loads the code and asks what `multiform show quiz@c` becomes, or how it is completed.
ASK = {
    "bash": (["bash", "-c"], 'eval "$(multiform completion bash)"; complete -p multiform', "_python_argcomplete"),
    "zsh": (
        ["zsh", "-f", "-c"],
        'autoload -Uz compinit; compinit -D -u; eval "$(multiform completion zsh)"; print ${_comps[multiform]}',
        "_python_argcomplete",
    ),
    "fish": (
        ["fish", "--no-config", "-c"],
        'multiform completion fish | source; complete -C "multiform show quiz@c"',
        "quiz@cloze",
    ),
}


@pytest.mark.process
@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_the_code(shell, tmp_path):
    command, script, answer = ASK[shell]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{shell} is not installed: make shells")
    (tmp_path / "multiform").write_text(f'#!/bin/sh\nexec {sys.executable} -m multiform "$@"\n')
    (tmp_path / "multiform").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [*command, script], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert answer in done.stdout, done.stderr


def test_help_lists_common_flags_and_help_all_every_flag(capsys):
    assert main(["run", "--help"]) == 0
    short = capsys.readouterr().out
    assert main(["run", "--help", "all"]) == 0
    whole = capsys.readouterr().out
    assert "--limit" in short
    assert "--bootstrap_iters" not in short
    assert "multiform run --help all lists" in short
    assert "--bootstrap_iters" in whole
    assert len(short.splitlines()) < 100


@pytest.mark.parametrize("command", ["show", "validate", "lint", "diff"])
def test_other_commands_leave_rare_flags_to_help_all_too(command, capsys):
    assert main([command, "--help"]) == 0
    short = capsys.readouterr().out
    assert "-f, --num_fewshot N" in short
    assert "--fewshot_draws" not in short
    assert main([command, "--help", "all"]) == 0
    assert "--fewshot_draws" in capsys.readouterr().out


def test_lines_of_help_fit_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("view", "diff", "gate"):
        assert main([command, "--help", "all"]) == 0
        text = capsys.readouterr().out.partition("examples:")[0]
        assert max(map(len, text.splitlines())) <= 80


def test_run_without_arguments_says_what_to_type(capsys):
    assert main(["run"]) == 2
    assert "type e.g. multiform run quiz@all --limit 20" in capsys.readouterr().err
