"""Datasets on the local disk: a file, a folder, or a loader of `datasets` with the files that it reads.

`dataset_kwargs` mean what they mean to `datasets.load_dataset`; one that cannot be honoured is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from multiform.errors import DataError, excerpt, nearest, reason
from multiform.paths import display, is_dir, is_file, mirror_folders
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.files import READERS, Dataset, Rows, merge_datasets, read_rows, slice_splits, splits_of

#: Arguments that are about the hub or its cache: they do not change the rows of a local file.
_ABOUT_THE_HUB = frozenset({
    "trust_remote_code", "cache_dir", "download_config", "download_mode", "verification_mode", "keep_in_memory",
    "save_infos", "revision", "token", "streaming", "num_proc", "storage_options",
})  # fmt: skip
#: Options of `read_rows`, by the names that the loaders of `datasets` have for them.
_READ_OPTIONS = {"field": "field", "sep": "delimiter", "delimiter": "delimiter"}
#: A regular expression that takes linear time: characters and classes, the last of which may be repeated.
_SEPARATOR = re.compile(r"(\\.|\[[^][]+\]|[^\\(){}*+?[])*[+*]?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DatasetKwargs:
    """The `dataset_kwargs` of a task: where the files are, which part is selected, and how they are read."""

    config: TaskConfig
    data_dir: str | None
    #: A name or pattern, a list of them, or one or the other for each split.
    data_files: Any
    split: Any
    #: Everything that is for the loader.
    options: Mapping[str, Any]

    @classmethod
    def of(cls, config: TaskConfig) -> DatasetKwargs:
        """Sort the arguments; `folder`, `files` and `read_options` check them."""
        kwargs = {key: value for key, value in config.dataset_kwargs.items() if key not in _ABOUT_THE_HUB}
        folder = kwargs.pop("data_dir", None)
        if folder is not None and not isinstance(folder, str):
            place = config.where("dataset_kwargs", "data_dir")
            raise DataError(f"expected the name of a folder, got {excerpt(folder)}", where=place, hint="write its path")
        return cls(config, folder, kwargs.pop("data_files", None) or None, kwargs.pop("split", None), kwargs)

    def where(self, key: str) -> str | None:
        """The place of an argument, for messages."""
        return self.config.where("dataset_kwargs", key)

    def select_split(self, dataset: Dataset) -> Dataset:
        """The dataset, or the part of it that `split` selects."""
        return dataset if self.split is None else slice_splits(dataset, self.split, self.where("split"))

    def folder(self, bases: Sequence[Path]) -> Path:
        """The folder that `data_dir` names below one of the bases; the first base without it."""
        if self.data_dir is None:
            return bases[0]
        for base in bases:
            if is_dir(base / self.data_dir):
                return base / self.data_dir
        raise DataError(
            f"no folder '{self.data_dir}'", where=self.where("data_dir"), hint=_looked_for(bases, self.data_dir)
        )

    def files(self, bases: Sequence[Path]) -> dict[str, list[str]]:
        """The files of each split, below one of the bases; addresses as they are."""
        bases = bases if self.data_dir is None else [self.folder(bases)]
        table = self.data_files if isinstance(self.data_files, dict) else {"train": self.data_files}
        return {str(split): self._matching(names, bases) for split, names in table.items()}

    def read_options(self, loader: str) -> dict[str, Any]:
        """The options of reading as `read_rows` takes them; any other one is an error."""
        options: dict[str, Any] = {}
        for key, value in self.options.items():
            if key not in _READ_OPTIONS:
                known = [*_READ_OPTIONS, "data_dir", "data_files", "split"]
                more = f"write dataset_path: {loader} and data_files for all options of datasets"
                message = f"unknown argument '{key}' of a local file"
                raise DataError(message, where=self.where(key), hint=f"{nearest(key, known)} ({more})")
            if value is not None and not isinstance(value, str):
                raise DataError(f"expected text, got {excerpt(value)}", where=self.where(key), hint="put it in quotes")
            options[_READ_OPTIONS[key]] = value
        return options

    def check_separator(self) -> None:
        """Refuse a separator that is a slow pattern: pandas takes one of several characters as a regular expression."""
        for key in ("sep", "delimiter"):
            pattern = self.options.get(key)
            if isinstance(pattern, str) and len(pattern) > 1 and not _SEPARATOR.fullmatch(pattern):
                message = f"the separator {excerpt(pattern)} repeats parts, which may take for ever on a line"
                hint = r"write a plain text, or one part and +, as in \s+"
                raise DataError(message, where=self.where(key), hint=hint)

    def _matching(self, names: Any, bases: Sequence[Path]) -> list[str]:
        paths: list[str] = []
        for name in names if isinstance(names, list) else [names]:
            if not isinstance(name, str):
                message = f"expected the name of a file, got {excerpt(name)}"
                hint = "write e.g. dataset_kwargs: {data_files: rows.jsonl}"
                raise DataError(message, where=self.where("data_files"), hint=hint)
            name = name.removeprefix("file://").removeprefix("local://")
            if "://" in name:
                for part in name.split("::"):  # such as zip://rows.csv::archive.zip
                    self._check_regular(part.removeprefix("file://").removeprefix("local://"), bases)
            paths += [name] if "://" in name else self._paths(name, bases)
        return paths

    def _check_regular(self, name: str, bases: Sequence[Path]) -> None:
        """Refuse a pipe, a device or a folder, which may never end."""
        for base in bases:
            if os.path.exists(base / name) and not is_file(base / name):
                message = f"'{name}' is a pipe, a device or a folder, not a file"
                raise DataError(message, where=self.where("data_files"), hint="name a data file")

    def _paths(self, name: str, bases: Sequence[Path]) -> list[str]:
        """The file of that name, or all that match it as a pattern, of the first base that has any."""
        for base in bases:
            if is_file(base / name):
                return [str(base / name)]
            self._check_regular(name, [base])
            if _is_pattern(name):
                from datasets.data_files import resolve_pattern

                if _searches_whole_disk(base / name):
                    message = f"the pattern '{name}' searches the whole disk"
                    raise DataError(message, where=self.where("data_files"), hint="name the folder of the files")
                try:
                    paths = [path for path in resolve_pattern(name, str(base)) if is_file(Path(path))]
                except FileNotFoundError:
                    continue
                except (ValueError, OSError, re.error) as error:
                    message = f"not a pattern of files: {reason(error)}"
                    raise DataError(message, where=self.where("data_files"), hint="write e.g. data/*.jsonl") from error
                if paths:
                    return paths
        raise DataError(f"no data file '{name}'", where=self.where("data_files"), hint=_looked_for(bases, name))


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")


def _searches_whole_disk(pattern: Path) -> bool:
    """Whether the pattern looks into all folders below the root.

    >>> [_searches_whole_disk(Path(pattern)) for pattern in ("/*/**/a.csv", "/data[12]/**/a.csv", "/tmp/**")]
    [True, False, False]
    """
    folder = Path(*takewhile(lambda part: not _is_pattern(part), pattern.parts)).resolve()
    following = dropwhile(lambda part: not _is_pattern(part), pattern.parts)
    wildcards = list(takewhile(lambda part: part in ("*", "**"), following))
    return "**" in wildcards and folder == Path(folder.anchor)


def _looked_for(bases: Sequence[Path], name: str) -> str:
    """A hint with the places where something was looked for."""
    return "check the name; looked for " + " and ".join(dict.fromkeys(display(base / name) for base in bases))


#: Values of `dataset_path` that name a loader of `datasets`; the files are in `dataset_kwargs`.
_LOADERS = ("json", "csv", "parquet", "text", "arrow", "xml", "webdataset", "imagefolder", "audiofolder")
#: Those that cannot be meant as anything else, even if no files are named.
_FILE_LOADERS = ("json", "csv", "parquet")
#: The loader for each ending.
_LOADER_OF = {".jsonl": "json", ".json": "json", ".ndjson": "json", ".parquet": "parquet", ".csv": "csv",
              ".tsv": "csv", ".txt": "text", ".arrow": "arrow", ".xml": "xml"}  # fmt: skip
#: Endings of which `read_rows` gives the rows that the loader gives; of CSV, it leaves numbers as text.
_READ_ALIKE = (".jsonl", ".json", ".parquet")


def local_dataset(config: TaskConfig) -> Dataset | None:
    """The dataset in a file or folder beside the task file or below the current folder, if there is one."""
    path, kwargs = str(config.dataset_path), DatasetKwargs.of(config)
    source = config.stated.source
    bases = [*([source.file.parent] if source else []), Path.cwd()]
    if path in _FILE_LOADERS or (path in _LOADERS and (kwargs.data_files or kwargs.data_dir)):
        return _load_files(kwargs, path, bases)
    for base in bases:
        target = base / path
        if is_file(target):
            return kwargs.select_split(_file(kwargs, target))
        named = target / config.dataset_name if config.dataset_name else target
        if is_dir(named):
            return _folder(kwargs, [named])
        # The names and splits of a dataset's repository are those that `datasets` knows how to read.
        if is_dir(target) and not (is_file(target / "README.md") or is_file(target / f"{target.name}.py")):
            names = [folder.name for folder in target.iterdir() if folder.is_dir()]
            hint = nearest(str(config.dataset_name), names, listed="the folders there are")
            message = f"no folder '{config.dataset_name}' in {display(target)}"
            raise DataError(message, where=config.where("dataset_name"), hint=hint)
    if path.startswith((".", "/")) or Path(path).suffix in READERS:
        raise DataError(f"no such file or folder '{path}'", hint=_looked_for(bases, path))
    return None


def mirrored_dataset(config: TaskConfig, mirror: Path) -> Dataset | None:
    """The dataset in a mirror of the hub, if it is there; of several mirrors, each split in the first that has it.

    A split is a file in ``DIR/<dataset_path>/<dataset_name or default>``; what `data_files` and `data_dir` name is
    there, too, or below ``DIR/<dataset_path>``, as in the repository that is mirrored.
    """
    kwargs = DatasetKwargs.of(config)
    whole = kwargs if kwargs.data_files or kwargs.data_dir else replace(kwargs, split=None)
    datasets = [dataset for folder in mirror_folders(mirror) if (dataset := _in_mirror(config, whole, folder))]
    if not datasets:
        return None
    return datasets[0] if whole is kwargs else kwargs.select_split(merge_datasets(datasets))


def _in_mirror(config: TaskConfig, kwargs: DatasetKwargs, mirror: Path) -> Dataset | None:
    """The dataset in one folder of mirrored datasets, if it is there."""
    if not is_dir(mirror):
        raise DataError(f"no folder '{mirror}'", where="--dataset_mirror", hint="check the path")
    root = mirror / str(config.dataset_path)
    folders = [root / (config.dataset_name or "default")]
    if kwargs.data_files or kwargs.data_dir:
        folders.append(root)
    folders = [folder for folder in folders if is_dir(folder)]
    return _folder(kwargs, folders) if folders else None


def dataset_title(config: TaskConfig) -> str:
    """The name of a task's dataset in messages."""
    return f"{config.dataset_path}/{config.dataset_name}" if config.dataset_name else str(config.dataset_path)


def _file(kwargs: DatasetKwargs, path: Path) -> Dataset:
    """One file, which serves every split."""
    for key in ("data_files", "data_dir"):
        if getattr(kwargs, key) is not None:
            message = f"dataset_path is the file {display(path)} already"
            raise DataError(message, where=kwargs.where(key), hint=f"remove {key}, or name a folder as dataset_path")
    options = kwargs.read_options(_LOADER_OF.get(path.suffix.lower(), "json"))
    return Dataset(str(kwargs.config.dataset_path), {"train": _rows_reader([path], options)}, any_split=True)


def _folder(kwargs: DatasetKwargs, folders: Sequence[Path]) -> Dataset:
    """A folder with a file for each split, or with the files that `data_files` names."""
    if kwargs.data_files:
        return _load_files(kwargs, None, folders)
    folder = kwargs.folder(folders)
    try:
        files = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in READERS}
    except OSError as error:
        raise DataError(f"{display(folder)} cannot be read: {error.strerror}", hint="check its rights") from error
    if not files:
        endings = ", ".join(f"test{ending}" for ending in READERS)
        raise DataError(f"no data files in {display(folder)}", hint=f"put a file for each split there: {endings}")
    options = kwargs.read_options(_LOADER_OF[next(iter(files.values())).suffix.lower()])
    splits = {split: _rows_reader([path], options) for split, path in files.items()}
    return kwargs.select_split(Dataset(dataset_title(kwargs.config), splits))


def _load_files(kwargs: DatasetKwargs, loader: str | None, bases: Sequence[Path]) -> Dataset:
    """The files that `data_files` and `data_dir` name, as a loader of `datasets` reads them.

    JSON and Parquet files without options are read by `read_rows`, which is faster and has better messages.
    """
    if kwargs.data_files is None:
        if kwargs.data_dir is None:
            message = f"'{loader}' is a kind of file, and no file is named"
            raise DataError(message, hint="write e.g. dataset_kwargs: {data_files: rows.jsonl}")
        return _through_datasets(kwargs, str(loader), {"data_dir": str(kwargs.folder(bases))})
    files = kwargs.files(bases)
    endings = {Path(name).suffix.lower() for names in files.values() for name in names}
    options = dict(kwargs.options)
    if loader is None:
        loader = _loader_of(kwargs, endings)
        options |= {"sep": "\t"} if endings == {".tsv"} and not {"sep", "delimiter"} & options.keys() else {}
    one_table = not isinstance(kwargs.data_files, dict)
    remote = any("://" in name for names in files.values() for name in names)
    if not options and not remote and all(e in _READ_ALIKE and _LOADER_OF[e] == loader for e in endings):
        splits = {split: _rows_reader([Path(name) for name in names]) for split, names in files.items()}
        return kwargs.select_split(Dataset(dataset_title(kwargs.config), splits, any_split=one_table))
    return _through_datasets(kwargs, loader, {"data_files": files}, options, any_split=one_table)


def _loader_of(kwargs: DatasetKwargs, endings: set[str]) -> str:
    loaders = {_LOADER_OF.get(ending) for ending in endings}
    loader = loaders.pop()
    if loaders or loader is None:
        message = f"no one loader for files that end in {', '.join(sorted(endings))}"
        hint = f"write dataset_path: json (or {', '.join(_LOADERS[1:])}) and the path of the files"
        raise DataError(message, where=kwargs.where("data_files"), hint=hint)
    return loader


def _through_datasets(
    kwargs: DatasetKwargs,
    loader: str,
    source: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    *,
    any_split: bool = False,
) -> Dataset:
    """The dataset as a loader of `datasets` gives it; an option that the loader does not have is an error."""
    import datasets

    kwargs.check_separator()
    datasets.disable_progress_bars()
    config, options = kwargs.config, kwargs.options if options is None else options
    try:
        known = [*datasets.load_dataset_builder(loader, **source).BUILDER_CONFIG_CLASS.__dataclass_fields__]
        for key in options:
            if key not in known:
                message = f"unknown argument '{key}' of the {loader} loader of datasets"
                raise DataError(message, where=kwargs.where(key), hint=nearest(key, known, listed="it takes"))
        ignored = ("trust_remote_code", "streaming", "revision")
        cache = {k: v for k, v in config.dataset_kwargs.items() if k in _ABOUT_THE_HUB and k not in ignored}
        loaded = datasets.load_dataset(loader, **source, **options, **cache, split=kwargs.split)
    except DataError:
        raise
    except Exception as error:  # the loaders raise nearly anything
        message = f"datasets cannot read the files as {loader}: {reason(error.__cause__ or error, 200)}"
        place = config.where("dataset_kwargs")
        raise DataError(message, where=place, hint="check the files and dataset_kwargs") from error
    dataset = splits_of(loaded, dataset_title(config), config.where("dataset_path"))
    if any_split and kwargs.split is None:
        return Dataset(dataset.name, {"train": lambda: dataset["train"]}, any_split=True)
    return dataset


def _rows_reader(paths: Sequence[Path], options: Mapping[str, Any] | None = None) -> Callable[[], Rows]:
    """Reads the rows of all files, one after the other."""
    arguments = options or {}
    if len(paths) == 1:
        return lambda: read_rows(paths[0], **arguments)
    return lambda: [row for path in paths for row in read_rows(path, **arguments)]
