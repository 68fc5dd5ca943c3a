"""Checks of a run's settings, before a dataset is read or a model loaded."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, UsageError, shorten
from multiform.forms import Form
from multiform.models import Model, models
from multiform.models.model import no_loglikelihoods
from multiform.results.failures import ON_ERROR
from multiform.run.executors.cluster import EXECUTORS
from multiform.run.setup import create_model
from multiform.sandbox import SANDBOXES, is_sandbox
from multiform.tasks.generation import generation_overrides

logger = logging.getLogger("multiform")


def generation_arguments(gen_kwargs: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The generation arguments of a run under their canonical names, checked independently of its tasks."""
    try:
        return generation_overrides(parse_arguments(gen_kwargs, where="--gen_kwargs"))
    except ConfigError as error:
        raise error.as_kind(UsageError, "--gen_kwargs") from error


def check_model_fits(
    model: Any, forms: Sequence[Form], gen_kwargs: Mapping[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Refuse forms that the model does not support, and generation arguments that it does not take.

    `arguments` are the model's: a server is probed for the log-likelihoods that forms need.
    """
    scored = [form for form in forms if form.output_type != "generate_until"]
    _check_scoring(model, scored, arguments)
    generating = [form for form in forms if form.output_type == "generate_until"]
    if gen_kwargs and not generating:
        logger.warning("--gen_kwargs changes nothing: no task of this run generates text")
    if not generating:
        return
    if isinstance(model, str) and model in models:
        with _placed("--gen_kwargs"):
            models.get(model).check_generation(gen_kwargs)
        for form in generating:
            with _placed(form.where("generation_kwargs")):
                models.get(model).check_generation(form.generation_kwargs)
    greedy = any(form.generation_kwargs.get("do_sample") is False for form in generating)
    if gen_kwargs.get("temperature") and greedy:
        logger.warning("--gen_kwargs temperature changes nothing where do_sample is false: add do_sample=true")


def _check_scoring(model: Any, scored: Sequence[Form], arguments: Mapping[str, Any]) -> None:
    """Refuse forms whose log-likelihoods the model does not compute."""
    if scored and isinstance(model, str) and model in models:
        if not models.get(model).loglikelihoods:
            raise no_loglikelihoods(model, scored[0].name)
        model = create_model(model, arguments) if models.get(model).probed_early else model
    if isinstance(model, Model):
        for form in scored:
            model.check_scoring(labels=_scores_labels(form), form=form.name)


def _scores_labels(form: Form) -> bool:
    """Whether a form scores labels, such as letters, and nothing else."""
    if form.format is not None:
        return form.format.scored == "labels"
    choices = form.fields.doc_to_choice
    return isinstance(choices, list) and all(len(str(choice).strip()) == 1 for choice in choices)


def check_settings(**settings: Any) -> None:
    """Refuse values of `evaluate`'s arguments that are of another type than the command line would read.

    >>> check_settings(num_fewshot="5")
    Traceback (most recent call last):
    multiform.errors.UsageError: num_fewshot: expected a whole number of 0 or more, got '5'; give e.g. num_fewshot=5
    """
    for name, value in settings.items():
        right, expected, example = _TYPES.get(name, _SWITCH)
        if value is not None and not right(value):
            hint = f"give e.g. {name}={example}"
            raise UsageError(f"expected {expected}, got {shorten(value)}", where=name, hint=hint)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and bool(value >= 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | Path)


def _is_batch_size(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"auto(:.*)?|0*[1-9]\d*", value) is not None
    return _is_whole(value) and bool(value >= 1)


def _are_seeds(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 4
    return listed and all(seed is None or _is_whole(seed) for seed in value)


def _are_samples(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    lists = [ids for ids in value.values() if isinstance(ids, Sequence) and not isinstance(ids, str) and ids]
    return len(lists) == len(value) and all(_is_whole(index) for ids in lists for index in ids)


_COUNT = (_is_count, "a whole number of 0 or more", "5")
_SWITCH = (_is_switch, "True or False", "True")
_TEXT = (_is_text, "text", "'...'")
#: The type of each argument: a check, a description and an example; all others are switches.
_TYPES: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "num_fewshot": _COUNT,
    "workers": _COUNT,
    "executor": (lambda value: value in EXECUTORS, f"one of {', '.join(EXECUTORS)}", "'ray'"),
    "ray_address": _TEXT,
    "bootstrap_iters": _COUNT,
    "budget": _COUNT,
    "until_ci": (_is_number, "a number between 0 and 0.5", "0.02"),
    "fewshot_draws": (_is_count, "a whole number of 1 or more", "5"),
    "choice_order": (_is_text, "original, shuffle:SEED, cyclic or all", "'cyclic'"),
    "limit": (_is_number, "a whole number of documents or a fraction below 1", "100"),
    "samples": (_are_samples, "a list of indexes for each task", "{'quiz': [0, 5]}"),
    "batch_size": (_is_batch_size, "a whole number of 1 or more, or 'auto'", "8"),
    "seeds": (_are_seeds, "the seeds of python, numpy, torch and the few-shot sampler", "(0, 1234, 1234, 1234)"),
    "max_failures": (_is_number, "a whole number of documents or a share below 1", "0.05"),
    "on_error": (lambda value: value in ON_ERROR, f"one of {', '.join(ON_ERROR)}", "'skip'"),
    "device": _TEXT,
    "sandbox": (is_sandbox, f"one of {', '.join(SANDBOXES)}, or docker:IMAGE", "'bwrap'"),
    "judge_model": _TEXT,
    "system_instruction": _TEXT,
    "output_path": (_is_path, "the name of a folder or of a .json file", "'results'"),
    "apply_chat_template": (lambda value: _is_switch(value) or _is_text(value), "True, False or a name", "True"),
    "use_cache": (lambda value: _is_switch(value) or _is_path(value), "True, False or the name of a file", "True"),
}


@contextmanager
def _placed(where: str | None) -> Iterator[None]:
    """Add the place of an argument to the error of its check."""
    try:
        yield
    except UsageError as error:
        raise error.moved(where) from error
