"""The request cache: the requests of a form on disk, under a hash of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import logging
import marshal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from multiform.errors import reason
from multiform.forms.form import Form
from multiform.hashing import full_hash, sha256
from multiform.paths import cache_root, replace_file
from multiform.requests import ChatText, GenerationRequest, Instance, LoglikelihoodRequest, Request, RollingRequest

logger = logging.getLogger("multiform")

#: Increased when the layout of the files changes; files of other versions are rendered again.
_VERSION = 2
_KINDS = {kind.__name__: kind for kind in (LoglikelihoodRequest, RollingRequest, GenerationRequest)}


class RequestCache:
    """Requests of one form with one setting; the key covers configuration, documents, shots and prompt options."""

    def __init__(self, folder: Path, key: Any) -> None:
        self.key = full_hash(key)
        self.path = folder / f"requests-{self.key[:8]}.jsonl"

    @classmethod
    def of(
        cls,
        task_class: type,
        form: Form,
        docs: Sequence[Any],
        shots: Sequence[Any],
        *,
        folder: Path,
        template: str = "",
    ) -> RequestCache:
        """The cache of a form's requests for these documents, with examples drawn from `shots`.

        `template` names the chat template that prompts are written with.
        """
        config, settings = form.config, form.settings
        code = fingerprint([task_class, config.to_dict(keep_callable=True), settings.gen_kwargs])
        drawn = [form.num_fewshot, form.fewshot_seed, [*map(dict, shots)]] if form.num_fewshot else []
        prompts = [settings.system_instruction, bool(settings.apply_chat_template), settings.multiturn, template]
        order = [] if config.choice_order is None else [config.choice_order.name]
        return cls(folder, [[code, config.templates(), drawn, docs], prompts, *order])

    def read(self) -> list[Instance] | None:
        """The requests, or None where there are none; where the file is damaged, a warning says so."""
        try:
            header, _, body = self.path.read_text(encoding="utf-8").partition("\n")
            lines = body.splitlines()
            if header == self._header(lines):
                return [_instance(json.loads(line)) for line in lines]
            logger.warning("%s is incomplete, or of another version or task: the prompts are rendered again", self.path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("%s cannot be read: %s; the prompts are rendered again", self.path, reason(error))
        return None

    def write(self, instances: Sequence[Instance]) -> None:
        """Write the file; a failure is a warning."""
        try:
            lines = [json.dumps(_record(instance), ensure_ascii=True) for instance in instances]
        except TypeError:  # metadata that a file of text cannot hold
            return
        if [_instance(json.loads(line)).request for line in lines] != [instance.request for instance in instances]:
            return  # arguments that such a file changes, such as the numbers of logit_bias
        try:
            with replace_file(self.path) as file:
                file.write_text("\n".join([self._header(lines), *lines, ""]), encoding="utf-8")
        except OSError as error:
            logger.warning("the prompts are not cached: %s: %s", self.path.parent, error.strerror or error)

    def _header(self, lines: Sequence[str]) -> str:
        """The first line of the file: all that it depends on, how many requests there are, and a checksum of them."""
        return json.dumps(
            {"requests": _VERSION, "key": self.key, "count": len(lines), "sha256": sha256("\n".join(lines))}
        )


def delete_requests(folder: Path | None = None) -> int:
    """Remove all cached requests; returns the number of files."""
    files = list((folder or requests_folder()).glob("requests-*.jsonl"))
    removed = 0
    for file in files:
        try:
            file.unlink(missing_ok=True)
            removed += 1
        except OSError as error:
            logger.warning("%s cannot be removed: %s", file, error.strerror or error)
    return removed


def requests_folder() -> Path:
    """The folder of cached requests."""
    return cache_root() / "requests"


def fingerprint(value: Any, inside: tuple[Any, ...] = ()) -> Any:
    """The value with functions and classes as what they do: their names alone do not tell two lambdas apart."""
    if isinstance(value, Mapping):
        return {str(key): fingerprint(item, inside) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(item, inside) for item in value]
    if isinstance(value, type):
        classes = [kind for kind in value.__mro__ if not kind.__module__.startswith(("multiform.", "builtins", "abc"))]
        methods = [] if value in inside else [{k: v for k, v in vars(kind).items() if _is_code(v)} for kind in classes]
        return [value.__qualname__, fingerprint(methods, (*inside, value))]
    function = _function(value)
    if not hasattr(function, "__code__") or function in inside:
        return value
    # Version 2 of the format does not depend on what else holds the parts.
    code = hashlib.sha256(marshal.dumps(function.__code__, 2)).hexdigest()
    closure_values = [cell.cell_contents for cell in function.__closure__ or ()]
    return [
        function.__module__,
        function.__qualname__,
        code,
        fingerprint([closure_values, function.__defaults__], (*inside, function)),
    ]


def _function(value: Any) -> Any:
    """The function in a static method, property and so on."""
    return next((getattr(value, name) for name in ("__func__", "fget", "func") if hasattr(value, name)), value)


def _is_code(value: Any) -> bool:
    return hasattr(_function(value), "__code__") or isinstance(value, str | int | float | list | tuple | dict)


def _record(instance: Instance) -> dict[str, Any]:
    request = instance.request
    # Requests with media are not cached; see build_all_requests.
    values = {key: value for key, value in asdict(request).items() if key not in ("media", "options")}
    if isinstance(request, GenerationRequest):
        values["gen_kwargs"] = request.gen_kwargs
    return {
        "doc_id": instance.doc_id,
        "idx": instance.idx,
        "metadata": instance.metadata,
        "kind": type(request).__name__,
        "request": values,
    }


def _instance(record: dict[str, Any]) -> Instance:
    request = _request(record["kind"], record["request"])
    return Instance(record["doc_id"], record["idx"], request, record["metadata"])


def _request(kind: str, values: dict[str, Any]) -> Request:
    if kind == "GenerationRequest":
        context = ChatText(values["context"]) if values["chat"] else values["context"]
        return GenerationRequest.of(context, values["gen_kwargs"], values["sample"])
    request: Request = _KINDS[kind](**values)
    return request
