"""TaskManager: from the names of tasks, groups, tags and files to task configurations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from multiform.arguments import split_outside
from multiform.errors import ConfigError, UsageError, list_first, nearest
from multiform.formats.base import formats
from multiform.formats.compile import FieldMapping
from multiform.formats.localization import language_names
from multiform.formats.select import format_table, supported_formats
from multiform.formats.variation import Grammar, Variation
from multiform.imports import lm_eval_finder
from multiform.paths import display, is_dir, mirror_path
from multiform.tasks.config import TaskConfig
from multiform.tasks.folders import task_folders
from multiform.tasks.group import Group, Node, build_group, distinct, subset_tasks, tasks_by_name
from multiform.tasks.index import Index, Target, TaskLookup, shorten_name
from multiform.tasks.keys import Source, StatedKeys
from multiform.tasks.protocols import Protocol, add_entry, read_protocols
from multiform.tasks.python_tasks import instantiate, resolve_class
from multiform.tasks.yaml import read_yaml

_MAX_GROUPS = 1000
#: A label such as ``mcqa~16``, which stands for 16 variations.
_DRAWN = re.compile(r"(?P<label>.*?)~(?P<number>\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The variations, orders of choices and draws of few-shot examples of a run."""

    #: The seed of the variations that ``format~N`` draws; None draws other ones each time.
    seed: int | None = 0
    #: The number of few-shot examples of the run: without any, nothing about them is varied.
    num_fewshot: int | None = None
    #: `original`, `shuffle:SEED`, `cyclic` (a form for each rotation) or `all` (one for each permutation).
    choice_order: str | None = None
    #: How many forms with other few-shot examples.
    fewshot_draws: int = 1
    #: The thinking budgets, in tokens, each of which gives a form.
    thinking_budgets: tuple[int, ...] = ()
    #: The languages to which groups whose subsets are languages are limited; none limits nothing.
    languages: tuple[str, ...] = ()
    #: The protocol of all tasks that name no format.
    protocol: str | None = None


class TaskManager:
    """Finds tasks by name, tag, glob or path, each with the formats that follow an ``@``."""

    def __init__(
        self,
        include_path: str | Path | Iterable[str | Path] | None = None,
        *,
        library: bool = True,
        design: Design | None = None,
        dataset_mirror: str | Path | Sequence[str | Path] | None = None,
    ) -> None:
        """Search the folders of `include_path` and, unless `library` is false, the bundled library.

        `design` has the seed of the variations that ``format~N`` draws. What a dataset declares itself
        (``hf/ORG/DATASET``) is looked up in `dataset_mirror` before the hub.
        """
        self.design = design or Design()
        self.dataset_mirror = mirror_path(dataset_mirror)
        self.folders = task_folders(include_path, library=library)
        self._lookup = TaskLookup(self.folders, self.dataset_mirror)
        self._groups = 0  # that have been built inside of the one that was named
        lm_eval_finder.folders.update(folder.resolve() for folder in self.folders)

    def __repr__(self) -> str:
        return f"<TaskManager of {', '.join(map(display, self.folders)) or 'no folders'}>"

    @property
    def index(self) -> Index:
        """The tasks, groups and tags of all folders, read when they are first needed."""
        return self._lookup.index

    @cached_property
    def protocols(self) -> dict[str, Protocol]:
        """The protocols of all folders, read when they are first needed."""
        return read_protocols(self.folders)

    def load(self, specs: str | Sequence[str], overrides: Mapping[str, Any] | None = None) -> list[TaskConfig]:
        """The configurations of all forms that `specs` name, each form once; `overrides` replace keys of all of them.

        >>> [config.form_name for config in TaskManager().load("quiz@mcqa+cloze")]
        ['quiz@mcqa', 'quiz@cloze']
        """
        return list(tasks_by_name(self.tree(specs, overrides)).values())

    def tree(self, specs: str | Sequence[str], overrides: Mapping[str, Any] | None = None) -> list[Node]:
        """The tasks and groups that `specs` name, groups with their members, all with distinct names."""
        return distinct(self.nodes(specs, overrides))

    def nodes(self, specs: str | Sequence[str], overrides: Mapping[str, Any] | None = None) -> list[Node]:
        """The same as `tree`, except that different tasks of different groups may have the same name."""
        targets = self.targets(specs)
        if self.design.protocol is not None:
            targets = self._under_protocol(targets, self.design.protocol)
        selected = [(target, label) for target in targets for label in self.labels(target)]
        nodes = [self.node(target, label, overrides) for target, label in selected]
        if len(nodes) > 1 or any(isinstance(node, Group) for node in nodes):
            tasks_by_name(nodes)  # two files that define one form are an error
        return nodes

    def targets(self, specs: str | Sequence[str]) -> list[Target]:
        """The task files that `specs` name, without reading them."""
        names = [specs] if isinstance(specs, str) else list(specs)
        names = [name for spec in names for name in split_outside(spec, ",")]
        if not names:
            raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
        return [target for name in names for target in self._lookup.targets(name)]

    def labels(self, target: Target) -> list[str | None]:
        """The selected formats of a target; a list of None if none is selected.

        ``mcqa~16`` is `mcqa` itself, as the reference, and 16 variations of it.
        """
        labels: list[str | None] = []
        for label in target.selection:
            drawn = _DRAWN.fullmatch(label)
            base, number = (label, None) if drawn is None else (drawn["label"].strip(), int(drawn["number"]))
            every, colon, language = base.partition(":")
            if every == "all":
                named = [name + colon + language for name in self._supported_labels(target)]
            else:
                is_protocol = base not in formats and base in self.protocols  # whose files are not read for a format
                named = (self._defined_labels(target, base) if is_protocol else []) or [base]
            for name in named:
                labels.append(self._canonical_label(target, name))
                labels += [] if number is None else self._draw_variations(target, name, number)
        labels = list(dict.fromkeys(labels)) or [None]
        if target.declared is None or not target.declared.shuffled or self.design.choice_order is not None:
            return labels
        return [self._with_shuffled_choices(target, label) for label in labels]

    def _defined_labels(self, target: Target, name: str) -> list[str]:
        """The labels that a name stands for in a table of formats or a protocol; of a group, those that all have."""
        if target.task_class is not None:
            return []
        stated = _read_target(target)
        protocol = self.protocols.get(name)
        if name in format_table(stated.get("formats")):
            return [name]
        if _is_group(stated) and "subsets" not in stated.data:
            inner = [self._lookup.targets(config.base_name)[0] for config in self.node(target, None).tasks()]
            return _common([self._defined_labels(member, name) for member in inner])
        if protocol is None:
            return []
        if "subsets" not in stated.data:
            return protocol.labels([str(stated.get("task")).partition("@")[0]])
        members = [target.member] if target.member is not None else list(subset_tasks(stated))
        return _common([protocol.labels([member, str(stated.get("group"))]) for member in members])

    def _under_protocol(self, targets: Sequence[Target], name: str) -> list[Target]:
        """The targets under a protocol; refused if it does not define one of them, or a format is named already."""
        named = [target for target in targets if target.selection]
        if named:
            message = f"--tasks names '@{named[0].selection[0]}', and the run is under the protocol '{name}'"
            raise UsageError(message, where="--protocol", hint="name the tasks without formats, or leave it out")
        labels = {id(target): self._defined_labels(target, name) for target in targets}
        missing = [_target_name(target) for target in targets if not labels[id(target)]]
        if missing and name not in self.protocols and len(missing) == len(targets):
            hint = nearest(name, self.protocols, listed="protocols")
            raise UsageError(f"no protocol '{name}'", where="--protocol", hint=hint)
        if missing:
            known = ", ".join(self.protocols[name].tasks) if name in self.protocols else "those with such a format"
            message = f"'{name}' does not define {list_first(missing, 20)}"
            raise UsageError(message, where="--protocol", hint=f"it defines {known}")
        return [replace(target, selection=tuple(labels[id(target)])) for target in targets]

    def _with_protocol(self, stated: StatedKeys, changes: Mapping[str, Any]) -> StatedKeys:
        """What a file states, with the entry of the protocol that the selected format names."""
        label = changes.get("_formats_selection")
        if label is None or str(label).partition("[")[0] in formats:
            return stated
        return add_entry(stated, label, self.protocols)

    def _with_shuffled_choices(self, target: Target, label: str | None) -> str | None:
        """The label with shuffled choices, if its format shows them and it names no order itself."""
        node = self.node(target, label)
        assert isinstance(node, TaskConfig)
        if node.format is None or not node.format.shows_choices or "order" in node.axes:
            return label
        return str(Variation.parse(str(node.format_label)).replace(order="shuffle:0"))

    def _canonical_label(self, target: Target, label: str) -> str:
        """The label without values that a variation has anyway, and in the order of the axes."""
        if "[" not in label:
            return label
        node = self.node(target, label)
        if isinstance(node, Group) and label.startswith("["):
            return label
        return next(node.tasks()).format_label or label

    def _draw_variations(self, target: Target, label: str, number: int) -> list[str]:
        """The labels of a number of variations of a format."""
        if number < 1:
            message, where = "no variations are requested", shorten_name(f"@{label}~{number}")
            raise UsageError(message, where=where, hint=f"write e.g. {label}~16")
        base = Variation.parse(label)
        configs = list(self.node(target, base.label or None).tasks())
        formats_drawn = [config.format for config in configs if config.format is not None]
        if len(formats_drawn) < len(configs):
            message, where = "the task has no format that could be varied", shorten_name(f"@{label}~{number}")
            raise UsageError(message, where=where, hint=f"name a format, e.g. mcqa~{number}")
        if self.design.choice_order is not None:  # the run decides about the order of the choices
            base = base.replace(order="original")
        shots = any(config.shots(self.design.num_fewshot) for config in configs)
        pairs = zip(configs, formats_drawn, strict=True)
        grammar = Grammar.common([Grammar.of(config.variations, format.variations) for config, format in pairs])
        return grammar.draw(formats_drawn, base, number, seed=self.design.seed, shots=shots)

    def node(
        self, target: Target, label: str | None, overrides: Mapping[str, Any] | None = None, chain: tuple[str, ...] = ()
    ) -> Node:
        """The task or group of a target under one format.

        `chain` has the names of the groups around it, to find groups that contain themselves.
        """
        if target.task_class is not None:
            return instantiate(target.task_class).to_node(label, overrides, member=target.member)
        changes = {**(overrides or {}), **({} if label is None else {"_formats_selection": label})}
        stated = self._with_protocol(_read_target(target), changes)
        if target.member is not None:
            task = self._with_protocol(subset_tasks(stated)[target.member], changes)
            return TaskConfig.from_stated(task.with_keys(**changes))
        if _is_group(stated):
            self._check_groups(stated, chain)
            stated = _limit_languages(stated, self.design.languages)
            extend = partial(self._with_protocol, changes=changes)
            return build_group(stated, self._members, changes, chain, extend=extend)
        stated = stated.with_keys(**changes)
        return TaskConfig.from_stated(resolve_class(stated) if "class" in stated.data else stated)

    def _check_groups(self, group: StatedKeys, chain: tuple[str, ...]) -> None:
        """Refuse groups that contain each other several times, which makes a few files stand for millions of groups."""
        self._groups = self._groups + 1 if chain else 1
        if self._groups > _MAX_GROUPS:
            message = f"more than {_MAX_GROUPS:,} groups inside of '{chain[0]}'"
            hint = "name each group once"
            raise ConfigError(message, where=str(group.source and group.source.at("group")), hint=hint)

    def described_group(self, data: Mapping[str, Any]) -> Group:
        """The group of a mapping with the keys of a group file."""
        return build_group(StatedKeys(dict(data), Source(Path(str(data.get("group"))))), self._members, {})

    def _members(self, name: str, overrides: Mapping[str, Any], chain: tuple[str, ...]) -> list[Node]:
        """The nodes of a group's member."""
        return [
            self.node(target, label, overrides, chain)
            for target in self._lookup.targets(name)
            for label in self.labels(target)
        ]

    def _supported_labels(self, target: Target) -> list[str]:
        """The formats that a task, or every task of a group, supports."""
        if target.task_class is not None:
            return instantiate(target.task_class).supported_formats()
        stated = _read_target(target)
        if target.member is not None or not _is_group(stated) or "subsets" in stated.data:
            mapping = FieldMapping(stated.get("doc_to_text"), stated.get("doc_to_choice"), stated.get("doc_to_target"))
            try:
                return supported_formats(stated.get("formats"), mapping)
            except ConfigError as error:
                raise error.relocate(stated.where("formats")) from error
        node = self.node(target, None)
        assert isinstance(node, Group)
        return _common([supported_formats(task.formats, task.mapping) for task in node.tasks()])


def _common(lists: Sequence[Sequence[str]]) -> list[str]:
    """The labels that are in all lists."""
    return [label for label in lists[0] if all(label in labels for labels in lists)]


def _target_name(target: Target) -> str:
    """The name of a target, for messages."""
    if target.member is not None or target.declared is not None or target.task_class is not None:
        return str(target.member or target.path)
    stated = _read_target(target)
    return str(stated.get("group") or stated.get("task"))


def _limit_languages(group: StatedKeys, languages: Sequence[str]) -> StatedKeys:
    """A group without those subsets whose metadata states another language; unchanged if it has no subsets."""
    subsets = group.data.get("subsets")
    if not languages or not subsets:
        return group
    stated = {
        subset: language_names(task.get("metadata"))
        for subset, task in zip(subsets, subset_tasks(group).values(), strict=True)
    }
    kept = [subset for subset, names in stated.items() if set(names) & set(languages)]
    missing = [language for language in languages if not any(language in names for names in stated.values())]
    if missing:
        known = sorted({names[0] for names in stated.values() if names})
        message = f"'{group.data.get('group')}' has no subset in {', '.join(missing)}"
        raise UsageError(message, where="--languages", hint=nearest(missing[0], known, listed="it has"))
    return group.with_keys(subsets={key: subsets[key] for key in kept} if isinstance(subsets, dict) else kept)


def _read_target(target: Target) -> StatedKeys:
    """What the file of a target states, or what a dataset declares itself."""
    if target.declared is not None:
        return target.declared.stated
    if is_dir(target.path):
        hint = "give it as --include_path and name its tasks"
        raise UsageError("it is a folder", where=display(target.path), hint=hint)
    stated = read_yaml(target.path)
    for key in stated.data:
        if str(key).startswith("_"):
            raise ConfigError(f"unknown key '{key}' in a task", where=stated.where(str(key)), hint="remove it")
    return stated


def _is_group(stated: StatedKeys) -> bool:
    """Whether a file defines a group; a file with a `class` is a task."""
    return "group" in stated.data and "class" not in stated.data
