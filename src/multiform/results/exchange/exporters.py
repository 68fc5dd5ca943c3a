"""The exporters by name: functions that write the results of a run for another tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from multiform.registry import Registry
from multiform.results.results import Results

#: Writes results into a folder, and returns the files. The results have no secrets.
Exporter: TypeAlias = Callable[[Results, Path], list[Path]]
E = TypeVar("E", bound=Exporter)

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


def register_exporter(*names: str) -> Callable[[E], E]:
    """A decorator that registers an exporter under one or more names, for ``multiform export --to NAME``."""

    def decorate(exporter: E) -> E:
        exporters.register(*names)(exporter)
        return exporter

    return decorate


def write_lm_eval(results: Results, folder: Path) -> list[Path]:
    """Write a results file, and a samples file for each form, as lm-eval does."""
    return results.save(folder)


def write_samples_table(results: Results, folder: Path) -> list[Path]:
    """Write ``samples.parquet``: a row for each sample of each form."""
    return [results.to_parquet(folder / "samples.parquet")]
