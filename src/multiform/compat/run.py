"""``python -m multiform.compat.run script.py ...``: a script that imports lm_eval or eval_framework, run on Multiform.

``-m module`` in place of the script runs a module, such as pytest, in the same way.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from multiform.compat import install
from multiform.errors import MultiformError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script with Multiform's `lm_eval` and `eval_framework`, also where these are installed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        usage = "usage: python -m multiform.compat.run script.py [its arguments]\n       ... -m module [its arguments]"
        print(usage, file=sys.stderr)
        return 0 if words and words != ["-m"] else 2
    module = words[0] == "-m"
    words = words[1:] if module else words
    script = Path(words[0])
    if not module and not script.is_file():
        print(f"error: {words[0]}: no such file; check the path", file=sys.stderr)
        return 2
    for package in ("lm_eval", "eval_framework"):
        install(package, instead=True)
    sys.argv = words
    folder = Path.cwd() if module else script.resolve().parent
    sys.path.insert(0, str(folder))
    try:
        if module:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(script), run_name="__main__")
    except MultiformError as error:
        print(f"error: {error}{_raised_at(error, folder)}", file=sys.stderr)
        return error.exit_code
    return 0


def _raised_at(error: BaseException, folder: Path) -> str:
    """The line of the script's own code, or of what lies beside it, that an error began in."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    for raised in reversed(chain):  # the innermost that has been there
        frames = [
            frame for frame in traceback.extract_tb(raised.__traceback__) if folder in Path(frame.filename).parents
        ]
        if frames:
            return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name})"
    return ""


if __name__ == "__main__":
    sys.exit(main())
