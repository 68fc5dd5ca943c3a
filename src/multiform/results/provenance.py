"""Provenance: when, where and with which software and settings a run was done, and the command that does it again."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from inspect import getsource, isfunction
from pathlib import Path
from typing import Any

from multiform.errors import quantity
from multiform.forms import Form
from multiform.hashing import sha256
from multiform.models import Model
from multiform.models.identity import package_version
from multiform.models.model import Usage
from multiform.paths import display, safe_name
from multiform.results.values import ResultsData
from multiform.tasks.keys import FewshotConfig, plain

#: The version of lm-eval that prompts, scores and files agree with.
LM_EVAL_VERSION = "0.4.13"
#: Arguments that name a model, in order of precedence.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
_PACKAGES = ("torch", "transformers", "datasets", "numpy")


def provenance(
    *,
    model: Model,
    source: str,
    arguments: Mapping[str, Any],
    seconds: float,
    system_instruction: str | None,
    fewshot_as_multiturn: bool | None,
    chat: bool,
    usage: Mapping[str, Any],
) -> dict[str, Any]:
    """The keys of a results file about the run: lm-eval's in their order, then those that Multiform adds.

    `source` is the registered name of the model, `arguments` are its arguments, `seconds` is the time that the run
    took, `chat` says whether the chat template was applied, and `usage` the requests and tokens.
    """
    template = model.chat_template_text() if chat else None
    name = model_name(model, arguments)
    return {
        "git_hash": _git_hash(),
        "date": time.time() - seconds,
        "pretty_env_info": _environment(),
        "transformers_version": package_version("transformers"),
        "lm_eval_version": LM_EVAL_VERSION,
        "upper_git_hash": _git_hash("..") if Path("..", ".git").exists() else None,
        **model.tokenizer_info(),
        "model_source": source,
        "model_name": name,
        "model_name_sanitized": safe_name(name),
        "system_instruction": system_instruction,
        "system_instruction_sha": sha256(system_instruction) if system_instruction else None,
        "fewshot_as_multiturn": fewshot_as_multiturn,
        "chat_template": template,
        "chat_template_sha": sha256(template) if template else None,
        "total_evaluation_time_seconds": str(seconds),
        "date_iso": datetime.now().isoformat(),
        "multiform_version": package_version("multiform"),
        "model_identity": model.identity,
        "usage": usage,
    }


def model_name(model: Model, arguments: Mapping[str, Any]) -> str:
    """The name of the model in results: its path or name in the arguments, or the model's own `name`."""
    return argued_name(arguments) or model.name


def argued_name(arguments: Mapping[str, Any]) -> str | None:
    """The path or name of a model in its arguments."""
    return next((str(arguments[key]) for key in _NAMING if arguments.get(key)), None)


def _environment() -> str:
    """The machine and the versions of packages that scores depend on, a line for each."""
    versions = {name: package_version(name) for name in _PACKAGES}
    lines = [
        f"Python {sys.version.split()[0]}",
        f"OS {platform.platform()}",
        f"CPU {platform.processor() or platform.machine()}, {os.cpu_count()} logical",
        *(f"{name} {version}" for name, version in versions.items() if version),
    ]
    return "\n".join(lines)


def _git_hash(folder: str = ".") -> str | None:
    """The git commit of a folder, by default the working directory; None outside a repository."""
    command = ["git", "-C", folder, "describe", "--always"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() or None


def usage_entry(
    usage: Usage | None, *, requests: int, cached: int, retried: int, loading_seconds: float
) -> dict[str, Any]:
    """The key `usage`: distinct requests, those that were cached, those that were run again because a worker failed,
    and tokens, which are null where a model does not count them."""
    return {
        "requests": requests,
        "requests_cached": cached,
        "requests_asked_again": retried,
        "prompt_tokens_computed": None if usage is None else usage.prefill,
        "completion_tokens_computed": None if usage is None else usage.decode,
        "prompt_tokens_without_sharing": None if usage is None else usage.unshared,
        "model_loading_seconds": round(loading_seconds, 3),
    }


def usage_words(entry: Mapping[str, Any] | None) -> str | None:
    """The numbers of a results file in a line; None for files that have none, such as lm-eval's.

    >>> usage_words({"requests": 1200, "requests_cached": 200, "prompt_tokens_computed": 3000,
    ...              "completion_tokens_computed": 500, "prompt_tokens_without_sharing": 9000})
    '1,200 requests, 200 of them cached; 3,500 tokens computed, 6,000 shared'
    """
    if not entry:
        return None
    words = f"{quantity(entry['requests'], 'request')}, {entry['requests_cached']:,} of them cached"
    prompt = entry.get("prompt_tokens_computed")
    if prompt is None:
        return words
    computed = prompt + entry["completion_tokens_computed"]
    shared = max(0, entry["prompt_tokens_without_sharing"] - prompt)
    return f"{words}; {computed:,} tokens computed, {shared:,} shared"


#: The order in which lm-eval writes the keys of a task's configuration.
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
#: Keys of few-shot settings that lm-eval does not have.
_OUR_SHOT_KEYS = ("doc_to_rationale", "fewshot_rows")


def described_config(form: Form, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a form as it was run: its exact templates, its few-shot settings, and its metadata.

    `arguments` are the model arguments, which lm-eval adds to the metadata.
    """
    values = {**form.to_dict(), **form.config.templates()}
    functions = {key: getattr(form.config, key, None) for key in values}
    values |= {key: _source_code(function) for key, function in functions.items() if isfunction(function)}
    metrics = {plain(entry["metric"]): entry["metric"] for entry in form.config.metric_list}
    values["metric_list"] = [
        {**entry, "metric": _source_code(metric)} if callable(metric := metrics.get(entry["metric"])) else entry
        for entry in values.get("metric_list", ())
    ]
    if isinstance(kwargs := values.get("dataset_kwargs"), Mapping):
        secret = [key for key in _SECRETS if not isinstance(kwargs.get(key), bool)]
        values["dataset_kwargs"] = {key: "***" if key in secret else value for key, value in kwargs.items()}
    # All keys of lm-eval, also those that are not set, and Multiform's own where they are set.
    shots = {field.name: plain(getattr(form.fewshot, field.name, None)) for field in fields(FewshotConfig)}
    values["fewshot_config"] = {k: value for k, value in shots.items() if value is not None or k not in _OUR_SHOT_KEYS}
    values["metadata"] = plain({**form.metadata, **arguments})
    if (source := form.config.stated.source) is not None:
        values["metadata"]["config_source"] = display(source.file)
    described = {key: value for key, value in values.items() if value or key not in _ONLY_SET}
    first = {key: described.pop(key) for key in _ORDER if key in described}
    return {**first, **described}


def _source_code(function: Any) -> str:
    """The source code of a function, or its name where the source cannot be read."""
    try:
        return getsource(function)
    except (OSError, TypeError):
        return str(plain(function))


_SEEDS = ("random", "numpy", "torch", "fewshot")
#: Flags that are repeated for each of their values, and those whose values are joined by commas.
_REPEATED = ("--include_path", "--import", "--dataset_mirror")
_JOINED = ("--languages", "--thinking_budget")


def command(results: ResultsData) -> str | None:
    """The command that reproduces the results; None where Multiform did not write them, or the tasks have no name.

    Older files do not record the options; there, the names of the forms and the known options are used.
    """
    if "multiform_version" not in results.provenance:
        return None
    run = results.run
    recorded = run.get("arguments")
    if recorded is None:
        chat = {"apply_chat_template": True} if results.provenance.get("chat_template") else {}
        recorded = {"tasks": _names(results), **chat}
    if not recorded.get("tasks"):
        return None
    limit = run.get("limit")
    named = {
        "model": run.get("model"),
        "model_args": arguments_text(run.get("model_args")),
        "num_fewshot": run.get("num_fewshot"),
        "limit": int(limit) if isinstance(limit, float) and limit.is_integer() else limit,
        "samples": json.dumps(run["samples"]) if run.get("samples") else None,
        "gen_kwargs": arguments_text(run.get("gen_kwargs")),
        "batch_size": run.get("batch_size"),
        "device": run.get("device"),
        "seed": ",".join(str(run.get(f"{name}_seed")) for name in _SEEDS),
    }
    options = {name: value for name, value in recorded.items() if name != "tasks"}
    words = ["multiform", "run", "--tasks", *recorded["tasks"]]
    for name, value in (named | options).items():
        words += _words("--import" if name == "imports" else f"--{name}", value)
    return shlex.join(words)


def arguments_text(value: Any) -> str:
    """Arguments of a model or of generation as the command line takes them."""
    if not isinstance(value, Mapping):
        return str(value or "")
    plain = all(isinstance(part, str | int | float) and "," not in str(part) for part in value.values())
    return ",".join(f"{name}={part}" for name, part in value.items()) if plain else json.dumps(dict(value))


def _words(flag: str, value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, bool):
        return [flag] if value else [flag, "false"]
    if isinstance(value, Mapping):
        return [flag, arguments_text(value)]
    if isinstance(value, list | tuple):
        words = list(map(str, value))
        if flag in _REPEATED:
            return [word for part in words for word in (flag, part)]
        return [flag, ",".join(words)] if flag in _JOINED else [flag, *words]
    return [flag, str(value)]


def _names(results: ResultsData) -> list[str]:
    """The outermost groups, and the forms that are in none."""
    inside = {name for group in results.groups for name in group.members}
    groups = [group.name for group in results.groups if group.depth == 0]
    return [*groups, *(form.name for form in results.forms if form.name not in inside)]
