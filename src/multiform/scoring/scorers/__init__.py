"""The registered scorers."""

from multiform.scoring.scorers import choice_match, final_answer
from multiform.scoring.scorers.base import ReadingScorer, Scorer, register_scorer, scorers

__all__ = ["ReadingScorer", "Scorer", "choice_match", "final_answer", "register_scorer", "scorers"]
