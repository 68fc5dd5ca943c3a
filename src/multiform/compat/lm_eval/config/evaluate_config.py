"""EvaluatorConfig: the settings of a run, from keywords, a YAML file or a command line."""

from __future__ import annotations

import glob
import json
import logging
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from multiform.arguments import parse_arguments
from multiform.compat.kinds import also

if TYPE_CHECKING:
    from multiform.compat.lm_eval.tasks import TaskManager

eval_logger = logging.getLogger(__name__)

#: Settings that may be written as ``key=value,key=value``.
DICT_KEYS = ["wandb_args", "wandb_config_args", "hf_hub_log_args", "metadata", "model_args", "gen_kwargs",
             "trackio_args"]  # fmt: skip
#: Of python, numpy, torch and the few-shot sampler.
DEFAULT_SEED = [0, 1234, 1234, 1234]
#: What argparse adds to the options of a command.
_NOT_SETTINGS = ("command", "func")


@dataclass(slots=True)
class EvaluatorConfig:
    """The settings of a run.

    >>> EvaluatorConfig(model="dummy", tasks=["arc_easy"], num_fewshot=5).batch_size
    1
    """

    config: str | None = None
    model: str = "hf"
    model_args: dict[str, Any] = field(default_factory=dict)
    tasks: Any = field(default_factory=list)
    num_fewshot: int | None = None
    batch_size: int | str = 1
    max_batch_size: int | None = None
    device: str | None = "cuda:0"
    limit: float | None = None
    samples: Any = None
    use_cache: str | None = None
    cache_requests: dict[str, Any] = field(default_factory=dict)
    check_integrity: bool = False
    write_out: bool = False
    log_samples: bool = False
    output_path: str | None = None
    predict_only: bool = False
    system_instruction: str | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool | None = None
    show_config: bool = False
    include_path: str | None = None
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    verbosity: str | None = None
    wandb_args: dict[str, Any] = field(default_factory=dict)
    wandb_config_args: dict[str, Any] = field(default_factory=dict)
    hf_hub_log_args: dict[str, Any] = field(default_factory=dict)
    trackio_args: dict[str, Any] = field(default_factory=dict)
    seed: Any = field(default_factory=lambda: list(DEFAULT_SEED))
    trust_remote_code: bool = False
    confirm_run_unsafe_code: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_cli(cls, namespace: Namespace) -> EvaluatorConfig:
        """The settings of a command line, above those of the file that it names with `config`."""
        file = getattr(namespace, "config", None)
        said = {key: value for key, value in vars(namespace).items() if key not in _NOT_SETTINGS and _is_set(value)}
        return cls(**{**(cls.load_yaml_config(file) if file else {}), **said})._configure()

    @classmethod
    def from_config(cls, config_path: str | Path) -> EvaluatorConfig:
        """The settings of a YAML file."""
        return cls(**cls.load_yaml_config(config_path))._configure()

    @staticmethod
    def load_yaml_config(config_path: str | Path) -> dict[str, Any]:
        """What a YAML file says."""
        path = Path(config_path)
        if not path.is_file():
            raise FileNotFoundError(f"Config file not found: {path.resolve()}")
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"Invalid YAML in {path}: {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"Could not read config file {path}: {error}") from error
        if not isinstance(values, dict):
            raise TypeError(f"YAML root must be a mapping in {path.resolve()}, got {type(values).__name__}")
        return values

    def process_tasks(self, metadata: dict[str, Any] | None = None) -> TaskManager:
        """Put the tasks that are named in place of patterns and files, and give the manager that knows them."""
        from multiform.compat.lm_eval.tasks import TaskManager

        self.metadata = metadata or self.metadata
        manager = TaskManager(include_path=self.include_path, metadata=self.metadata or {})
        names = self.tasks.split(",") if isinstance(self.tasks, str) else [n for t in self.tasks for n in t.split(",")]
        if len(names) == 1 and Path(names[0]).is_dir() and not manager.match_tasks(names):
            self.tasks = _described(Path(names[0]) / "*.yaml")
            return manager
        matches = {name: _described(Path(name)) if name.endswith(".yaml") else manager.match_tasks([name])
                 for name in names}  # fmt: skip
        missing = [
            str(Path(name).absolute()) if name.endswith(".yaml") else name for name in matches if not matches[name]
        ]
        if missing:
            raise ValueError(f"Tasks not found: {', '.join(missing)}")
        tasks: list[Any] = []
        for task in (task for some in matches.values() for task in some):
            if task not in tasks:
                tasks.append(task)
        self.tasks = tasks
        return manager

    def _configure(self) -> EvaluatorConfig:
        """Check what the settings say together, and bring them into one form."""
        for setting in (each.name for each in fields(self)):
            value = getattr(self, setting)
            if setting in DICT_KEYS and (isinstance(value, str) or value is None):
                with also(ValueError):
                    setattr(self, setting, parse_arguments(value, where=setting))
        self._check()
        self.log_samples = self.log_samples or self.predict_only
        if self.fewshot_as_multiturn is None and self.apply_chat_template:
            self.fewshot_as_multiturn = True
        self.samples = _chosen(self.samples)
        self.metadata = {**self.model_args, **self.metadata}
        self.seed = _seeds(self.seed)
        if self.trust_remote_code:
            self.model_args["trust_remote_code"] = True
        return self

    def _check(self) -> None:
        if self.tasks is None:
            raise ValueError("Need to specify task to evaluate.")
        if (self.log_samples or self.predict_only) and not self.output_path:
            raise ValueError("Specify --output_path if providing --log_samples or --predict_only")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise ValueError("When `fewshot_as_multiturn` is True, `apply_chat_template` must be set.")
        if self.samples and self.limit is not None:
            raise ValueError("If --samples is not None, then --limit must be None.")


def _is_set(value: Any) -> bool:
    """Whether an option was given; zero is a value like any other."""
    return bool(value) or (value == 0 and value is not False)


def _described(pattern: Path) -> list[dict[str, Any]]:
    """The configurations of the YAML files that a path or pattern stands for."""
    from multiform.compat.lm_eval.tasks._yaml_loader import load_yaml

    return [load_yaml(file, resolve_func=True) for file in sorted(glob.glob(str(pattern.absolute())))]


def _chosen(samples: Any) -> Any:
    """Chosen documents from a dict, JSON text or a JSON file."""
    if not samples or isinstance(samples, Mapping):
        return samples
    try:
        return json.loads(samples)
    except json.JSONDecodeError:
        file = Path(samples)
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else samples


def _seeds(seeds: Any) -> list[int | None] | None:
    """One seed for each generator, from one for all, from four, or from three and the default.

    >>> _seeds(7), _seeds("7"), _seeds([1, 2, 3, None]), _seeds([1, 2, 3])
    ([7, 7, 7, 7], [7, 7, 7, 7], [1, 2, 3, None], [1, 2, 3, 1234])
    """
    if seeds is None:
        return None
    values = list(seeds) if isinstance(seeds, list | tuple) else [seeds]
    number = len(DEFAULT_SEED)
    if len(values) == 1:
        values *= number
    elif len(values) == number - 1:
        eval_logger.warning("seed: three of four values are given; few-shot examples are drawn with the default")
        values.append(DEFAULT_SEED[-1])
    if len(values) != number:
        raise ValueError(f"seed expects a single value or {number} values (random, numpy, torch, fewshot), "
                         f"got {len(values)}: {seeds!r}")  # fmt: skip
    try:
        return [None if value is None else int(value) for value in values]
    except (TypeError, ValueError):
        raise ValueError(f"seed values must be integers or None, got {seeds!r}") from None
