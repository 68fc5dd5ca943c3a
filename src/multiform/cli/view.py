"""`multiform view`: the runs of a folder in the browser."""

from __future__ import annotations

import argparse

from multiform.run.values import count

HELP = "look at all runs of a folder in the browser, also while they go on"
DESCRIPTION = (
    "Serve the runs of a folder, of Multiform and of lm-eval, to your browser on this machine: the address "
    "that is printed has a token, without which nothing is shown. It writes nothing and asks nothing of other "
    "machines; Ctrl-C ends it."
)
EXAMPLES = """\
examples:
  multiform view                     the runs below the current folder
  multiform view results --port 8000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="the --output_path of runs (default: .)")
    parser.add_argument(
        "--port", type=count().reader("--port"), default=0, metavar="N", help="default: any that is free"
    )


def execute(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from pathlib import Path

    from multiform.errors import UsageError
    from multiform.report.server import Viewer

    if not Path(options.folder).is_dir():
        raise UsageError("there is no such folder", where=options.folder, hint="name the --output_path of a run")
    with Viewer(options.folder, options.port) as viewer:
        print(f"{viewer.url} shows the runs in {options.folder}; Ctrl-C ends it", flush=True)
        try:
            viewer.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
