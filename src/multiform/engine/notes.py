"""What a log says about tasks that run under a format and say something else themselves."""

from __future__ import annotations

from collections.abc import Iterable

from multiform.config import TaskConfig
from multiform.config.resolve import overridden_until
from multiform.errors import shorten


def format_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """What formats made of tasks that were written otherwise: one line for all tasks that have it in common."""
    configs = list(configs)
    return [*_mapping_notes(configs), *_description_notes(configs), *_until_notes(configs)]


def _mapping_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """What was recovered from finished prompts; nothing for a mapping that was raw already."""
    names: dict[str, list[str]] = {}
    for config in configs:
        if config.recovered is not None and (config.recovered.how != "raw" or config.recovered.spread):
            names.setdefault(config.recovered.described(), []).append(config.form_name)
    return [f"{_listed(forms)}: {what}" for what, forms in names.items()]


def _description_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """The first description that was changed, as an example for all of them."""
    changed = [config for config in configs if config.format and config.description != config.given("description")]
    if not changed:
        return []
    why = "the description speaks of choices that the format does not show"
    forms = _listed([config.form_name for config in changed])
    return [f"{forms}: {why}; {_change(changed[0])} (--keep_description keeps it)"]


def _change(config: TaskConfig) -> str:
    """What became of a description."""
    before, after = config.given("description"), config.description
    if not isinstance(before, str) or not isinstance(after, str):
        return "what its code says of them is left out of each prompt"
    what = f"becomes {shorten(after.strip())}" if after else "is left out"
    return f"{shorten(before.strip())} {what}"


def _until_notes(configs: Iterable[TaskConfig]) -> list[str]:
    names: dict[str, list[str]] = {}
    for config in configs:
        if config.format is None:
            continue
        until = overridden_until(config.format, config.given("generation_kwargs"))
        if until is not None:
            stops = shorten(config.generation_kwargs["until"])
            what = f"the format's until {stops} replaces the task's {shorten(until)}"
            names.setdefault(what, []).append(config.form_name)
    hint = "to keep it, write it into the format's generation_kwargs or --gen_kwargs"
    return [f"{_listed(forms)}: {what}; {hint}" for what, forms in names.items()]


def _listed(forms: list[str]) -> str:
    return forms[0] if len(forms) == 1 else f"{forms[0]} and {len(forms) - 1} more"
