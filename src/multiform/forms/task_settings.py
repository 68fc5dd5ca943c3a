"""TaskSettings: the methods of a task that read and change its configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from multiform.config import TaskConfig
from multiform.config.task import task_keys
from multiform.errors import ConfigError, nearest
from multiform.forms.form import Form, RunSettings
from multiform.requests import resolved_names


class TaskSettings(ABC):
    """Changes of the configuration. Each compiles the form again; the `TaskConfig` itself is not changed."""

    config: TaskConfig
    form: Form

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which messages know the task."""

    @abstractmethod
    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        """Compile the form, and rebuild everything that is derived from it."""

    def get_config(self, key: str) -> Any:
        return getattr(self.config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change a key of the configuration; with `update`, add to the mapping that is there."""
        if key not in task_keys():
            known = [name for name in task_keys() if not name.startswith("_")]
            raise ConfigError(f"unknown key '{key}' in a task", where=self.name, hint=nearest(key, known))
        if key == "generation_kwargs" and isinstance(value, Mapping):
            value = resolved_names(value)
        current = getattr(self.config, key)
        if update:
            if not isinstance(current, dict) or not isinstance(value, Mapping):
                message = f"'{key}' is a {type(current).__name__}, not a mapping that can be updated"
                raise ConfigError(message, where=self.name, hint="call it without update=True")
            value = {**current, **value}
        settings = self.form.settings
        if key == "generation_kwargs" and self.config.format is not None:  # a run's arguments are over the format's
            self._configure(self.config, replace(settings, gen_kwargs={**settings.gen_kwargs, **value}))
        else:
            self._configure(self.config.changed(**{key: value}), settings)

    def dump_config(self) -> dict[str, Any]:
        """The configuration as it is used, as plain data."""
        return self.form.to_dict()

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric instead of all others; the task's own code does not score any more."""
        self._configure(self.config, replace(self.form.settings, metric=metric_name))

    def set_repeats(self, repeats: int) -> None:
        """Set how often each generation request is repeated."""
        self.set_config("repeats", repeats)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of few-shot examples; a task that sets 0 keeps it."""
        if self.config.num_fewshot != 0:
            self.set_config("num_fewshot", num_fewshot)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        self._configure(self.config, replace(self.form.settings, fewshot_seed=seed))
