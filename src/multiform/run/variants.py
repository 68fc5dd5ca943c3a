"""Forms that a run adds: other orders of the choices, and other draws of few-shot examples."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import factorial
from pathlib import Path

from multiform.errors import UsageError
from multiform.formats.select import grammar_of
from multiform.formats.variation import Variation
from multiform.forms import Form, FormSpec, RunSettings, Task
from multiform.labels import label_list
from multiform.tasks import Design, Group, Node, TaskConfig, node_name

#: The largest number of orders that `choice_order=all` makes.
_MOST_ORDERS = 24

logger = logging.getLogger("multiform")


def with_orders(nodes: Sequence[Node], design: Design, settings: RunSettings, mirror: Path | None) -> list[Node]:
    """The nodes in each order of choices that the design requests; a node that shows no choices is kept once."""
    if design.choice_order is None:
        return list(nodes)
    for config in (config for node in nodes for config in _tasks(node)):
        if config.choice_order is not None:
            message = f"'{config.form_name}' has an order of choices already"
            raise UsageError(message, where="--choice_order", hint="leave out the flag, or the order after the @")
    if design.choice_order == "original":
        return list(nodes)
    alone = [node for node in nodes if not all(_shows_choices(config) for config in _tasks(node))]
    _check_some(nodes, alone, "--choice_order", "does not show choices whose order can change")
    varied: list[Node] = []
    for node in nodes:
        orders = [] if node in alone else _orders(node, str(design.choice_order), settings, mirror)
        varied += [relabelled(node, order=order) for order in orders] or [node]
    return varied


def with_draws(nodes: Sequence[Node], design: Design, settings: RunSettings) -> list[Node]:
    """The nodes with each draw of few-shot examples; a node without randomly drawn examples is kept once."""
    if design.fewshot_draws == 1:
        return list(nodes)
    for config in (config for node in nodes for config in _tasks(node)):
        if config.fewshot_draw:
            message = f"'{config.form_name}' has a draw of examples already"
            raise UsageError(message, where="--fewshot_draws", hint="leave out the flag, or the draw after the @")
    alone = [node for node in nodes if not all(_draws_shots(config, settings) for config in _tasks(node))]
    _check_some(nodes, alone, "--fewshot_draws", "has no few-shot examples that are drawn at random")
    draws = range(design.fewshot_draws)
    return [
        variant
        for node in nodes
        for variant in ([node] if node in alone else [relabelled(node, draw=str(draw)) for draw in draws])
    ]


def idle_axes(form: Form) -> list[str]:
    """Notes about axes of a variation that change nothing in a run."""
    idle = [axis for axis in ("shots", "draw") if axis in form.axes and form.num_fewshot == 0]
    return [f"{form.name}: '{axis}' changes nothing without few-shot examples" for axis in idle]


def relabelled(node: Node, **choices: str) -> Node:
    """The task or group under the variation of its format with these choices."""
    if isinstance(node, Group):
        members = tuple(relabelled(member, **choices) for member in node.members)
        label = Variation.parse(node.label or "").changed(**choices)
        changed = any(new is not old for new, old in zip(members, node.members, strict=True))
        return replace(node, members=members, label=str(label)) if changed else node
    own_template = node.template is not None and node._formats_selection is None
    label = Variation.parse("" if own_template else node.format_label or "").changed(**choices)
    varied = node.changed(_formats_selection=str(label))
    return node if (varied.format, varied.axes) == (node.format, node.axes) else varied


def _orders(node: Node, choice_order: str, settings: RunSettings, mirror: Path | None) -> list[str]:
    """The orders of choices for the documents of a node."""
    if choice_order not in ("cyclic", "all"):
        return [choice_order]
    number = max(_most_choices(config, settings, mirror) for config in _tasks(node))
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


def _shows_choices(config: TaskConfig) -> bool:
    format = config.format
    return format is not None and format.shows_choices and bool(grammar_of(format, config.variations).orders)


def _draws_shots(config: TaskConfig, settings: RunSettings) -> bool:
    form = FormSpec(config, settings)
    drawn = form.fewshot.sampler != "first_n" and form.fewshot.fewshot_indices is None
    return form.num_fewshot > 0 and drawn


def _check_some(nodes: Sequence[Node], alone: Sequence[Node], flag: str, why: str) -> None:
    """Refuse an option that has an effect on no form of the run; warn about forms without one."""
    if len(alone) == len(nodes):
        raise UsageError(f"'{node_name(alone[0])}' {why}", where=flag, hint="leave the flag out")
    for node in alone:
        logger.warning("%s: '%s' %s, so that it runs only once", flag, node_name(node), why)


def _tasks(node: Node) -> Iterator[TaskConfig]:
    return node.tasks() if isinstance(node, Group) else iter([node])
