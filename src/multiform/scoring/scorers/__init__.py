"""The registered scorers."""

from multiform.scoring.scorers import ai_judge, choice_match, code, final_answer, first_token, instructions, regex
from multiform.scoring.scorers.base import ReadingScorer, Scorer, register_scorer, scorers

__all__ = [
    "ReadingScorer",
    "Scorer",
    "ai_judge",
    "choice_match",
    "code",
    "final_answer",
    "first_token",
    "instructions",
    "regex",
    "register_scorer",
    "scorers",
]
