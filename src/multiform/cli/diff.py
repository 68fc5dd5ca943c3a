"""`multiform diff`: what two forms of a task do differently."""

from __future__ import annotations

import argparse
import json
import shutil
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING

from multiform.cli import options as flags
from multiform.cli.parser import Command
from multiform.errors import UsageError
from multiform.run.values import SOURCES

if TYPE_CHECKING:
    from multiform.forms.difference import FormDifference


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("first", metavar="A@x", help="a task with a format or protocol, which stands for one form")
    parser.add_argument("second", metavar="B@y", help="the form that it is compared with")
    parser.add_argument("--doc", type=int, default=0, metavar="N", help="the document (default: 0)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_flags(parser, "prompts", SOURCES)
    flags.add_code(parser)


def _execute(options: argparse.Namespace) -> int:
    """Print two prompts side by side, and a sentence for each difference."""
    from multiform.forms.difference import compare_forms
    from multiform.run.setup import load_forms

    forms = []
    for name in (options.first, options.second):
        named, _ = load_forms(flags.run_options(options, tasks=name))
        if len(named) != 1:
            listed = ", ".join(form.name for form in named[:4])
            raise UsageError(f"it stands for {len(named)} forms", where=name, hint=f"name one of {listed}")
        forms.append(named[0])
    number = min(len(form.eval_docs) for form in forms)
    if not 0 <= options.doc < number:
        raise UsageError(f"no document {options.doc}", where="--doc", hint=f"there are documents 0 to {number - 1}")
    difference = compare_forms(forms[0], forms[1], options.doc)
    if options.json:
        print(json.dumps(difference.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print_difference(difference)
    return 0


def _print_difference(difference: FormDifference) -> None:
    width = max(40, (shutil.get_terminal_size((120, 24)).columns - 3) // 2)
    print(f"{difference.names[0]:<{width}} | {difference.names[1]}")
    print("-" * width + "-+-" + "-" * width)
    lines, others = (prompt.split("\n") for prompt in difference.prompts)
    for tag, start, end, other_start, other_end in SequenceMatcher(None, lines, others, autojunk=False).get_opcodes():
        for left, right in zip_longest(lines[start:end], others[other_start:other_end], fillvalue=""):
            rows = zip_longest(_wrap(left, width), _wrap(right, width), fillvalue="")
            for part, other in rows:
                print(f"{part:<{width}} {'|' if tag == 'equal' else '!'} {other}".rstrip())
    print()
    sentences = difference.sentences()
    for sentence in sentences or ["Nothing differs."]:
        print(f"* {sentence}")


def _wrap(line: str, width: int) -> list[str]:
    return [line[start : start + width] for start in range(0, len(line), width)] or [""]


COMMAND = Command(
    help="show what two forms of a task do differently",
    description=(
        "Show what two forms do differently: their prompts side by side, byte by byte, and few-shot examples, metric, "
        "extraction, split and subset, with one sentence for each difference."
    ),
    examples="""\
examples:
  multiform diff quiz@mcqa quiz@cloze --num_fewshot 2
  multiform diff mmlu_anatomy@helm mmlu_anatomy@olmes-mc
  multiform diff gsm8k@wei8 gsm8k@llama3 --json
""",
    add_arguments=_add_arguments,
    execute=_execute,
)
