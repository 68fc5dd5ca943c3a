"""The configuration of a task in a results file, with lm-eval's keys in lm-eval's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from inspect import getsource, isfunction
from typing import Any

from multiform.config.fewshot import FewshotConfig
from multiform.config.serialize import plain
from multiform.config.source import display
from multiform.forms import Task

_ORDER = (
    *("task", "task_alias", "tag", "custom_dataset", "dataset_path", "dataset_name", "dataset_kwargs"),
    *("training_split", "validation_split", "test_split", "fewshot_split", "process_docs", "doc_to_text"),
    *("doc_to_target", "doc_to_image", "doc_to_audio", "unsafe_code", "doc_to_choice", "process_results", "use_prompt"),
    *("description", "target_delimiter", "fewshot_delimiter", "fewshot_config", "num_fewshot", "metric_list"),
    *("output_type", "generation_kwargs", "repeats", "filter_list", "should_decontaminate"),
    *("doc_to_decontamination_query", "gen_prefix", "metadata"),
)
#: Keys that are left out where they are empty or false, as lm-eval does.
_ONLY_SET = ("tag", "dataset_kwargs", "generation_kwargs", "metric_list", "filter_list",
             "multiple_inputs", "multiple_targets", "keep_description", "lint_ignore", "known_errors")  # fmt: skip

#: Arguments of `datasets.load_dataset` that hold keys.
_SECRETS = ("token", "use_auth_token", "storage_options")


def described_config(task: Task, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a form as it was run: its exact templates, its few-shot settings, and its metadata.

    `arguments` are the model arguments, which lm-eval adds to the metadata.
    """
    config = task.config
    values = {**task.dump_config(), **config.templates()}
    values |= {key: _source_code(getattr(config, key)) for key in values if isfunction(getattr(config, key, None))}
    functions = {plain(entry["metric"]): entry["metric"] for entry in config.metric_list if callable(entry["metric"])}
    values["metric_list"] = [
        {**entry, "metric": _source_code(functions[name])} if (name := entry["metric"]) in functions else entry
        for entry in values.get("metric_list", ())
    ]
    values["dataset_kwargs"] = _without_secrets(values.get("dataset_kwargs"))
    values["fewshot_config"] = _fewshot(config.fewshot_config)
    values["metadata"] = plain({**task.form.metadata, **arguments, **_source(task)})
    described = {key: value for key, value in values.items() if value or key not in _ONLY_SET}
    first = {key: described.pop(key) for key in _ORDER if key in described}
    return {**first, **described}


def _without_secrets(kwargs: Any) -> Any:
    """The arguments of a dataset, with keys and tokens hidden."""
    if not isinstance(kwargs, Mapping):
        return kwargs
    return {key: "***" if key in _SECRETS and not isinstance(value, bool) else value for key, value in kwargs.items()}


def _fewshot(config: Any) -> dict[str, Any]:
    """All keys of lm-eval, also those that are not set, and Multiform's own where they are set."""
    values = {f.name: plain(getattr(config, f.name, None)) for f in fields(FewshotConfig)}
    return {key: value for key, value in values.items() if value is not None or key != "doc_to_rationale"}


def _source_code(function: Any) -> str:
    """The source code of a function, or its name where the source cannot be read."""
    try:
        return getsource(function)
    except (OSError, TypeError):
        return str(plain(function))


def _source(task: Task) -> dict[str, str]:
    source = task.config._source
    return {} if source is None else {"config_source": display(source.file)}
