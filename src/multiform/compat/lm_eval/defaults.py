"""What holds where nothing is said, and what the environment says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

DEFAULT_MAX_LENGTH = 2048
DEFAULT_MAX_GEN_TOKS = 256
DEFAULT_RANDOM_SEED = 0
DEFAULT_OTHER_SEED = 1234

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _strtobool(val: str) -> bool:
    """What a word of the environment means.

    >>> _strtobool("Yes"), _strtobool("")
    (True, False)
    """
    word = val.lower()
    if word and word not in _BOOLEANS:
        raise ValueError(f"invalid truth value {val!r}: write one of {', '.join(_BOOLEANS)}")
    return _BOOLEANS.get(word, False)


def _envbool(var: str, default: bool = False) -> bool:
    """A variable of the environment as a truth value."""
    val = os.environ.get(var)
    return default if val is None else _strtobool(val)


LOGGING_LEVEL = os.environ.get("LMEVAL_LOG_LEVEL", "INFO")
LMEVAL_HASHMM = _envbool("LMEVAL_HASHMM", default=True)
DISABLE_MULTIPROC = _envbool("LMEVAL_DISABLE_MULTIPROC", default=False)


def default_gen_kwargs(until: str | Sequence[str] | None, max_gen_toks: int = DEFAULT_MAX_GEN_TOKS) -> dict[str, Any]:
    r"""How a task generates that does not say how: greedily, up to a stop text.

    >>> default_gen_kwargs("\n\n")["until"]
    ['\n\n']
    """
    stops = [until] if isinstance(until, str) else until if until is not None else []
    return {"temperature": 0.0, "do_sample": False, "max_gen_toks": max_gen_toks, "until": stops}
