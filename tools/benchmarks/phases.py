"""Where the time from a command to its first forward pass goes: CPU seconds by phase, each second counted once."""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

RUN = ("multiform", "run", "--tasks", "quiz@mcqa", "--limit", "2", "--no_cache", "--model", "hf", "--model_args")
#: Packages whose imports are counted together, with all that they import.
MODEL_PACKAGES = ("torch", "transformers")
#: Functions by the phase that they are.
PHASES = {
    "tokenizer": ("multiform.models.hf.load", "load_tokenizer"),
    "weights": ("multiform.models.hf.load", "_load_weights"),
    "identity": ("multiform.models.hf.load", "source_sha"),
    "trial": ("multiform.models.torch.planner:Planner", "_try_scoring"),
    "planning": ("multiform.models.torch.engine", "scoring_plan"),
}
OTHER = "options, tasks, prompts"


class Clock:
    """CPU seconds by phase; an inner phase is not counted in the one around it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.stack = [OTHER]
        self.last = 0.0  # since the process began
        self.is_stopped = False

    def enter(self, phase: str) -> None:
        self._count()
        self.stack.append(phase)

    def leave(self) -> None:
        self._count()
        self.stack.pop()

    def stop(self) -> None:
        self._count()
        self.is_stopped = True

    def _count(self) -> None:
        now = time.process_time()
        if not self.is_stopped:
            self.seconds[self.stack[-1]] += now - self.last
        self.last = now

    def timed(self, function: Callable[..., Any], phase: Callable[..., str | None]) -> Callable[..., Any]:
        """The function, its calls counted as a phase; None leaves a call to the phase around it."""

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            name = phase(*arguments, **options)
            if name is None:
                return function(*arguments, **options)
            self.enter(name)
            try:
                return function(*arguments, **options)
            finally:
                self.leave()

        return call

    def watch_imports(self) -> None:
        """Count imports as phases of their own."""
        plain = builtins.__import__, importlib.import_module

        def phase(name: str, *_: Any, **__: Any) -> str | None:
            root = name.partition(".")[0]
            # transformers imports its parts when they are first used.
            if root == self.stack[-1].removeprefix("import ") or (name in sys.modules and root != "transformers"):
                return None
            if root in MODEL_PACKAGES:
                return "import torch, transformers"
            return "import multiform" if root == "multiform" else "import other packages"

        def watched(function: Callable[..., Any]) -> Callable[..., Any]:
            timed = self.timed(function, phase)

            def load(name: str, *arguments: Any, **options: Any) -> Any:
                if name.partition(".")[0] not in MODEL_PACKAGES:
                    return timed(name, *arguments, **options)
                # Watching the thousands of imports within would take a tenth of a second.
                builtins.__import__, importlib.import_module = plain
                try:
                    return timed(name, *arguments, **options)
                finally:
                    builtins.__import__, importlib.import_module = watching

            return load

        watching = watched(plain[0]), watched(plain[1])
        builtins.__import__, importlib.import_module = watching


def to_first_pass(model: str, folder: str | None) -> dict[str, float]:
    """Run a command in this process; CPU seconds by phase up to the first forward pass of its requests.

    What Multiform keeps of models (hashes, verdicts of trials) is in the folder.
    """
    if folder:
        os.environ |= {"MULTIFORM_CACHE": folder, "MULTIFORM_STORE": f"{folder}/answers.db"}
    clock = Clock()
    clock.watch_imports()
    from multiform.cli.main import main
    from multiform.models.registry import ModelEntry

    load = ModelEntry.load

    def load_and_watch(entry: ModelEntry) -> Any:
        factory = load(entry)
        _watch(clock)
        return factory

    setattr(ModelEntry, "load", load_and_watch)  # noqa: B010 - mypy knows the method
    sys.argv = [*RUN, f"pretrained={model}"]
    code = main()
    if code or not clock.is_stopped:
        raise SystemExit(f"the command ended with {code}, and there was {'' if clock.is_stopped else 'no '}pass")
    return dict(clock.seconds)


def _watch(clock: Clock) -> None:
    """Count the phases of loading and trying a model, up to the first pass by the plan of a run."""
    for phase, (place, name) in PHASES.items():
        module, _, kind = place.partition(":")
        owner = getattr(sys.modules[module], kind) if kind else sys.modules[module]
        setattr(owner, name, clock.timed(getattr(owner, name), lambda *_, phase=phase, **__: phase))
    engine: Any = sys.modules["multiform.models.torch.engine"]
    forward = sys.modules["multiform.models.torch.forward"].Forward
    score, run = engine.score_by_plan, forward.run

    def score_and_stop(*arguments: Any, **options: Any) -> Any:  # the trial calls another name
        def stop_and_run(*inputs: Any) -> Any:
            clock.stop()
            return run(*inputs)

        forward.run = stop_and_run
        return score(*arguments, **options)

    engine.score_by_plan = score_and_stop


def load_with_transformers(model: str) -> dict[str, float]:
    """Import transformers and load a model and its tokenizer with it; CPU seconds since the process began."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(model)
    AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    return {"in all": time.process_time()}
