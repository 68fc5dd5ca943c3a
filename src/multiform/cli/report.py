"""`multiform report`: write the results of runs as a page that opens anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write results as a page: scores, differences between forms, every sample"
DESCRIPTION = "Write the results of runs, of Multiform or of lm-eval, as one HTML file that needs no network."
EXAMPLES = """\
examples:
  multiform report results                       the newest run in the folder, as report.html
  multiform report results -o page.html
  multiform report results/a results/b           two runs side by side
  multiform report lm_eval_results --all         every run in a folder, of lm-eval too
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="an --output_path, or a results_<date>.json in it")
    parser.add_argument("--output", "-o", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--all", action="store_true", help="every run in the folders, not only the newest of each")
    parser.add_argument("--title", help="the heading (default: the tasks)")


def execute(options: argparse.Namespace) -> int:
    """Read the results, and write the page."""
    from multiform.report import write_report
    from multiform.results.read import read_results, recorded_run, results_files, results_of_run

    if options.all:
        runs = [results_of_run(recorded_run(file)) for path in options.runs for file in results_files(Path(path))]
    else:
        runs = [read_results(path) for path in options.runs]
    path = write_report(runs, options.output, title=options.title)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser")
    return 0
