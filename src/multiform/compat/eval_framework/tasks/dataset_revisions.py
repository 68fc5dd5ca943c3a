"""Pinned revisions of datasets: lock files that map dataset paths to commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from multiform.paths import replace_output

#: The lock files of eval-framework's benchmarks. They come with eval-framework: where there is none, a task uses
#: the newest revision of its dataset, and a file that is put here is used.
HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "hf-dataset-revisions.json"
FROZEN_HF_REVISIONS_LOCKFILE = Path(__file__).resolve().parent / "frozen-hf-dataset-revisions.json"


class HfDatasetRevisions:
    """The commits that datasets are pinned to."""

    def __init__(self, revisions: Mapping[str, str]) -> None:
        self._revisions = dict(revisions)

    @classmethod
    def from_file(cls, path: Path) -> HfDatasetRevisions:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def to_dict(self) -> dict[str, str]:
        return dict(self._revisions)

    def to_file(self, path: Path) -> None:
        text = json.dumps(self._revisions, indent=4, ensure_ascii=False, sort_keys=True)
        with replace_output(path) as file:
            file.write_text(f"{text}\n", encoding="utf-8")

    def revision_for(self, dataset_path: str) -> str:
        """The commit of a dataset; a KeyError where it is not pinned."""
        return self._revisions[dataset_path]

    def num_revisions(self) -> int:
        return len(self._revisions)


def pinned_revision(lockfile: Path, dataset_path: str) -> str:
    """The commit that a lock file has for a dataset; a KeyError where it has none."""
    try:
        return HfDatasetRevisions.from_file(lockfile).revision_for(dataset_path)
    except (FileNotFoundError, KeyError):
        raise KeyError(f"{lockfile.name} does not pin the dataset '{dataset_path}'") from None
