"""FormComparison: how scores depend on the form, from the same documents under several forms."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from multiform.statistics.design import VarianceSplit
from multiform.statistics.differences import Difference, Spread
from multiform.statistics.estimates import ALPHA, Estimate
from multiform.statistics.predictions import Calibration, PositionBias, Rightness
from multiform.statistics.wordings import AxisEffect, WordingPopulation

#: What is scored: choices that are ranked, generated completions, or forms of both kinds together.
Scoring = Literal["ranked", "generated", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPopulation:
    """The wordings of one format, as a sample of all wordings like them."""

    label: str
    #: The forms of the comparison that are these wordings.
    forms: tuple[int, ...]
    population: WordingPopulation
    #: How much the values of each axis raise the score.
    effects: tuple[AxisEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormComparison:
    """A task or group under several forms, compared by the first metric of each on the documents that all have."""

    #: The name of the task or group, without a format.
    name: str
    #: The metric that all forms have first; "accuracy" where they have different ones that say right or wrong.
    metric: str
    #: What its forms have in common: scores of ranked choices and of generated answers are compared only as "any".
    scoring: Scoring
    higher_is_better: bool
    #: The names of the forms; what the other fields say of a form is by its index here.
    forms: tuple[str, ...]
    n: int
    #: The number of clusters of documents; n where documents are independent.
    clusters: int
    means: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    #: None where there is one form, whose documents are clustered.
    spread: Spread | None
    #: None where there is one form, and where no format has all draws of few-shot examples.
    variance: VarianceSplit | None
    #: None where scores are not right or wrong.
    rightness: Rightness | None = None
    #: How often two forms lead to the same prediction, and Fleiss' kappa; None where predictions are not choices, and
    #: kappa also where the documents of a group have different weights. They are those of the forms in `agreeing`.
    agreement: Estimate | None = None
    kappa: float | None = None
    agreeing: tuple[int, ...] = ()
    #: The formats that were run under several wordings.
    populations: tuple[FormatPopulation, ...] = ()
    #: How often a random choice is right under each form; None without choices.
    chances: tuple[float | None, ...] = ()
    #: Of each form that ranks choices, or None; of no form of a group whose documents have different weights.
    positions: tuple[PositionBias | None, ...] = ()
    calibrations: tuple[Calibration | None, ...] = ()

    @property
    def best(self) -> int | None:
        """The index of the best form; None where there is one form only."""
        return None if self.spread is None else self.spread.highest if self.higher_is_better else self.spread.lowest

    @property
    def worst(self) -> int | None:
        """The index of the worst form; None where there is one form only."""
        return None if self.spread is None else self.spread.lowest if self.higher_is_better else self.spread.highest

    @property
    def tied_with_best(self) -> tuple[int, ...]:
        """The forms that cannot be told from the best at 5 %, corrected for all pairs; the best is one of them."""
        if self.best is None:
            return ()
        differing = {
            (pair.second if pair.first == self.best else pair.first)
            for pair in self.differences
            if self.best in (pair.first, pair.second) and pair.p_simultaneous < ALPHA
        }
        return tuple(index for index in range(len(self.forms)) if index not in differing)

    def above_chance(self, form: int) -> float | None:
        """The share of the way from the chance level to a perfect score; None without a chance level."""
        chance = self.chances[form] if self.chances else None
        return None if chance is None or chance >= 1 else (self.means[form].value - chance) / (1 - chance)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON, with forms by their names; docs/statistics.md explains the keys."""
        names = self.forms
        result: dict[str, Any] = {
            "n": self.n,
            "clusters": self.clusters,
            "scoring": self.scoring,
            "forms": {
                name: mean.to_dict() | self._chance(i)
                for i, (name, mean) in enumerate(zip(names, self.means, strict=True))
            },
            "pairs": [
                {"first": names[pair.first], "second": names[pair.second]}
                | pair.estimate.to_dict()
                | {"p": pair.p, "p_holm": pair.p_holm, "p_simultaneous": pair.p_simultaneous}
                | {"simultaneous": list(pair.simultaneous.interval)}
                for pair in self.differences
            ],
            **self._spread_numbers(),
        }
        if self.rightness is not None:
            result["right"] = {
                share.name: getattr(self.rightness, share.name).to_dict() for share in fields(self.rightness)
            }
        if self.agreement is not None:
            among = {} if len(self.agreeing) == len(names) else {"forms": [names[index] for index in self.agreeing]}
            kappa = {} if self.kappa is None else {"kappa": self.kappa}
            result["agreement"] = {**self.agreement.to_dict(), **kappa, **among}
        if self.populations:
            result["wordings"] = {entry.label: self._population(entry) for entry in self.populations}
        result["position_bias"] = {
            name: {
                "preferred": bias.preferred,
                "p": bias.p,
                "recall_std": bias.recall_std,
                "excess": [position.excess.to_dict() for position in bias.positions],
            }
            for name, bias in zip(names, self.positions, strict=True)
            if bias
        }
        result["calibration_error"] = {
            name: calibration.error.to_dict()
            for name, calibration in zip(names, self.calibrations, strict=True)
            if calibration
        }
        return result

    def _chance(self, form: int) -> dict[str, Any]:
        above = self.above_chance(form)
        return {} if above is None else {"chance": self.chances[form], "above_chance": above}

    def _population(self, entry: FormatPopulation) -> dict[str, Any]:
        population, components = entry.population, entry.population.components
        return {
            "forms": [self.forms[index] for index in entry.forms],
            "mean": population.mean.to_dict(),
            "observed_deviation": population.observed_deviation,
            "deviation": population.deviation.to_dict(),
            "predicted": [population.predicted.low, population.predicted.high],
            "reliability": population.reliability,
            "shrunken": {
                self.forms[index]: score.to_dict()
                for index, score in zip(entry.forms, population.shrunken, strict=True)
            },
            "axes": [
                {"axis": effect.axis, "value": effect.value, "wordings": effect.wordings, "p": effect.p}
                | effect.effect.to_dict()
                for effect in entry.effects
            ],
            "components": {"document": components.document, "wording": components.wording, "rest": components.rest},
        }

    def _spread_numbers(self) -> dict[str, Any]:
        spread, variance = self.spread, self.variance
        if spread is None or self.best is None or self.worst is None:
            return {}
        # Which forms the variance is of, unless it is of all.
        names = [] if variance is None else [self.forms[index] for index in variance.forms]
        split = {} if len(names) == len(self.forms) else {"forms": names}
        best, worst = (spread.high, spread.low) if self.higher_is_better else (spread.low, spread.high)
        return {
            "best": {"form": self.forms[self.best], **best.to_dict()},
            "tied_with_best": [self.forms[index] for index in self.tied_with_best],
            "worst": {"form": self.forms[self.worst], **worst.to_dict()},
            "spread": {**spread.spread.to_dict(), "by_chance": spread.by_chance, "p": spread.p},
            "median": spread.median,
            "quartiles": [spread.lower_quartile, spread.upper_quartile],
            "interquartile_range": spread.interquartile_range,
            **({} if variance is None else {"variance": {"total": variance.total, "shares": variance.shares} | split}),
        }
