"""What a run starts from: its forms, multiplied by orders of choices and draws of few-shot examples, and its seeds."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import factorial
from pathlib import Path
from typing import Any

from multiform.errors import UsageError, excerpt, list_first
from multiform.formats.localization import language_names
from multiform.formats.variation import Grammar, Variation
from multiform.forms import Form, FormSpec, RunSettings, Task
from multiform.labels import label_list
from multiform.paths import mirror_path
from multiform.run.options import RunOptions
from multiform.tasks.config import TaskConfig
from multiform.tasks.group import Group, Node, distinct, node_name, same_task
from multiform.tasks.manager import Design, TaskManager
from multiform.tasks.python_tasks import PythonTask
from multiform.tasks.resolve import overridden_until

#: Seeds below this are taken by all of python, numpy and torch.
_SEED_LIMIT = 2**32
#: The largest number of orders that `choice_order=all` makes.
_MOST_ORDERS = 24

logger = logging.getLogger("multiform")


def load_forms(options: RunOptions) -> tuple[list[Form], list[Group]]:
    """The forms that a run's tasks name or are, with its settings, and the groups that they are reported in.

    Variations, orders of choices, draws of few-shot examples and thinking budgets multiply them.
    """
    settings, mirror = options.settings, mirror_path(options.mirror)
    design = options.design
    manager = TaskManager(options.include_path, design=design, dataset_mirror=options.mirror)
    items = options.task_list
    unnamed = next((item for item in items if not isinstance(item, str)), None)
    if design.protocol is not None and unnamed is not None:
        message = f"a {type(unnamed).__name__} is given as an object, and a protocol is of tasks by name"
        raise UsageError(message, where="protocol", hint="give the task by its name, or leave protocol out")
    tasks_given = [item.form for item in items if isinstance(item, Task)]
    trees = [_nodes(item, manager) for item in items if not isinstance(item, Task)]
    named = [node for tree in trees for node in tree]
    multiplies = design.choice_order not in (None, "original") or design.fewshot_draws > 1 or design.thinking_budgets
    if tasks_given and multiplies:
        message = f"the forms of '{tasks_given[0].name}', which is given as an object, cannot be multiplied"
        hint = "give the task by its name or configuration, or leave choice_order, fewshot_draws, thinking_budget out"
        raise UsageError(message, where="tasks", hint=hint)
    _check_languages([*named, *(form.config for form in tasks_given)], design.languages)
    nodes = multiply(named, design, settings, mirror)
    if len(nodes) > 1 or any(isinstance(node, Group) for node in nodes):
        nodes = distinct(nodes)
    forms: dict[str, Form] = {}
    for form in tasks_given:
        if forms.setdefault(form.name, form).config != form.config:
            raise _two_tasks(form.name)
    for config in (config for node in nodes for config in node.tasks()):
        name = config.form_name
        if name not in forms:
            forms[name] = Task.from_config(config, dataset_mirror=mirror).form
        elif not same_task(forms[name].config, config):  # a group may be given beside its tasks
            raise _two_tasks(name)
    if not forms:
        raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
    forms_of_run = [form.under(settings) for form in forms.values()]
    _log_notes(forms_of_run)
    return forms_of_run, [node for node in nodes if isinstance(node, Group)]


def _check_languages(nodes: Sequence[Node], languages: Sequence[str]) -> None:
    """Refuse tasks in other languages than those that the run is limited to."""
    for config in (config for node in nodes for config in node.tasks()) if languages else ():
        names = language_names(config.metadata)
        if not set(names) & set(languages):
            message = f"'{config.form_name}' " + (f"is in '{names[0]}'" if names else "does not state its language")
            hint = "name groups whose subsets are languages, e.g. mgsm, belebele or global_mmlu_lite"
            raise UsageError(message, where="--languages", hint=hint)


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


def set_seeds(seeds: Sequence[int | None]) -> None:
    """Seed python, numpy and torch, in this order, where a number is given; torch only where it is loaded."""
    for seed in seeds:
        if seed is not None and not 0 <= seed < _SEED_LIMIT:
            message = f"expected a number from 0 to {_SEED_LIMIT - 1}, got {excerpt(seed)}"
            raise UsageError(message, where="--seed", hint="give e.g. --seed 1234")
    python, numpy_seed, torch_seed = seeds[:3]
    if python is not None:
        random.seed(python)
    if numpy_seed is not None:
        import numpy

        numpy.random.seed(numpy_seed)
    if torch_seed is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(torch_seed)


def _log_notes(forms: Sequence[Form]) -> None:
    """Log what formats changed in tasks that were written without them, what is unusual in tasks, and idle axes."""
    configs = [form.config for form in forms]
    # A field mapping that was raw already was not recovered from finished prompts.
    recovered = [(config.form_name, config.recovered) for config in configs if config.recovered is not None]
    mappings = _by_note((name, each.description()) for name, each in recovered if each.how != "raw" or each.in_order)
    for note in (*mappings, *_description_notes(configs), *_until_notes(configs)):
        logger.info("%s", note)
    for note in dict.fromkeys(str(note) for form in forms for note in form.notes):
        logger.warning("%s", note)
    for form in forms:
        for axis in ("shots", "draw") if form.num_fewshot == 0 else ():
            if axis in form.config.axes:
                logger.warning("%s: '%s' changes nothing without few-shot examples", form.name, axis)


def _description_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """The first description that was changed, as an example for all of them."""
    changed = [
        config for config in configs if config.format and config.description != config.stated.get("description", "")
    ]
    if not changed:
        return []
    why = "the description speaks of choices that the format does not show"
    forms = list_first([config.form_name for config in changed], 1)
    return [f"{forms}: {why}; {_change(changed[0])} (--keep_description keeps it)"]


def _change(config: TaskConfig) -> str:
    """How a format changed a description, in words."""
    before, after = config.stated.get("description", ""), config.description
    if not isinstance(before, str) or not isinstance(after, str):
        return "what its code says of them is left out of each prompt"
    change = f"becomes {excerpt(after.strip())}" if after else "is left out"
    return f"{excerpt(before.strip())} {change}"


def _until_notes(configs: Iterable[TaskConfig]) -> list[str]:
    hint = "to keep it, write it into the format's generation_kwargs or --gen_kwargs"
    notes = []
    for config in configs:
        stated = config.stated.get("generation_kwargs", {})
        until = None if config.format is None else overridden_until(config.format, stated)
        if until is not None:
            replaced = f"{excerpt(config.generation_kwargs['until'])} replaces the task's {excerpt(until)}"
            notes.append((config.form_name, f"the format's until {replaced}; {hint}"))
    return _by_note(notes)


def _by_note(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each note, given with the name of its form; forms with the same note share it."""
    names: dict[str, list[str]] = {}
    for name, note in notes:
        names.setdefault(note, []).append(name)
    return [f"{list_first(forms, 1)}: {note}" for note, forms in names.items()]


def multiply(nodes: Sequence[Node], design: Design, settings: RunSettings, mirror: Path | None) -> list[Node]:
    """The nodes in each order of choices, with each draw of few-shot examples, and with each thinking budget."""
    nodes = list(nodes)
    if design.choice_order is not None:
        _refuse_chosen(nodes, "choice_order", "--choice_order", "an order of choices", "order")
    if design.choice_order not in (None, "original"):

        def orders(node: Node) -> list[dict[str, str]]:
            return [{"order": order} for order in _orders(node, str(design.choice_order), settings, mirror)]

        lacks = "does not show choices whose order can change"
        nodes = _multiply(nodes, "--choice_order", orders, _shows_choices, lacks)
    if design.fewshot_draws > 1:
        _refuse_chosen(nodes, "fewshot_draw", "--fewshot_draws", "a draw of examples", "draw")
        draws = [{"draw": str(draw)} for draw in range(design.fewshot_draws)]
        lacks = "has no few-shot examples that are drawn at random"
        nodes = _multiply(nodes, "--fewshot_draws", lambda _: draws, partial(_draws_shots, settings=settings), lacks)
    if design.thinking_budgets:
        budgets = [{"budget": str(budget)} for budget in design.thinking_budgets]
        lacks = "has no format under which a model may think"
        nodes = _multiply(nodes, "--thinking_budget", lambda _: budgets, _may_think, lacks)
    return nodes


def _refuse_chosen(nodes: Sequence[Node], field: str, flag: str, what: str, word: str) -> None:
    """Refuse a flag that multiplies nodes by what the name of one of them chooses already."""
    for config in (config for node in nodes for config in node.tasks()):
        if getattr(config, field):
            message = f"'{config.form_name}' has {what} already"
            raise UsageError(message, where=flag, hint=f"leave out the flag, or the {word} after the @")


def _multiply(
    nodes: Sequence[Node],
    flag: str,
    variations: Callable[[Node], Sequence[Mapping[str, str]]],
    applies: Callable[[TaskConfig], bool],
    lacks: str,
) -> list[Node]:
    """The nodes under each of their variations; one with a task to which `flag` does not apply is kept once.

    A flag that applies to no node is refused; `lacks` says why.
    """
    alone = [node for node in nodes if not all(map(applies, node.tasks()))]
    if len(alone) == len(nodes):
        raise UsageError(f"'{node_name(alone[0])}' {lacks}", where=flag, hint="leave the flag out")
    for node in alone:
        logger.warning("%s: '%s' %s, so that it runs only once", flag, node_name(node), lacks)
    varied = [[] if node in alone else [relabel(node, **choices) for choices in variations(node)] for node in nodes]
    return [variant for node, variants in zip(nodes, varied, strict=True) for variant in variants or [node]]


def relabel(node: Node, **choices: str) -> Node:
    """The task or group under the variation of its format with these choices."""
    if isinstance(node, Group):
        members = tuple(relabel(member, **choices) for member in node.members)
        label = Variation.parse(node.label or "").replace(**choices)
        changed = any(new is not old for new, old in zip(members, node.members, strict=True))
        return replace(node, members=members, label=str(label)) if changed else node
    own_template = node.template is not None and node._formats_selection is None
    label = Variation.parse("" if own_template else node.format_label or "").replace(**choices)
    varied = node.replace(_formats_selection=str(label))
    return node if (varied.format, varied.axes) == (node.format, node.axes) else varied


def _orders(node: Node, choice_order: str, settings: RunSettings, mirror: Path | None) -> list[str]:
    """The orders of choices for the documents of a node."""
    if choice_order not in ("cyclic", "all"):
        return [choice_order]
    number = max(_most_choices(config, settings, mirror) for config in node.tasks())
    if choice_order == "cyclic":
        return [f"rotate:{step}" for step in range(number)]
    if factorial(number) > _MOST_ORDERS:
        message = f"{number} choices of '{node_name(node)}' have {factorial(number)} orders"
        hint = f"at most {_MOST_ORDERS} are run: use cyclic, or several of shuffle:1, shuffle:2 after the @"
        raise UsageError(message, where="--choice_order", hint=hint)
    return ["".join(order) for order in permutations(label_list(number, "lower"))]


def _most_choices(config: TaskConfig, settings: RunSettings, mirror: Path | None) -> int:
    form = Task.from_config(config, dataset_mirror=mirror).form.under(settings)
    docs = form.docs(limit=settings.limit)
    return max((len(form.renderer.fields(doc).raw_choices or ()) for _, doc in docs), default=1)


def _may_think(config: TaskConfig) -> bool:
    return config.format is not None and config.format.generates


def _shows_choices(config: TaskConfig) -> bool:
    format = config.format
    return format is not None and format.shows_choices and bool(Grammar.of(config.variations, format.variations).orders)


def _draws_shots(config: TaskConfig, settings: RunSettings) -> bool:
    form = FormSpec(config, settings)
    shots = form.fewshot
    drawn = shots.sampler != "first_n" and shots.fewshot_indices is None and shots.fewshot_rows is None
    return form.num_fewshot > 0 and drawn
