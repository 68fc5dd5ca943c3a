"""lm-eval 0.4.13 on the rows of the mirror: the judge of what the numbers should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiform import Results, evaluate
from tools.parity.theirs import load_tasks, reading_from, requests

__all__ = ["evaluated", "load_tasks", "models", "reading_from", "requests"]


def models(path: Path, batch_size: int) -> tuple[Any, Any]:
    """The same weights in both harnesses: lm-eval's and ours."""
    from lm_eval.models.huggingface import HFLM

    from multiform.models.hf.model import HFModel

    theirs = HFLM(pretrained=str(path), dtype="float32", device="cpu", batch_size=batch_size)
    return theirs, HFModel(pretrained=str(path), batch_size=batch_size)


def evaluated(
    name: str,
    models: tuple[Any, Any],
    *,
    folder: Path,
    mirror: Path,
    limit: int,
    tokens: int | None = None,
    **options: Any,
) -> tuple[Any, Results]:
    """What lm-eval and we say about a task of a folder; `tokens` is how many may be generated."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    gen_kwargs = None if tokens is None else f"max_gen_toks={tokens}"
    options |= {"tasks": [name], "limit": limit, "gen_kwargs": gen_kwargs, "bootstrap_iters": 100}
    with reading_from(mirror):
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        theirs = lm_eval.simple_evaluate(model=models[0], task_manager=manager, log_samples=True, **options)
    ours = evaluate(model=models[1], include_path=folder, dataset_mirror=mirror, use_cache=False, **options)
    return theirs, ours
