"""Instances, as tasks written for lm-eval make them and models get them, converted to Multiform's requests and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multiform.errors import DataError, shorten
from multiform.models.foreign import LMEvalInstance as Instance
from multiform.models.foreign import OutputType
from multiform.prompts.media import Kind, Media
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest
from multiform.requests import Instance as Ours

#: Reads images or sounds out of what an instance has of them.
ReadMedia = Callable[[Any, Kind], Iterable[Media | None]]

_KINDS = ("loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice")
#: What lm-eval calls the images and sounds of a request.
_MEDIA: dict[str, Kind] = {"visual": "image", "audio": "audio"}


def to_instances(doc: dict[str, Any], requests: Sequence[Request], **kwargs: Any) -> list[Instance]:
    """Requests as instances; the repeats of a generation are one instance."""
    converted: list[Instance] = []
    kind: OutputType
    for request in requests:
        if isinstance(request, GenerationRequest):
            if request.sample:
                continue
            kind, arguments = "generate_until", (request.prompt.content, request.gen_kwargs, *_media(request.media))
        elif isinstance(request, LoglikelihoodRequest):
            kind, arguments = "loglikelihood", (request.prompt.content, request.continuation, *_media(request.media))
        else:
            kind, arguments = "loglikelihood_rolling", (request.text,)
        converted.append(Instance(kind, doc, arguments, len(converted), **kwargs))
    return converted


def to_requests(returned: Any, doc_id: int, repeats: int, read_media: ReadMedia) -> list[Ours]:
    """The instances that `construct_requests` returned, as requests; a generation once for each repeat."""
    listed = [] if returned is None else list(returned) if isinstance(returned, list | tuple) else [returned]
    for instance in listed:
        if not hasattr(instance, "request_type") or not hasattr(instance, "arguments"):
            message = f"construct_requests returned {shorten(instance)}, which is no Instance"
            raise DataError(message, hint="return one lm_eval.api.instance.Instance, or a list of them")
    ordered = sorted(listed, key=lambda instance: instance.idx)
    return [
        Ours(doc_id, index, request)
        for index, instance in enumerate(ordered)
        for request in _requests_of(instance, repeats, read_media)
    ]


def _requests_of(instance: Any, repeats: int, read_media: ReadMedia) -> list[Request]:
    arguments: tuple[Any, ...] = instance.arguments if isinstance(instance.arguments, tuple) else (instance.arguments,)
    kind = instance.request_type
    if kind not in _KINDS:
        raise DataError(f"a request of type {shorten(kind)}", hint=f"there are {', '.join(_KINDS)}")
    needed = 1 if kind == "loglikelihood_rolling" else 2
    if len(arguments) < needed:
        message = f"an instance of {kind} has {len(arguments)} arguments: {shorten(arguments)}"
        raise DataError(message, hint="give (context, continuation), (context, generation arguments) or (text,)")
    media = _read_media(arguments[2], read_media) if len(arguments) > 2 and kind != "loglikelihood_rolling" else ()
    if kind == "loglikelihood_rolling":
        return [RollingRequest(str(arguments[0]))]
    if kind == "generate_until":
        return [GenerationRequest.of(arguments[0], dict(arguments[1]), sample, media) for sample in range(repeats)]
    return [LoglikelihoodRequest(arguments[0], str(arguments[1]), media)]


def _read_media(named: Any, read_media: ReadMedia) -> tuple[Media, ...]:
    media = [item for name, kind in _MEDIA.items() for item in read_media(named.get(name), kind) if named.get(name)]
    return tuple(item for item in media if item is not None)


def _media(media: Sequence[Media]) -> tuple[dict[str, Any], ...]:
    if not media:
        return ()
    return ({name: [item for item in media if item.kind == kind] for name, kind in _MEDIA.items()},)
