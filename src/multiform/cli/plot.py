"""`multiform plot`: draw a chart of a run's results into a file."""

from __future__ import annotations

import argparse

HELP = "draw a chart of a run as SVG, PNG or HTML"
DESCRIPTION = "Draw a chart of a run, of Multiform or of lm-eval, into a file. It needs multiform[charts]."
EXAMPLES = """\
examples:
  multiform plot results -o scores.svg
  multiform plot results --chart differences -o differences.png
  multiform plot results --chart heatmap -o heatmap.html

charts: scores, heatmap, spread, differences, flips, position_bias, calibration
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("run", metavar="RUN", help="an --output_path, or a results_<date>.json in it")
    parser.add_argument("--chart", default="scores", metavar="NAME", help="which chart (default: scores)")
    parser.add_argument("--output", "-o", metavar="FILE", default="scores.svg", help="an .svg, .png or .html file")


def execute(options: argparse.Namespace) -> int:
    """Read the results, and write the picture."""
    from multiform.results.drawing import save_chart
    from multiform.results.read import read_results

    print(f"wrote {save_chart(read_results(options.run), options.chart, options.output)}")
    return 0
