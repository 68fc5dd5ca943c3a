"""`multiform`: parse the command line, run the sub-command, and print errors as one message."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence

from multiform.cli import compare, diff, formats, installation, ls, report, run, show, validate
from multiform.cli import options as flags
from multiform.cli.parser import Parser, quiet_libraries, value_text
from multiform.errors import MultiformError, RunInterrupted, UsageError, nearest, reason
from multiform.stopping import sigterm_interrupts
from multiform.terminal import VisibleStream, visible

_EXAMPLES = """\
examples:
  multiform run quiz@all --limit 20               the bundled quiz in every format, with the bundled model
  multiform run my_task.yaml@mcqa+cloze           your own task in two formats
  multiform show quiz@cot --num_fewshot 2         the exact prompt that a model gets
  multiform report results                        a page of a run's scores and samples

'multiform COMMAND --help' explains a command, and 'multiform docs tour' shows the way in ten minutes.
"""
#: The commands, under the headings of `--help`.
_GROUPS = {
    "run models": (run.run, run.sweep, run.score),
    "look at results": (report.report, report.view, report.plot, report.export),
    "compare and decide": (compare.compare, compare.gate, diff.diff, report.advise),
    "find tasks and formats": (ls.ls, show.show, formats.formats),
    "write tasks": (validate.new, validate.validate, validate.lint, formats.convert),
    "this installation": (installation.doctor, ls.docs, installation.store, ls.completion),
}
_COMMANDS = {command.name: command for group in _GROUPS.values() for command in group}

#: New objects after which garbage is searched for. Imports create 400,000 that stay: with Python's default of 700,
#: searching them again and again takes a fifth of the imports of torch and transformers.
YOUNG_OBJECTS = 50_000

logger = logging.getLogger("multiform")


def parser(only: str | None = None) -> Parser:
    """The parser of the whole command line; `only` names the one command that needs its flags."""
    width = max(map(len, _COMMANDS))
    groups = [
        "\n".join([f"{title}:", *(f"  {command.name:{width}}  {command.help}" for command in group)])
        for title, group in _GROUPS.items()
    ]
    top = Parser(
        prog="multiform",
        usage="multiform COMMAND ...",
        description="\n\n".join(["Evaluate language models: one dataset, every prompt form.", *groups]),
        epilog=_EXAMPLES,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", prog="multiform", help=argparse.SUPPRESS)
    for name, command in _COMMANDS.items():
        subparser = commands.add_parser(name, description=command.description, epilog=command.examples)
        if only in (None, name):
            for add_flags in (*command.flags, flags.verbosity):
                add_flags(subparser)
            arguments = map(value_text, subparser._get_positional_actions())
            subparser.usage = " ".join([f"multiform {name}", *arguments, "[flags]"])
        subparser.set_defaults(execute=command.execute, parser=subparser)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code is 0, 1 (failed), 2 (wrong input), 130 (interrupted) or 143 (terminated)."""
    _open_closed_streams()
    ls.complete(parser)
    if argv is None:
        _leave_working_folder()
        gc.set_threshold(YOUNG_OBJECTS)
    try:
        try:
            return _command(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # so that a closed pipe or a full disk is noticed here
    except SystemExit as done:  # argparse has printed a help text
        return int(done.code or 0)
    except MultiformError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt as error:  # says how to go on, where there is something to go on with
        number = error.signal if isinstance(error, RunInterrupted) else signal.SIGINT
        words = ["terminated" if number == signal.SIGTERM else "interrupted", *filter(None, [visible(str(error))])]
        print(": ".join(words), file=sys.stderr)
        return 128 + number  # the exit code of a signal in a shell
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        _abandon_stdout()
        return 0
    except OSError as error:
        _abandon_stdout()
        place = error.filename or "standard output"
        return _fail(f"{place}: {error.strerror or error}; check its rights and the space on the disk", 1)
    except Exception as error:  # a bug of Multiform must not look like an error of the user
        logger.debug("the traceback", exc_info=True)
        message = f"multiform: {reason(error)}"
        return _fail(f"{message}; this is a bug: please report it with the output of --verbosity DEBUG", 1)
    finally:
        if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while Python exits is no error of a library


def _command(arguments: list[str]) -> int:
    """Parse the arguments and run the sub-command that they name."""
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    first = arguments[0] if arguments else "--help"
    # As with lm-eval, flags without a command mean `run`.
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        arguments.insert(0, "run")
    elif not first.startswith("-") and first not in _COMMANDS:
        raise UsageError(f"no command '{first}'", where="multiform", hint=nearest(first, _COMMANDS, listed="commands"))
    top = parser(arguments[0] if arguments else "")
    options, unknown = top.parse_known_args(arguments, argparse.Namespace(arguments=arguments[1:]))
    if unknown:
        getattr(options, "parser", top).refuse(unknown)
    if options.version:
        from importlib.metadata import version

        print(version("multiform"))
        return 0
    if options.command is None:
        top.print_help()
        return 0
    _log_to_stderr(options.verbosity)
    _escape_on_stdout(as_json=getattr(options, "json", False))
    visible_stdout = contextlib.redirect_stdout(VisibleStream(sys.stdout))
    with quiet_libraries(), visible_stdout, sigterm_interrupts(), contextlib.ExitStack() as stack:
        if getattr(options, "no_code", False):
            from multiform.tasks.functions import code_refused

            stack.enter_context(code_refused())
        flags.import_named(options)
        return options.execute(options) or 0


def _fail(message: str, code: int) -> int:
    """Print the one line that a user gets, and return the exit code."""
    line = " ".join(message.splitlines())
    print(f"error: {visible(line)}", file=sys.stderr)
    return code


def _leave_working_folder() -> None:
    """Import nothing from the working folder, which ``python -m`` puts first on the path: anything may lie there.

    A folder that PYTHONPATH names stays.
    """
    working_folder = os.getcwd()
    named = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if sys.path and sys.path[0] in ("", working_folder) and working_folder not in named:
        del sys.path[0]


def _open_closed_streams() -> None:
    """Open standard streams that the shell has closed (``>&-``), and discard what is printed to them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _abandon_stdout() -> None:
    """Discard what is not written yet, as Python would otherwise fail to write it at exit."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_on_stdout(*, as_json: bool) -> None:
    r"""Print characters that cannot be encoded, such as half a surrogate pair, as ``\ud800``, as in JSON."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if as_json else None, errors="backslashreplace")


class _StderrHandler(logging.Handler):
    """Logs to what is standard error at the moment: a progress bar replaces it, to print above itself.

    Messages may quote names and documents of others, whose control characters are made visible.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more
            print(visible(self.format(record)), file=sys.stderr)


def _log_to_stderr(level: str) -> None:
    handler = _StderrHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


if __name__ == "__main__":
    sys.exit(main())
