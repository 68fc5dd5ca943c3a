"""When, where and with what a run was done."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import time
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from multiform.models import Model
from multiform.results.export import sanitized


def provenance(
    *, model: Model, seconds: float, system_instruction: str | None, fewshot_as_multiturn: bool, chat: bool
) -> dict[str, Any]:
    """The keys of a results file that say how it came to be."""
    template = model.chat_template_text() if chat else None
    return {
        "git_hash": _git_hash(),
        "date": time.time(),
        "date_iso": datetime.now().isoformat(),
        "pretty_env_info": f"Python {sys.version.split()[0]}, {platform.platform()}, {platform.machine()}",
        "transformers_version": package_version("transformers"),
        "lm_eval_version": f"multiform {package_version('multiform')}",
        "multiform_version": package_version("multiform"),
        "upper_git_hash": None,
        **model.tokenizer_info(),
        "model_source": model.name,
        "model_name": model.name,
        "model_name_sanitized": sanitized(model.name),
        "model_identity": model.identity,
        "system_instruction": system_instruction,
        "system_instruction_sha": _sha256(system_instruction),
        "fewshot_as_multiturn": fewshot_as_multiturn,
        "chat_template": template,
        "chat_template_sha": _sha256(template),
        "total_evaluation_time_seconds": str(seconds),
    }


def package_version(name: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_hash() -> str | None:
    """The commit of the folder that the run was started in, where it is a repository."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _sha256(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
