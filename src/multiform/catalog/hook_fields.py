"""Fields of a task configuration that call the hooks of a Python task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.catalog.styler_hooks import NO_SUBJECT
from multiform.errors import ConfigError, DataError
from multiform.fields import Doc
from multiform.formats import BPBStyle, OutputType, ResponseType
from multiform.formats.dialects.metric_classes import BaseMetric, BitsPerByteLoglikelihood, metric_specs, result_keys
from multiform.formats.perturbation import Perturbation

if TYPE_CHECKING:
    from multiform.catalog.base_task import BaseTask

#: The data-access methods.
DATA = ("_get_raw_question", "_get_choices", "_get_correct_index")
#: The hooks that the styler implements: a class that overrides one has no equivalent format.
STYLED = (
    "_get_instruction_text",
    "_get_fewshot_target_text",
    "_get_ground_truth",
    "_get_cue_text",
    "_get_possible_completions",
    "_get_initial_prompt_text",
    "_get_system_prompt_text",
    "_get_instruction_messages",
    "_get_example_messages",
    "_get_messages",
    "_apply_user_prompt_suffix",
    "_sample_fewshot_examples",
    "_create_samples",
    "_get_context",
    "post_process_generated_completion",
)
#: The hooks that load rows, which are called under every format.
LOADING = ("_load_dataset", "_load_hf_dataset", "_shuffle_splits")
#: The limit of tokens of a completion, where a class does not set one.
DEFAULT_MAX_TOKENS = 256
#: Methods that a run does not call, so that overriding them is refused.
REFUSED = ("iterate_samples", "generate_completions")


def item_of(doc: Doc, subject: Any) -> dict[str, Any]:
    """A document as the hooks get it: a copy with the key `subject`.

    Where the dataset has no subjects, a column of that name is not replaced.
    """
    return {"subject": subject, **doc} if subject == NO_SUBJECT else {**doc, "subject": subject}


def hook(task: BaseTask[Any], name: str, subject: Any) -> Callable[[Doc], Any]:
    """A method of the task as a field of a configuration; it gets a copy of the document with its subject."""
    method = getattr(task, name)

    def call(doc: Doc) -> Any:
        return method(item_of(doc, subject))

    call.__name__, call.__qualname__, call.__module__ = method.__name__, method.__qualname__, method.__module__
    call.__wrapped__ = method  # type: ignore[attr-defined]
    return call


class HookedPrompt:
    """The field `doc_to_text` of a task that writes its prompts itself: its instruction and its cue."""

    def __init__(self, task: BaseTask[Any], subject: Any, noise: Perturbation | None = None) -> None:
        self.task, self.subject, self.noise = task, subject, noise
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._get_instruction_text"

    def __call__(self, doc: Doc) -> str:
        item, task = item_of(doc, self.subject), self.noisy_task()
        return task._get_instruction_text(item) + task._get_cue_text(item)

    def perturbed(self, noise: Perturbation) -> HookedPrompt:
        """The same field with noise in the question, or in the instruction where the class writes that itself."""
        return HookedPrompt(self.task, self.subject, noise)

    def noisy_task(self) -> BaseTask[Any]:
        """A copy of the task, with the noise of this field."""
        task = copy.copy(self.task)
        if self.noise is None:
            return task
        name = "_get_instruction_text" if "_get_instruction_text" in task._own_hooks else "_get_raw_question"
        method, noise = getattr(self.task, name), self.noise
        setattr(task, name, lambda item: noise(method(item)))
        return task


class HookedDataset:
    """The field `custom_dataset` of a class with its own `_load_dataset`."""

    #: The dataset mirror is passed as an argument.
    takes_mirror = True

    def __init__(self, task: BaseTask[Any], subject: Any) -> None:
        self.task, self.subject = task, subject
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._load_dataset"

    def __call__(self, *, dataset_mirror: Path | None = None, **_: Any) -> Mapping[str, Sequence[dict[str, Any]]]:
        self.task._mirror = dataset_mirror
        self.task.rnd = None
        self.task._load_dataset(self.subject)
        rows = getattr(self.task, "dataset", None)
        if not isinstance(rows, Mapping):
            message = f"{type(self.task).__name__}._load_dataset did not set self.dataset to the rows of each split"
            raise DataError(message, hint='set e.g. self.dataset = {"test": [...]}')
        return rows


def hook_fields(task: BaseTask[Any], subject: Any) -> dict[str, Any]:
    """The keys of the configuration of a task whose own hooks write prompts and ground truth, delimiters included."""
    from multiform.catalog.hooked_kinds import KINDS

    output_type = _output_type(task)
    scored: dict[str, Any] = {"doc_to_choice": None, "doc_to_target": hook(task, "_get_ground_truth", subject)}
    if output_type == "multiple_choice":
        scored["doc_to_choice"] = hook(task, "_get_possible_completions", subject)
    elif output_type == "generate_until":
        stops = {"until": list(task.stop_sequences or ()), "max_gen_toks": task.max_tokens or DEFAULT_MAX_TOKENS}
        stripped = [{"function": "remove_whitespace"}, {"function": "take_first"}]
        scored["generation_kwargs"] = {**stops, "do_sample": False, "temperature": 0.0}
        scored["filter_list"] = [{"name": "none", "filter": stripped}]
    return {
        "output_type": output_type,
        "doc_to_text": HookedPrompt(task, subject),
        **scored,
        "target_delimiter": "",
        "metric_list": _metric_list(task),
        "_task_class": KINDS[output_type],
    }


def calculates(task: BaseTask[Any]) -> bool:
    """Whether the values come from the `calculate` of metric classes.

    The built-in metric classes of log-likelihoods are computed by the registered metrics, with the same values.
    """
    classes = [metric for metric in task.get_metrics() if isinstance(metric, type) and issubclass(metric, BaseMetric)]
    written = task.get_response_type() is ResponseType.COMPLETION
    return any(metric.has_calculate() and (written or not metric.is_registered()) for metric in classes)


def _metric_list(task: BaseTask[Any]) -> list[dict[str, Any]]:
    where, metrics = f"{task.NAME}: METRICS", task.get_metrics()
    if not calculates(task):
        return metric_specs(metrics, where=where)
    for metric in metrics:
        if not (isinstance(metric, type) and issubclass(metric, BaseMetric) and metric.has_calculate()):
            message = f"{metric!r} stands beside classes that calculate their values"
            raise ConfigError(message, where=where, hint="give classes with calculate() alone, or names alone")
    return [{"metric": key, "aggregation": "mean"} for key in result_keys(metrics).values()]


def _output_type(task: BaseTask[Any]) -> OutputType:
    if task.get_response_type() is ResponseType.COMPLETION:
        return "generate_until"
    gold = isinstance(getattr(task, "TASK_STYLER", None), BPBStyle) or task.get_metrics() == [BitsPerByteLoglikelihood]
    return "loglikelihood" if gold and not calculates(task) else "multiple_choice"
