"""`multiform compare`: paired differences between two runs, with an exit code for continuous integration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags

if TYPE_CHECKING:
    from multiform.results.run_comparison import FormChange

_EXAMPLES = """\
examples:
  multiform compare results/base results/tuned
  multiform compare results/base lm_eval_results            with a run of lm-eval
  multiform compare base tuned --fail_below -0.02           exit code 1 where a form lost more than two points
  multiform compare base tuned --documents                  the numbers of the documents that changed
"""
#: How many numbers of changed documents are listed.
_LISTED = 40


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "compare",
        help="compare two runs: paired differences, changed documents, an exit code",
        description="Compare two runs, of Multiform or of lm-eval, document by document: the second minus the first.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("first", metavar="RUN_A", help="an --output_path, or a results_<date>.json in it")
    parser.add_argument("second", metavar="RUN_B", help="the run to compare with it")
    parser.add_argument("--metric", help="the score to compare (default: the first of each form)")
    parser.add_argument(
        "--fail_below",
        type=float,
        metavar="X",
        help="exit with 1 where RUN_B is better by less than X, e.g. -0.02: worse by more than two points",
    )
    parser.add_argument("--documents", action="store_true", help="list the documents that changed")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON and nothing else")
    flags.add_verbosity(parser)
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """Print the differences; the exit code is 1 where one is below the limit."""
    from multiform.results.export import plain_json
    from multiform.results.read import read_results
    from multiform.results.run_comparison import compare_runs

    compared = compare_runs(read_results(options.first), read_results(options.second), metric=options.metric)
    failed = [] if options.fail_below is None else [entry for entry in compared if entry.gain < options.fail_below]
    if options.json:
        print(plain_json({"forms": [asdict(entry) for entry in compared], "failed": [entry.name for entry in failed]}))
    else:
        _print(compared, documents=options.documents)
    for entry in failed:
        print(f"{entry.name}: {entry.gain:+.4f} is below {options.fail_below:+g}", file=sys.stderr)
    return 1 if failed else 0


def _print(compared: Sequence[FormChange], *, documents: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("Form", overflow="fold")
    for name in ("Metric", "A", "B", "B − A", "95 % interval", "p", "n", "up", "down"):
        table.add_column(name, justify="left" if name == "Metric" else "right", no_wrap=True)
    for entry in compared:
        table.add_row(*_row(entry))
    wide = None if sys.stdout.isatty() else 1000
    console = Console(file=sys.stdout, width=wide, markup=False, emoji=False, highlight=False)
    with console.capture() as shown:
        console.print(table)
    print(shown.get(), end="")
    if any(not entry.paired for entry in compared):
        print("where p is missing, a run has no samples of its documents: the interval is that of unrelated documents")
    if documents:
        for entry in compared:
            _print_documents(entry)


def _row(entry: FormChange) -> tuple[str, ...]:
    difference = entry.difference
    interval = "" if difference.low is None else f"{difference.low:+.4f} to {difference.high:+.4f}"
    arrow = "↑" if entry.higher_is_better else "↓"
    return (
        entry.name,
        f"{entry.metric} {arrow}",
        f"{entry.first.value:.4f}",
        f"{entry.second.value:.4f}",
        f"{difference.value:+.4f}",
        interval,
        "" if entry.p_holm is None else "<0.001" if entry.p_holm < 0.001 else f"{entry.p_holm:.3f}",
        str(difference.n),
        str(len(entry.raised)) if entry.paired else "",
        str(len(entry.lowered)) if entry.paired else "",
    )


def _print_documents(entry: FormChange) -> None:
    for word, numbers in (("up", entry.raised), ("down", entry.lowered)):
        if numbers:
            more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
            print(f"{entry.name}: {word}: {', '.join(map(str, numbers[:_LISTED]))}{more}")
