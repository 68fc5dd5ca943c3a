"""What a run starts from: its settings, its forms and its model."""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, UsageError, nearest, reason, shorten
from multiform.forms import Form, RunSettings, Task
from multiform.models import Model, models
from multiform.models.arguments import check_arguments
from multiform.models.foreign import as_model
from multiform.paths import mirror_path
from multiform.run.lazy_model import lazy_model
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.run.variants import idle_axes, with_draws, with_orders
from multiform.sandbox import chosen_sandbox
from multiform.scoring.metrics.callables import HubMetric
from multiform.scoring.scorers.ai_judge import AIJudge
from multiform.scoring.scorers.judge_model import JudgeChoice
from multiform.tasks import Design, Group, Node, PythonTask, TaskConfig, TaskManager
from multiform.tasks.group import distinct, same_task
from multiform.tasks.resolve import overridden_until

DEFAULT_MODEL = "bundled"
#: Seeds of python, numpy, torch and the few-shot sampler.
DEFAULT_SEEDS = (0, 1234, 1234, 1234)
#: Seeds below this are taken by all of python, numpy and torch.
_SEED_LIMIT = 2**32

logger = logging.getLogger("multiform")


def load_tasks(
    tasks: str | Sequence[str | TaskConfig | Task | Group | PythonTask | type[PythonTask]],
    settings: RunSettings,
    *,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | Sequence[str | Path] | None = None,
    design: Design | None = None,
    groups: list[Group] | None = None,
) -> list[Form]:
    """The forms that `tasks` name or are, with the settings of this run; groups are added to `groups`.

    `design` multiplies them by variations, orders of choices and draws of few-shot examples.
    """
    design = replace(design or Design(), num_fewshot=settings.num_fewshot)
    manager = TaskManager(include_path, design=design, dataset_mirror=dataset_mirror)
    mirror = mirror_path(dataset_mirror)
    items = [tasks] if isinstance(tasks, str) else list(tasks)
    tasks_given = [item.form for item in items if isinstance(item, Task)]
    trees = [_nodes(item, manager) for item in items if not isinstance(item, Task)]
    named = [node for tree in trees for node in tree]
    if tasks_given and (design.choice_order not in (None, "original") or design.fewshot_draws > 1):
        message = f"the forms of '{tasks_given[0].name}', which is given as an object, cannot be multiplied"
        hint = "give the task by its name or configuration, or leave choice_order and fewshot_draws out"
        raise UsageError(message, where="tasks", hint=hint)
    nodes = distinct(with_draws(with_orders(named, design, settings, mirror), design, settings))
    forms: dict[str, Form] = {}
    for form in tasks_given:
        if forms.setdefault(form.name, form).config != form.config:
            raise _two_tasks(form.name)
    configs = {name: form.config for name, form in forms.items()}  # a group may be given beside its tasks
    for config in (config for node in nodes for config in (node.tasks() if isinstance(node, Group) else [node])):
        name = config.form_name
        first = configs.setdefault(name, config)
        if first is not config and not same_task(first, config):
            raise _two_tasks(name)
        if name not in forms:
            forms[name] = Task.from_config(config, dataset_mirror=mirror).form
    if groups is not None:
        groups += [node for node in nodes if isinstance(node, Group)]
    if not forms:
        raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
    forms_of_run = [form.under(settings) for form in forms.values()]
    for note in format_notes(form.config for form in forms_of_run):
        logger.info("%s", note)
    for note in dict.fromkeys(str(note) for form in forms_of_run for note in form.notes):
        logger.warning("%s", note)
    for note in (note for form in forms_of_run for note in idle_axes(form)):
        logger.warning("%s", note)
    return forms_of_run


def _nodes(item: Any, manager: TaskManager) -> list[Node]:
    """The tasks and groups that an item names or is."""
    if isinstance(item, str):
        return manager.nodes(item)
    if isinstance(item, TaskConfig | Group):
        return [item]
    task = item() if isinstance(item, type) and issubclass(item, PythonTask) else item
    if not isinstance(task, PythonTask):
        message = f"expected a task's name, configuration or class, got {type(task).__name__}"
        raise UsageError(message, where="tasks", hint="give e.g. tasks=['quiz@mcqa']")
    return [task.to_node(None)]


def _two_tasks(name: str) -> UsageError:
    hint = "rename one of them, or run them one by one"
    return UsageError(f"two different tasks are called '{name}'", where="--tasks", hint=hint)


def load_model(
    model: str | Model | Any,
    arguments: Mapping[str, Any],
    progress: Progress,
    store: Store | None = None,
    *,
    load: Callable[[], Model] | None = None,
) -> Model:
    """The model: an object is returned as it is, a name is looked up in the registry.

    A registered model whose facts are in the store is loaded lazily. `load` loads it, by default into this process.
    """
    if not isinstance(model, str):
        return as_model(model)
    if model not in models:
        models.get(model)  # raises, with the nearest name
    return lazy_model(model, arguments, store, load or (lambda: loaded_model(model, arguments, progress)))


def loaded_model(model: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
    """The registered model of that name, loaded into this process."""
    progress.message(f"loading model '{model}'")
    started = time.monotonic()
    loaded = create_model(model, arguments)
    loaded.loading_seconds = time.monotonic() - started
    return loaded


def create_model(model: str, arguments: Mapping[str, Any]) -> Model:
    """The registered model of that name with these arguments, which are checked."""
    try:
        factory = models.get(model).load()
    except ImportError as error:
        message = f"model '{model}' needs a package that is not installed: {error}"
        raise UsageError(message, where="--model", hint="pip install 'multiform[hf]'") from error
    try:
        check_arguments(factory, arguments)
        return factory(**arguments)
    except UsageError as error:
        raise error.or_at("--model_args") from error
    except TypeError as error:
        raise UsageError(reason(error), where="--model_args", hint=f"see what model '{model}' takes") from error


def check_consent(forms: Sequence[Form], confirmed: bool, judge: JudgeChoice | None = None) -> None:
    """Refuse tasks that run generated code or code from the hub, or choose a judge, unless the user agreed to that."""
    unsafe = [form for form in forms if form.unsafe_code]
    if unsafe and not confirmed:
        raise UsageError(
            "the task runs code that the model writes",
            where=unsafe[0].config.where("unsafe_code"),
            hint="add --confirm_run_unsafe_code if that is what you want",
        )
    if unsafe:
        chosen_sandbox()  # so that a missing one is not noticed after the model has run
    for form in forms:
        for metric in form.scorer.metrics:
            if isinstance(metric.fn, HubMetric):
                if not confirmed:
                    raise metric.fn.refused().moved(form.where("metric_list"))
                metric.fn.load()
    judged = [(form, scorer) for form in forms for scorer in form.scorer.scorers if isinstance(scorer, AIJudge)]
    if judge and not judged:
        logger.warning("--judge_model and --judge_args change nothing: no task of this run has a judge")
    for form, scorer in judged:
        try:
            scorer.judge  # noqa: B018  (refuses what only the user may choose)
        except ConfigError as error:
            raise error.at(form.where("scorer") or form.name) from error


def check_output_types(forms: Sequence[Form]) -> None:
    """Refuse a task with choices that would be run as free generation, where nothing says that this is intended."""
    for form in forms:
        if not form.ignores_choices:
            continue
        message = "the task has choices but no format and no output_type: the model would write without seeing them"
        hint = (
            "add output_type: multiple_choice to have the choices ranked, or a format such as formats: mcqa; "
            "add output_type: generate_until if the model is to write one of them"
        )
        raise ConfigError(message, where=form.where("doc_to_choice"), hint=hint)


def check_samples(forms: Sequence[Form], samples: Mapping[str, Sequence[int]] | None) -> None:
    """Refuse `samples` of a task that is not part of the run."""
    run_names = [name for form in forms for name in (form.name, form.task_name)]
    for name in samples or {}:
        if name not in run_names:
            hint = nearest(name, run_names, listed="the tasks of this run are")
            raise UsageError(f"no task '{name}' in this run", where="--samples", hint=hint)


def check_selection(limit: float | None, samples: Mapping[str, Sequence[int]] | None) -> None:
    """Refuse a `limit` or `samples` that selects no documents, and both together."""
    if limit is not None and samples is not None:
        raise UsageError("limit and samples exclude each other", where="--samples", hint="give one of them")
    if limit is not None and (not limit > 0 or (limit > 1 and limit != int(limit))):
        message = f"expected a whole number of documents or a fraction below 1, got {limit}"
        raise UsageError(message, where="--limit", hint="give e.g. --limit 100 or --limit 0.1")


def set_seeds(seeds: Sequence[int | None]) -> None:
    """Seed python, numpy and torch, in this order, where a number is given; torch only where it is loaded."""
    for seed in seeds:
        if seed is not None and not 0 <= seed < _SEED_LIMIT:
            message = f"expected a number from 0 to {_SEED_LIMIT - 1}, got {shorten(seed)}"
            raise UsageError(message, where="--seed", hint="give e.g. --seed 1234")
    python, numpy_seed, torch_seed = seeds[:3]
    if python is not None:
        random.seed(python)
    if numpy_seed is not None:
        import numpy

        numpy.random.seed(numpy_seed)
    if torch_seed is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch_seed)


def format_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """Notes on what formats changed in tasks that were written without them; tasks with the same note share a line."""
    configs = list(configs)
    return [*_mapping_notes(configs), *_description_notes(configs), *_until_notes(configs)]


def _mapping_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """Notes on field mappings that were recovered from finished prompts; none for a mapping that was raw already."""
    names: dict[str, list[str]] = {}
    for config in configs:
        if config.recovered is not None and (config.recovered.how != "raw" or config.recovered.spread):
            names.setdefault(config.recovered.described(), []).append(config.form_name)
    return [f"{_listed(forms)}: {note}" for note, forms in names.items()]


def _description_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """The first description that was changed, as an example for all of them."""
    changed = [config for config in configs if config.format and config.description != config.given("description")]
    if not changed:
        return []
    why = "the description speaks of choices that the format does not show"
    forms = _listed([config.form_name for config in changed])
    return [f"{forms}: {why}; {_change(changed[0])} (--keep_description keeps it)"]


def _change(config: TaskConfig) -> str:
    """How a format changed a description, in words."""
    before, after = config.given("description"), config.description
    if not isinstance(before, str) or not isinstance(after, str):
        return "what its code says of them is left out of each prompt"
    change = f"becomes {shorten(after.strip())}" if after else "is left out"
    return f"{shorten(before.strip())} {change}"


def _until_notes(configs: Iterable[TaskConfig]) -> list[str]:
    names: dict[str, list[str]] = {}
    for config in configs:
        if config.format is None:
            continue
        until = overridden_until(config.format, config.given("generation_kwargs"))
        if until is not None:
            stops = shorten(config.generation_kwargs["until"])
            note = f"the format's until {stops} replaces the task's {shorten(until)}"
            names.setdefault(note, []).append(config.form_name)
    hint = "to keep it, write it into the format's generation_kwargs or --gen_kwargs"
    return [f"{_listed(forms)}: {note}; {hint}" for note, forms in names.items()]


def _listed(forms: list[str]) -> str:
    return forms[0] if len(forms) == 1 else f"{forms[0]} and {len(forms) - 1} more"
