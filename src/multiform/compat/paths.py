"""Import paths of other harnesses: for each, our module, or the names that it has and where they are defined.

Nothing else of `lm_eval` can be imported; a name that a path does not have is an ImportError. Other names of
`eval_framework` are those of the files of eval-framework itself, where there are any.
"""

from __future__ import annotations


def _names(module: str, names: str) -> dict[str, str]:
    """Names of one module with their places ("module:name")."""
    return {name: f"{module}:{name}" for name in names.split()}


_LM_EVAL, _EVAL_FRAMEWORK = "multiform.compat.lm_eval", "multiform.compat.eval_framework"
_SCORERS = {
    **_names("multiform.scoring.scorers", "Scorer"),
    "GenScorer": "multiform.scoring.scorers:Scorer",
    "LLScorer": "multiform.scoring.scorers:Scorer",
    "FirstTokenScorer": "multiform.scoring.scorers.answers:FirstToken",
    "RegexExtractionScorer": "multiform.scoring.scorers.answers:Regex",
    "ChoiceMatchScorer": "multiform.scoring.scorers.choice_match:ChoiceMatch",
    **_names(f"{_LM_EVAL}.registry", "get_scorer register_scorer"),
}
_TASKS = {
    **_names(f"{_LM_EVAL}.config", "TaskConfig"),
    **_names("multiform.tasks", "FewshotConfig FilterPipeline FilterStep MetricConfig ScorerConfig"),
}
_GROUPS = _names("multiform.tasks", "GroupConfig")
_METRICS = "multiform.formats.dialects.metric_classes"
_SAMPLES = f"{_EVAL_FRAMEWORK}.samples"
_METRIC_RESULTS = "multiform.formats.dialects.metric_results"
_STYLES = (
    "BPBStyle ClozeStyle Language MCStyle ResponseType TaskStyle TaskStyler "
    "answer_key_to_index format_mc_prompt shuffle_correct_with_distractors"
)
_METRIC_CLASSES = {
    **_names(_METRICS, "AccuracyCompletion AccuracyLoglikelihood AccuracyNormLoglikelihood BitsPerByteLoglikelihood"),
    **_names(
        f"{_EVAL_FRAMEWORK}.metrics",
        "CodeCompletionAssertion CodeExecutionPassAtOne ConfidenceWeightedAccuracy DistributionalCorrectnessScore "
        "LanguageRawConsistencyChecker MultiPLECodeAssertion TernaryScore",
    ),
    "MultiPLEMetricContext": f"{_SAMPLES}:BaseMetricContext",
}
#: The modules of `eval_framework.metrics` that have such names.
_METRIC_MODULES = (
    *("accuracy_loglikelihood", "bits_per_byte", "confidence_weighted_accuracy", "dcs", "ternary"),
    *("accuracy_completion", "code_assertion", "code_execution_pass_at_one", "language_checker", "multipl_e_assertion"),
)
_INSTANCES = {
    "Instance": "multiform.models.foreign:LMEvalInstance",
    **_names("multiform.models.foreign", "OutputType"),
    **_names("multiform.requests", "Completion LLOutput"),
    # Requests for completions and for log-likelihoods, which `request_type` tells apart.
    "GenInstance": "multiform.models.foreign:LMEvalInstance",
    "LLInstance": "multiform.models.foreign:LMEvalInstance",
}
_LETTERS = {"get_n_letters": "multiform.labels:label_list"}
_BASE_TASK = {
    **_names("multiform.compat.eval_framework.base_task", "BaseTask SubjectType"),
    **_names("multiform.compat.eval_framework.sample_hooks", "RANDOM_SEED"),
    **_names("multiform.compat.eval_framework.sample_hooks", "NO_SUBJECT"),
    **_names("multiform", "Language ResponseType TaskStyle"),
    **_names(_SAMPLES, "Sample"),
}

_LM_EVAL_PATHS: dict[str, str | dict[str, str]] = {
    "lm_eval": {
        **_names(_LM_EVAL, "__version__ __multiform__"),
        **_names(f"{_LM_EVAL}.evaluator", "evaluate simple_evaluate"),
    },
    "lm_eval.__main__": f"{_LM_EVAL}.__main__",
    "lm_eval.evaluator": f"{_LM_EVAL}.evaluator",
    "lm_eval.utils": f"{_LM_EVAL}.utils",
    "lm_eval.api.task": f"{_LM_EVAL}.task",
    "lm_eval.api.instance": _INSTANCES,
    "lm_eval.api.filter": _names(f"{_LM_EVAL}.filters", "Filter"),
    "lm_eval.api.group": {**_names(f"{_LM_EVAL}.manager", "ConfigurableGroup Group"), **_GROUPS},
    "lm_eval.api.metrics": f"{_LM_EVAL}.metrics",
    "lm_eval.api.model": f"{_LM_EVAL}.models",
    "lm_eval.api.registry": f"{_LM_EVAL}.registry",
    "lm_eval.api.template": _names(
        "multiform", "ClozeTemplateConfig MCQTemplateConfig TemplateConfig TemplateFactory process_field"
    ),
    "lm_eval.config": {**_TASKS, **_GROUPS},
    "lm_eval.config.task": _TASKS,
    "lm_eval.config.group": _GROUPS,
    "lm_eval.config.utils": _names(f"{_LM_EVAL}.config", "serialize_config"),
    "lm_eval.config.formats": _names("multiform", "FormatConfig MCQAFormat ClozeFormat GenerateFormat COTGenFormat"),
    "lm_eval.scorers": _SCORERS,
    **{f"lm_eval.filters.{name}": f"{_LM_EVAL}.filters" for name in ("extraction", "selection", "transformation")},
    "lm_eval.tasks": f"{_LM_EVAL}.manager",
    "lm_eval.tasks.manager": f"{_LM_EVAL}.manager",
    "lm_eval.models.dummy": _names(f"{_LM_EVAL}.models", "DummyLM"),
    "lm_eval.models.huggingface": f"{_LM_EVAL}.huggingface",
    "lm_eval.models.utils": f"{_LM_EVAL}.model_helpers",
    "lm_eval.loggers": _names(f"{_LM_EVAL}.evaluator", "EvaluationTracker"),
    "lm_eval.loggers.evaluation_tracker": _names(f"{_LM_EVAL}.evaluator", "EvaluationTracker GeneralConfigTracker"),
}

_EVAL_FRAMEWORK_PATHS: dict[str, str | dict[str, str]] = {
    "eval_framework": _EVAL_FRAMEWORK,
    "eval_framework.shared.types": {
        **_names(_SAMPLES, "BaseMetricContext Completion Loglikelihood extract_context_metric"),
        **_names(_METRIC_RESULTS, "Error"),
    },
    "eval_framework.metrics.base": {**_names(_METRICS, "BaseMetric"), **_names(_METRIC_RESULTS, "MetricResult")},
    **{f"eval_framework.metrics.loglikelihood.{name}": _METRIC_CLASSES for name in _METRIC_MODULES[:5]},
    **{f"eval_framework.metrics.completion.{name}": _METRIC_CLASSES for name in _METRIC_MODULES[5:]},
    "eval_framework.tasks.base": _BASE_TASK,
    "eval_framework.tasks.base_task": _BASE_TASK,
    "eval_framework.tasks.benchmarks": {},
    "eval_framework.tasks.dataset_revisions": _names(
        f"{_EVAL_FRAMEWORK}.base_task", "FROZEN_HF_REVISIONS_LOCKFILE HF_REVISIONS_LOCKFILE"
    ),
    "eval_framework.tasks.registry": _names(f"{_EVAL_FRAMEWORK}.base_task", "register_task"),
    "eval_framework.tasks.task_style": {
        **_names("multiform", _STYLES),
        **_names("multiform.formats.dialects.styler", "MCCompletionStyle"),
        **_LETTERS,
    },
    "eval_framework.tasks.utils": _LETTERS,
    "template_formatting.formatter": _names(_SAMPLES, "Message Role"),
}

PATHS: dict[str, str | dict[str, str]] = {**_LM_EVAL_PATHS, **_EVAL_FRAMEWORK_PATHS}
