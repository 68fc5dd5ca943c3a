"""Source: which model to load, from a folder or from the hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from huggingface_hub import snapshot_download

from multiform.errors import ModelError, UsageError, nearest
from multiform.models.hf.weights import WeightOptions

#: Small files that tell what a hub repository has.
CONFIG_FILES = ["config.json", "tokenizer_config.json", "adapter_config.json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which model to load, and how; the fields have the names of lm-eval's `hf` model."""

    pretrained: str
    revision: str = "main"
    subfolder: str = ""
    gguf_file: str | None = None
    dtype: str = "auto"
    device: str | None = None
    tokenizer: str | None = None
    add_bos_token: bool | None = None
    trust_remote_code: bool = False
    peft: str | None = None
    parallelize: bool = False
    device_map: str | dict[str, Any] | None = None
    attn_implementation: str | None = None
    backend: str = "default"
    weights: WeightOptions = field(default_factory=WeightOptions)


#: What a folder must have, by the argument that names it.
FOLDERS = {"pretrained": "config.json and weights", "tokenizer": "a tokenizer", "peft": "adapter_config.json"}


def local_folder(name: str, argument: str = "pretrained") -> Path | None:
    """The folder that an argument names, or None where it is a name on the hub."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or name.startswith((".", "~")) or path.exists() or name.count("/") > 1:
        problem = "is a file" if path.exists() else "does not exist"
        hint = f"give a folder with {FOLDERS[argument]}, or a hub name like 'org/name'"
        if path.suffix == ".gguf" and path.exists():
            hint = f"give pretrained={path.parent},gguf_file={path.name}"
        raise ModelError(f"folder '{name}' {problem}", where=argument, hint=hint)
    return None


def hub_commit(name: str, revision: str) -> str:
    """The commit that a branch or tag of a hub repository means now; offline, the one that is cached."""
    # Any file will do: this asks for the commit, and downloads what is needed anyway.
    return Path(snapshot_download(name, revision=revision, allow_patterns=CONFIG_FILES)).name


def file_options(source: Source, folder: Path | None) -> dict[str, Any]:
    """The options for the files of a source that all loaders of transformers take."""
    options: dict[str, Any] = {"trust_remote_code": source.trust_remote_code, "subfolder": source.subfolder}
    if folder:
        options["local_files_only"] = True
    else:
        options["revision"] = source.revision
    if source.gguf_file:
        options["gguf_file"] = source.gguf_file
    return options


def check_gguf_file(folder: Path, name: str) -> None:
    """Raise a ModelError where a folder has no GGUF file of that name, or the package that reads it is missing."""
    if not (folder / name).is_file():
        names = sorted(path.name for path in folder.glob("*.gguf"))
        raise ModelError(f"no file '{name}' in {folder}", where="gguf_file", hint=nearest(name, names, listed="files"))
    if find_spec("gguf") is None:
        raise ModelError("a GGUF file needs the package 'gguf'", where="gguf_file", hint="run: pip install gguf")


@contextmanager
def model_errors(source: Source, folder: Path | None) -> Iterator[None]:
    """Turn any failure of a loader into a ModelError that says what was tried."""
    try:
        yield
    except (ModelError, UsageError):
        raise
    except Exception as error:  # loaders raise almost every kind, down to KeyError
        if "trust_remote_code" in str(error) and not source.trust_remote_code:
            raise ModelError(
                "the model has code of its own, which runs only with your consent",
                where=source.pretrained,
                hint="read its .py files, and give trust_remote_code=True if you trust them",
            ) from error
        reason = first_line(error)
        if folder and not (folder / source.subfolder / "config.json").exists() and not source.gguf_file:
            reason = "the folder has no config.json"
        tried = f"folder {folder}" if folder else f"hub name '{source.pretrained}' at '{source.revision}'"
        raise ModelError(
            f"cannot load the model: {reason}",
            where=source.pretrained,
            hint=f"tried {tried} with transformers {transformers.__version__}",
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
