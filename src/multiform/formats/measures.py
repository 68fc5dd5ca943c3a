"""The metrics that stylers and Python tasks name as classes, each with the registered metrics it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from multiform.errors import ConfigError, shorten


class BaseMetric:
    """A metric by its class; a subclass names what `metric_list` would."""

    NAME: ClassVar[str] = ""
    specs: ClassVar[Sequence[Mapping[str, Any]]] = ()


class AccuracyLoglikelihood(BaseMetric):
    """Whether the most likely completion is right."""

    NAME = "Accuracy Loglikelihood"
    specs = ({"metric": "acc"},)


class AccuracyNormLoglikelihood(BaseMetric):
    """Whether the completion that is most likely per character, its leading space included, is right."""

    NAME = "Accuracy Normalized Loglikelihood"
    specs = ({"metric": "acc_norm_full"},)


class BitsPerByteLoglikelihood(BaseMetric):
    """Bits per byte of the right completion, averaged over documents."""

    NAME = "BitsPerByte"
    specs = ({"metric": "bits_per_byte_mean"},)


class ConfidenceWeightedAccuracy(BaseMetric):
    """The probability of the most likely completion where it is right, and nothing where it is not."""

    NAME = "Confidence-weighted Accuracy"
    specs = ({"metric": "confidence_weighted_acc"},)


class DistributionalCorrectnessScore(BaseMetric):
    """Probability of right less that of wrong completions, both less where the model says it does not know."""

    NAME = "Distributional Correctness Score"
    specs = ({"metric": "dcs"},)


class TernaryScore(BaseMetric):
    """A point for a right answer, none for "I don't know", minus one for a wrong answer."""

    NAME = "Ternary Score"
    specs = ({"metric": "ternary_score"},)


class ProbabilityMass(BaseMetric):
    """The probability of the right completions among all."""

    NAME = "Probability Mass"
    specs = ({"metric": "probability_mass"},)


class ProbabilityMassNorm(BaseMetric):
    """The same from log-likelihoods per character."""

    NAME = "Probability Mass Normalized"
    specs = ({"metric": "probability_mass_norm"},)


class AccuracyCompletion(BaseMetric):
    """Whether the text that the model wrote is the right answer."""

    NAME = "Accuracy Completion"
    specs = ({"metric": "exact_match"}, {"metric": "invalid"}, {"metric": "truncated"})


def metric_specs(measures: Sequence[Any], *, where: str) -> list[dict[str, Any]]:
    """Metrics given as classes, names or mappings, as `metric_list` has them.

    >>> metric_specs([AccuracyLoglikelihood, "brier_score"], where="METRICS")
    [{'metric': 'acc'}, {'metric': 'brier_score'}]
    """
    made: list[dict[str, Any]] = []
    for one in measures:
        if isinstance(one, str):
            made.append({"metric": one})
        elif isinstance(one, Mapping):
            made.append(dict(one))
        elif isinstance(one, type) and issubclass(one, BaseMetric) and one.specs:
            made += [dict(spec) for spec in one.specs]
        else:
            what = f"expected a metric's name or class, got {shorten(one)}"
            raise ConfigError(what, where=where, hint="see multiform ls metrics")
    return made
