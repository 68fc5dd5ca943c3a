"""BaseTask: a task as a Python class, with data-access methods and a styler."""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from multiform.compat.eval_framework.hooked_task import (
    DEFAULT_MAX_TOKENS,
    HookedDataset,
    HookedPrompt,
    HookedTask,
    calculates,
    hook,
)
from multiform.compat.eval_framework.sample_hooks import DATA, LOADING, NO_SUBJECT, REFUSED, STYLED, SampleHooks
from multiform.errors import ConfigError
from multiform.formats.base import OutputType
from multiform.formats.compile import FieldMapping
from multiform.formats.dialects.metric_classes import BaseMetric, BitsPerByteLoglikelihood, metric_specs, result_keys
from multiform.formats.dialects.styler import BPBStyle, ResponseType, TaskStyler
from multiform.formats.select import supported_formats
from multiform.formats.variation import Variation
from multiform.forms.scoring import build_scoring
from multiform.tasks.config import TaskConfig
from multiform.tasks.group import Group, GroupConfig, Node
from multiform.tasks.keys import StatedKeys
from multiform.tasks.python_tasks import PythonTask, task_classes

SubjectType = TypeVar("SubjectType")

#: The lock files of eval-framework's benchmarks. They come with eval-framework: where there is none, a task uses
#: the newest revision of its dataset, and a file that is put here is used.
HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "hf-dataset-revisions.json"
FROZEN_HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "frozen-hf-dataset-revisions.json"


class BaseTask(SampleHooks, PythonTask, Generic[SubjectType]):
    """A task as a Python class: three methods give the data, and a styler writes and scores the prompts.

    A class may override every hook of its base classes; hooks that it does not override use the styler. Running the
    task with ``@`` and a format replaces the styler and all hooks but those for the data.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        frame = sys._getframe(1)
        cls._defined = (Path(frame.f_code.co_filename), frame.f_lineno)
        if cls.__dict__.get("NAME"):
            task_classes.register(cls.NAME)(cls)

    def to_node(
        self, label: str | None = None, overrides: Mapping[str, Any] | None = None, *, member: str | None = None
    ) -> Node:
        """The configuration of the task; a group with a task for each subject where there are several.

        `label` is the format after ``@``, `overrides` are keys that replace those of the configuration, and `member`
        is the name of a single subject's task, as results show it.
        """
        names = self.member_names()
        subjects = dict(zip(names, self.SUBJECTS or [NO_SUBJECT], strict=True))
        if len(subjects) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            message = f"two SUBJECTS make the same name '{twice}'"
            raise ConfigError(message, where=self._place(), hint="rename one, as results are keyed by it")
        if member is not None:
            subjects = {member: subjects[member]}
        members = [self._config(name, subject, label, overrides or {}) for name, subject in subjects.items()]
        if len(members) == 1:
            return members[0]
        by_class = label is None and self._format() is None and calculates(self)
        scorers = build_scoring(members[0], own_results=by_class).scorers
        metrics = dict.fromkeys(metric.name for scorer in scorers for metric in scorer.metrics)
        config = GroupConfig(
            group=self.NAME,
            task=[task.task for task in members],
            # As in eval-framework, every subject has the same weight.
            aggregate_metric_list=[{"metric": metric, "weight_by_size": False} for metric in metrics],
            _source=self._source(),
        )
        return Group(config, tuple(members), label)

    def member_names(self) -> list[str]:
        """The names of the tasks of this class, one for each subject where there are several."""
        return [self._member_name(subject) for subject in self.SUBJECTS or [NO_SUBJECT]]

    def _member_name(self, subject: Any) -> str:
        """The name of a subject's task: NAME, followed by the subject where there are several."""
        has_subjects = max(len(type(self).SUBJECTS), len(self.SUBJECTS)) > 1
        text = "_".join(map(str, subject)) if isinstance(subject, tuple) else str(subject)
        return self.NAME + "_" + re.sub(r"[^\w.-]+", "_", text) if has_subjects else self.NAME

    def _config(self, name: str, subject: Any, label: str | None, overrides: Mapping[str, Any]) -> TaskConfig:
        # Without a format's name, the label of a variation is about the class's own prompts.
        named = (Variation.parse(label).label or None) if label is not None else None
        self._check(named)
        task = copy.copy(self)  # hooks may set attributes, which must not be seen by other subjects
        words = self.PERTURBATION_UNMODIFIABLE_WORDS
        common: dict[str, Any] = {
            "task": name,
            "dataset_path": self.DATASET_PATH,
            "dataset_name": None if subject == NO_SUBJECT else str(subject),
            "test_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT or None,
            "num_fewshot": self._wanted_fewshot(),
            "perturbation_unmodifiable_words": None if words is None else list(words),
            "doc_to_text": hook(task, "_get_raw_question", subject),
            "doc_to_choice": hook(task, "_get_choices", subject),
            "doc_to_target": hook(task, "_get_correct_index", subject),
        }
        if self.hf_revision is not None:
            common["dataset_kwargs"] = {"revision": self.hf_revision}
        if self._own_hooks.intersection(LOADING):
            common |= {"custom_dataset": HookedDataset(task, subject), "dataset_kwargs": {}}
        styled = self._format()
        if named is None and styled is None:
            common |= _hook_fields(task, subject)
        elif styled is not None:
            common["formats"] = {type(self.TASK_STYLER).__name__: styled}
        if label is not None:
            common["_formats_selection"] = label
        task_class = HookedTask if named is None and styled is None else None
        return TaskConfig.from_stated(
            StatedKeys({**common, **self.CONFIG, **overrides}, self._source(), task_class=task_class)
        )

    def _wanted_fewshot(self) -> int | None:
        """The number of few-shot examples; None where it is 0 only because that is the constructor's default."""
        default = inspect.signature(type(self)).parameters.get("num_fewshot")
        return None if self.num_fewshot == 0 and default is not None and default.default == 0 else self.num_fewshot

    def supported_formats(self) -> list[str]:
        """The registered formats that the data-access methods support, and the format of the styler."""
        styled = self._format()
        table = None if styled is None else {type(self.TASK_STYLER).__name__: styled}
        choices = None if "_get_choices" in self._missing() else "choices"
        return supported_formats(table, FieldMapping("question", choices, "answer"))

    def _missing(self) -> list[str]:
        """The data-access methods that the class does not define."""
        return [name for name in DATA if name not in self._own_hooks]

    def _format(self) -> Any:
        """The format of the styler; None where the class overrides a hook that the styler implements."""
        plain = not self._own_hooks.intersection(STYLED)
        return self.TASK_STYLER.to_format() if plain and hasattr(self, "TASK_STYLER") else None

    def _check(self, label: str | None) -> None:
        """Raise a ConfigError for a class that lacks an attribute or a method that it needs."""
        place = self._place()
        for name in ("NAME", "DATASET_PATH", "SAMPLE_SPLIT"):
            if not getattr(self, name, None):
                raise ConfigError(f"no {name}", where=place, hint=f'write {name} = "..." in the class')
        for name in self._own_hooks.intersection(REFUSED):
            hint = "override _load_dataset, _create_samples or post_process_generated_completion"
            raise ConfigError(f"a run never calls {name}, which the class overrides", where=place, hint=hint)
        styler = getattr(self, "TASK_STYLER", None)
        if styler is not None and not isinstance(styler, TaskStyler):
            hint = "give an object, e.g. TASK_STYLER = MCStyle()"
            raise ConfigError(f"TASK_STYLER is {styler!r}, not a styler", where=place, hint=hint)
        missing = self._missing()
        if missing and (label is not None or (styler is not None and not self._hooked())):
            subject = "a format" if label is not None else "a TASK_STYLER"
            hint = f"define {missing[0]}(self, item)"
            raise ConfigError(f"{subject} needs {missing[0]}, which the class does not have", where=place, hint=hint)
        if styler is None and not self._hooked():
            hint = "set TASK_STYLER, or define _get_instruction_text and _get_ground_truth"
            raise ConfigError("neither a TASK_STYLER nor hooks of its own", where=place, hint=hint)

    def _hooked(self) -> bool:
        """Whether the class writes its prompts and ground truth itself."""
        return self._own_hooks >= {"_get_instruction_text", "_get_ground_truth"} or "_create_samples" in self._own_hooks

    def _place(self) -> str:
        return f"{self._source().at()}: {type(self).__name__}"


def _hook_fields(task: BaseTask[Any], subject: Any) -> dict[str, Any]:
    """The keys of the configuration of a task whose own hooks write prompts and ground truth, delimiters included."""
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
    }


def _metric_list(task: BaseTask[Any]) -> list[dict[str, Any]]:
    where, metrics = f"{task.NAME}: METRICS", task.get_metrics()
    if not calculates(task):
        return metric_specs(metrics, where=where)
    for metric in metrics:
        is_class = isinstance(metric, type) and issubclass(metric, BaseMetric)
        if not is_class or not (metric.has_calculate() or metric.is_registered()):
            message = f"{metric!r} stands beside classes that calculate their values"
            raise ConfigError(message, where=where, hint="give classes with calculate() alone, or names alone")
    return [{"metric": key, "aggregation": "mean"} for key in result_keys(metrics).values()]


def _output_type(task: BaseTask[Any]) -> OutputType:
    if task.get_response_type() is ResponseType.COMPLETION:
        return "generate_until"
    gold = isinstance(getattr(task, "TASK_STYLER", None), BPBStyle) or task.get_metrics() == [BitsPerByteLoglikelihood]
    return "loglikelihood" if gold and not calculates(task) else "multiple_choice"


def register_task(task: type[BaseTask[Any]]) -> str:
    """The name of a task class; defining it has registered it by its NAME."""
    return task.__name__
