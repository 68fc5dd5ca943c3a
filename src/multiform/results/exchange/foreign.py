"""What files of other tools become when they are read: a results file in lm-eval's layout, and lines of samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from multiform.results.values import ResultsData

R = TypeVar("R", bound=ResultsData)

#: The ends of the names of arguments whose values are never passed on; a number or truth value is no secret.
_SECRET = re.compile(r"(key|token|secret|password|authorization|header|cookie|credential)s?$", re.IGNORECASE)


def results_file(
    forms: Mapping[str, Mapping[str, Any]], *, model: str, date: str, source: str, **about: Any
) -> dict[str, Any]:
    """A results file with the scores of each form: those of ``scores``, over ``n`` documents, with its ``failures``."""
    return {
        "results": {name: {"alias": name, **form["scores"]} for name, form in forms.items()},
        "configs": {name: dict(form.get("config") or {"task": name}) for name, form in forms.items()},
        "n-shot": {name: form.get("num_fewshot") for name, form in forms.items()},
        "versions": {name: form.get("version") for name, form in forms.items()},
        "higher_is_better": {name: dict(form.get("higher_is_better") or {}) for name, form in forms.items()},
        "n-samples": {name: {"original": form["n"], "effective": form["n"]} for name, form in forms.items()},
        "intervals": {name: dict(form.get("intervals") or {}) for name, form in forms.items()},
        "forms": {name: dict(form.get("about") or {}) for name, form in forms.items()},
        "failures": {name: form["failures"] for name, form in forms.items() if form.get("failures")},
        "config": {"model": model, "model_args": {}},
        "model_name": model,
        "date_iso": date,
        "source": source,
        **about,
    }


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; a truth value is one."""
    return isinstance(value, int | float) and math.isfinite(value)


def without_secrets(value: Any) -> Any:
    """A value without the entries whose names look like those of secrets.

    >>> without_secrets({"model": "m", "api_key": "sk-1", "extra": {"auth_token": "t", "add_bos_token": True}})
    {'model': 'm', 'extra': {'add_bos_token': True}}
    """
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not _is_secret(str(key), item)}
    return [without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def _is_secret(name: str, value: Any) -> bool:
    return not isinstance(value, int | float | None) and _SECRET.search(name) is not None


def shareable(results: R) -> R:
    """The results without secrets, for whoever is not the user: those of the run, and of the metadata of each form."""
    forms = [replace(form, config=_config_without_secrets(form.config)) for form in results.forms]
    return replace(results, run=without_secrets(dict(results.run)), forms=forms)


def _config_without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """A task's configuration without secrets in its metadata, which has the arguments of the model."""
    return {key: without_secrets(value) if key == "metadata" else value for key, value in config.items()}


def texts(values: Iterable[Any]) -> list[str]:
    """All values as text."""
    return [value if isinstance(value, str) else str(value) for value in values]
