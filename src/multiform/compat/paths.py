"""Import paths of other harnesses that have no file here.

Each is another path, whose module it is, or a table of names with the places where they are defined ("module:name").
"""

from __future__ import annotations

_SCORERS = {
    "Scorer": "multiform.scoring.scorers:Scorer",
    "GenScorer": "multiform.scoring.scorers:Scorer",
    "LLScorer": "multiform.scoring.scorers:Scorer",
    "FirstTokenScorer": "multiform.scoring.scorers.first_token:FirstToken",
    "RegexExtractionScorer": "multiform.scoring.scorers.regex:Regex",
    "ChoiceMatchScorer": "multiform.scoring.scorers.choice_match:ChoiceMatch",
    "get_scorer": "multiform.compat.lm_eval.api.registry:get_scorer",
    "register_scorer": "multiform.compat.lm_eval.api.registry:register_scorer",
}
_FORMATS = ("FormatConfig", "MCQAFormat", "ClozeFormat", "GenerateFormat", "COTGenFormat")

PATHS: dict[str, str | dict[str, str]] = {
    "lm_eval.scorers": _SCORERS,
    "lm_eval.scorers._base": _SCORERS,
    "lm_eval.scorers.extraction": _SCORERS,
    "lm_eval.api._types": "lm_eval.api.instance",
    "lm_eval.api._utils": "lm_eval.api.utils",
    "lm_eval.config.formats": {name: f"multiform.formats:{name}" for name in _FORMATS},
    "lm_eval.config.templates": {"process_field": "multiform.compat.lm_eval.utils:process_field"},
    "eval_framework.task_names": "eval_framework.tasks.registry",
    "eval_framework.tasks.base_task": "eval_framework.tasks.base",
    "eval_framework.tasks.task_names": "eval_framework.tasks.registry",
}
