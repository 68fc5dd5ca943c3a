"""The registered scorers."""

from multiform.scoring.scorers import (
    ai_judge,
    answers,
    choice_match,
    code,
    contrast,
    ifbench_rules,
    json_schema,
    ratings,
    rules,
)
from multiform.scoring.scorers.base import ReadingScorer, Scorer, register_scorer, scorers

__all__ = [
    "ReadingScorer",
    "Scorer",
    "ai_judge",
    "answers",
    "choice_match",
    "code",
    "contrast",
    "ifbench_rules",
    "json_schema",
    "ratings",
    "register_scorer",
    "rules",
    "scorers",
]
