"""`multiform report`, `view`, `plot` and `export`: the results of runs as a page, in the browser, as a chart, and for
other tools.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from multiform.cli.parser import RUN, command, flag
from multiform.errors import UsageError
from multiform.run.values import count


@command(
    "write results as a page: scores, differences between forms, every sample",
    flag("runs", "an --output_path, or a results_<date>.json in it", nargs="+", metavar="RUN"),
    flag("--output -o", "default: report.html", metavar="FILE", default="report.html"),
    flag("--all", "every run in the folders, not only the newest of each"),
    flag("--title", "the heading (default: the tasks)", metavar="TEXT"),
    description="Write the results of runs, of Multiform or of lm-eval, as one HTML file that needs no network.",
    examples="""\
examples:
  multiform report results                       the newest run in the folder, as report.html
  multiform report results -o page.html
  multiform report results/a results/b           two runs side by side
  multiform report lm_eval_results --all         every run in a folder, of lm-eval too
""",
)
def report(options: argparse.Namespace) -> None:
    """Read the results, and write the page."""
    from multiform.report import write_report
    from multiform.results.read import read_results, recorded_run, results_files
    from multiform.results.recorded import results_of_run

    if options.all:
        runs = [results_of_run(recorded_run(file)) for path in options.runs for file in results_files(Path(path))]
    else:
        runs = [read_results(path) for path in options.runs]
    path = write_report(runs, options.output, title=options.title)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser")


@command(
    "look at all runs of a folder in the browser, even while they run",
    flag("folder", "the --output_path of runs (default: .)", nargs="?", default=".", metavar="DIR"),
    flag("--port", "default: any that is free", count(), default=0),
    description="Serve the runs of a folder, of Multiform and of lm-eval, to your browser on this machine. The printed "
    "address has a token, without which nothing is shown. Nothing is written, and no other machine is contacted. "
    "Ctrl-C ends it.",
    examples="""\
examples:
  multiform view                     the runs below the current folder
  multiform view results --port 8000
""",
)
def view(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    from multiform.report.server import Viewer

    if not Path(options.folder).is_dir():
        raise UsageError("there is no such folder", where=options.folder, hint="name the --output_path of a run")
    with Viewer(options.folder, options.port) as viewer:
        print(f"{viewer.url} shows the runs in {options.folder}; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            viewer.serve_forever()


@command(
    "draw a chart of a run as SVG, PNG or HTML",
    RUN,
    flag("--chart", "which chart (default: scores)", default="scores", metavar="NAME"),
    flag("--output -o", "an .svg, .png or .html file", metavar="FILE", default="scores.svg"),
    description="Draw a chart of a run, of Multiform or of lm-eval, into a file. It needs multiform[charts].",
    examples="""\
examples:
  multiform plot results -o scores.svg
  multiform plot results --chart differences -o differences.png
  multiform plot results --chart heatmap -o heatmap.html

charts: scores, heatmap, spread, differences, flips, position_bias, calibration
""",
)
def plot(options: argparse.Namespace) -> None:
    """Read the results, and write the picture."""
    from multiform.results.drawing import save_chart
    from multiform.results.read import read_results

    print(f"wrote {save_chart(read_results(options.run), options.chart, options.output)}")


#: The built-in formats of `export`, for its help.
EXPORTS = ("eee", "inspect", "lm-eval", "eval-results", "parquet", "otel")


@command(
    "write a run for other tools: Inspect, Every Eval Ever, Parquet, OpenTelemetry, the hub",
    flag("run", "an --output_path, a results file, or a log that can be read", metavar="RUN"),
    flag("--to", f"{', '.join(EXPORTS)}, or what 'multiform ls exporters' lists", required=True, metavar="FORMAT"),
    flag("--output -o", "default: exported", metavar="DIR", default="exported"),
    description="Write the results of a run in the format of another tool. 'multiform docs exchange' lists what each "
    "one holds.",
    examples="""\
examples:
  multiform export results --to inspect -o logs           then: inspect view --log-dir logs
  multiform export results --to eee -o every_eval_ever
  multiform export results --to parquet
""",
)
def export(options: argparse.Namespace) -> None:
    """Read the run, and write its files."""
    from multiform.results.exchange.exporters import exporters, shareable
    from multiform.results.export import prepare_output
    from multiform.results.read import read_results

    folder = Path(options.output)
    try:
        write = exporters.get(options.to)
        prepare_output(folder)
    except UsageError as error:
        raise error.relocate("--output" if error.where else "--to") from error
    results = shareable(read_results(options.run))
    for path in write(results, folder):
        print(f"wrote {path}")
