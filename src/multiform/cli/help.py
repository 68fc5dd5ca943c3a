"""`multiform docs` and `completion`: pages of the documentation, and names that the shell completes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, nearest
from multiform.run.values import one_of
from multiform.terminal import align

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
    completers: dict[str, Callable[..., Iterable[str]]] = {
        "model": lambda **_: import_module("multiform.models").models,
        "topic": lambda **_: find_pages(),
        "kind": lambda **_: str(action.help).split(", "),
        "shell": lambda **_: SHELLS,
    }
    return complete_tasks if action.metavar == "T[@F]" else completers.get(action.dest)


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
        from multiform.formats.base import formats

        base, mark = re.match(r"(.*[@+])(.*)", last).groups()  # type: ignore[union-attr]
        return [f"{stem}{base}{name}" for name in (*formats, "all") if name.startswith(mark)]
    from multiform.tasks.folders import task_folders
    from multiform.tasks.index import build_index

    try:
        folders = task_folders(getattr(parsed_args, "include_path", None))
    except UsageError:  # of a folder that does not exist
        folders = task_folders(None)
    index = build_index(folders)
    names = sorted({*index.entries, *index.tags()})
    return [stem + name for name in names if name.startswith(last)]


@command(
    "complete commands, flags, tasks and formats in the shell",
    flag("shell", "your shell", one_of(tuple(SHELLS))),
    description="Print what your shell needs to complete commands, flags, tasks, formats and models.",
    examples="put one of these lines into the start file of your shell:\n"
    + "\n".join(f"  {line}" for line in SHELLS.values())
    + "\n",
)
def completion(options: argparse.Namespace) -> None:
    """Print the code that the shell evaluates when it starts."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        message = "completion needs the package argcomplete"
        raise UsageError(message, where="completion", hint="pip install 'multiform[completion]'") from error
    print(shellcode(["multiform"], shell=options.shell))


@command(
    "read a page of the documentation in the terminal",
    flag("topic", "a page, such as tour or guides/switching", nargs="?", metavar="TOPIC"),
    JSON,
    description="Show a page of the documentation. Without a topic, list the pages.",
    examples="""\
examples:
  multiform docs                  the pages, each with its title
  multiform docs tour             a tour in ten minutes
  multiform docs servers | less   models on servers
  multiform docs benchmarks/arc   a benchmark of the library
""",
)
def docs(options: argparse.Namespace) -> None:
    """Print the page, or the list of pages."""
    pages = find_pages()
    if options.topic is None:
        titles = {topic: _title(path) for topic, path in pages.items() if not topic.startswith("benchmarks/")}
        more = f"and {len(pages) - len(titles)} pages of benchmarks: multiform docs benchmarks/NAME"
        print_result(options, titles, [*align(list(titles.items())), more])
        return
    topic = options.topic.strip("/").removesuffix(".md").removeprefix("docs/")
    topic = topic.lower() if topic in _BESIDE_DOCS else topic
    matches = [name for name in pages if name == topic or name.rpartition("/")[2] == topic]
    if not matches:
        close = nearest(topic, pages)
        hint = close if close.startswith("did you mean") else "'multiform docs' lists them"
        raise UsageError(f"no page '{options.topic}'", where="multiform docs", hint=hint)
    text = pages[matches[0]].read_text(encoding="utf-8")
    if sys.stdout.isatty() and not options.json:
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print_result(options, {"topic": matches[0], "text": text}, [text])


#: The pages that the repository has beside its folder docs.
_BESIDE_DOCS = ("CHANGELOG", "CONTRIBUTING", "SECURITY")


def find_pages() -> dict[str, Path]:
    """The pages by topic: those inside of the installed package, or of the repository that it is run from."""
    package = Path(__file__).parents[1]
    folder = next((path for path in (package / "docs", package.parents[1] / "docs") if path.is_dir()), None)
    if folder is None:
        hint = "install Multiform from its wheel, or run it from its repository"
        raise UsageError("this installation has no documentation", where="multiform docs", hint=hint)
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    for name in _BESIDE_DOCS:  # of the wheel they are inside
        path = pages.pop(name, folder.parent / f"{name}.md")
        if path.is_file():
            pages[name.lower()] = path
    return dict(sorted(pages.items(), key=lambda item: (item[0].count("/"), item[0])))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()
