"""BaseTask: a task as a Python class that says where its data is and carries a styler."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from multiform.config import GroupConfig, Source, TaskConfig
from multiform.config.source import Position
from multiform.errors import ConfigError
from multiform.formats import FieldMapping, Language, ResponseType, TaskStyler, supported_formats
from multiform.formats.measures import metric_specs
from multiform.registry import Registry
from multiform.scoring.build import build_scoring
from multiform.tasks.group import Group, Node
from multiform.tasks.hooks import DATA, STYLED, hook, hook_fields

SubjectType = TypeVar("SubjectType")

#: The subject of a dataset that has none.
NO_SUBJECT = "no_subject"
#: Classes with a NAME, by that name.
task_classes: Registry[type[BaseTask[Any]]] = Registry("task")


class _FromStyler:
    """A class attribute that comes from the styler, unless the class has one of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, task: object, cls: type[BaseTask[Any]]) -> Any:
        styler = getattr(cls, "TASK_STYLER", None)
        if styler is None:
            raise AttributeError(f"{cls.__name__} has neither a TASK_STYLER nor {self.name.upper()} of its own")
        return getattr(styler, self.name)


class BaseTask(Generic[SubjectType]):
    """A task whose data three methods give, and whose prompts and scores a styler makes of them.

    Every hook below may be overridden; what is not overridden is what the styler does. ``@`` and a format puts
    another format in the place of styler and hooks.
    """

    NAME: ClassVar[str]
    DATASET_PATH: ClassVar[str]
    SAMPLE_SPLIT: ClassVar[str]
    FEWSHOT_SPLIT: ClassVar[str | None] = None
    SUBJECTS: ClassVar[Sequence[Any]] = (NO_SUBJECT,)
    HF_REVISION: ClassVar[str | None] = None
    LANGUAGE: ClassVar[Language | Mapping[str, Any] | None] = None
    TASK_STYLER: ClassVar[TaskStyler]
    #: Words of the question that no perturbation touches.
    PERTURBATION_UNMODIFIABLE_WORDS: ClassVar[Sequence[str] | None] = None
    #: Whatever else a task file can say, such as `process_docs` or `metadata`.
    CONFIG: ClassVar[Mapping[str, Any]] = {}
    #: The file and line of the class, for messages and for data files beside it.
    _defined: ClassVar[tuple[Path, int]]
    RESPONSE_TYPE: Any = _FromStyler("response_type")
    METRICS: Any = _FromStyler("metrics")

    def __init__(self, num_fewshot: int | None = None) -> None:
        self.num_fewshot = num_fewshot
        self.stop_sequences: list[str] | None = None
        self.max_tokens: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        frame = sys._getframe(1)
        cls._defined = (Path(frame.f_code.co_filename), frame.f_lineno)
        if cls.__dict__.get("NAME"):
            task_classes.register(cls.NAME)(cls)

    # A task writes those of these three that its styler asks for.

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        raise NotImplementedError(f"write {type(self).__name__}._get_raw_question")

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        raise NotImplementedError(f"write {type(self).__name__}._get_choices")

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        raise NotImplementedError(f"write {type(self).__name__}._get_correct_index")

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return self.TASK_STYLER.get_instruction_text(self._get_raw_question(item), self._get_choices(item))

    def _get_fewshot_target_text(self, item: dict[str, Any]) -> str:
        if not hasattr(self, "TASK_STYLER"):
            truth = self._get_ground_truth(item)
            return str(truth[0] if isinstance(truth, list) else truth)
        return self.TASK_STYLER.get_fewshot_target_text(self._get_choices(item), self._get_correct_index(item))

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        return self.TASK_STYLER.get_ground_truth(self._get_choices(item), self._get_correct_index(item))

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        return self.TASK_STYLER.get_cue_text() if hasattr(self, "TASK_STYLER") else ""

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
        if not hasattr(self, "TASK_STYLER"):
            return None
        return self.TASK_STYLER.get_possible_completions(self._get_choices(item), self._get_correct_index(item))

    def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
        return ""

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str | None:
        return None

    @classmethod
    def get_response_type(cls) -> ResponseType:
        made: ResponseType = cls.RESPONSE_TYPE
        return made

    @classmethod
    def get_metrics(cls) -> list[Any]:
        return list(cls.METRICS)

    def get_metadata(self) -> dict[str, Any]:
        """What the task says about itself."""
        measured = [getattr(metric, "NAME", str(metric)) for metric in self.get_metrics()]
        styled = self.TASK_STYLER.get_extra_metadata() if hasattr(self, "TASK_STYLER") else {}
        return {
            "dataset_path": self.DATASET_PATH,
            "sample_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "response_type": self.get_response_type().value,
            "metrics": measured,
            "subjects": [str(subject) for subject in self.SUBJECTS],
            **styled,
        }

    def to_node(self, label: str | None = None, overrides: Mapping[str, Any] | None = None) -> Node:
        """The task's configuration; a group with a task for each subject where there are several."""
        subjects = list(self.SUBJECTS) or [NO_SUBJECT]
        if len(subjects) == 1:
            return self._config(self.NAME, subjects[0], label, overrides or {})
        members = [self._config(f"{self.NAME}_{_slug(one)}", one, label, overrides or {}) for one in subjects]
        scorers = build_scoring(members[0]).scorers
        metrics = dict.fromkeys(metric.name for scorer in scorers for metric in scorer.metrics)
        config = GroupConfig(
            group=self.NAME,
            task=[member.task for member in members],
            # As eval-framework has it: every subject counts the same.
            aggregate_metric_list=[{"metric": metric, "weight_by_size": False} for metric in metrics],
            _source=self._source(),
        )
        return Group(config, tuple(members), label)

    def _config(self, name: str, subject: Any, label: str | None, overrides: Mapping[str, Any]) -> TaskConfig:
        self._check(label)
        revision = {} if self.HF_REVISION is None else {"dataset_kwargs": {"revision": self.HF_REVISION}}
        words = self.PERTURBATION_UNMODIFIABLE_WORDS
        common: dict[str, Any] = {
            "task": name,
            "dataset_path": self.DATASET_PATH,
            "dataset_name": None if subject == NO_SUBJECT else str(subject),
            "test_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "num_fewshot": self.num_fewshot,
            "perturbation_unmodifiable_words": None if words is None else list(words),
            "doc_to_text": hook(self, "_get_raw_question", subject),
            "doc_to_choice": hook(self, "_get_choices", subject),
            "doc_to_target": hook(self, "_get_correct_index", subject),
            **revision,
        }
        styled = self._format()
        if label is None and styled is None:
            common |= hook_fields(self, subject, metric_specs(self.METRICS, where=f"{self.NAME}: METRICS"))
        elif styled is not None:
            common["formats"] = {type(self.TASK_STYLER).__name__: styled}
        if label is not None:
            common["_formats_selection"] = label
        return TaskConfig.from_dict({**common, **self.CONFIG, **overrides}, source=self._source())

    def supported_formats(self) -> list[str]:
        """The registered formats that the data-access methods suffice for, and the styler's."""
        styled = self._format()
        table = None if styled is None else {type(self.TASK_STYLER).__name__: styled}
        choices = None if "_get_choices" in self._missing() else "choices"
        return supported_formats(table, FieldMapping("question", choices, "answer"))

    def _missing(self) -> list[str]:
        """The data-access methods that the class does not have."""
        return [name for name in DATA if getattr(type(self), name) is getattr(BaseTask, name)]

    def _format(self) -> Any:
        """The styler's format, where no hook says otherwise."""
        plain = all(getattr(type(self), name) is getattr(BaseTask, name) for name in STYLED)
        return self.TASK_STYLER.to_format() if plain and hasattr(self, "TASK_STYLER") else None

    def _check(self, label: str | None) -> None:
        """Refuse a class that does not say what it needs to."""
        place = f"{self._source().at()}: {type(self).__name__}"
        for name in ("NAME", "DATASET_PATH", "SAMPLE_SPLIT"):
            if not getattr(self, name, None):
                raise ConfigError(f"no {name}", where=place, hint=f'write {name} = "..." in the class')
        styler = getattr(self, "TASK_STYLER", None)
        if styler is not None and not isinstance(styler, TaskStyler):
            hint = "give an object, e.g. TASK_STYLER = MCStyle()"
            raise ConfigError(f"TASK_STYLER is {styler!r}, not a styler", where=place, hint=hint)
        missing = self._missing()
        if missing and (label is not None or (styler is not None and not self._hooked())):
            what = "a format" if label is not None else "a TASK_STYLER"
            hint = f"define {missing[0]}(self, item)"
            raise ConfigError(f"{what} needs {missing[0]}, which the class does not have", where=place, hint=hint)
        if styler is None and not self._hooked():
            hint = "set TASK_STYLER, or define _get_instruction_text and _get_ground_truth"
            raise ConfigError("neither a TASK_STYLER nor hooks of its own", where=place, hint=hint)

    def _hooked(self) -> bool:
        """Whether the class makes its prompts and answers itself."""
        needed = ("_get_instruction_text", "_get_ground_truth")
        return all(getattr(type(self), name) is not getattr(BaseTask, name) for name in needed)

    def _source(self) -> Source:
        """Where the class is defined."""
        file, line = self._defined
        return Source(file, {(): Position(file, line)})


def _slug(subject: Any) -> str:
    text = "_".join(map(str, subject)) if isinstance(subject, tuple) else str(subject)
    return re.sub(r"[^\w.-]+", "_", text)
