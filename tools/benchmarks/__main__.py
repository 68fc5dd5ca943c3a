"""The runner: measures what is asked for, prints one table and writes it as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from tools import ROOT, mirror_folder
from tools.benchmarks import building, commands, report, scale, scoring, workers
from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, print_rows, say

MEASUREMENTS = {
    "startup": commands.measure_startup,
    "listing": commands.measure_listing,
    "building": building.measure,
    "rerun": commands.measure_rerun,
    "scoring": scoring.measure,
    "whole": building.measure_whole,
    "growth": scoring.measure_growth,
    "architectures": scoring.measure_architectures,
    "forms": scoring.measure_forms,
    "report": report.measure,
    "streams": scale.measure_streams,
    "driver": scale.measure_driver,
    "workers": workers.measure,
}
#: What is measured by default: all but runs of up to two million requests, which take an hour.
WHOLE = [name for name in MEASUREMENTS if name != "streams"]
#: What another process measures at the same time in a whole run, on a second core: mostly what has no other side.
BESIDE = ("listing", "building", "rerun", "report", "driver", "workers")


def main() -> int:
    """Run the measurements; 1 where a needed figure was missed, 2 where there is nothing to measure on."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="few documents and one repeat: ten minutes")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=WHOLE, help="what to measure")
    parser.add_argument(
        "--docs", type=_positive, nargs=2, metavar=("FEW", "MANY"), help="default: 30 200, or 10 20 if short"
    )
    parser.add_argument("--model", type=Path, help="a folder with a model (default: the bundled one)")
    # With one, CPU seconds are work; with more, they are also waiting for each other.
    parser.add_argument("--threads", type=_positive, default=1, help="threads of either side (default: 1)")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "benchmarks.json", help="the table as JSON")
    options = parser.parse_args()
    mirror = mirror_folder()
    if not (mirror / "cais" / "mmlu").is_dir():
        say(f"no rows of MMLU at {mirror}: set MULTIFORM_DATASET_MIRROR to a mirror that has cais/mmlu")
        return 2
    model = options.model or _bundled()
    few, many = options.docs or ((10, 20) if options.short else (30, 200))
    setting = Setting(mirror=mirror, model=model, threads=options.threads, docs=(few, many), short=options.short)
    started = time.monotonic()
    rows: list[Row] = []
    is_whole = set(options.only) == set(WHOLE) and not options.short and (os.cpu_count() or 1) > 1
    with _measuring_beside(options, is_whole) as others:
        for name in (name for name in options.only if not is_whole or name not in BESIDE):
            say(f"measuring {name}")
            for row in MEASUREMENTS[name](setting):
                rows.append(row)
                _write(options.output, setting, rows)  # a long run that is stopped has something to show
    rows += others
    _write(options.output, setting, rows)
    print_rows(rows)
    say(f"{time.monotonic() - started:.0f} s; wrote {options.output}")
    return 1 if any(row.met is False for row in rows) else 0


@contextmanager
def _measuring_beside(options: argparse.Namespace, is_whole: bool) -> Iterator[list[Row]]:
    """Of a whole run, measure a part in another process while the block runs; its rows are there after the block."""
    output, rows = options.output.with_suffix(".beside.json"), list[Row]()
    if not is_whole:
        yield rows
        return
    command = [sys.executable, "-m", "tools.benchmarks", "--output", str(output), "--threads", str(options.threads)]
    command += ["--only", *BESIDE, *(["--model", str(options.model)] if options.model else [])]
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.with_suffix(".log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield rows
        except BaseException:
            process.terminate()
            raise
    if process.returncode not in (0, 1):  # 1: a figure was missed, which the table says
        say(f"{', '.join(BESIDE)}: not all were measured, see {output.with_suffix('.log')}")
    if output.exists():
        computed = ("ratio", "met")
        for row in json.loads(output.read_text(encoding="utf-8"))["rows"]:
            rows.append(Row(**{key: value for key, value in row.items() if key not in computed}))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got '{text}'")
    return int(text)


def _bundled() -> Path:
    """The bundled model; converted first, in another process, where that has not happened yet."""
    from multiform.models.identity import converted_folder

    if not converted_folder().is_dir():
        code = "from multiform.models.hf.model import bundled_folder; bundled_folder()"
        subprocess.run([sys.executable, "-c", code], check=True)
    return converted_folder()


def _write(path: Path, setting: Setting, rows: list[Row]) -> None:
    content = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "short": setting.short,
        "docs": setting.docs,
        "threads": setting.threads,
        "model": setting.model.name,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()},
        "packages": {name: version(name) for name in ("multiform", "lm-eval", "torch", "transformers")},
        "rows": [row.to_json() for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
