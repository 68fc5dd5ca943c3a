"""DatasetKwargs: a task's arguments of `datasets.load_dataset`, applied to local data."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

from multiform.errors import DataError, nearest, reason, shorten
from multiform.paths import is_dir, is_file
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.splits import Dataset, sliced
from multiform.tasks.source import display

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
            raise DataError(f"expected the name of a folder, got {shorten(folder)}", where=place, hint="write its path")
        return cls(config, folder, kwargs.pop("data_files", None) or None, kwargs.pop("split", None), kwargs)

    def where(self, key: str) -> str | None:
        """The place of an argument, for messages."""
        return self.config.where("dataset_kwargs", key)

    @property
    def about_caching(self) -> dict[str, Any]:
        """The arguments about caching in `datasets`."""
        ignored = ("trust_remote_code", "streaming", "revision")
        return {k: v for k, v in self.config.dataset_kwargs.items() if k in _ABOUT_THE_HUB and k not in ignored}

    def selected(self, dataset: Dataset) -> Dataset:
        """The dataset, or the part of it that `split` selects."""
        return dataset if self.split is None else sliced(dataset, self.split, self.where("split"))

    def folder(self, bases: Sequence[Path]) -> Path:
        """The folder that `data_dir` names below one of the bases; the first base without it."""
        if self.data_dir is None:
            return bases[0]
        for base in bases:
            if is_dir(base / self.data_dir):
                return base / self.data_dir
        hint = f"check the name; looked for {tried(bases, self.data_dir)}"
        raise DataError(f"no folder '{self.data_dir}'", where=self.where("data_dir"), hint=hint)

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
                message = f"expected text, got {shorten(value)}"
                raise DataError(message, where=self.where(key), hint="put it in quotes")
            options[_READ_OPTIONS[key]] = value
        return options

    def check_separator(self) -> None:
        """Refuse a separator that is a slow pattern: pandas takes one of several characters as a regular expression."""
        for key in ("sep", "delimiter"):
            pattern = self.options.get(key)
            if isinstance(pattern, str) and len(pattern) > 1 and not _SEPARATOR.fullmatch(pattern):
                message = f"the separator {shorten(pattern)} repeats parts, which may take for ever on a line"
                raise DataError(
                    message, where=self.where(key), hint=r"write a plain text, or one part and +, as in \s+"
                )

    def _matching(self, names: Any, bases: Sequence[Path]) -> list[str]:
        paths: list[str] = []
        for name in names if isinstance(names, list) else [names]:
            if not isinstance(name, str):
                message = f"expected the name of a file, got {shorten(name)}"
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
        hint = f"check the name; looked for {tried(bases, name)}"
        raise DataError(f"no data file '{name}'", where=self.where("data_files"), hint=hint)


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


def tried(bases: Sequence[Path], name: str) -> str:
    """The places where something was looked for, for messages."""
    return " and ".join(dict.fromkeys(display(base / name) for base in bases))
