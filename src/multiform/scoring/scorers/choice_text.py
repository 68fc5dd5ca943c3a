"""Reads the text of the choice that an answer settles on."""

from __future__ import annotations

from dataclasses import dataclass

from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers.base import register_scorer
from multiform.scoring.scorers.choice_match import ChoiceMatch


@register_scorer("choice_text")
@dataclass(kw_only=True, eq=False)
class ChoiceText(ChoiceMatch):
    """The text of the choice that the answer names by its label or spells out; the right answer is a text, too.

    Where no labels are shown, the first line of the answer counts.
    """

    def read(self, outcome: TextOutcome) -> str | None:
        assert outcome.prediction is not None
        said = _canonical(outcome.prediction.partition("\n")[0])
        if not outcome.labels or said in map(_canonical, outcome.choices):
            return said or None
        label = super().read(outcome)
        return None if label is None else str(outcome.choices[list(outcome.labels).index(label)])

    def reading(self, outcome: TextOutcome) -> TextOutcome:
        return super().reading(outcome) if outcome.labels else super(ChoiceMatch, self).reading(outcome)

    def canonical(self, text: str) -> str:
        return _canonical(text)


def _canonical(text: str) -> str:
    return " ".join(text.split()).strip(" .").casefold()
