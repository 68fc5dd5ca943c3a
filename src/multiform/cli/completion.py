"""`multiform completion`: the names of commands, flags, tasks, formats and models, completed by the shell."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable

from multiform.cli.parser import Command
from multiform.errors import UsageError
from multiform.run.values import one_of

SHELLS = {
    "bash": 'eval "$(multiform completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(multiform completion zsh)" in ~/.zshrc, below compinit',
    "fish": "multiform completion fish | source in ~/.config/fish/config.fish",
}


def complete(parser: Callable[[str | None], argparse.ArgumentParser]) -> None:
    """Print the completions that the shell asks for, and end the process; return where it asks for none."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    words = re.findall(r"\S+", os.environ.get("COMP_LINE", ""))[1:]
    top = parser(words[0] if words else "")
    for subparser in _subparsers(top):
        for action in subparser._actions:
            completer = _completer(action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(top, always_complete_options=False)


def _subparsers(top: argparse.ArgumentParser) -> Iterable[argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _completer(action: argparse.Action) -> Callable[..., Iterable[str]] | None:
    """What completes the values of a flag; None leaves it to files."""
    if action.metavar == "T[@F]":
        return complete_tasks
    match action.dest:
        case "model":
            return _complete_models
        case "topic":
            return _complete_pages
        case "kind":
            return lambda **_: str(action.help).split(", ")
        case "shell":
            return lambda **_: SHELLS
    return None


def complete_tasks(prefix: str, parsed_args: argparse.Namespace | None = None, **others: object) -> list[str]:
    """Names of tasks, groups and tags that begin like the last one of ``a,b``; formats after an ``@`` or ``+``.

    >>> complete_tasks("quiz@c")
    ['quiz@cloze', 'quiz@cot']
    >>> complete_tasks("quiz@mcqa,qu")[:1]
    ['quiz@mcqa,quac']
    """
    before, comma, last = prefix.rpartition(",")
    stem = before + comma
    if "@" in last:
        base, mark = re.match(r"(.*[@+])(.*)", last).groups()  # type: ignore[union-attr]
        return [f"{stem}{base}{name}" for name in _format_names() if name.startswith(mark)]
    from multiform.tasks.index import build_index, task_folders

    try:
        folders = task_folders(getattr(parsed_args, "include_path", None))
    except UsageError:  # of a folder that does not exist
        folders = task_folders(None)
    index = build_index(folders)
    names = sorted({*index.entries, *index.tags()})
    return [stem + name for name in names if name.startswith(last)]


def _format_names() -> list[str]:
    from multiform.formats import formats

    return [*formats, "all"]


def _complete_models(**_: object) -> list[str]:
    from multiform.models import models

    return list(models)


def _complete_pages(**_: object) -> list[str]:
    from multiform.cli.docs import find_pages

    return list(find_pages())


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    reader = one_of(tuple(SHELLS)).reader("completion")
    parser.add_argument("shell", type=reader, metavar="|".join(SHELLS), help="your shell")


def _execute(options: argparse.Namespace) -> int:
    """Print the code that the shell evaluates when it starts."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        message = "completion needs the package argcomplete"
        raise UsageError(message, where="completion", hint="pip install 'multiform[completion]'") from error
    print(shellcode(["multiform"], shell=options.shell))
    return 0


COMMAND = Command(
    help="complete commands, flags, tasks and formats in the shell",
    description="Print what your shell needs to complete commands, flags, tasks, formats and models.",
    examples="put one of these lines into the start file of your shell:\n"
    + "\n".join(f"  {line}" for line in SHELLS.values())
    + "\n",
    add_arguments=_add_arguments,
    execute=_execute,
)
