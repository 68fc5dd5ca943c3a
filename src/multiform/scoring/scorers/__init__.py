"""The registered scorers."""

from multiform.scoring.scorers import ai_judge, answers, choice_match, code, columns, ifbench_rules, rules
from multiform.scoring.scorers.base import ReadingScorer, Scorer, register_scorer, scorers

__all__ = [
    "ReadingScorer",
    "Scorer",
    "ai_judge",
    "answers",
    "choice_match",
    "code",
    "columns",
    "ifbench_rules",
    "register_scorer",
    "rules",
    "scorers",
]
