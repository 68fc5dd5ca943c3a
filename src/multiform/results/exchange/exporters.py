"""The exporters by name, functions that write the results of a run for another tool, and what they share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from multiform.registry import Registry
from multiform.results.results import Results
from multiform.results.values import ResultsData

#: Writes results into a folder, and returns the files. The results have no secrets.
Exporter: TypeAlias = Callable[[Results, Path], list[Path]]

_HERE = "multiform.results.exchange"
exporters: Registry[Exporter] = Registry(
    "exporter",
    {
        "eee": f"{_HERE}.every_eval:write_every_eval",
        "inspect": f"{_HERE}.inspect_log:write_inspect_logs",
        "lm-eval": f"{_HERE}.exporters:write_lm_eval",
        "eval-results": f"{_HERE}.hub:write_eval_results",
        "parquet": f"{_HERE}.exporters:write_samples_table",
        "otel": f"{_HERE}.telemetry:write_telemetry",
    },
    group="multiform.exporters",
)


#: A decorator that registers an exporter under one or more names, for ``multiform export --to NAME``.
register_exporter = exporters.register


def write_lm_eval(results: Results, folder: Path) -> list[Path]:
    """Write a results file, and a samples file for each form, as lm-eval does."""
    return results.save(folder)


def write_samples_table(results: Results, folder: Path) -> list[Path]:
    """Write ``samples.parquet``: a row for each sample of each form."""
    return [results.to_parquet(folder / "samples.parquet")]


R = TypeVar("R", bound=ResultsData)

#: The ends of the names of arguments whose values are never passed on; a number or truth value is no secret.
_SECRET = re.compile(r"(key|token|secret|password|authorization|header|cookie|credential)s?$", re.IGNORECASE)


def exported_model(results: ResultsData) -> str:
    """The name of the model, whatever label a sweep has for it."""
    return str(results.provenance.get("model_name") or results.run.get("model"))


def ending_time(results: ResultsData) -> datetime:
    """When the run ended; now, where it has not said so."""
    return datetime.fromisoformat(str(results.provenance.get("date_iso") or datetime.now().isoformat())).astimezone()


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; a truth value is one."""
    return isinstance(value, int | float) and math.isfinite(value)


def without_secrets(value: Any) -> Any:
    """A value without the entries whose names look like those of secrets.

    >>> without_secrets({"model": "m", "api_key": "sk-1", "extra": {"auth_token": "t", "add_bos_token": True}})
    {'model': 'm', 'extra': {'add_bos_token': True}}
    """
    if isinstance(value, Mapping):
        return {
            key: without_secrets(item)
            for key, item in value.items()
            if isinstance(item, int | float | None) or not _SECRET.search(str(key))
        }
    return [without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def shareable(results: R) -> R:
    """The results without secrets, for whoever is not the user: those of the run, and of the metadata of each form.

    The metadata have the arguments of the model.
    """
    forms = [
        replace(form, config={k: without_secrets(v) if k == "metadata" else v for k, v in form.config.items()})
        for form in results.forms
    ]
    return replace(results, run=without_secrets(dict(results.run)), forms=forms)
