"""`multiform export`: the results of a run in the format of another tool."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from multiform.cli.parser import Command
from multiform.run.values import one_of

if TYPE_CHECKING:
    from multiform.results import Results

FORMATS = ("eee", "inspect", "lm-eval", "eval-results", "parquet", "otel")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("run", metavar="RUN", help="an --output_path, a results file, or a log that can be read")
    parser.add_argument(
        "--to",
        required=True,
        type=one_of(FORMATS).reader("--to"),
        metavar="FORMAT",
        help=f"one of {', '.join(FORMATS)}",
    )
    parser.add_argument("--output", "-o", metavar="DIR", default="exported", help="default: exported")


def _execute(options: argparse.Namespace) -> int:
    """Read the run, and write its files."""
    from multiform.results.exchange.foreign import shareable
    from multiform.results.export import prepare_output
    from multiform.results.read import read_results

    results = shareable(read_results(options.run))
    folder = Path(options.output)
    prepare_output(folder / "x")
    for path in _writer(options.to)(results, folder):
        print(f"wrote {path}")
    return 0


def _writer(name: str) -> Callable[[Results, Path], list[Path]]:
    from multiform.results.exchange.every_eval import write_every_eval
    from multiform.results.exchange.hub import write_eval_results
    from multiform.results.exchange.inspect_log import write_inspect_logs
    from multiform.results.exchange.telemetry import write_telemetry

    return {
        "eee": write_every_eval,
        "inspect": write_inspect_logs,
        "lm-eval": lambda results, folder: results.save(folder),
        "eval-results": write_eval_results,
        "parquet": lambda results, folder: [results.to_parquet(folder / "samples.parquet")],
        "otel": write_telemetry,
    }[name]


COMMAND = Command(
    help="write a run for other tools: Inspect, Every Eval Ever, Parquet, OpenTelemetry, the hub",
    description="Write the results of a run in the format of another tool. 'multiform docs exchange' lists what each "
    "one holds.",
    examples="""\
examples:
  multiform export results --to inspect -o logs           then: inspect view --log-dir logs
  multiform export results --to eee -o every_eval_ever
  multiform export results --to parquet
""",
    add_arguments=_add_arguments,
    execute=_execute,
)
