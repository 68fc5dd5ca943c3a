"""`multiform`: reads the command line, runs the sub-command, and turns errors into one message."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from multiform.cli import ls, run, show, validate

_EXAMPLES = """\
examples:
  multiform run --tasks quiz@all --limit 20            the bundled quiz in every format, with the bundled model
  multiform run --tasks my_task.yaml@mcqa+cloze        your own task in two formats
  multiform show quiz@cot --num_fewshot 2              the exact prompt that a model gets
  multiform ls formats                                 what there is to choose from
  multiform validate my_task.yaml                      what is wrong with a task, and where

'multiform COMMAND --help' explains a command.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="multiform",
        description="Evaluate language models: one dataset, every prompt form.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in (run, show, ls, validate):
        module.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code is 0, 1 (failed), 2 (wrong input) or 130 (interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    top = parser()
    # As with lm-eval, flags without a command mean `run`.
    if arguments and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version"):
        arguments.insert(0, "run")
    options = top.parse_args(arguments)
    if options.version:
        from importlib.metadata import version

        print(version("multiform"))
        return 0
    if options.command is None:
        top.print_help()
        return 0
    _log_to_stderr(getattr(options, "verbosity", None) or "INFO")
    return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    """Run the command; what goes wrong becomes one line on standard error."""
    from multiform.errors import MultiformError

    try:
        code: int = options.execute(options)
        sys.stdout.flush()
        return code
    except MultiformError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: nothing was written; run the same command again", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _log_to_stderr(level: str) -> None:
    logger = logging.getLogger("multiform")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s".lower()))
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


if __name__ == "__main__":
    sys.exit(main())
