"""Datasets: from a mirror folder, from local files, or from the hub, split by split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig
from multiform.config.source import display
from multiform.errors import DataError, nearest, running, shorten
from multiform.tasks.files import READERS, Rows, read_rows
from multiform.tasks.media_files import undecoded

#: Values of `dataset_path` that name a kind of file; the files are in `dataset_kwargs`.
_FILE_KINDS = ("json", "csv", "parquet")


class Dataset(Mapping[str, Rows]):
    """The splits of a dataset, each read when it is first asked for."""

    def __init__(self, name: str, splits: Mapping[str, Callable[[], Rows]], *, any_split: bool = False) -> None:
        self.name = name
        self._sources = dict(splits)
        self._any_split = any_split
        self._read: dict[str, Rows] = {}

    def __getitem__(self, split: str) -> Rows:
        if split not in self._read:
            self._read[split] = self._source(split)()
        return self._read[split]

    def _source(self, split: str) -> Callable[[], Rows]:
        if split in self._sources:
            return self._sources[split]
        if self._any_split:
            return next(iter(self._sources.values()))
        hint = nearest(split, self._sources, listed="its splits are")
        raise DataError(f"no split '{split}' in {self.name}", hint=hint)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def load_dataset(config: TaskConfig, mirror: Path | None = None, arguments: Mapping[str, Any] | None = None) -> Dataset:
    """The dataset of a task. A mirror is asked first, then the local disk, then the hub.

    `arguments` are those of the model, which a task's own `custom_dataset` gets beside its metadata.
    """
    if config.custom_dataset is not None:
        return _custom(config, mirror, arguments or {})
    if not config.dataset_path:
        raise DataError(
            "the task names no dataset", where=config.where(), hint="set dataset_path, e.g. to a .jsonl file"
        )
    try:
        found = _mirrored(config, mirror) or _local(config)
        return found or _from_hub(config)
    except DataError as error:
        raise DataError(error.what, where=error.where or config.where("dataset_path"), hint=error.hint) from error


def _mirrored(config: TaskConfig, mirror: Path | None) -> Dataset | None:
    if mirror is None:
        return None
    if not _is_dir(mirror):
        raise DataError(f"no folder '{mirror}'", where="--dataset_mirror", hint="check the path")
    folder = mirror / str(config.dataset_path) / (config.dataset_name or "default")
    return _folder(folder, _title(config)) if _is_dir(folder) else None


def _local(config: TaskConfig) -> Dataset | None:
    """A file or folder beside the task file or below the current folder, or a kind of file with paths."""
    path = str(config.dataset_path)
    if path in _FILE_KINDS:
        return _data_files(config)
    for base in _bases(config):
        target = base / path
        if _is_file(target):
            return Dataset(path, {"train": _reading([target])}, any_split=True)
        named = target / config.dataset_name if config.dataset_name else target
        if _is_dir(named):
            return _folder(named, _title(config))
        if _is_dir(target) and not _describes_itself(target):
            raise _no_such_name(target, config)
    if path.startswith((".", "/")) or Path(path).suffix in READERS:
        tried = " and ".join(dict.fromkeys(display(base / path) for base in _bases(config)))
        raise DataError(f"no such file or folder '{path}'", hint=f"check the name; looked for {tried}")
    return None


def _describes_itself(folder: Path) -> bool:
    """Whether the folder is a dataset's repository, whose names and splits `datasets` knows how to read."""
    return _is_file(folder / "README.md") or _is_file(folder / f"{folder.name}.py")


def _no_such_name(folder: Path, config: TaskConfig) -> DataError:
    names = [path.name for path in folder.iterdir() if path.is_dir()]
    hint = nearest(str(config.dataset_name), names, listed="the folders there are")
    what = f"no folder '{config.dataset_name}' in {display(folder)}"
    return DataError(what, where=config.where("dataset_name"), hint=hint)


def _folder(folder: Path, title: str) -> Dataset:
    try:
        files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in READERS}
    except OSError as error:
        raise DataError(f"{display(folder)} cannot be read: {error.strerror}", hint="check its rights") from error
    if not files:
        endings = ", ".join(f"test{ending}" for ending in READERS)
        raise DataError(f"no data files in {display(folder)}", hint=f"put a file for each split there: {endings}")
    return Dataset(title, {split: _reading([path]) for split, path in files.items()})


def _data_files(config: TaskConfig) -> Dataset:
    given = config.dataset_kwargs.get("data_files")
    if not given:
        what = f"'{config.dataset_path}' is a kind of file, and no file is named"
        raise DataError(what, hint="write e.g. dataset_kwargs: {data_files: rows.jsonl}")
    table = given if isinstance(given, dict) else {"train": given}
    splits = {}
    for split, names in table.items():
        paths = [_found(config, name) for name in (names if isinstance(names, list) else [names])]
        splits[str(split)] = _reading(paths)
    return Dataset(_title(config), splits, any_split=not isinstance(given, dict))


def _found(config: TaskConfig, name: Any) -> Path:
    place = config.where("dataset_kwargs", "data_files")
    if not isinstance(name, str):
        what = f"expected the name of a file, got {shorten(name)}"
        raise DataError(what, where=place, hint="write e.g. dataset_kwargs: {data_files: rows.jsonl}")
    for base in _bases(config):
        if _is_file(base / name):
            return base / name
    tried = " and ".join(dict.fromkeys(display(base / name) for base in _bases(config)))
    raise DataError(f"no data file '{name}'", where=place, hint=f"check the name; looked for {tried}")


def _bases(config: TaskConfig) -> list[Path]:
    beside = [config._source.file.parent] if config._source else []
    return [*beside, Path.cwd()]


def _is_dir(path: Path) -> bool:
    return _holds(path.is_dir)


def _is_file(path: Path) -> bool:
    return _holds(path.is_file)


def _holds(test: Callable[[], bool]) -> bool:
    """Whether it is so; a name that no file can have, such as one that is too long, is none."""
    try:
        return test()
    except (OSError, ValueError):
        return False


def _reading(paths: list[Path]) -> Callable[[], Rows]:
    return lambda: [row for path in paths for row in read_rows(path)]


def _custom(config: TaskConfig, mirror: Path | None, arguments: Mapping[str, Any]) -> Dataset:
    assert config.custom_dataset is not None
    place = config.where("custom_dataset")
    if getattr(config.custom_dataset, "takes_mirror", False):  # it reads datasets, which the mirror may have
        arguments = {**arguments, "dataset_mirror": mirror}
    with running("custom_dataset", where=place, hint="call it with the task's metadata to debug it"):
        made = config.custom_dataset(**{**arguments, **config.dataset_kwargs, **config.metadata})
    if not isinstance(made, Mapping):
        what = f"custom_dataset returned {type(made).__name__}, not a mapping of splits"
        raise DataError(what, where=place, hint='return {"test": [...]} or a DatasetDict')
    return Dataset(config.task, {str(split): _listing(docs, place) for split, docs in made.items()})


def _from_hub(config: TaskConfig) -> Dataset:
    import datasets

    datasets.disable_progress_bars()
    kwargs = {key: value for key, value in config.dataset_kwargs.items() if key != "trust_remote_code"}
    try:
        loaded = datasets.load_dataset(path=config.dataset_path, name=config.dataset_name, **kwargs)
    except Exception as error:  # the hub, its cache and its loaders raise nearly anything
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"dataset '{_title(config)}' could not be loaded: {type(error).__name__}: {reason}",
            hint="check the name and the network, or give --dataset_mirror DIR",
        ) from error
    place = config.where("dataset_path")
    if not isinstance(loaded, Mapping):  # a `split` in dataset_kwargs: one table, whatever split is asked for
        return Dataset(_title(config), {str(loaded.split or "train"): _listing(loaded, place)}, any_split=True)
    return Dataset(_title(config), {str(split): _listing(rows, place) for split, rows in loaded.items()})


def _listing(rows: Any, place: str | None) -> Callable[[], Rows]:
    def read() -> Rows:
        try:
            return [dict(row) for row in undecoded(rows)]
        except (TypeError, ValueError) as error:
            what = f"the rows are not mappings of columns: {error}"
            raise DataError(what, where=place, hint="give a list of dicts for each split") from error

    return read


def _title(config: TaskConfig) -> str:
    return f"{config.dataset_path}/{config.dataset_name}" if config.dataset_name else str(config.dataset_path)
