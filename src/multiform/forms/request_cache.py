"""The request cache: the requests of a form on disk, under a hash of everything that they depend on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.errors import reason
from multiform.fields import Doc
from multiform.forms.form import Form
from multiform.hashing import full_hash, sha256, source_hash
from multiform.paths import cache_root, replace_file
from multiform.prompts.prompt import ChatTemplate
from multiform.requests import GenerationRequest, Instance, LoglikelihoodRequest, Request, RollingRequest

logger = logging.getLogger("multiform")

#: The code of Multiform itself, which renders and writes the files.
_PACKAGE = Path(__file__).parents[1]
#: Keys whose code does not render; of those that give documents, the results are part of the key.
_SCORING = frozenset(
    {"custom_dataset", "process_docs", "samples", "process_results", "metric_list", "filter_list", "scorer"}
)


def cached_requests(
    form: Form,
    docs: Sequence[tuple[int, Doc]],
    chat_template: ChatTemplate | None,
    *,
    refresh: bool,
    template_name: str,
) -> list[Instance]:
    """The requests of documents, from the cache if it has them, or rendered and written there.

    `template_name` tells the chat template that prompts are written with from others.
    """
    key = _key(form, docs, template_name)
    if key is None:
        return form.requests(docs, chat_template)
    path = requests_folder() / f"requests-{key[:8]}.jsonl"
    cached = None if refresh else _load(path, key)
    if cached is None:
        cached = form.requests(docs, chat_template)
        _write(path, key, cached)
    return cached


def _key(form: Form, docs: Sequence[tuple[int, Doc]], template_name: str) -> str | None:
    """A hash of configuration, documents, few-shot examples and prompt options; None if requests are not cached.

    A warning says so if code of a user takes part: nobody knows what else the prompts then depend on.
    """
    if form.has_media:  # images and sounds are not for a file of text
        return None
    config, settings = form.config, form.settings
    sampler = form.renderer.examples.sampler if form.num_fewshot else None
    bases = [base for each in (form.task, sampler) for base in type(each).__mro__ if each is not None]
    known = ("multiform.", "abc", "typing", "builtins")
    foreign = [base.__name__ for base in bases if not base.__module__.startswith(known)]
    if code := [*foreign, *code_keys(config.to_dict(keep_callable=True))]:
        message = "the prompts are not cached, as they depend on code that may read anything"
        logger.warning("%s: %s (%s)", config.form_name, message, ", ".join(dict.fromkeys(code)))
        return None
    stated: list[Any] = [form.output_type, config.to_dict(keep_callable=True), settings.gen_kwargs]
    stated += [True] if settings.stop_at_answer else []
    drawn = [form.num_fewshot, form.fewshot_seed, [*map(dict, form.fewshot_docs())]] if form.num_fewshot else []
    prompts = [settings.system_instruction, bool(settings.apply_chat_template), settings.multiturn, template_name]
    order = [] if config.choice_order is None else [config.choice_order.name]
    return full_hash([[stated, config.templates(), drawn, docs], prompts, *order, source_hash(_PACKAGE)])


def _load(path: Path, key: str) -> list[Instance] | None:
    """The requests in a file, or None if there are none; if the file is damaged, a warning says so."""
    try:
        header, _, body = path.read_text(encoding="utf-8").partition("\n")
        if header == _header(key, body):
            return [_instance(*record) for record in json.loads(body)]
        logger.warning("%s is incomplete, or of another task: the prompts are rendered again", path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("%s cannot be read: %s; the prompts are rendered again", path, reason(error))
    return None


def _write(path: Path, key: str, instances: Sequence[Instance]) -> None:
    """Write the file; a failure is a warning."""
    try:
        body = json.dumps(list(map(_record, instances)))
    except TypeError:  # metadata that a file of text cannot hold
        return
    if [_instance(*record).request for record in json.loads(body)] != [one.request for one in instances]:
        return  # arguments that such a file changes, such as the numbers of logit_bias
    try:
        with replace_file(path) as file:
            file.write_text(f"{_header(key, body)}\n{body}", encoding="utf-8")
    except OSError as error:
        logger.warning("the prompts are not cached: %s: %s", path.parent, error.strerror or error)


def _header(key: str, body: str) -> str:
    """The first line of a file: all that it depends on, and a checksum of the requests."""
    return json.dumps([key, sha256(body)])


def delete_requests() -> int:
    """Remove all cached requests; returns the number of files."""
    removed = 0
    for file in list(requests_folder().glob("requests-*.jsonl")):
        try:
            file.unlink(missing_ok=True)
            removed += 1
        except OSError as error:
            logger.warning("%s cannot be removed: %s", file, error.strerror or error)
    return removed


def requests_folder() -> Path:
    """The folder of cached requests."""
    return cache_root() / "requests"


def code_keys(config: Any, key: str = "") -> list[str]:
    """The keys of a configuration that have code which takes part in rendering."""
    if callable(config):
        return [key]
    if isinstance(config, Mapping):
        return [name for inner, value in config.items() if inner not in _SCORING for name in code_keys(value, inner)]
    if isinstance(config, list | tuple):
        return [name for value in config for name in code_keys(value, key)]
    return []


#: How requests are made of the arguments that a file has; those with media are not cached.
_REQUESTS: dict[str, Callable[..., Request]] = {
    "LoglikelihoodRequest": LoglikelihoodRequest,
    "GenerationRequest": GenerationRequest.of,
    "RollingRequest": RollingRequest,
}


def _record(instance: Instance) -> list[Any]:
    match instance.request:
        case GenerationRequest() as request:
            arguments: list[Any] = [request.prompt.content, request.gen_kwargs, request.sample]
        case LoglikelihoodRequest() as request:
            arguments = [request.prompt.content, request.continuation]
        case RollingRequest() as request:
            arguments = [request.text]
    return [instance.doc_id, instance.idx, instance.metadata, type(instance.request).__name__, arguments]


def _instance(doc_id: int, idx: int, metadata: Any, request_type: str, arguments: list[Any]) -> Instance:
    return Instance(doc_id, idx, _REQUESTS[request_type](*arguments), metadata)
