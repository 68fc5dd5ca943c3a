"""``python -m multiform.compat.lm_eval ...``: lm-eval's command line, run by Multiform."""

from __future__ import annotations

import sys

from multiform.cli.main import main
from multiform.imports import lm_eval_finder as finder

#: Words of a command line that prints no table, or says which.
_NO_TABLE = {"-h", "--help", "--version", "--table", "--json"}
_NO_TASKS = ("-h", "--help", "--version", "--include_path", "--config", "-C")


def cli_evaluate() -> None:
    """Run the command line; the tasks of the installed lm-eval are found unless other folders are named.

    Scores are printed as lm-eval's table unless another is asked for.
    """
    arguments = sys.argv[1:]
    words = {word.partition("=")[0] for word in arguments}
    if arguments and (arguments[0] == "run" or arguments[0].startswith("-")) and not words & _NO_TABLE:
        arguments += ["--table", "markdown"]
    if arguments and finder.real_folder() is not None and not words.intersection(_NO_TASKS):
        arguments += ["--include_path", "lm_eval"]
    code = main(arguments)
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    cli_evaluate()
