"""Fingerprint of a server: tells one model from another one behind the same address and name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

#: The question of the probe, whose completion is part of a server's fingerprint.
PROBE = "Name three colours, then count from one to five."
PROBE_TOKENS = 16
#: The fields of a server's model entry that stay the same as long as the model does.
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
#: Seconds. Many servers report the current time, or that of their start, as a model's date.
_OLD = 24 * 3600.0


def described_model(response: Any, name: str) -> dict[str, Any]:
    """The lasting fields of the model called `name`, in a server's list of models or its entry of one model.

    >>> listed = {"data": [{"id": "a", "root": "/models/a", "created": 1700000000, "permission": [{"id": "x9"}]}]}
    >>> described_model(listed, "a")
    {'id': 'a', 'root': '/models/a', 'created': 1700000000}
    """
    if not isinstance(response, Mapping):
        return {}
    listed = response.get("data", response.get("models"))
    entries = listed if isinstance(listed, list) else [response]
    entry = next((entry for entry in entries if isinstance(entry, Mapping) and name in _names(entry)), {})
    lasting = {key: entry[key] for key in _LASTING if entry.get(key) is not None}
    created = lasting.get("created")
    if isinstance(created, int | float) and created > time.time() - _OLD:
        del lasting["created"]
    return lasting


def _names(entry: Mapping[str, Any]) -> list[str]:
    names = [str(entry[key]) for key in ("id", "name", "model") if entry.get(key)]
    return [*names, *(name.removeprefix("models/") for name in names)]
