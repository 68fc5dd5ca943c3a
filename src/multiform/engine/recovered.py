"""What a log says about tasks whose raw mapping was recovered from a finished prompt."""

from __future__ import annotations

from collections.abc import Iterable

from multiform.config import TaskConfig


def recovered_notes(configs: Iterable[TaskConfig]) -> list[str]:
    """One line for all tasks of which the same was recovered; none for a mapping that was raw already."""
    names: dict[str, list[str]] = {}
    for config in configs:
        if config.recovered is not None and (config.recovered.how != "raw" or config.recovered.spread):
            names.setdefault(config.recovered.described(), []).append(config.form_name)
    return [f"{_listed(forms)}: {what}" for what, forms in names.items()]


def _listed(forms: list[str]) -> str:
    return forms[0] if len(forms) == 1 else f"{forms[0]} and {len(forms) - 1} more"
