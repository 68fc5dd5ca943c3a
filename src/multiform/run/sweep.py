"""Sweep: models × tasks × formats × shots from one YAML file, as runs that load each model once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any

from multiform.arguments import split_outside
from multiform.errors import ConfigError, MultiformError, UsageError, excerpt, nearest
from multiform.models import models
from multiform.paths import replace_output
from multiform.results import Results
from multiform.results.export import to_json, write_json
from multiform.run.checks import check_options
from multiform.run.options import OPTION_DEFAULTS, RunOptions
from multiform.tasks.functions import import_plugins
from multiform.tasks.keys import FilePosition, KeyPath
from multiform.tasks.manager import TaskManager
from multiform.tasks.yaml import read_mapping

#: The keys of the file that are not arguments of `evaluate`.
_AXES = ("models", "tasks", "formats", "num_fewshot")
#: Arguments of `evaluate` that the sweep sets itself.
_SET = ("tasks", "model", "model_args", "num_fewshot", "progress", "plan_only")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepModel:
    """A model of a sweep: what its rows are called, and the arguments of `evaluate` that are its own."""

    label: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run of a sweep: all forms of one model with one number of few-shot examples."""

    model: SweepModel
    shots: int | None
    options: RunOptions

    @property
    def title(self) -> str:
        return self.model.label if self.shots is None else f"{self.model.label}, {self.shots}-shot"

    def label_results(self, results: Results) -> Results:
        """The results of the run, under the name that the sweep gives the model; its results file has the name, too."""
        labelled = replace(results, run={**results.run, "label": self.model.label})
        if results.files and results.model_name != self.model.label:
            write_json(results.files[0], to_json(labelled))
        return labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep file says. `shots` has None for each task's own number."""

    path: Path
    models: Sequence[SweepModel]
    tasks: Sequence[str]
    shots: Sequence[int | None]
    options: Mapping[str, Any]
    positions: Mapping[KeyPath, FilePosition] = field(default_factory=dict)

    def check(self, only: int | None = None) -> None:
        """Refuse values, models and tasks that cannot be, before anything is loaded."""
        for index in range(len(self.models)) if only is None else [only]:
            try:
                options = next(self.runs(index)).options
                import_plugins(options.imports)
                check_options(options)
                options.settings  # noqa: B018  (reads the arguments of the model and of generation)
                models.get(str(options.model))
            except MultiformError as error:
                raise error.relocate(self._place(index, error.where)) from error
            manager = TaskManager(options.include_path, design=options.design, dataset_mirror=options.dataset_mirror)
            try:
                manager.nodes(self.tasks)
            except MultiformError as error:
                raise error.at(self._place(index, "tasks")) from error

    def _place(self, index: int, where: str | None) -> str:
        """The line of the file with what an error names, an option of one model or of all."""
        key = (where or "").removeprefix("--")
        for place in (("models", index, key), (key,)):
            if place in self.positions:
                return str(self.positions[place]) if key == "tasks" else f"{self.positions[place]}: {key}"
        line = self.positions.get(("models", index), self.positions.get(("models",), f"{self.path}:1"))
        return f"{line}: {where}" if where else str(line)

    def runs(self, only: int | None = None, **options: Any) -> Iterator[SweepRun]:
        """The runs, those of one model after the other; with `only`, those of the model at that place.

        `options` take precedence over those of the file.
        """
        for model in self.models if only is None else [self.models[only]]:
            for shots in self.shots:
                arguments = {"use_cache": True, **self.options, **model.arguments, **options}
                run = RunOptions(**{**arguments, "tasks": list(self.tasks), "num_fewshot": shots})
                yield SweepRun(model=model, shots=shots, options=run)


def read_sweep(path: Path) -> Sweep:
    """The sweep of a YAML file, checked before anything is loaded."""
    hint = "write e.g. 'models: [bundled]' and 'tasks: [quiz]'"
    data, positions = read_mapping(path, "a mapping with models and tasks", hint)

    def at(*keys: str | int) -> str:
        return str(positions.get(keys, positions.get(keys[:1], f"{path}:1")))

    options = {key: value for key, value in data.items() if key not in _AXES}
    for key in options:
        _check_key(key, (*OPTION_DEFAULTS, *_AXES), at(key))
    for key in _AXES:
        is_needed = key in ("models", "tasks")
        if (key in data or is_needed) and data.get(key) in ([], {}, None, ""):
            hint = f"add {key}: with a list" if is_needed else "give it a list, or leave it out"
            raise ConfigError(f"the sweep names no {key}", where=at(key), hint=hint)
    tasks, formats = (_texts(data.get(key, []), at(key)) for key in ("tasks", "formats"))
    shots = _list(data.get("num_fewshot", [None]))
    for number in shots:
        if number is not None and (type(number) is not int or number < 0):
            message = f"expected whole numbers of 0 or more, got {excerpt(number)}"
            raise ConfigError(message, where=at("num_fewshot"), hint="write e.g. num_fewshot: [0, 5]")
    for key, values in {"tasks": tasks, "formats": formats, "num_fewshot": shots}.items():
        if doubled := [value for index, value in enumerate(values) if value in values[:index]]:
            message = f"{key} has {excerpt(doubled[0])} twice"
            raise ConfigError(message, where=at(key), hint="leave one of them out")
    return Sweep(
        path=path,
        models=_models([(entry, at("models", index)) for index, entry in enumerate(_list(data["models"]))]),
        # A task that names its own format keeps it.
        tasks=[task if "@" in task or not formats else f"{task}@{'+'.join(formats)}" for task in tasks],
        shots=shots,
        options=options,
        positions=positions,
    )


def _models(entries: Sequence[tuple[Any, str]]) -> list[SweepModel]:
    """The models of the entries, each with its place in the file; all differ, in their labels and otherwise."""
    swept: list[SweepModel] = []
    for entry, where in entries:
        model = _model(entry, where)
        if model.label in [other.label for other in swept]:
            raise ConfigError(f"two models are called '{model.label}'", where=where, hint="give one a label:")
        for other in swept:
            if other.arguments == model.arguments:
                message = f"the models '{other.label}' and '{model.label}' are the same"
                raise ConfigError(message, where=where, hint="leave one of them out")
        swept.append(model)
    return swept


def _model(entry: Any, where: str) -> SweepModel:
    """A model by its name, or by the arguments of `evaluate` that are its own."""
    if isinstance(entry, str):
        return SweepModel(label=entry, arguments={"model": entry})
    if not isinstance(entry, dict) or not entry:
        hint = "write a name, or a mapping with model: and model_args:"
        raise ConfigError(f"expected a model, got {excerpt(entry)}", where=where, hint=hint)
    for key in entry:
        _check_key(key, (*OPTION_DEFAULTS, "label"), where, allowed=("model", "model_args"))
    arguments = {key: value for key, value in entry.items() if key != "label"}
    if not arguments.get("model_args"):
        arguments.pop("model_args", None)
    arguments.setdefault("model", "hf" if "model_args" in arguments else OPTION_DEFAULTS["model"])
    label, named = entry.get("label"), arguments.get("model_args")
    if label is not None and (isinstance(label, bool) or not isinstance(label, str | int | float) or label == ""):
        raise ConfigError(f"expected a name, got {excerpt(label)}", where=where, hint="write e.g. label: base")
    if not isinstance(arguments["model"], str):
        message = f"expected the name of a model, got {excerpt(arguments['model'])}"
        raise ConfigError(message, where=where, hint="write e.g. model: hf")
    pretrained = named.get("pretrained") or named.get("model") if isinstance(named, dict) else named
    chosen = next(name for name in (label, pretrained, arguments["model"]) if name not in (None, ""))
    return SweepModel(label=str(chosen), arguments=arguments)


def _check_key(key: Any, known: Sequence[str], where: str, *, allowed: Sequence[str] = ()) -> None:
    if key in _SET and key not in allowed:
        raise ConfigError(f"the sweep sets '{key}' itself", where=where, hint="leave it out")
    if key not in known:
        hint = nearest(str(key), [name for name in known if name not in _SET], listed="keys")
        raise ConfigError(f"unknown key '{key}'", where=where, hint=hint)


def _texts(value: Any, where: str) -> list[str]:
    texts = _list(value)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ConfigError(f"expected names, got {excerpt(text)}", where=where, hint="write a list of names")
    return [name for text in texts for name in split_outside(text, ",")]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


#: The scripts of a sweep; in them, `@` stands before what is filled in.
_SCRIPTS = Path(__file__).with_name("slurm")


class _Script(Template):
    delimiter = "@"


def write_scripts(sweep: Sweep, folder: Path, imports: Sequence[str] = ()) -> list[Path]:
    """Write the scripts of a sweep to a folder on the shared file system; the last one submits the others.

    `imports` has the values of `--import`, which the scripts pass on.
    """
    folder = folder.absolute()
    for path in map(str, (sweep.path.absolute(), folder, Path.cwd())):
        if not path.isprintable():  # a line break would end the comment that the path is in
            message = f"{excerpt(path)} has characters that a script cannot have"
            raise UsageError(message, where="--slurm", hint="rename the folder or file")
    stores = folder / "stores"
    stores.mkdir(parents=True, exist_ok=True)
    values = {
        "file": quote(str(sweep.path.absolute())),
        "last": len(sweep.models) - 1,
        "folder": quote(str(folder)),
        "stores": quote(str(stores)),
        "cwd": quote(str(Path.cwd())),
        "imports": "".join(f" --import {quote(name)}" for name in imports),
    }
    files = []
    for name in ("array.sbatch", "merge.sbatch", "submit.sh"):
        script = _Script((_SCRIPTS / name).read_text(encoding="utf-8"))
        with replace_output(folder / name) as file:
            file.write_text(script.substitute(values), encoding="utf-8")
            file.chmod(0o755)
        files.append(folder / name)
    return files
