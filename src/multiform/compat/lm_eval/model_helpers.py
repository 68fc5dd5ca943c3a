"""Helpers of models and tasks written for lm-eval: batches, stop texts, generation settings, lengths, instances."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from multiform.errors import DataError, excerpt
from multiform.models.foreign import LMEvalInstance as Instance
from multiform.models.foreign import OutputType
from multiform.prompts.media import Kind, Media
from multiform.requests import GENERATION_ALIASES, GenerationRequest, LoglikelihoodRequest, Request, RollingRequest
from multiform.requests import Instance as Ours

logger = logging.getLogger(__name__)

DEFAULT_MAX_LENGTH = 2048
DEFAULT_MAX_GEN_TOKS = 256
_KINDS = ("loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice")
#: What lm-eval calls the images and sounds of a request.
_MEDIA: dict[str, Kind] = {"visual": "image", "audio": "audio"}
T = TypeVar("T")
BatchSize = Callable[[int, Iterable[Any]], int]
GroupBy = Literal["gen_kwargs", "contexts"]
#: Reads images or sounds out of what an instance has of them.
ReadMedia = Callable[[Any, Kind], Iterable[Media | None]]


def chunks(_iter: Iterable[T], n: int = 0, fn: BatchSize | None = None) -> Iterator[list[T]]:
    """Lists of n items, or of as many as the function says for the number of an item; all in one where n is 0.

    >>> list(chunks([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    items = list(_iter)
    batch: list[T] = []
    for number, item in enumerate(items):
        batch.append(item)
        if len(batch) == (fn(number, items) if fn else n):
            yield batch
            batch = []
    if batch:
        yield batch


class Collator(Generic[T]):
    """Sorts requests, gives them out in batches, and puts answers back into the order of the requests.

    With ``group_by="gen_kwargs"`` a batch has one set of generation settings. With ``"contexts"`` one request stands
    for all that have the same tokens but the last, and `get_cache` gives the logits to each of them.
    """

    def __init__(
        self,
        arr: Sequence[T],
        sort_fn: Callable[[T], Any] = lambda item: item,
        group_fn: Callable[[T], Any] = lambda item: item[1],  # type: ignore[index]
        group_by: GroupBy | None = None,
    ) -> None:
        self._size = len(arr)
        self._sort = sort_fn
        self._group_by = group_by
        self._groups: dict[Any, list[tuple[int, T]]] = {}
        for number, item in enumerate(arr):
            self._groups.setdefault(group_by and _hashable(group_fn(item)), []).append((number, item))
        #: The numbers of the requests in the order in which their answers come.
        self._order: list[int] = []

    def get_batched(self, n: int = 1, batch_fn: BatchSize | None = None) -> Iterator[list[T]]:
        """Batches of n requests, or of as many as the function says."""
        if self._group_by == "contexts":
            longest = [max(some, key=lambda pair: len(pair[1][-1])) for some in self._groups.values()]  # type: ignore[index]
            yield from chunks([item for _, item in self._sort_items(longest)], n, batch_fn)
            return
        for some in self._groups.values():
            ordered = self._sort_items(some)
            self._order += [number for number, _ in ordered]
            yield from chunks([item for _, item in ordered], n, batch_fn)

    def get_cache(
        self, req_str: tuple[str, str], cxt_toks: list[int], cont_toks: list[int], logits: Any
    ) -> Iterator[tuple[tuple[str, str], list[int], Any]]:
        """The logits of a request, for each request that it stands for."""
        if self._group_by != "contexts":
            yield req_str, cont_toks, logits
            return
        same: list[tuple[int, Any]] = self._groups.pop((*cxt_toks, *cont_toks[:-1]))
        self._order += [number for number, _ in same]
        for (_, request), one in zip(same, logits.expand(len(same), -1, -1).chunk(len(same)), strict=True):
            yield request[0], request[-1], one

    def get_original(self, newarr: Sequence[Any]) -> list[Any]:
        """The answers in the order of the requests."""
        answers = dict(zip(self._order, newarr, strict=True))
        assert len(answers) == self._size, f"{len(answers)} answers to {self._size} requests"
        return [answers[number] for number in range(self._size)]

    def __len__(self) -> int:
        return self._size

    def _sort_items(self, items: Iterable[tuple[int, T]]) -> list[tuple[int, T]]:
        return sorted(items, key=lambda pair: self._sort(pair[1]))


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def handle_stop_sequences(until: str | list[str] | None, eos: str | None) -> list[str]:
    """The stop texts as a list, with the one that ends every text.

    >>> handle_stop_sequences("\\n", "</s>")
    ['\\n', '</s>']
    """
    if until is not None and not isinstance(until, str | list):
        raise ValueError(f"until: expected a text or a list of texts, got {until!r}")
    stops = [until] if isinstance(until, str) else until if until is not None else []
    return [*stops, *([eos] if eos is not None and eos not in stops else [])]


def normalize_gen_kwargs(gen_kwargs: Mapping[str, Any], default_max_gen_toks: int = 256) -> dict[str, Any]:
    """Generation settings in one form: `until` a list, `max_gen_toks` whatever it was called, greedy unless sampling.

    >>> normalize_gen_kwargs({"until": "\\n", "max_new_tokens": 5})
    {'until': ['\\n'], 'do_sample': False, 'max_gen_toks': 5}
    """
    settings = copy.deepcopy(dict(gen_kwargs))
    until = settings.get("until", [])
    settings["until"] = until if isinstance(until, list) else [until]
    most = {name: settings.pop(name) for name in GENERATION_ALIASES["max_gen_toks"] if name in settings}
    said = {name: value for name, value in most.items() if value is not None}
    if len(said) > 1:
        logger.warning("several names for the most tokens: %s; %s is used", said, next(iter(said)))
    temperature = float(settings.get("temperature", 0.0))
    sampling = settings.get("do_sample")
    if sampling is None:
        settings["do_sample"] = temperature > 0.0
    elif sampling is False:
        if temperature:
            logger.warning("do_sample is false, so temperature %s has no effect", temperature)
        settings["temperature"] = 0.0
    elif temperature == 0.0:
        logger.warning("do_sample is true, but the temperature is 0")
    settings["max_gen_toks"] = int(next(iter(said.values()), default_max_gen_toks))
    return settings


def postprocess_generated_text(
    generation: str, stop: str | Sequence[str] | None = None, think_end_token: str | None = None
) -> str:
    """What was written after the thinking, up to the first stop text.

    >>> postprocess_generated_text("hm</think> yes. no", ".", "</think>")
    'yes'
    """
    text = generation.split(think_end_token)[-1].lstrip() if think_end_token else generation
    for stop_string in [stop] if isinstance(stop, str) else stop or ():
        text = text.split(stop_string)[0] if stop_string else text
    return text


def has_bos_prefix(sequence: str, bos_str: str | Iterable[str] | None = None) -> bool:
    """Whether a text already begins with the token, or one of the tokens, that begin texts."""
    return bos_str is not None and sequence.startswith(bos_str if isinstance(bos_str, str) else tuple(bos_str))


def configure_pad_token(tokenizer: Any, model_config: Any = None) -> Any:
    """The tokenizer with something to fill batches up with: its own, the unknown, or the last token."""
    if getattr(tokenizer, "pad_token_id", None) is not None or getattr(tokenizer, "pad_token", None):
        return tokenizer
    for name in ("unk_token", "eos_token"):
        if getattr(tokenizer, name, None):
            tokenizer.pad_token_id = getattr(tokenizer, f"{name}_id")
            return tokenizer
    if getattr(model_config, "model_type", None) == "qwen":
        tokenizer.pad_token = "<|endoftext|>"
    elif type(tokenizer).__name__ not in ("RWKVWorldTokenizer", "Rwkv5Tokenizer"):  # those cannot be changed
        tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    return tokenizer


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
            message = f"construct_requests returned {excerpt(instance)}, which is no Instance"
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
        raise DataError(f"a request of type {excerpt(kind)}", hint=f"there are {', '.join(_KINDS)}")
    needed = 1 if kind == "loglikelihood_rolling" else 2
    if len(arguments) < needed:
        message = f"an instance of {kind} has {len(arguments)} arguments: {excerpt(arguments)}"
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
