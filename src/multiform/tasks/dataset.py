"""Datasets: from a mirror folder, from local files, or from the hub, split by split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import DataError, nearest
from multiform.tasks.files import READERS, Rows, read_rows

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


def load_dataset(config: TaskConfig, mirror: Path | None = None) -> Dataset:
    """The dataset of a task. A mirror is asked first, then the local disk, then the hub."""
    if config.custom_dataset is not None:
        return _custom(config)
    if not config.dataset_path:
        raise DataError("the task names no dataset", where=config.where(), hint="set dataset_path")
    try:
        found = _mirrored(config, mirror) or _local(config)
        return found or _from_hub(config)
    except DataError as error:
        raise DataError(error.what, where=error.where or config.where("dataset_path"), hint=error.hint) from error


def _mirrored(config: TaskConfig, mirror: Path | None) -> Dataset | None:
    if mirror is None:
        return None
    if not mirror.is_dir():
        raise DataError(f"the dataset mirror {mirror} is not a folder", where="--dataset_mirror", hint="check the path")
    folder = mirror / str(config.dataset_path) / (config.dataset_name or "default")
    return _folder(folder, _title(config)) if folder.is_dir() else None


def _local(config: TaskConfig) -> Dataset | None:
    """A file or folder beside the task file or below the current folder, or a kind of file with paths."""
    path = str(config.dataset_path)
    if path in _FILE_KINDS:
        return _data_files(config)
    for base in _bases(config):
        target = base / path
        if target.is_file():
            return Dataset(path, {"train": _reading([target])}, any_split=True)
        named = target / config.dataset_name if config.dataset_name else target
        if named.is_dir():
            return _folder(named, _title(config))
    if path.startswith((".", "/")) or Path(path).suffix in READERS:
        tried = " and ".join(str(base / path) for base in _bases(config))
        raise DataError(f"no such file or folder '{path}'", hint=f"looked for {tried}")
    return None


def _folder(folder: Path, title: str) -> Dataset | None:
    files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in READERS}
    if not files:
        raise DataError(f"no data files in {folder}", hint=f"expected <split>{{{','.join(READERS)}}}")
    return Dataset(title, {split: _reading([path]) for split, path in files.items()})


def _data_files(config: TaskConfig) -> Dataset:
    given = config.dataset_kwargs.get("data_files")
    if not given:
        raise DataError(
            f"dataset_path: {config.dataset_path} needs data_files", hint="set dataset_kwargs: {data_files: my.jsonl}"
        )
    table = given if isinstance(given, dict) else {"train": given}
    splits = {}
    for split, names in table.items():
        paths = [_found(config, name) for name in (names if isinstance(names, list) else [names])]
        splits[str(split)] = _reading(paths)
    return Dataset(_title(config), splits, any_split=not isinstance(given, dict))


def _found(config: TaskConfig, name: Any) -> Path:
    for base in _bases(config):
        if (base / str(name)).is_file():
            return base / str(name)
    raise DataError(f"no data file '{name}'", where=config.where("dataset_kwargs", "data_files"), hint="check the path")


def _bases(config: TaskConfig) -> list[Path]:
    beside = [config._source.file.parent] if config._source else []
    return [*beside, Path.cwd()]


def _reading(paths: list[Path]) -> Callable[[], Rows]:
    return lambda: [row for path in paths for row in read_rows(path)]


def _custom(config: TaskConfig) -> Dataset:
    assert config.custom_dataset is not None
    made = config.custom_dataset(**config.metadata)
    if not isinstance(made, Mapping):
        what = f"custom_dataset returned {type(made).__name__}, not a mapping of splits"
        raise DataError(what, where=config.where("custom_dataset"), hint='return {"test": [...]} or a DatasetDict')
    return Dataset(config.task, {str(split): _listing(docs) for split, docs in made.items()})


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
    return Dataset(_title(config), {str(split): _listing(rows) for split, rows in loaded.items()})


def _listing(rows: Any) -> Callable[[], Rows]:
    return lambda: [dict(row) for row in rows]


def _title(config: TaskConfig) -> str:
    return f"{config.dataset_path}/{config.dataset_name}" if config.dataset_name else str(config.dataset_path)
