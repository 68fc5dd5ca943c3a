"""Multiform on the rows of the mirror."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

from multiform import Task, TaskManager
from multiform.errors import MultiformError
from multiform.requests import GenerationRequest, Instance, LoglikelihoodRequest
from tools.parity.compare import Built, Setting


@cache
def chat() -> Any:
    """The chat template of the bundled model as Multiform's local models apply it; no weights are needed."""
    from multiform.models.hf.load import load_bundled_chat

    return load_bundled_chat({}).apply_chat_template


def load_task(path: Path, mirror: Path) -> Task:
    """Multiform's task of a file."""
    [config] = TaskManager().load(str(path))
    return Task.from_config(config, dataset_mirror=mirror)


def built(path: Path, mirror: Path, setting: Setting, limit: int, chat: Any) -> Built:
    """The requests of the first documents in one setting."""
    try:
        return requests_of(load_task(path, mirror), setting, limit, chat)
    except MultiformError as error:
        return Built(error=str(error))


def requests_of(task: Task, setting: Setting, limit: int, chat: Any) -> Built:
    """The requests of the first documents of a task in one setting."""
    random.seed(0)
    try:
        task.set_num_fewshot(setting.shots)
        made = task.build_all_requests(
            limit=limit,
            apply_chat_template=setting.chat,
            fewshot_as_multiturn=setting.chat,
            chat_template=chat if setting.chat else None,
        )
    except MultiformError as error:
        return Built(error=str(error))
    docs: dict[int, list[Any]] = {}
    for instance in made:
        if not (isinstance(instance.request, GenerationRequest) and instance.request.sample):
            docs.setdefault(instance.doc_id, []).append([*_written(instance), task.config.repeats])
    return Built(docs=list(docs.values()))


def _written(instance: Instance) -> list[Any]:
    """A request as lm-eval writes it down."""
    request = instance.request
    if isinstance(request, LoglikelihoodRequest):
        return ["loglikelihood", request.context, request.continuation]
    if isinstance(request, GenerationRequest):
        return ["generate_until", request.context, request.gen_kwargs]
    return ["loglikelihood_rolling", request.text]
