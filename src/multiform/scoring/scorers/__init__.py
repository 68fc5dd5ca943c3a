"""The registered scorers."""

from multiform.scoring.scorers import ai_judge, choice_match, final_answer, first_token, regex
from multiform.scoring.scorers.base import ReadingScorer, Scorer, register_scorer, scorers

__all__ = [
    "ReadingScorer",
    "Scorer",
    "ai_judge",
    "choice_match",
    "final_answer",
    "first_token",
    "regex",
    "register_scorer",
    "scorers",
]
