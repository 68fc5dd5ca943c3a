"""`multiform validate`: check the configuration, data and prompts of tasks."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli import values
from multiform.errors import MultiformError, UsageError

if TYPE_CHECKING:
    from multiform.forms import RunSettings
    from multiform.lint import Finding
    from multiform.tasks import TaskConfig, TaskManager

logger = logging.getLogger("multiform")

HELP = "check tasks: configuration, data, and prompts of real documents"
DESCRIPTION = "Check tasks: their configuration, their data, and the prompts of real documents."
EXAMPLES = """\
examples:
  multiform validate my_task.yaml
  multiform validate my_task@all --include_path my_tasks --dataset_mirror data
  multiform validate my_task.yaml --limit 1000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("names", nargs="*", metavar="T[@F]", help="tasks, as for run --tasks")
    parser.add_argument("--tasks", "-t", nargs="+", metavar="T[@F]", default=[], help="the same, as lm-eval has it")
    parser.add_argument(
        "--limit", "-L", metavar="N", type=values.limit, default=100, help="documents to render (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_prompt(parser)
    flags.add_sources(parser)
    flags.add_code(parser)


def execute(options: argparse.Namespace) -> int:
    """Check every form and print all errors; the exit code is 2 if there are any."""
    from multiform.formats.variation import split_outside
    from multiform.results.export import plain_json
    from multiform.tasks import TaskManager

    names = [name for spec in [*options.names, *options.tasks] for name in split_outside(spec, ",")]
    if not names:
        raise UsageError("no tasks named", where="validate", hint="name some, e.g. multiform validate my_task.yaml")
    settings = flags.prompt_settings(options)
    manager = TaskManager(options.include_path, design=flags.design(options), dataset_mirror=options.dataset_mirror)
    logged: set[Finding] = set()
    checked = [row for name in names for row in _checked(name, manager, settings, options, logged)]
    if options.json:
        print(plain_json(checked))
    else:
        for row in checked:
            print(f"error: {row['error']}" if row["error"] else f"ok: {row['form']}: {row['docs']} documents rendered")
    return 2 if any(row["error"] for row in checked) else 0


def _checked(
    name: str, manager: TaskManager, settings: RunSettings, options: argparse.Namespace, logged: set[Finding]
) -> Iterator[dict[str, Any]]:
    """A row for each form of a task or group; an error in one does not hide the others."""
    from multiform.tasks import Group

    try:
        targets = manager.targets(name)
    except MultiformError as error:
        yield _row(name, error=error)
        return
    for target in targets:
        shown = name if len(targets) == 1 else target.path.stem
        try:
            labels = manager.labels(target)
        except MultiformError as error:
            yield _row(shown, error=error)
            continue
        for label in labels:
            try:
                node = manager.node(target, label)
            except MultiformError as error:
                yield _row(shown, error=error)
                continue
            for config in node.tasks() if isinstance(node, Group) else [node]:
                yield _rendered(config, settings, options, logged)


def _rendered(
    config: TaskConfig, settings: RunSettings, options: argparse.Namespace, logged: set[Finding]
) -> dict[str, Any]:
    """The row of a form whose configuration is valid, after rendering its documents."""
    from multiform.lint import lint_tasks, reference_findings, unsilenced
    from multiform.run.setup import check_output_types, load_tasks

    count = 0
    notes: list[MultiformError] = []
    try:
        design = flags.design(options)
        forms = load_tasks([config], settings, dataset_mirror=options.dataset_mirror, design=design)
        check_output_types(forms)
        findings = []
        for form in forms:
            samples = []
            for doc_id, doc in form.docs(limit=options.limit):
                samples.append(form.sample(doc_id, doc))
                count += 1
            notes += [*form.notes, *form.renderer.doubts]
            findings += unsilenced(form, reference_findings(form, samples))
        findings += lint_tasks((form, form.docs()) for form in forms)
        _log(findings, logged)
    except MultiformError as error:
        return _row(config.form_name, docs=count, error=error)
    return _row(config.form_name, docs=count, notes=[*notes, *findings])


def _log(findings: Sequence[Finding], logged: set[Finding]) -> None:
    """Log each finding once, however many formats of a task have it."""
    for finding in findings:
        if finding not in logged:
            logger.log(logging.WARNING if finding.level == "warning" else logging.INFO, "%s", finding)
    logged.update(findings)


def _row(
    form: str, *, docs: int = 0, error: MultiformError | None = None, notes: Sequence[MultiformError | Finding] = ()
) -> dict[str, Any]:
    shown = None if error is None else str(error)
    return {"form": form, "docs": docs, "error": shown, "warnings": [str(note) for note in notes]}
