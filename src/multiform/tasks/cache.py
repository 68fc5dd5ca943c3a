"""The request cache: the requests of a form on disk, under a name that says all that they depend on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from multiform.formats.identity import short_hash
from multiform.requests import GenerationRequest, Instance, LoglikelihoodRequest, Request, RollingRequest

_KINDS = {kind.__name__: kind for kind in (LoglikelihoodRequest, RollingRequest, GenerationRequest)}


class RequestCache:
    """Requests of one form with one setting; the key covers configuration, documents, shots and prompt options."""

    def __init__(self, folder: Path, key: Any) -> None:
        self.path = folder / f"requests-{short_hash(key)}.jsonl"

    def read(self) -> list[Instance] | None:
        """The requests, or None where there are none or the file is damaged."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            return [_instance(json.loads(line)) for line in lines if line]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, instances: Sequence[Instance]) -> None:
        """Write beside the file and rename, so that no other process reads half of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with partial.open("w", encoding="utf-8") as file:
            for instance in instances:
                file.write(json.dumps(_record(instance), ensure_ascii=True) + "\n")
        partial.replace(self.path)


def _record(instance: Instance) -> dict[str, Any]:
    request = instance.request
    return {
        "doc_id": instance.doc_id,
        "idx": instance.idx,
        "kind": type(request).__name__,
        "request": asdict(request),
    }


def _instance(record: dict[str, Any]) -> Instance:
    return Instance(record["doc_id"], record["idx"], _request(record["kind"], record["request"]))


def _request(kind: str, values: dict[str, Any]) -> Request:
    if kind == "GenerationRequest":
        options = dict(values["options"])
        return GenerationRequest.of(values["context"], options, values["sample"])
    made: Request = _KINDS[kind](**values)
    return made
