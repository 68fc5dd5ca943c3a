"""The user's cache: folders that are made once and can be made again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import filelock

from multiform.errors import ModelError


def build_once(folder: Path, build: Callable[[Path], None]) -> None:
    """Make a folder with `build`, whole or not at all, whoever else is about to do the same.

    The work happens beside the folder under a lock, which ends with its process, and a rename
    puts it in place. What a killed process left behind goes away the next time.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.parent / f".{folder.name}.lock"):
            prefix = f".{folder.name}.part-"
            for leftover in folder.parent.glob(f"{prefix}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            if folder.exists():
                return
            with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as work:
                target = Path(work) / folder.name
                target.mkdir()
                build(target)
                target.rename(folder)
    except Exception as error:  # a full disk comes as one of several kinds, by the library that meets it
        raise ModelError(
            f"cannot make the folder: {error}",
            where=str(folder),
            hint="it needs up to 600 MB; MULTIFORM_CACHE names another place",
        ) from error
