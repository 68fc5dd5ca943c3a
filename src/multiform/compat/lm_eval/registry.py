"""lm-eval's registries: entries work in Multiform, and those of Multiform are found by lm-eval's functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from multiform.compat.lm_eval.config import convert_errors
from multiform.compat.lm_eval.filters import filter_class
from multiform.compat.lm_eval.models import LM, ModelLM
from multiform.errors import UsageError, nearest
from multiform.forms.scoring import DEFAULT_METRICS
from multiform.models import Model, ModelEntry, models
from multiform.models.foreign import as_model
from multiform.models.registry import INSTEAD
from multiform.scoring.aggregations import aggregations
from multiform.scoring.aggregations import register_aggregation as register_aggregation
from multiform.scoring.filters import filters
from multiform.scoring.filters import register_filter as register_filter
from multiform.scoring.metrics import Metric, metrics
from multiform.scoring.metrics.base import callable_metric
from multiform.scoring.scorers import Scorer, scorers

_HF = ("hf", "hf-auto", "huggingface")

T = TypeVar("T")

MODEL_REGISTRY: dict[str, type[LM]] = {}
TASK_REGISTRY: dict[str, Any] = {}


def register_model(*names: str) -> Callable[[type[LM]], type[LM]]:
    """Register a subclass of LM; it is then also a model of Multiform, with the same arguments."""

    def decorate(kind: type[LM]) -> type[LM]:
        def load(**arguments: Any) -> Model:
            model = as_model(kind.create_from_arg_obj(arguments))
            if not model.stored:  # what tells the answers of models of one class apart, as far as their arguments do
                stated = json.dumps(arguments, sort_keys=True, default=repr)
                model.identity = f"{kind.__module__}.{kind.__qualname__} {stated}"
            return model

        models.register(*names)(ModelEntry(factory=load))
        MODEL_REGISTRY.update(dict.fromkeys(names, kind))
        return kind

    return decorate


def get_model(model_name: str) -> type[LM]:
    """The class of a name: a registered one, or one that asks the model that Multiform has under it."""
    if model_name in MODEL_REGISTRY:
        return MODEL_REGISTRY[model_name]
    if model_name in _HF:
        from multiform.compat.lm_eval.huggingface import HFLM

        return HFLM
    if model_name not in models:
        hint = INSTEAD.get(model_name) or nearest(model_name, models, listed="models")
        with convert_errors(ValueError):
            raise UsageError(f"no model '{model_name}' here", where="model", hint=hint)
    return type(f"{model_name}_lm", (ModelLM,), {"model_name": model_name})


def get_filter(filter_name: str | Callable[..., Any]) -> Callable[..., Any]:
    """The class of a name; a function or class is returned as it is."""
    if callable(filter_name):
        return filter_name
    with convert_errors(KeyError):
        registered = filters.get(filter_name)
    return registered if hasattr(registered, "apply") else filter_class(filter_name)


def register_metric(
    *,
    metric: str,
    higher_is_better: bool = True,
    output_type: str | list[str] | None = None,
    aggregation: str = "mean",
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of references and predictions, or of a pair of them, as a metric."""
    types = [output_type] if isinstance(output_type, str) else output_type

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        metrics.register(metric)(
            Metric(
                name=metric,
                fn=callable_metric(function, metric),
                aggregation=aggregations.get(aggregation),
                higher_is_better=higher_is_better,
                whole=True,
                output_types=frozenset(types or DEFAULT_METRICS),
            )
        )
        return function

    return decorate


#: Register a scorer, which a task names with `scorer:`.
register_scorer = scorers.register


def get_scorer(name: str) -> type[Scorer]:
    """The scorer of a name."""
    with convert_errors(KeyError):
        return scorers.get(name)


def register_task(name: str) -> Callable[[type[T]], type[T]]:
    """Register a task class, so that `tasks=["name"]` finds it."""

    def decorate(kind: type[T]) -> type[T]:
        TASK_REGISTRY[name] = kind
        return kind

    return decorate
