"""`multiform lint`: find what would spoil the scores of a task, before a model is run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from multiform.cli import options as flags
from multiform.cli.parser import Command
from multiform.errors import MultiformError, UsageError
from multiform.run.values import SOURCES, count

if TYPE_CHECKING:
    from multiform.lint import Finding, FormFindings, Tokenizer


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("names", nargs="*", metavar="T[@F]", help="tasks, as for run --tasks")
    parser.add_argument(
        "--tokenizer", metavar="PATH", help="check tokens as well: a folder, a name on the hub, or bundled"
    )
    parser.add_argument(
        "--max_length",
        metavar="N",
        type=count(1).reader("--max_length"),
        help="how many tokens the model reads (default: what the tokenizer says)",
    )
    flags.add_flag(parser, "limit", help="documents to look at (default: all)")
    parser.add_argument("--explain", metavar="CODE", help="what a code means and what to do about it; all for all")
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_flags(parser, "prompts", SOURCES)
    flags.add_code(parser)


def _execute(options: argparse.Namespace) -> int:
    """Print every finding; the exit code is 1 if there are any, and 2 where a task cannot be checked."""
    from multiform.arguments import split_outside
    from multiform.lint import Tokenizer

    if options.explain is not None:
        return _explain(options.explain, as_json=options.json)
    if not options.names:
        raise UsageError("no tasks named", where="lint", hint="name some, e.g. multiform lint my_task.yaml")
    if options.max_length is not None and options.tokenizer is None:
        raise UsageError("nothing is tokenized", where="--max_length", hint="add --tokenizer PATH")
    tokenizer = None if options.tokenizer is None else Tokenizer.load(options.tokenizer, max_length=options.max_length)
    linted: list[FormFindings] = []
    errors: list[str] = []
    for name in [name for spec in options.names for name in split_outside(spec, ",")]:
        forms, failed = _lint(name, options, tokenizer)
        linted += forms
        errors += failed
    findings = _distinct([finding for form in linted for finding in form.findings])
    if options.json:
        _print_json(linted, findings, errors)
    else:
        _print(linted, findings, errors)
    return 2 if errors else 1 if any(finding.level == "warning" for finding in findings) else 0


def _lint(name: str, options: argparse.Namespace, tokenizer: Tokenizer | None) -> tuple[list[FormFindings], list[str]]:
    """The findings about the forms of a name; an error in one does not hide the others."""
    from multiform.lint import lint_form
    from multiform.run.checks import check_output_types
    from multiform.run.setup import load_forms

    run = flags.run_options(options, tasks=name, limit=None)
    try:
        tasks, _ = load_forms(run)
        check_output_types(tasks)
    except MultiformError as error:
        return [], [str(error)]
    forms, errors = [], []
    for task in tasks:
        try:
            forms.append(lint_form(task, task.docs(limit=options.limit), tokenizer))
        except UsageError:
            raise
        except MultiformError as error:
            errors.append(str(error))
    return forms, errors


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those that all forms of a task have only once."""
    return list(dict.fromkeys(findings))


def _print(linted: Sequence[FormFindings], findings: Sequence[Finding], errors: Sequence[str]) -> None:
    for error in errors:
        print(f"error: {error}")
    for finding in findings:
        print(finding)
    silenced = _distinct([finding for form in linted for finding in form.silenced])
    forms = ", ".join(form.form for form in linted[:4]) + (f" and {len(linted) - 4} more" if len(linted) > 4 else "")
    if linted:
        silent = f", {len(silenced)} silenced" if silenced else ""
        number = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}" if findings else "nothing found"
        print(f"{forms}: {number}{silent}; {sum(form.docs for form in linted)} documents")


def _print_json(linted: Sequence[FormFindings], findings: Sequence[Finding], errors: Sequence[str]) -> None:
    from multiform.results.export import plain_json

    silenced = _distinct([finding for form in linted for finding in form.silenced])
    report = {
        "forms": [{"form": form.form, "docs": form.docs} for form in linted],
        "findings": [finding.to_dict() for finding in findings],
        "silenced": [finding.to_dict() for finding in silenced],
        "errors": list(errors),
    }
    print(plain_json(report))


def _explain(code: str, *, as_json: bool) -> int:
    from dataclasses import asdict

    from multiform.lint import CODES, explanation
    from multiform.results.export import plain_json

    texts = dict(CODES) if code == "all" else {code: explanation(code)}
    if as_json:
        print(plain_json({name: asdict(text) for name, text in texts.items()}))
    else:
        print("\n\n".join(f"{name}: {text}" for name, text in texts.items()))
    return 0


COMMAND = Command(
    help="find what would spoil the scores of a task: spaces, labels, few-shot examples, leaked answers",
    description="Find what would spoil the scores of a task, before a model is run.",
    examples="""\
examples:
  multiform lint my_task.yaml@all
  multiform lint my_task.yaml@mcqa --num_fewshot 3 --tokenizer path/to/model
  multiform lint my_task.yaml --tokenizer path/to/model --apply_chat_template --max_length 2048
  multiform lint --explain trailing_space

exit codes: 0 nothing found; 1 something found; 2 a task could not be checked
""",
    add_arguments=_add_arguments,
    execute=_execute,
)
