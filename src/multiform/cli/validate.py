"""`multiform validate`: what is wrong with a task, and where."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags

if TYPE_CHECKING:
    from multiform.evaluate import PromptSettings

_EXAMPLES = """\
examples:
  multiform validate my_task.yaml
  multiform validate my_task@all --include_path my_tasks --dataset_mirror data
  multiform validate my_task.yaml --limit 1000
"""


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "validate",
        help="check tasks: configuration, data, and prompts of real documents",
        description="Check tasks: their configuration, their data, and the prompts of real documents.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="T[@F]", help="tasks, as for run --tasks")
    parser.add_argument("--tasks", "-t", nargs="+", metavar="T[@F]", default=[], help="the same, as lm-eval has it")
    parser.add_argument(
        "--limit", "-L", metavar="N", type=float, default=100, help="documents to render (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_prompt(parser)
    flags.add_sources(parser)
    flags.add_verbosity(parser)
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Check every form, and say all that is wrong before failing."""
    from multiform.errors import UsageError
    from multiform.evaluate import check_selection

    check_selection(options.limit, None)
    names = [name for spec in [*options.names, *options.tasks] for name in spec.split(",") if name]
    if not names:
        raise UsageError("no tasks named", hint="name some, e.g. multiform validate my_task.yaml")
    settings = flags.prompt_settings(options)
    checked = [row for name in names for row in _check(name, settings, options)]
    if options.json:
        print(json.dumps(checked, indent=2, ensure_ascii=False))
    else:
        for row in checked:
            print(f"error: {row['error']}" if row["error"] else f"ok: {row['form']}: {row['docs']} documents rendered")
    return 2 if any(row["error"] for row in checked) else 0


def _check(name: str, settings: PromptSettings, options: argparse.Namespace) -> list[dict[str, Any]]:
    from multiform.errors import MultiformError
    from multiform.evaluate import load_tasks

    rows = []
    try:
        forms = load_tasks([name], settings, include_path=options.include_path, dataset_mirror=options.dataset_mirror)
    except MultiformError as error:
        return [{"form": name, "docs": 0, "error": str(error)}]
    for form in forms:
        count = 0
        try:
            for doc_id, doc in form.doc_iterator(limit=options.limit):
                form.requests_of(doc_id, doc, settings.options(None))
                count += 1
        except MultiformError as error:
            rows.append({"form": form.name, "docs": count, "error": str(error)})
            continue
        rows.append({"form": form.name, "docs": count, "error": None})
    return rows
