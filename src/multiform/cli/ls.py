"""`multiform ls`: list tasks, groups, tags, and registered formats, models, metrics and so on."""

from __future__ import annotations

import argparse
import json
from typing import Any

from multiform.cli import options as flags
from multiform.cli.parser import one_of

KINDS = ("tasks", "subtasks", "groups", "tags", "formats", "models", "metrics", "filters", "scorers", "samplers")

HELP = "list tasks, formats, models, metrics and so on"
DESCRIPTION = "List tasks, formats, models, metrics and so on."
EXAMPLES = """\
examples:
  multiform ls tasks --include_path my_tasks
  multiform ls groups --include_path lm_eval
  multiform ls formats
  multiform ls metrics --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("kind", nargs="?", type=one_of(KINDS, "ls"), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_sources(parser)


def execute(options: argparse.Namespace) -> int:
    """Print one line for each entry, or a JSON list; without a kind, the help, as lm-eval does."""
    if options.kind is None:
        options.parser.print_help()
        return 0
    rows = _rows(options)
    if options.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['about']}".rstrip())
    return 0


def _rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.kind in ("tasks", "subtasks", "groups", "tags"):  # lm-eval calls single tasks subtasks
        return _indexed(options)
    return _registered(options.kind)


def _indexed(options: argparse.Namespace) -> list[dict[str, Any]]:
    from multiform.catalog import TaskManager
    from multiform.catalog.index import warn_of
    from multiform.config.source import display

    index = TaskManager(options.include_path).index
    warn_of(sorted({str(error) for error in index.broken.values()}))
    if options.kind == "tags":
        return [{"name": tag, "about": ", ".join(tasks), "tasks": tasks} for tag, tasks in index.tags().items()]
    names = index.names("group" if options.kind == "groups" else "task")
    return [{"name": n, "about": (path := display(index.entries[n].path)), "path": path} for n in names]


def _registered(kind: str) -> list[dict[str, Any]]:
    if kind == "models":
        from multiform.models import models

        return [{"name": name, "about": models.get(name).about} for name in models]
    registry = _registry(kind)
    rows = [{"name": name, "about": _first_line(registry.get(name))} for name in registry]
    return rows + _dialects() if kind == "formats" else rows


def _dialects() -> list[dict[str, Any]]:
    """The names of templates and styles, which can be used as formats."""
    from multiform.formats import dialect_names

    return [{"name": name, "about": _first_line(dialect_names.get(name))} for name in dialect_names]


def _registry(kind: str) -> Any:
    from multiform.formats import formats
    from multiform.forms import samplers
    from multiform.scoring.filters import filters
    from multiform.scoring.metrics import metrics
    from multiform.scoring.scorers import scorers

    table: dict[str, Any] = {
        "formats": formats,
        "metrics": metrics,
        "filters": filters,
        "scorers": scorers,
        "samplers": samplers,
    }
    return table[kind]


def _first_line(entry: Any) -> str:
    from multiform.scoring.metrics import Metric

    described = entry.fn if isinstance(entry, Metric) else entry
    return (described.__doc__ or "").strip().partition("\n")[0]
