"""The runner: goes through all task files, prints the figures and writes what is not as it should be as JSON."""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tools.parity.found import task_files, task_folder
from tools.parity.made.every import outcomes

ROOT = Path(__file__).parents[3]


def main() -> int:
    """Go through the files; 1 where more than one in a thousand tasks gives no prompt."""
    parser = argparse.ArgumentParser(prog="python -m tools.parity.made", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path holds this")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every so many-th file only")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "out" / "made.json", help="what has no prompt or needs stand-ins, as JSON"
    )
    options = parser.parse_args()
    folder = task_folder()
    started = spoken = time.monotonic()
    read = [file for file in task_files(folder) if options.only in str(file.path.relative_to(folder))]
    files = read[:: options.sample]
    print(f"{len(files)} task files read in {time.monotonic() - started:.1f} s", file=sys.stderr)
    found = []
    for number, outcome in enumerate(outcomes(files, folder), start=1):
        found.append(outcome)
        if time.monotonic() - spoken > 10:
            spoken = time.monotonic()
            sys.__stderr__.write(f"{number} of {len(files)}, {spoken - started:.0f} s\n")  # type: ignore[union-attr]
    kinds = collections.Counter(outcome.kind for outcome in found)
    for kind, number in kinds.most_common():
        print(f"{kind:15} {number:6} {number / len(found):7.2%}")
    lacking = sum(outcome.lacks is not None for outcome in found)
    print(f"{'with stand-ins':15} {lacking:6} {lacking / len(found):7.2%}")
    others = [asdict(outcome) for outcome in found if outcome.kind != "prompt" or outcome.lacks]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(others, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{time.monotonic() - started:.0f} s; wrote {options.output}", file=sys.stderr)
    return 0 if kinds["prompt"] >= 0.999 * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
