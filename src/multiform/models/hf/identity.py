"""What tells one model from another: a fingerprint of its files and a name for its settings."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".h5")
TEXTS = (".json", ".jinja", ".txt", ".model", ".py")
SAMPLES = 1024
SAMPLE_BYTES = 1024


def fingerprint(folder: Path) -> str:
    """A short hash of a model folder's content.

    Small files are read whole. Of weight files the size and a thousand evenly spread samples are
    read: names and sizes alone would not tell a checkpoint from the next one in the same folder,
    and reading all of a large model takes longer than a short run.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix not in WEIGHTS + TEXTS or not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            if path.suffix in TEXTS:
                digest.update(file.read())
                continue
            step = max(SAMPLE_BYTES, size // SAMPLES)
            for offset in range(0, size, step):
                file.seek(offset)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def identity(name: str, **settings: Any) -> str:
    """A name that differs whenever a setting does.

    >>> identity("tiny", dtype="float32") == identity("tiny", dtype="bfloat16")
    False
    """
    content = json.dumps({"name": name, **settings}, sort_keys=True, default=str)
    return f"hf:{name}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"
