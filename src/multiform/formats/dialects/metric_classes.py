"""Metrics as classes, for stylers and Python tasks.

Each class has the registered metrics that compute the same (`specs`), and can calculate the values of one response
itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from multiform.errors import ConfigError, shorten

if TYPE_CHECKING:
    from multiform.formats.dialects.metric_results import Error, MetricResult

Response = TypeVar("Response")


class _Names:
    """The names of a metric's values: its NAME, or one for each of its KEYS."""

    def __get__(self, metric: object, cls: type[BaseMetric[Any]]) -> list[str]:
        return [cls.NAME] if cls.KEYS is None else [f"{cls.NAME}/{key}" for key in cls.KEYS]


class BaseMetric(ABC, Generic[Response]):
    """Base class of metrics; a subclass overrides `calculate`, or lists registered metrics as `specs`."""

    NAME: ClassVar[str] = ""
    #: If a metric has several values: their names, which follow NAME and a slash.
    KEYS: ClassVar[list[str] | None] = None
    NAMES = _Names()
    #: How the values of several completions for one document are aggregated; by default the mean.
    AGGREGATORS: ClassVar[Sequence[Any]] = ()
    specs: ClassVar[Sequence[Mapping[str, Any]]] = ()
    fail_on_error: bool = True

    def calculate(self, response: Response) -> list[MetricResult]:
        """The values of one response."""
        raise NotImplementedError(f"write {type(self).__name__}.calculate")

    def unavailable(self) -> str | None:
        """Why the metric cannot be computed on this machine, or None; called before the model is loaded."""
        return None

    @classmethod
    def has_calculate(cls) -> bool:
        """Whether the class calculates its values itself."""
        return cls.calculate is not BaseMetric.calculate

    @classmethod
    def is_registered(cls) -> bool:
        """Whether registered metrics compute it: the class itself, and no class above it, sets `specs`."""
        return bool(cls.__dict__.get("specs"))

    def result(self, value: float | None, *, error: Error | None = None, better: bool = True) -> list[MetricResult]:
        """A single value under the metric's name."""
        from multiform.formats.dialects.metric_results import MetricResult

        return [MetricResult(metric_name=self.NAME, value=value, higher_is_better=better, error=error)]


class SingleValue(BaseMetric[Response]):
    """A metric with one value for each response, and none if there was an error."""

    def calculate(self, response: Response) -> list[MetricResult]:
        error = getattr(response, "error", None)
        return self.result(None, error=error) if error is not None else self.result(self.value(response))

    @abstractmethod
    def value(self, response: Response) -> float:
        """The value of a response without an error."""


class AccuracyLoglikelihood(SingleValue[Any]):
    """Whether the most likely completion is correct."""

    NAME = "Accuracy Loglikelihood"
    specs = ({"metric": "acc"},)

    def value(self, response: Any) -> float:
        return float(highest(response.loglikelihoods) in response.ground_truth_list)


class AccuracyNormLoglikelihood(SingleValue[Any]):
    """Whether the completion that is most likely per character, its leading space included, is correct."""

    NAME = "Accuracy Normalized Loglikelihood"
    specs = ({"metric": "acc_norm_full"},)

    def value(self, response: Any) -> float:
        return float(highest(per_character(response.loglikelihoods)) in response.ground_truth_list)


class BitsPerByteLoglikelihood(BaseMetric[Any]):
    """Bits per byte of the correct completion, averaged over documents."""

    NAME = "BitsPerByte"
    specs = ({"metric": "bits_per_byte_mean"},)

    def calculate(self, response: Any) -> list[MetricResult]:
        from multiform.formats.dialects.metric_results import Error

        if response.error is not None:
            return self.result(None, error=response.error, better=False)
        scored = [text for text in response.ground_truth_list if text in response.loglikelihoods]
        if not scored or not scored[0]:
            message = "the right answer is empty" if scored else "the right answer is none of the completions"
            error = Error(error_class="ValueError", message=message, traceback="")
            return self.result(None, error=error, better=False)
        bits = -response.loglikelihoods[scored[0]] / math.log(2)
        return self.result(bits / len(scored[0].encode("utf-8")), better=False)


class AccuracyCompletion(SingleValue[Any]):
    """Whether the generated text equals the ground truth."""

    NAME = "Accuracy Completion"
    specs = ({"metric": "exact_match"}, {"metric": "invalid"}, {"metric": "truncated"})

    def value(self, response: Any) -> float:
        return float(response.completion in response.ground_truth_list)


def metric_specs(metrics: Sequence[Any], *, where: str) -> list[dict[str, Any]]:
    """The entries of a `metric_list` for metrics that are classes, names or mappings.

    >>> metric_specs([AccuracyLoglikelihood, "brier_score"], where="METRICS")
    [{'metric': 'acc'}, {'metric': 'brier_score'}]
    """
    specs: list[dict[str, Any]] = []
    for metric in metrics:
        if isinstance(metric, str):
            specs.append({"metric": metric})
        elif isinstance(metric, Mapping):
            specs.append(dict(metric))
        elif isinstance(metric, type) and issubclass(metric, BaseMetric) and metric.is_registered():
            specs += [dict(spec) for spec in metric.specs]
        elif isinstance(metric, type) and issubclass(metric, BaseMetric) and metric.has_calculate():
            message = f"{metric.__name__} calculates its values itself, which a format has no place for"
            raise ConfigError(
                message, where=where, hint="give METRICS to a class that overrides a hook, or name a metric"
            )
        else:
            message = f"expected a metric's name or class, got {shorten(metric)}"
            raise ConfigError(message, where=where, hint="see multiform ls metrics")
    return specs


def result_keys(measures: Sequence[type[BaseMetric[Any]]]) -> dict[tuple[type[BaseMetric[Any]], str], str]:
    """The names in the results for each value of metric classes: the registered metric, or the value's own name.

    >>> list(result_keys([AccuracyCompletion, BitsPerByteLoglikelihood]).values())
    ['exact_match', 'bits_per_byte_mean']
    """
    keys: dict[tuple[type[BaseMetric[Any]], str], str] = {}
    for cls in measures:
        for name in cls.NAMES:
            keys[cls, name] = str(cls.specs[0]["metric"]) if cls.is_registered() else name.replace(",", ";")
    shared = Counter(keys.values())
    return {at: f"{at[0].__name__}/{key}" if shared[key] > 1 else key for at, key in keys.items()}


def highest(scores: Mapping[str, float]) -> str:
    """The text with the highest score."""
    return max(scores, key=lambda text: scores[text])


def per_character(loglikelihoods: Mapping[str, float]) -> dict[str, float]:
    """Log-likelihoods divided by the length of their texts."""
    return {text: value / (len(text) or 1) for text, value in loglikelihoods.items()}
