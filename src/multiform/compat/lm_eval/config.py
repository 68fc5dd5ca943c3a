"""The configurations of tasks and groups, the task files that they are built from, and the names in these."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from enum import Enum, auto
from pathlib import Path
from typing import Any

from multiform.errors import ModelError, MultiformError
from multiform.tasks import TaskConfig as OurConfig
from multiform.tasks.config import task_keys
from multiform.tasks.functions import FunctionRef, resolve_functions
from multiform.tasks.index import Entry as OurEntry
from multiform.tasks.index import Index
from multiform.tasks.keys import plain
from multiform.tasks.yaml import IncludeCycleError, read_own, read_yaml


class TaskConfig(OurConfig):
    """A task's configuration.

    >>> config = TaskConfig(task="sums")
    >>> config["output_type"], "num_fewshot" in config
    ('generate_until', True)
    """

    #: Told about a change: the task that has this configuration.
    _on_change: Callable[[OurConfig], None] | None

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __setattr__(self, key: str, value: Any) -> None:
        """Change a key, as lm-eval's scripts do; the task that has this configuration is compiled anew."""
        object.__setattr__(self, key, value)
        if key in task_keys():
            object.__setattr__(self, "stated", self.stated.with_keys(**{key: value}))
            on_change = self.__dict__.get("_on_change")
            if on_change is not None:
                on_change(self.replace())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in fields(self) if field.init and not field.name.startswith("_")]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a field, or the default where there is no such field."""
        return getattr(self, key, default)

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """A function as it is, or its source code."""
        return value if keep_callable else source_code(value)


@dataclass
class AggMetricConfig:
    """One score of a group: a metric of its tasks, and how it is aggregated.

    >>> AggMetricConfig("acc", filter_list="none").filter_list
    ['none']
    """

    metric: str
    #: The filters whose scores are aggregated, each by itself; all that there are where it is None.
    filter_list: Any = None
    aggregation: str | Callable[..., float] = "mean"
    weight_by_size: bool = True

    def __post_init__(self) -> None:
        if self.aggregation != "mean" and not callable(self.aggregation):
            message = f"'mean' is the only pre-defined aggregation: give it or a function, not {self.aggregation!r}"
            raise ValueError(message)
        if isinstance(self.filter_list, str):
            self.filter_list = [self.filter_list]


@dataclass
class GroupConfig:
    """A group as its file has it; a single task or score becomes a list of one."""

    group: str
    group_alias: str | None = None
    task: Any = None
    aggregate_metric_list: Any = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.task, str):
            self.task = [self.task]
        scores = self.aggregate_metric_list
        if scores is not None:
            listed = [scores] if isinstance(scores, Mapping | AggMetricConfig) else scores
            self.aggregate_metric_list = [
                AggMetricConfig(**entry) if isinstance(entry, Mapping) else entry for entry in listed
            ]

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """The configuration as plain data; functions as their source code unless they are kept."""
        return {key: self.serialize_function(value, keep_callable) if callable(value) else value
                for key, value in asdict(self).items()}  # fmt: skip

    def serialize_function(self, value: Any, keep_callable: bool = False) -> Any:
        """A function as it is, or its source code."""
        return value if keep_callable else source_code(value)


def source_code(value: Any) -> str:
    """The source of a function, or its name where there is none to read."""
    try:
        return inspect.getsource(value)
    except (TypeError, OSError):
        return str(value)


def serialize_config(config: Any, keep_callable: bool = False) -> dict[str, Any]:
    """A configuration as a dict without its empty fields; functions by name unless they are kept.

    >>> serialize_config({"metric": "acc", "aggregation": None})
    {'metric': 'acc'}
    """
    to_dict = getattr(config, "to_dict", None)
    values = to_dict(keep_callable=keep_callable) if callable(to_dict) else plain(config, keep_callable)
    return {key: value for key, value in values.items() if value is not None}


#: What to do where a task's own code fails before there is a document.
OWN_CODE = "it runs the task's own code: install what that imports, and allow what it downloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The task file that a task is being built from, if there is one, and the dataset mirror."""

    config: OurConfig | None = None
    mirror: Path | None = None


_CURRENT: ContextVar[BuildContext | None] = ContextVar("build_context", default=None)


def build_context() -> BuildContext:
    """The task file and mirror in use; outside of a task file, the mirror of the environment."""
    mirror = os.environ.get("MULTIFORM_DATASET_MIRROR")
    return _CURRENT.get() or BuildContext(mirror=Path(mirror) if mirror else None)


@contextmanager
def build_from(config: OurConfig, mirror: Path | None) -> Iterator[None]:
    """Build tasks from this file until the block ends."""
    token = _CURRENT.set(BuildContext(config=config, mirror=mirror))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def load_yaml(path: str | Path, *, resolve_func: bool = True, recursive: bool = True) -> dict[str, Any]:
    """What a task file says, its own keys above those of the files that it includes.

    `!function` is the function itself, or its place and name as text with ``resolve_func=False``. Without `recursive`
    nothing is included.
    """
    file = Path(path).expanduser()
    with convert_errors(ValueError):
        try:
            data = (read_yaml if recursive else read_own)(file).data
        except IncludeCycleError as error:  # lm-eval's message begins with a capital
            raise error.relocate(error.where, what=f"I{error.what[1:]}") from error
        resolved = resolve_functions(data) if resolve_func else _name_functions(data)
    assert isinstance(resolved, dict)
    return resolved


def _name_functions(value: Any) -> Any:
    """The same data with the place and name of each function in place of it."""
    if isinstance(value, FunctionRef):
        return str(value.folder / value.name)
    if isinstance(value, dict):
        return {key: _name_functions(item) for key, item in value.items()}
    return [_name_functions(item) for item in value] if isinstance(value, list) else value


class Kind(Enum):
    """What a name stands for."""

    TASK = auto()
    PY_TASK = auto()
    GROUP = auto()
    TAG = auto()
    UNKNOWN = auto()


@dataclass
class Entry:
    """A name, and the file that defines it; a tag has the tasks that carry it in `tags`."""

    name: str
    kind: Kind
    yaml_path: Path | None
    cfg: dict[str, Any] | None = None
    tags: set[str] = field(default_factory=set)


class KnownNames(Mapping[str, Entry]):
    """The names that a manager knows; a task's file is read when its configuration is asked for."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __getitem__(self, name: str) -> Entry:
        if name in self._index.entries:
            return _entry(self._index.entries[name])
        return Entry(name, Kind.TAG, None, tags=set(self._index.tags()[name]))

    def __iter__(self) -> Any:
        return iter({**self._index.entries, **self._index.tags()})

    def __len__(self) -> int:
        return len({**self._index.entries, **self._index.tags()})

    def __contains__(self, name: object) -> bool:
        return name in self._index.entries or name in self._index.tags()


def _entry(entry: OurEntry) -> Entry:
    if entry.attribute is not None or entry.path.suffix == ".py":
        return Entry(entry.name, Kind.PY_TASK, None, tags=set(entry.tags))
    if entry.kind == "group":
        return Entry(entry.name, Kind.GROUP, entry.path, tags=set(entry.tags))
    cfg = load_yaml(entry.path, resolve_func=False)
    kind = Kind.PY_TASK if "class" in cfg else Kind.TASK
    return Entry(entry.name, kind, entry.path, cfg, set(entry.tags))


def get_task_name_from_config(task_config: dict[str, str]) -> str:
    """The name of a task, or of its dataset where it has none."""
    name = task_config.get("task")
    parts = (task_config["dataset_path"], task_config.get("dataset_name")) if not name else ()
    return name or "_".join(part for part in parts if part)


def get_task_name_from_object(task_object: Any) -> str:
    """The name of a task object."""
    return str(task_object.config.task) if hasattr(task_object, "config") else type(task_object).__name__


@contextmanager
def convert_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise input errors of a block as errors that are also of this class, for scripts that catch lm-eval's.

    >>> from multiform.errors import UsageError
    >>> try:
    ...     with convert_errors(KeyError):
    ...         raise UsageError("unknown filter 'lower'", hint="did you mean 'lowercase'?")
    ... except KeyError as error:
    ...     print(f"{error} ({isinstance(error, UsageError)})")
    unknown filter 'lower'; did you mean 'lowercase'? (True)
    """
    try:
        yield
    except MultiformError as error:
        if isinstance(error, (kind, ModelError)):
            raise
        ours = type(error)
        both = type(ours.__name__, (ours, kind), {"__module__": ours.__module__, "__doc__": ours.__doc__})
        raise error.as_kind(both) from error
