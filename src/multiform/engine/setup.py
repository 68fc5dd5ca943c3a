"""What a run starts from: its settings, its forms and its model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiform.compat.foreign import as_model
from multiform.config import TaskConfig
from multiform.config.generation import check_generation
from multiform.engine.late import late_model
from multiform.engine.progress import Progress
from multiform.engine.recovered import recovered_notes
from multiform.engine.store import Store
from multiform.errors import ConfigError, UsageError, nearest, reason
from multiform.models import Model, models
from multiform.models.arguments import check_arguments
from multiform.tasks import BaseTask, Group, Node, PromptOptions, Task, TaskManager

DEFAULT_MODEL = "bundled"
#: Seeds of python, numpy, torch and the few-shot sampler.
DEFAULT_SEEDS = (0, 1234, 1234, 1234)

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """What decides a prompt beside the task: the same for `run`, `show` and `validate`."""

    num_fewshot: int | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool | None = None
    system_instruction: str | None = None
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: Noise in the questions, as a task's `perturbation` says it.
    perturbation: Mapping[str, Any] | None = None
    fewshot_seed: int = DEFAULT_SEEDS[3]

    @property
    def multiturn(self) -> bool:
        """Examples are turns of their own in a chat, unless that is turned off."""
        return bool(self.apply_chat_template) if self.fewshot_as_multiturn is None else self.fewshot_as_multiturn

    def options(self, model: Model | None) -> PromptOptions:
        chat = bool(self.apply_chat_template)
        return PromptOptions(
            system_instruction=self.system_instruction,
            apply_chat_template=chat,
            fewshot_as_multiturn=self.multiturn,
            chat_template=model.apply_chat_template if chat and model is not None else None,
        )


def load_tasks(
    tasks: str | Sequence[str | TaskConfig | Task | Group | BaseTask[Any] | type[BaseTask[Any]]],
    settings: PromptSettings,
    *,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | None = None,
    groups: list[Group] | None = None,
) -> list[Task]:
    """The forms that are named or given, with the settings of this run; groups are added to `groups`."""
    manager = TaskManager(include_path)
    mirror = Path(dataset_mirror) if dataset_mirror else None
    noise = {} if settings.perturbation is None else {"perturbation": dict(settings.perturbation)}
    made: list[Task] = []
    for item in [tasks] if isinstance(tasks, str) else tasks:
        if isinstance(item, Task):
            made.append(type(item)(item.config.changed(**noise), dataset_mirror=item.source.mirror) if noise else item)
        elif isinstance(item, TaskConfig):
            made.append(Task.from_config(item.changed(**noise) if noise else item, dataset_mirror=mirror))
        elif isinstance(item, Group):  # of tasks that are given beside it
            given = {task.name for task in made}
            others = [config for config in item.tasks() if config.form_name not in given]
            made += [Task.from_config(config, dataset_mirror=mirror) for config in others]
            if groups is not None:
                groups.append(item)
        else:
            nodes = manager.tree(item, noise) if isinstance(item, str) else [_node(item, noise)]
            configs = {config.form_name: config for node in nodes for config in _leaves(node)}
            made += [Task.from_config(config, dataset_mirror=mirror) for config in configs.values()]
            if groups is not None:
                groups += [node for node in nodes if isinstance(node, Group)]
    forms: dict[str, Task] = {}
    for task in made:
        first = forms.setdefault(task.name, task)
        if first is not task and first.config != task.config:
            what = f"two different tasks are called '{task.name}'"
            raise UsageError(what, where="--tasks", hint="rename one of them, or run them one by one")
    if not forms:
        raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
    for form in forms.values():
        _apply(settings, form)
    for note in recovered_notes(form.config for form in forms.values()):
        logger.info("%s", note)
    for note in dict.fromkeys(str(note) for form in forms.values() for note in form.notes):
        logger.warning("%s", note)
    return list(forms.values())


def _node(item: Any, overrides: Mapping[str, Any]) -> Node:
    """What a Python task, or the class of one, stands for."""
    task = item() if isinstance(item, type) and issubclass(item, BaseTask) else item
    if not isinstance(task, BaseTask):
        what = f"expected a task's name, configuration or class, got {type(task).__name__}"
        raise UsageError(what, where="tasks", hint="give e.g. tasks=['quiz@mcqa']")
    return task.to_node(None, overrides)


def _leaves(node: Node) -> list[TaskConfig]:
    return list(node.tasks()) if isinstance(node, Group) else [node]


def load_model(
    model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None = None
) -> Model:
    """The model itself, or the registered one of that name, loaded when it is needed if the store knows it."""
    if not isinstance(model, str):
        return as_model(model)
    if model not in models:
        models.get(model)  # raises, with the nearest name
    return late_model(model, arguments, store, lambda: _load(model, arguments, progress))


def _load(model: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
    progress.message(f"loading model '{model}'")
    try:
        factory = models.get(model).load()
    except ImportError as error:
        what = f"model '{model}' needs a package that is not installed: {error}"
        raise UsageError(what, where="--model", hint="pip install 'multiform[hf]'") from error
    try:
        check_arguments(factory, arguments)
        return factory(**arguments)
    except UsageError as error:
        raise UsageError(error.what, where=error.where or "--model_args", hint=error.hint) from error
    except TypeError as error:
        raise UsageError(reason(error), where="--model_args", hint=f"see what model '{model}' takes") from error


def check_consent(forms: Sequence[Task], confirmed: bool) -> None:
    """Refuse tasks that run what a model wrote, unless the user has agreed to that."""
    unsafe = [form for form in forms if form.config.unsafe_code]
    if unsafe and not confirmed:
        raise UsageError(
            "the task runs code that the model writes",
            where=unsafe[0].config.where("unsafe_code"),
            hint="add --confirm_run_unsafe_code if that is what you want, best in a container",
        )


def check_samples(forms: Sequence[Task], samples: Mapping[str, Sequence[int]] | None) -> None:
    """Refuse chosen documents of a task that is not run."""
    known = [name for form in forms for name in (form.name, form.config.base_name)]
    for name in samples or {}:
        if name not in known:
            hint = nearest(name, known, listed="the tasks of this run are")
            raise UsageError(f"no task '{name}' in this run", where="--samples", hint=hint)


def check_selection(limit: float | None, samples: Mapping[str, Sequence[int]] | None) -> None:
    """Refuse a choice of documents that cannot be meant."""
    if limit is not None and samples is not None:
        raise UsageError("limit and samples exclude each other", where="--samples", hint="give one of them")
    if limit is not None and (not limit > 0 or (limit > 1 and limit != int(limit))):
        what = f"expected a whole number of documents or a fraction below 1, got {limit}"
        raise UsageError(what, where="--limit", hint="give e.g. --limit 100 or --limit 0.1")


def _apply(settings: PromptSettings, task: Task) -> None:
    if settings.num_fewshot is not None:
        task.set_num_fewshot(settings.num_fewshot)
    task.set_fewshot_seed(settings.fewshot_seed)
    if settings.gen_kwargs and task.OUTPUT_TYPE == "generate_until":
        given = dict(settings.gen_kwargs)
        try:
            check_generation(given)
        except ConfigError as error:
            raise UsageError(error.what, where="--gen_kwargs", hint=error.hint) from error
        if isinstance(given.get("until"), str):
            given["until"] = [given["until"]]
        task.config.generation_kwargs = {**task.config.generation_kwargs, **given}
