"""lm-eval 0.4.13 on the rows of the mirror: the judge of what the numbers should be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock


@contextlib.contextmanager
def reading_from(mirror: Path) -> Iterator[None]:
    """Has `datasets.load_dataset` answer from the mirror, as the hub would."""
    import datasets

    real = datasets.load_dataset

    def load(path: str, name: str | None = None, **kwargs: Any) -> Any:
        folder = mirror / path / (name or "default")
        if not folder.is_dir():
            return real(path, name, **kwargs)
        files = {file.stem: str(file) for file in sorted(folder.glob("*.jsonl"))}
        # lm-eval opens splits that it does not evaluate; the mirror does not have them all.
        any_file = next(iter(files.values()))
        return real("json", data_files={"train": any_file, "validation": any_file, **files})

    with mock.patch("datasets.load_dataset", load), mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}):
        yield


def load_tasks(names: list[str], mirror: Path, folders: list[Path]) -> dict[str, Any]:
    """lm-eval's task objects by name."""
    from lm_eval.tasks import TaskManager, get_task_dict

    with reading_from(mirror):
        manager = TaskManager(include_path=[str(folder) for folder in folders], include_defaults=False)
        return _leaves(get_task_dict(names, manager))


def _leaves(tree: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _leaves(value)
        elif value is not None:
            found[str(name)] = value
    return found


def requests(task: Any, *, shots: int, limit: int, chat: Any = None, seed: int = 1234) -> list[tuple[Any, ...]]:
    """The arguments of the requests that lm-eval makes of the first documents."""
    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(seed)
    task.build_all_requests(
        limit=limit,
        apply_chat_template=chat is not None,
        fewshot_as_multiturn=chat is not None,
        chat_template=chat,
    )
    return [tuple(instance.args) for instance in task.instances]
