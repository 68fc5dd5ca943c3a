"""lm-eval 0.4.13 on the rows of the mirror: the judge of what the requests and numbers should be."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import random
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from multiform.paths import mirror_folders
from tools.parity.compare import Built, Setting

#: Datasets that lm-eval reads from another repository than the mirror, with the same columns.
COPIES = {"Rakuten/JGLUE": "shunk031/JGLUE"}
#: Columns that the rows of the mirror have by the name of another revision than lm-eval's.
RENAMED = {"Xnhyacinth/LongBench": {"input": "question"}}
#: The configurations that the hub opens where lm-eval names none of several.
DEFAULTS = {"nilc-nlp/assin": "full"}
#: The splits whose rows lm-eval reads as "train".
SPLITS = {"EleutherAI/pile": "test"}


#: lm-eval reads a copy of it that has the questions without a defect.
_REDUX = "edinburgh-dawg/mmlu-redux-2.0"


def _is_ok(row: dict[str, Any]) -> bool:
    return bool(row["error_type"] == "ok")


@contextlib.contextmanager
def reading_from(mirror: Path, subset: str | None = None) -> Iterator[None]:
    """Has `datasets.load_dataset` answer from the mirror, as the hub would; with `subset` for one that it lacks."""
    import datasets

    real = datasets.load_dataset

    def load(path: str, name: str | None = None, **kwargs: Any) -> Any:
        files = str(kwargs.get("data_files") or "")
        path = of_hub[1] if (of_hub := re.search("hf://datasets/([^/]+/[^/]+)/", files)) else path
        path = _REDUX if path == "fxmarty/mmlu-redux-2.0-ok" else path
        name, place = name or DEFAULTS.get(path), COPIES.get(path, path)
        roots = [folder / place for folder in mirror_folders(mirror) if (folder / place).is_dir()]
        only = {each for root in roots for each in root.iterdir() if each.is_dir()} if name is None else ()
        folders = list(only) if len(only) == 1 else [root / (name or "default") for root in roots]
        if subset is not None and not any(folder.is_dir() for folder in folders):
            folders = [root / subset for root in roots]
        found = tuple(folder for folder in folders if folder.is_dir())
        if not found:
            return real(path, name, **kwargs)
        splits = _splits(found).rename_columns(RENAMED.get(path, {}))
        if path in SPLITS:
            splits["train"] = splits[SPLITS[path]]
        return splits.filter(_is_ok) if path == _REDUX else splits

    with mock.patch("datasets.load_dataset", load), mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}):
        yield


@functools.lru_cache(maxsize=64)
def _splits(folders: tuple[Path, ...]) -> Any:
    """The splits of the folders, each of the first that has it.

    lm-eval opens some that it does not evaluate and that the mirror does not have.
    """
    import datasets

    datasets.disable_progress_bars()
    files = {file.stem: file for folder in reversed(folders) for file in sorted(folder.glob("*.jsonl"))}
    made = {split: datasets.Dataset.from_list(_rows(file)) for split, file in files.items()}
    first = next(iter(made.values()))
    return datasets.DatasetDict({**dict.fromkeys(("train", "validation", "dev"), first), **made})


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line.strip()]


@functools.cache
def tokenizer() -> Any:
    """The bundled model's tokenizer."""
    import transformers

    from multiform.models.hf.model import bundled_folder

    return transformers.AutoTokenizer.from_pretrained(bundled_folder())


@functools.cache
def chat() -> Any:
    """Its chat template as lm-eval's local models apply it; no weights are needed."""
    from lm_eval.models.huggingface import HFLM

    model = types.SimpleNamespace(tokenizer=tokenizer(), chat_template_args={})
    return types.MethodType(HFLM.apply_chat_template, model)


@functools.cache
def _manager() -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager()


def load_task(name: str, mirror: Path) -> Any:
    """lm-eval's task of that name among those that come with it."""
    from lm_eval.tasks import get_task_dict

    with reading_from(mirror), _quiet():
        return leaves(get_task_dict([name], _manager()))[name]


def load_tasks(names: list[str], mirror: Path, folders: list[Path], subset: str | None = None) -> dict[str, Any]:
    """lm-eval's task objects by name, out of these folders alone; see `reading_from`."""
    from lm_eval.tasks import TaskManager, get_task_dict

    with reading_from(mirror, subset):
        manager = TaskManager(include_path=[str(folder) for folder in folders], include_defaults=False)
        return leaves(get_task_dict(names, manager))


def leaves(tree: dict[Any, Any]) -> dict[str, Any]:
    """The tasks of a tree of groups."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= leaves(value)
        elif value is not None:
            found[str(name)] = value
    return found


def requests(task: Any, *, shots: int, limit: int, chat: Any = None) -> list[tuple[Any, ...]]:
    """The arguments of the requests that lm-eval makes of the first documents."""
    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(1234)
    task.build_all_requests(
        limit=limit,
        apply_chat_template=chat is not None,
        fewshot_as_multiturn=chat is not None,
        chat_template=chat,
    )
    return [tuple(instance.args) for instance in task.instances]


def built(task: Any, setting: Setting, limit: int, chat: Any) -> Built:
    """The requests of the first documents in one setting, and which of these stand among their own examples."""
    own = task.get_config("num_fewshot")
    shots = 0 if own == 0 else setting.shots  # a task that says 0 keeps it
    drawn: list[Any] = []
    random.seed(0)
    with _quiet(), _recording(task, drawn):
        try:
            requests(task, shots=shots, limit=limit, chat=chat if setting.chat else None)
        except Exception as error:  # noqa: BLE001 lm-eval and the task's code raise anything
            return Built(error=f"{type(error).__name__}: {error}"[:300])
        finally:
            task.set_config("num_fewshot", own)
    docs: dict[int, list[Any]] = {}
    asked: dict[int, Any] = {}
    for instance in task.instances:
        texts = [
            arg for arg in instance.args if not (isinstance(arg, dict) and "visual" in arg)
        ]  # images are not compared
        docs.setdefault(instance.doc_id, []).append([instance.request_type, *texts, instance.repeats])
        asked[instance.doc_id] = instance.doc
    order = list(docs)
    leaked = [order[i] for i, shots_of in enumerate(drawn[: len(order)]) if asked[order[i]] in shots_of]
    return Built(docs=[docs[i] for i in order], leaked=leaked)


@contextlib.contextmanager
def _recording(task: Any, drawn: list[Any]) -> Iterator[None]:
    """Keeps the examples that are drawn, in the order of the documents."""
    sampler = getattr(task, "sampler", None)
    if sampler is None:
        yield
        return
    real = sampler.sample

    def sample(*args: Any, **kwargs: Any) -> Any:
        drawn.append(list(real(*args, **kwargs)))
        return drawn[-1]

    with mock.patch.object(sampler, "sample", sample):
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without lm-eval's bars and messages: one for every task would hide everything else."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
