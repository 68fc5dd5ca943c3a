"""The modules of eval-framework that a task needs, with our names in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiform.answers import label_list
from multiform.formats import choices, language, measures, perturbation, style, styles
from multiform.tasks import styled


def get_n_letters(number: int) -> list[str]:
    """The first labels: A, B, C, ..."""
    return label_list(number)


def tree() -> Mapping[str, Mapping[str, Any]]:
    """What each module holds."""
    likelihood = "eval_framework.metrics.loglikelihood"
    enums = {"Language": language.Language, "ResponseType": style.ResponseType, "TaskStyle": style.TaskStyle}
    stylers: tuple[Any, ...] = (style.TaskStyler, *styles.STYLES)
    helpers: tuple[Any, ...] = (
        choices.format_mc_prompt,
        choices.shuffle_correct_with_distractors,
        choices.answer_key_to_index,
    )
    return {
        "eval_framework.tasks.task_style": {
            **{named.__name__: named for named in (*stylers, *helpers)},
            **enums,
            "get_n_letters": get_n_letters,
        },
        "eval_framework.tasks.base": {
            **enums,
            "BaseTask": styled.BaseTask,
            "NO_SUBJECT": styled.NO_SUBJECT,
            "SubjectType": styled.SubjectType,
        },
        "eval_framework.tasks.utils": {"get_n_letters": get_n_letters},
        "eval_framework.tasks.perturbation": {"PerturbationConfig": perturbation.Perturbation},
        "eval_framework.metrics.base": _of(measures.BaseMetric),
        f"{likelihood}.base": {"BaseLoglikelihoodMetric": measures.BaseMetric},
        f"{likelihood}.accuracy_loglikelihood": _of(measures.AccuracyLoglikelihood, measures.AccuracyNormLoglikelihood),
        f"{likelihood}.bits_per_byte": _of(measures.BitsPerByteLoglikelihood),
        f"{likelihood}.confidence_weighted_accuracy": _of(measures.ConfidenceWeightedAccuracy),
        f"{likelihood}.dcs": _of(measures.DistributionalCorrectnessScore),
        f"{likelihood}.probability_mass": _of(measures.ProbabilityMass, measures.ProbabilityMassNorm),
        f"{likelihood}.ternary": _of(measures.TernaryScore),
        "eval_framework.metrics.completion.accuracy_completion": _of(measures.AccuracyCompletion),
    }


def _of(*named: type) -> dict[str, Any]:
    return {one.__name__: one for one in named}
