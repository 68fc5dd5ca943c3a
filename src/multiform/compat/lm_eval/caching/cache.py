"""Objects kept in files by name; the requests of a run are kept by Multiform itself, elsewhere."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from pathlib import Path
from typing import Any

from multiform.paths import cache_root, replace_output

OVERRIDE_PATH = os.getenv("LM_HARNESS_CACHE_PATH")
PATH = OVERRIDE_PATH or str(cache_root() / "lm_eval")
#: What tells the files of this cache from others.
HASH_INPUT = "EleutherAI-lm-evaluation-harness"
HASH_PREFIX = hashlib.sha256(HASH_INPUT.encode("utf-8")).hexdigest()
FILE_SUFFIX = f".{HASH_PREFIX}.pickle"
#: The longest name of a file, below what file systems allow.
MAX_CACHE_FILENAME_BYTES = 240
CACHE_KEY_HASH_LEN = 16


def load_from_cache(file_name: str, cache: bool = False) -> Any:
    """What was saved under the name, or None; nothing is read unless `cache` is true.

    The files are pickles: whoever can write to the folder can run code here, so it has to be the user's own.
    """
    file = _file(file_name)
    if not cache or not file.is_file():
        return None
    try:
        return pickle.loads(file.read_bytes())
    except (pickle.PickleError, EOFError, AttributeError, ImportError, IndexError, ValueError, TypeError):
        # One that was cut off, or made by another version, is as good as none.
        return None


def save_to_cache(file_name: str, obj: Any) -> None:
    """Keep an object under the name."""
    with replace_output(_file(file_name)) as file:
        file.write_bytes(pickle.dumps(obj))


def delete_cache(key: str = "") -> None:
    """Remove what was saved under names that begin so."""
    folder = Path(PATH)
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.startswith(key) and file.name.endswith(FILE_SUFFIX):
            file.unlink()


def _file(name: str) -> Path:
    """The file of a name; one that is too long is cut, with a hash of the whole."""
    plain = re.sub(r"[/\\]+", "_", name)
    if len((plain + FILE_SUFFIX).encode()) <= MAX_CACHE_FILENAME_BYTES:
        return Path(PATH) / f"{plain}{FILE_SUFFIX}"
    ending = f"-{hashlib.sha256(name.encode()).hexdigest()[:CACHE_KEY_HASH_LEN]}{FILE_SUFFIX}"
    room = MAX_CACHE_FILENAME_BYTES - len(ending.encode())
    return Path(PATH) / f"{plain.encode()[:room].decode(errors='ignore').rstrip('-_.') or 'cache'}{ending}"
