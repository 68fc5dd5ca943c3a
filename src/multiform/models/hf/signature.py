"""What tells a local model before it is loaded: its arguments, its files and this machine; without torch."""

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
from multiform.models.hf.identity import fingerprint
from multiform.models.hf.package import converted_folder

#: Arguments that say how fast answers come, not which.
_SPEED = ("batch_size", "max_batch_size", "prefix_budget")
#: Arguments that name files.
_PLACES = ("pretrained", "tokenizer", "peft")
_PACKAGES = ("multiform", "torch", "transformers")


def signature(arguments: dict[str, Any]) -> str | None:
    """The signature of an `hf` model; None where a name on the hub may mean another model tomorrow."""
    files = {}
    for argument in _PLACES:
        if arguments.get(argument):
            found = _files(argument, arguments)
            if found is None:
                return None
            files[argument] = found
    content = {
        "arguments": {key: value for key, value in arguments.items() if key not in _SPEED},
        "files": files,
        "packages": {name: _version(name) for name in _PACKAGES},
        # Without a device named, the machine decides where a model runs and in which number type.
        "machine": [platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()


def bundled_signature(arguments: dict[str, Any]) -> str | None:
    """The signature of the bundled model; None until it has been converted."""
    try:
        folder = converted_folder()
    except ModelError:
        return None
    return signature({"pretrained": str(folder), **arguments}) if folder.is_dir() else None


def _files(argument: str, arguments: dict[str, Any]) -> str | None:
    """The content of a folder that is named, or the commit of a repository on the hub where that is fixed."""
    is_main = argument == "pretrained"
    folder = Path(str(arguments[argument])).expanduser()
    if folder.is_dir():
        try:
            return fingerprint(folder / str(arguments.get("subfolder") or "") if is_main else folder)
        except OSError:  # loading the model will say what is wrong
            return None
    revision = str(arguments.get("revision") or "")
    return revision if is_main and re.fullmatch(r"[0-9a-f]{40}", revision) else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
