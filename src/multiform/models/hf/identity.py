"""The identity of a local model, before it is loaded and after; without torch."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from multiform.errors import ModelError
from multiform.models.content import fingerprint, foreign_code
from multiform.models.hf.package import converted_folder

#: Arguments that change how fast outputs come, not which.
_SPEED = ("batch_size", "max_batch_size", "prefix_budget")
#: Arguments that name files.
_FILES = ("pretrained", "tokenizer", "peft")
_PACKAGES = ("multiform", "torch", "transformers")


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
