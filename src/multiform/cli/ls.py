"""`multiform ls`, `docs` and `completion`: tasks, registered names and pages of the docs, also for the shell."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, nearest
from multiform.run.values import one_of
from multiform.terminal import align

if TYPE_CHECKING:
    from multiform.tasks.folders import Entry
    from multiform.tasks.index import Index

#: What is listed of a task beside its name.
ABOUT = ("title", "kind", "rows", "language", "licence")
KINDS = (
    *("tasks", "subtasks", "groups", "tags", "formats", "languages", "protocols", "models", "metrics", "filters"),
    *("scorers", "samplers", "exporters"),
)

#: The modules of the registries, which are named like the kinds.
_REGISTRIES = {
    "formats": "multiform.formats.base",
    "models": "multiform.models",
    "metrics": "multiform.scoring.metrics",
    "filters": "multiform.scoring.filters",
    "scorers": "multiform.scoring.scorers",
    "samplers": "multiform.forms",
    "exporters": "multiform.results.exchange.exporters",
}


@command(
    "list tasks, formats, models, metrics and so on",
    flag("kind", ", ".join(KINDS), one_of(KINDS).reader("ls"), nargs="?", metavar="KIND"),
    JSON,
    flag("--kind", "only tasks of a kind, such as math", dest="task_kind", metavar="WORDS"),
    flag("--language", "only tasks in a language, such as de", metavar="CODE"),
    flags.option("include_path"),
    flags.option("imports"),
    examples="""\
examples:
  multiform ls tasks --kind math --language de
  multiform ls tasks --include_path my_tasks
  multiform ls groups --include_path lm_eval
  multiform ls formats
  multiform ls metrics --json
""",
)
def ls(options: argparse.Namespace) -> None:
    """Print one line for each entry, or a JSON list; without a kind, the help, as lm-eval does."""
    if options.kind is None:
        options.parser.print_help()
        return
    if options.kind in ("tasks", "subtasks", "groups", "tags"):  # lm-eval calls single tasks subtasks
        rows = _index_rows(options)
    else:
        rows = _protocol_rows(options) if options.kind == "protocols" else _registry_rows(options.kind)
    columns = ["name", *ABOUT] if options.kind == "tasks" and any("title" in row for row in rows) else ["name", "about"]
    cells = [[str(row.get(column) or row["about"] if column == "title" else row.get(column, "")) for column in columns]
             for row in rows]  # fmt: skip
    if len(columns) > 2 and sys.stdout.isatty():
        cells.insert(0, columns)
    unchecked = [
        f"{task}@{protocol['name']} may differ from what was published in {'; in '.join(texts)}"
        for protocol in (rows if options.kind == "protocols" else ())
        for task, texts in protocol["unchecked"].items()
    ]
    print_result(options, rows, [*align(cells), *unchecked])


def _protocol_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    from multiform.tasks.folders import task_folders
    from multiform.tasks.protocols import read_protocols

    return [
        {
            "name": protocol.name,
            "about": f"version {protocol.version}: {protocol.about} ({', '.join(protocol.tasks)})",
            "version": protocol.version,
            "versions": dict(protocol.versions),
            "tasks": {task: list(entries) for task, entries in protocol.tasks.items()},
            "source": protocol.published,
            "unchecked": {task: list(texts) for task, texts in protocol.unchecked.items()},
        }
        for protocol in read_protocols(task_folders(options.include_path)).values()
    ]


def _index_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    from multiform.paths import display
    from multiform.tasks.folders import task_folders
    from multiform.tasks.index import build_index, warn_of

    index = build_index(task_folders(options.include_path))
    warn_of(sorted({str(error) for error in index.broken.values()}))
    if options.kind == "tags":
        return [{"name": tag, "about": ", ".join(tasks), "tasks": tasks} for tag, tasks in index.tags.items()]
    if options.kind == "tasks":
        rows = list(map(_task_row, _families(index).values()))
        wanted = [row for row in rows if _is_wanted(row, options)]
        if not wanted:
            raise _no_such_tasks(rows, options)
        return wanted
    names = index.names("group" if options.kind == "groups" else "task")
    return [{"name": n, "about": (path := display(index.entries[n].path)), "path": path} for n in names]


def _families(index: Index) -> dict[str, list[Entry]]:
    """The tasks by name; those of one group with subsets together, the group first."""
    families: dict[str, list[Entry]] = {}
    for name in sorted(index.entries):
        entry = index.entries[name]
        if entry.family is not None:
            families.setdefault(entry.family, [index.entries[entry.family]]).append(entry)
        elif entry.kind == "task":
            families[name] = [entry]
    return dict(sorted(families.items()))


def _task_row(entries: Sequence[Entry]) -> dict[str, Any]:
    """What is known of a task, or of all subsets of a dataset."""
    from multiform.paths import display

    first, members = entries[0], entries[1:]
    row = {"name": first.name, "about": (path := display(first.path)), "path": path, **first.about}
    if members:
        rows = [number for entry in members if isinstance(number := entry.about.get("rows"), int)]
        if not isinstance(row.get("rows"), int):
            row["rows"] = sum(rows) if rows else "unknown"
        row["languages"] = sorted({str(entry.about["language"]) for entry in members if "language" in entry.about})
        row["language"] = (
            ", ".join(row["languages"]) if len(row["languages"]) < 4 else f"{len(row['languages'])} languages"
        )
        row["tasks"] = [entry.name for entry in members]
    return row


def _is_wanted(row: Mapping[str, Any], options: argparse.Namespace) -> bool:
    """Whether a row is of the kind and language that the flags name."""
    kind, language = (options.task_kind or "").lower(), (options.language or "").lower()
    languages = [name.lower() for name in row.get("languages", [str(row.get("language", ""))])]
    return kind in str(row.get("kind", "")).lower() and (not language or language in languages)


def _no_such_tasks(rows: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> UsageError:
    """The error for a kind or language that no task has, with the nearest ones that some have."""
    kinds = sorted({str(row["kind"]) for row in rows if "kind" in row})
    languages = sorted({name for row in rows for name in row.get("languages", [str(row.get("language", ""))]) if name})
    if options.task_kind and not any(options.task_kind.lower() in kind.lower() for kind in kinds):
        hint = nearest(options.task_kind, kinds, listed="there are")
        return UsageError(f"no task of kind '{options.task_kind}'", where="--kind", hint=hint)
    hint = nearest(str(options.language), languages, listed="there are")
    return UsageError(f"no such task in language '{options.language}'", where="--language", hint=hint)


def _registry_rows(kind: str) -> list[dict[str, Any]]:
    """The entries of a registry, each with the first line of its docstring."""
    if kind == "languages":
        from multiform.formats.localization import language_codes

        return list(map(_language_row, language_codes()))
    if kind == "metrics":
        import_module("multiform.scoring.scorers")  # which register metrics of their own
    registries = [getattr(import_module(_REGISTRIES[kind]), kind)]
    if kind == "formats":  # names of templates and styles are formats, too
        from multiform.formats.base import dialect_names

        registries.append(dialect_names)
    return [{"name": name, "about": _about(registry.get(name))} for registry in registries for name in registry]


def _language_row(code: str) -> dict[str, Any]:
    """A language: its name, script, some words, and what no source or speaker has confirmed."""
    from multiform.formats.localization import local_words

    words = local_words(code)
    unsure = f"; unsure: {', '.join(words.unsure)}" if words.unsure else ""
    about = f"{words.name} ({words.script}): {words.cue('question')} {words.cue('answer')}{unsure}"
    return {"name": code, "about": about, "unsure": list(words.unsure), "checked_by": list(words.checked_by)}


def _about(entry: Any) -> str:
    """What a model says of itself, or the first line of a docstring; that of a metric is its function's."""
    text = getattr(entry, "about", None) or getattr(entry, "fn", entry).__doc__ or ""
    return str(text).strip().partition("\n")[0]


SHELLS = {
    "bash": 'eval "$(multiform completion bash)"    in ~/.bashrc',
    "zsh": 'eval "$(multiform completion zsh)"     in ~/.zshrc, below compinit',
    "fish": "multiform completion fish | source    in ~/.config/fish/config.fish",
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
    completers: dict[str, Callable[..., Iterable[str]]] = {  # other values are completed as files
        "T[@F]": complete_tasks,
        "model": lambda **_: import_module("multiform.models").models,
        "topic": lambda **_: find_pages(),
        "kind": lambda **_: KINDS,
        "shell": lambda **_: SHELLS,
    }
    commands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    for action in (action for subparser in commands.choices.values() for action in subparser._actions):
        completer = completers.get("T[@F]" if action.metavar == "T[@F]" else action.dest)
        action.completer = completer
    argcomplete.autocomplete(top, always_complete_options=False)


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
    names = sorted({*index.entries, *index.tags})
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
