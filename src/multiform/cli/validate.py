"""`multiform validate`: check the configuration, data and prompts of tasks."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import Command
from multiform.errors import MultiformError, UsageError
from multiform.run.values import SOURCES

if TYPE_CHECKING:
    from multiform.lint import Finding
    from multiform.run.options import RunOptions
    from multiform.tasks import TaskConfig, TaskManager

logger = logging.getLogger("multiform")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("names", nargs="*", metavar="T[@F]", help="tasks, as for run --tasks")
    parser.add_argument("--tasks", "-t", nargs="+", metavar="T[@F]", default=[], help="the same, as lm-eval has it")
    flags.add_flag(parser, "limit", default=100, help="documents to render (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_flags(parser, "prompts", SOURCES)
    flags.add_code(parser)


def _execute(options: argparse.Namespace) -> int:
    """Check every form and print all errors; the exit code is 2 if there are any."""
    from multiform.arguments import split_outside
    from multiform.results.export import plain_json
    from multiform.tasks import TaskManager

    names = [name for spec in [*options.names, *options.tasks] for name in split_outside(spec, ",")]
    if not names:
        raise UsageError("no tasks named", where="validate", hint="name some, e.g. multiform validate my_task.yaml")
    run = flags.run_options(options, tasks=names, limit=None)
    manager = TaskManager(run.include_path, design=run.design, dataset_mirror=run.dataset_mirror)
    logged: set[Finding] = set()
    checked = [row for name in names for row in _check(name, manager, run, options.limit, logged)]
    if options.json:
        print(plain_json(checked))
    else:
        for row in checked:
            print(f"error: {row['error']}" if row["error"] else f"ok: {row['form']}: {row['docs']} documents rendered")
    return 2 if any(row["error"] for row in checked) else 0


def _check(
    name: str, manager: TaskManager, run: RunOptions, limit: float, logged: set[Finding]
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
                yield _render(config, run, limit, logged)


def _render(config: TaskConfig, run: RunOptions, limit: float, logged: set[Finding]) -> dict[str, Any]:
    """The row of a form whose configuration is valid, after rendering its documents."""
    from multiform.lint import drop_silenced, lint_tasks, reference_findings
    from multiform.run.checks import check_output_types
    from multiform.run.setup import load_forms

    count = 0
    notes: list[MultiformError] = []
    try:
        forms, _ = load_forms(run.model_copy(update={"tasks": config, "include_path": None}))
        check_output_types(forms)
        findings = []
        for form in forms:
            samples = []
            for doc_id, doc in form.docs(limit=limit):
                samples.append(form.sample(doc_id, doc))
                count += 1
            notes += [*form.notes, *form.renderer.problems]
            findings += drop_silenced(form, reference_findings(form, samples))
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


COMMAND = Command(
    help="check tasks: configuration, data, and prompts of real documents",
    description="Check tasks: their configuration, their data, and the prompts of real documents.",
    examples="""\
examples:
  multiform validate my_task.yaml
  multiform validate my_task@all --include_path my_tasks --dataset_mirror data
  multiform validate my_task.yaml --limit 1000
""",
    add_arguments=_add_arguments,
    execute=_execute,
)
