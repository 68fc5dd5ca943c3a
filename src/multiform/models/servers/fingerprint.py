"""What a server says about itself: it tells one model from another one behind the same address and name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

#: The question of the probe, whose completion is part of a server's fingerprint.
PROBE = "Name three colours, then count from one to five."
PROBE_TOKENS = 16
#: What servers say about a model that stays the same as long as the model does.
_LASTING = (
    "id",
    "name",
    "root",
    "parent",
    "owned_by",
    "version",
    "created",
    "created_at",
    "display_name",
    "displayName",
    "max_model_len",
    "context_length",
    "inputTokenLimit",
    "meta",
    "digest",
)
#: Seconds. Many servers say the present, or when they were started, in the place of a model's date.
_OLD = 24 * 3600.0


def described_model(answer: Any, name: str) -> dict[str, Any]:
    """What a server's list of models, or its entry of one, says about the model of that name.

    >>> listed = {"data": [{"id": "a", "root": "/models/a", "created": 1700000000, "permission": [{"id": "x9"}]}]}
    >>> described_model(listed, "a")
    {'id': 'a', 'root': '/models/a', 'created': 1700000000}
    """
    if not isinstance(answer, Mapping):
        return {}
    listed = answer.get("data", answer.get("models"))
    entries = listed if isinstance(listed, list) else [answer]
    entry = next((entry for entry in entries if isinstance(entry, Mapping) and name in _names(entry)), {})
    lasting = {key: entry[key] for key in _LASTING if entry.get(key) is not None}
    created = lasting.get("created")
    if isinstance(created, int | float) and created > time.time() - _OLD:
        del lasting["created"]
    return lasting


def _names(entry: Mapping[str, Any]) -> list[str]:
    names = [str(entry[key]) for key in ("id", "name", "model") if entry.get(key)]
    return [*names, *(name.removeprefix("models/") for name in names)]
