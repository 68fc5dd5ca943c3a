"""Task: one benchmark under one format, from documents to requests to scores."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from multiform.config import TaskConfig
from multiform.errors import ConfigError, MultiformError
from multiform.formats import OutputType
from multiform.tasks.scores import TaskScores
from multiform.tasks.unsupported import refuse_unsupported

_KINDS: dict[str, type[Task]] = {}


class Task(TaskScores):
    """A benchmark under one format. `from_config` gives the subclass that fits the output type.

    A subclass may override `construct_requests` alone: what it leaves to Task is done by the class of its output type,
    of which the object then is one, too.
    """

    OUTPUT_TYPE: ClassVar[OutputType]
    #: Whether the class gets all keys of a task file, and says itself which of them it knows.
    any_keys: ClassVar[bool] = False

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        made = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(_with_output_type(type(self), config))
        self.__class__ = _of_kind(type(self), made)
        super().__init__(made, dataset_mirror=dataset_mirror)
        refuse_unsupported(self.config)
        self._check_sampler()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "OUTPUT_TYPE" in cls.__dict__:
            _KINDS.setdefault(cls.OUTPUT_TYPE, cls)

    @classmethod
    def from_config(cls, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> Task:
        """The task of the right kind for the configuration's output type."""
        made = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        kind = made._task_class or _KINDS[made.output_type]
        if not issubclass(kind, Task):
            what = f"{kind.__name__} is not a subclass of multiform.Task"
            raise ConfigError(what, where=made.where("class"), hint="subclass Task, MultipleChoiceTask or GenerateTask")
        return kind.of_config(made, dataset_mirror=dataset_mirror)

    @classmethod
    def of_config(cls, config: TaskConfig, *, dataset_mirror: Path | None = None) -> Task:
        """The task of this class; a class whose constructor takes other arguments overrides it."""
        return cls(config, dataset_mirror=dataset_mirror)

    @property
    def notes(self) -> list[MultiformError]:
        """What is odd about the task's files but no reason to refuse them."""
        source = self.config._source
        return [*(source.notes if source is not None else ()), *self.scoring.notes, *self.check_scoring()]

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric instead of all others; the task's own code does not score any more."""
        self.config.metric_list = [{"metric": metric_name}]
        self.config.filter_list = [{"name": f["name"], "filter": f["filter"]} for f in self.config.filter_list]
        self.config.scorer = None
        self.config.process_results = None
        self._only_metric = True
        self.scoring = self._build_scoring()

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        super().set_config(key, value, update)
        if key in ("metric_list", "filter_list", "scorer", "process_results"):
            self._check_process_results()
            self.scoring = self._build_scoring()

    def set_repeats(self, repeats: int) -> None:
        """Ask each generation so many times."""
        if repeats < 1:
            what = f"expected 1 or more, got {repeats}"
            raise ConfigError(what, where=f"{self.name}: repeats", hint="give a positive number")
        self.config.repeats = repeats


def kind_of(output_type: str) -> type[Task]:
    """The class of tasks of an output type."""
    return _KINDS[output_type]


def _kind_in(cls: type[Task]) -> type[Task] | None:
    """The class of an output type that a class is built on."""
    return next((base for base in cls.__mro__ if base in _KINDS.values()), None)


def _with_output_type(cls: type[Task], config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the output type of the class, where it names none and no format decides it."""
    output_type = getattr(cls, "OUTPUT_TYPE", None)
    decided = [config.get(key) for key in ("output_type", "formats", "template", "_formats_selection")]
    if output_type is None or any(decided) or "@" in str(config.get("task", "")):
        return config
    return {**config, "output_type": output_type}


def _of_kind(cls: type[Task], config: TaskConfig) -> type[Task]:
    """The class itself, or one that is both it and the class of the output type."""
    kind, own = kind_of(config.output_type), _kind_in(cls)
    output_type = getattr(cls, "OUTPUT_TYPE", None)
    if output_type not in (None, config.output_type) and not cls.any_keys:
        what = f"{cls.__name__} is a task of {output_type}, and the configuration says {config.output_type}"
        hint = f"set output_type: {output_type}, or derive the class from {kind.__name__}"
        raise ConfigError(what, where=config.where("output_type"), hint=hint)
    if own is None:
        return kind if cls is Task else joined(cls, kind)  # type: ignore[arg-type]  # classes are hashable
    return cls


@cache
def joined(own: type[Task], kind: type[Task]) -> type[Task]:
    """A class that is both, called like the first, whose methods come first."""
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, kind), names)
