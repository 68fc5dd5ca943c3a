"""Metrics as classes, for stylers and Python tasks: registered metrics by name, or code that calculates values."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from multiform.errors import ConfigError, excerpt

if TYPE_CHECKING:
    from multiform.formats.dialects.metric_results import Error, MetricResult

Response = TypeVar("Response")


class BaseMetric(ABC, Generic[Response]):
    """Base class of metrics; a subclass overrides `calculate`, or lists registered metrics as `specs`."""

    NAME: ClassVar[str] = ""
    #: If a metric has several values: their names, which follow NAME and a slash.
    KEYS: ClassVar[list[str] | None] = None
    #: The names of its values, which follow from these.
    NAMES: ClassVar[list[str]] = []
    #: How the values of several completions for one document are aggregated; by default the mean.
    AGGREGATORS: ClassVar[Sequence[Any]] = ()
    specs: ClassVar[Sequence[Mapping[str, Any]]] = ()
    fail_on_error: bool = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.NAMES = [cls.NAME] if cls.KEYS is None else [f"{cls.NAME}/{key}" for key in cls.KEYS]

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
        """Whether registered metrics compute it."""
        return bool(cls.specs) and not cls.has_calculate()

    def result(self, value: float | None, *, error: Error | None = None, better: bool = True) -> list[MetricResult]:
        """A single value under the metric's name."""
        from multiform.formats.dialects.metric_results import MetricResult

        return [MetricResult(metric_name=self.NAME, value=value, higher_is_better=better, error=error)]


class AccuracyLoglikelihood(BaseMetric[Any]):
    """Whether the most likely completion is correct."""

    NAME = "Accuracy Loglikelihood"
    specs = ({"metric": "acc"},)


class AccuracyNormLoglikelihood(BaseMetric[Any]):
    """Whether the completion that is most likely per character, its leading space included, is correct."""

    NAME = "Accuracy Normalized Loglikelihood"
    specs = ({"metric": "acc_norm_full"},)


class BitsPerByteLoglikelihood(BaseMetric[Any]):
    """Bits per byte of the correct completion, averaged over documents."""

    NAME = "BitsPerByte"
    specs = ({"metric": "bits_per_byte_mean"},)


class AccuracyCompletion(BaseMetric[Any]):
    """Whether the generated text equals the ground truth."""

    NAME = "Accuracy Completion"
    specs = ({"metric": "exact_match"}, {"metric": "invalid"}, {"metric": "truncated"})


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
            hint = "give METRICS to a class that overrides a hook, or name a metric"
            raise ConfigError(message, where=where, hint=hint)
        else:
            message = f"expected a metric's name or class, got {excerpt(metric)}"
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
