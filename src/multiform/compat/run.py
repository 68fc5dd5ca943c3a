"""``python -m multiform.compat.run script.py ...``: a script that imports lm_eval, run unchanged on Multiform."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from multiform.compat.finder import install
from multiform.errors import MultiformError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script with `import lm_eval` answered by this package, also where lm-eval is installed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print("usage: python -m multiform.compat.run script.py [its arguments]", file=sys.stderr)
        return 0 if given else 2
    script = Path(given[0])
    if not script.is_file():
        print(f"error: {given[0]}: no such file; check the path", file=sys.stderr)
        return 2
    install(instead=True)
    sys.argv = given
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except MultiformError as error:
        print(f"error: {error}{_raised_at(error, script.resolve().parent)}", file=sys.stderr)
        return error.exit_code
    return 0


def _raised_at(error: BaseException, folder: Path) -> str:
    """The line of the script's own code, or of what lies beside it, that an error began in."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if folder in Path(frame.filename).parents]
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""


if __name__ == "__main__":
    sys.exit(main())
