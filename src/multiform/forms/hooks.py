"""Hooks: the methods that the class of a task overrides, collected once when the task is built.

A run calls each of them at the place where the data passes anyway. A method that a run has no place for is refused by
its name, as a class that overrides it would otherwise be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from multiform.calls import overridden_methods
from multiform.errors import ConfigError

#: Overridden methods by name. `fewshot_doc_to_text` and so on read few-shot examples.
Hooks: TypeAlias = Mapping[str, Callable[..., Any]]

#: The methods that give the fields of a document.
FIELD_HOOKS = ("doc_to_text", "doc_to_choice", "doc_to_target")
#: The methods that a run calls if a class overrides them.
CALLED = (
    *FIELD_HOOKS,
    *("doc_to_image", "doc_to_audio", "fewshot_context", "construct_requests", "process_results", "aggregation"),
    *("download", "has_training_docs", "has_validation_docs", "has_test_docs"),
    *("training_docs", "validation_docs", "test_docs", "fewshot_docs", "eval_docs", "process_doc"),
    *("sampler", "count_words", "count_bytes"),
    *("doc_iterator", "sample", "score", "estimates", "higher_is_better", "doc_to_decontamination_query"),
)
_SETTING = "set the key in the configuration, or override what uses it"
#: The methods that a run does not call, and what to override instead.
REFUSED = {
    "build_all_requests": "override construct_requests, or fewshot_context for the prompt",
    "build_qa_turn": "override fewshot_context, which writes the whole prompt",
    "stream_requests": "override construct_requests",
    "instances": "override construct_requests",
    "get_docs": "override test_docs, validation_docs or training_docs",
    "doc_to_prefix": "give gen_prefix, or override fewshot_context",
    "gold": "override doc_to_target",
    "apply_filters": "give filter_list with a filter of your own, or override process_results",
    "process_instances": "override process_results",
    "responses": "override process_results",
    "aggregate": "override aggregation, which gives a function for each metric",
    **dict.fromkeys(("get_config", "set_config", "dump_config", "override_metric"), _SETTING),
    "name": "set task in the configuration",
    **dict.fromkeys(("config", "num_fewshot", "under", "copy_with"), _SETTING),
    **dict.fromkeys(("set_repeats", "set_num_fewshot", "set_fewshot_seed"), _SETTING),
}


def collect_hooks(task: object, base: type, *, where: str | None) -> dict[str, Callable[..., Any]]:
    """The methods of a task that override those of `base`; a ConfigError for one that a run does not call."""
    kind = type(task)
    for name, definer in overridden_methods(kind, base, REFUSED).items():
        if not definer.__module__.startswith("multiform."):
            message = f"{kind.__name__} overrides {name}, which a run does not call"
            raise ConfigError(message, where=where, hint=REFUSED[name])
    return {name: _method(task, name) for name in overridden_methods(kind, base, CALLED)}


def _method(task: object, name: str) -> Callable[..., Any]:
    """A method of a task; a property as a function without arguments."""
    if callable(getattr(type(task), name)):
        method: Callable[..., Any] = getattr(task, name)
        return method
    return lambda: getattr(task, name)
