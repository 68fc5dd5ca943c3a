"""Between the requests of Multiform and the instances of lm-eval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from multiform.compat.lm_eval.api.instance import Instance
from multiform.errors import DataError, shorten
from multiform.media import Kind, Media
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Request, RollingRequest
from multiform.requests import Instance as Ours

#: Reads images or sounds out of what an instance has of them.
ReadMedia = Callable[[Any, Kind], Iterable[Media | None]]

_KINDS = ("loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice")
#: What lm-eval calls the images and sounds of a request.
_MEDIA: dict[str, Kind] = {"visual": "image", "audio": "audio"}


def instances(doc: dict[str, Any], requests: Sequence[Request], **kwargs: Any) -> list[Instance]:
    """Requests as instances; the repeats of a generation are one instance."""
    made: list[Instance] = []
    for request in requests:
        if isinstance(request, GenerationRequest):
            if request.sample:
                continue
            arguments: tuple[Any, ...] = (request.prompt, request.gen_kwargs)
            made.append(Instance("generate_until", doc, (*arguments, *_media(request.media)), len(made), **kwargs))
        elif isinstance(request, LoglikelihoodRequest):
            arguments = (request.prompt, request.continuation)
            made.append(Instance("loglikelihood", doc, (*arguments, *_media(request.media)), len(made), **kwargs))
        else:
            made.append(Instance("loglikelihood_rolling", doc, (request.text,), len(made), **kwargs))
    return made


def requests(made: Any, doc_id: int, repeats: int, read_media: ReadMedia) -> list[Ours]:
    """What a task's `construct_requests` made, as our requests; a generation once for each repeat."""
    listed = [] if made is None else list(made) if isinstance(made, list | tuple) else [made]
    for one in listed:
        if not hasattr(one, "request_type") or not hasattr(one, "arguments"):
            what = f"construct_requests returned {shorten(one)}, which is no Instance"
            raise DataError(what, hint="return one lm_eval.api.instance.Instance, or a list of them")
    ordered = sorted(listed, key=lambda one: one.idx)
    return [
        Ours(doc_id, index, request)
        for index, one in enumerate(ordered)
        for request in _asked(one, repeats, read_media)
    ]


def _asked(instance: Any, repeats: int, read_media: ReadMedia) -> list[Request]:
    given: tuple[Any, ...] = instance.arguments if isinstance(instance.arguments, tuple) else (instance.arguments,)
    kind = instance.request_type
    if kind not in _KINDS:
        raise DataError(f"a request of type {shorten(kind)}", hint=f"there are {', '.join(_KINDS)}")
    wanted = 1 if kind == "loglikelihood_rolling" else 2
    if len(given) < wanted:
        what = f"an instance of {kind} has {len(given)} arguments: {shorten(given)}"
        raise DataError(what, hint="give (context, continuation), (context, generation arguments) or (text,)")
    media = _media_in(given[2], read_media) if len(given) > 2 and kind != "loglikelihood_rolling" else ()
    if kind == "loglikelihood_rolling":
        return [RollingRequest(str(given[0]))]
    if kind == "generate_until":
        return [GenerationRequest.of(given[0], dict(given[1]), sample, media) for sample in range(repeats)]
    return [LoglikelihoodRequest.of(given[0], str(given[1]), media)]


def _media_in(given: Any, read_media: ReadMedia) -> tuple[Media, ...]:
    found = [one for name, kind in _MEDIA.items() for one in read_media(given.get(name), kind) if given.get(name)]
    return tuple(one for one in found if one is not None)


def _media(media: Sequence[Media]) -> tuple[dict[str, Any], ...]:
    if not media:
        return ()
    return ({name: [one for one in media if one.kind == kind] for name, kind in _MEDIA.items()},)
