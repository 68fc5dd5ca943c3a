"""`multiform export`: the results of a run in the format of another tool."""

from __future__ import annotations

import argparse
from pathlib import Path

from multiform.cli.parser import Command

#: The built-in ones, for the help.
FORMATS = ("eee", "inspect", "lm-eval", "eval-results", "parquet", "otel")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("run", metavar="RUN", help="an --output_path, a results file, or a log that can be read")
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, or what 'multiform ls exporters' lists",
    )
    parser.add_argument("--output", "-o", metavar="DIR", default="exported", help="default: exported")


def _execute(options: argparse.Namespace) -> int:
    """Read the run, and write its files."""
    from multiform.errors import UsageError
    from multiform.results.exchange.exporters import exporters
    from multiform.results.exchange.foreign import shareable
    from multiform.results.export import prepare_output
    from multiform.results.read import read_results

    try:
        write = exporters.get(options.to)
    except UsageError as error:
        raise error.or_at("--to") from error
    results = shareable(read_results(options.run))
    folder = Path(options.output)
    prepare_output(folder / "x")
    for path in write(results, folder):
        print(f"wrote {path}")
    return 0


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
