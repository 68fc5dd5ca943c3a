"""What a model's class and configuration say about it, and its conversion to float32 for a trial."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from multiform.models.torch.device import HALF, device_of, free_memory

logger = logging.getLogger("multiform")

#: The memory that is needed beyond the weights of a model in half precision, as a multiple of them.
MORE_MEMORY = 1.5
#: Attention implementations that take a mask in four dimensions.
ATTENTION = ("sdpa", "eager")
#: Kinds of layers that cache keys and values in the order of the tokens.
ATTENTION_LAYERS = {"full_attention", "sliding_attention"}
#: A setting that a configuration may lack.
POSITIONS = "max_position_embeddings"
#: A shorter attention window is not worth a plan.
SHORTEST = 8
NEEDED = ("attention_mask", "position_ids", "past_key_values")
#: Positions that are scaled by the longest sequence of a forward pass.
SCALED_BY_LENGTH = ("dynamic", "longrope")
#: Decoders of transformers that are the same at every length: what holds for a short sequence holds for a long one,
#: apart from the windows that their configuration names. `make zoo` holds each of them to that.
KNOWN = frozenset(Path(__file__).with_name("known_decoders.txt").read_text(encoding="utf-8").split())
#: Written by `make zoo`: for each version of transformers, the ways that it verified.
VERIFIED = Path(__file__).with_name("verified.json")
#: Functions that select the largest entries.
SELECTIONS = frozenset({"topk", "kthvalue", "sort", "argsort"})
#: Parameters of attention layers and their parts.
SEEN_BY_ATTENTION = frozenset({"attention_mask", "past_key_values", "position_embeddings", "position_ids"})
#: Packages whose modules leave attention as it is.
LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes")
Item = TypeVar("Item")
Result = TypeVar("Result")


def accepted_options(forward: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The options that a model's `forward` takes; some architectures lack even the common ones.

    >>> accepted_options(lambda input_ids, use_cache=None: None, use_cache=False, position_ids=3)
    {'use_cache': False}
    """
    names = parameters(forward)
    return {name: value for name, value in options.items() if name in names}


def parameters(forward: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters."""
    return frozenset(inspect.signature(forward).parameters)


def is_library_class(part: nn.Module) -> bool:
    """Whether a module's class is the one that transformers has under its name: custom code may use the same name."""
    kind = type(part)
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("transformers.") and getattr(home, kind.__name__, None) is kind


def is_known(model: PreTrainedModel) -> bool:
    """Whether a model is the same at every length, by its class and those of all its parts."""
    base = model.base_model
    return (
        type(base).__name__ in KNOWN
        and is_library_class(base)
        and not rounds_by_pass(model)
        and not any(kind in SCALED_BY_LENGTH for kind, _ in rope_kinds(model.config.get_text_config()))
        and all(type(part).__module__.partition(".")[0] in LIBRARIES for part in base.modules())
    )


def verified_ways(model: PreTrainedModel) -> list[str]:
    """The names of the `ScoringWay` and the `Decoding` with which `make zoo` verified a model's class.

    A brief trial of the model itself is enough then. Empty for every other class, version of transformers, attention
    implementation or device, and where a layer is not one of torch or transformers (adapters, quantized weights): these
    get the whole trial.
    """
    packages = {type(part).__module__.partition(".")[0] for part in model.modules()}
    if device_of(model).type != "cpu" or not packages <= {"torch", "transformers"} or not is_known(model):
        return []
    classes: dict[str, str] = json.loads(VERIFIED.read_text(encoding="utf-8")).get(transformers.__version__, {})
    return classes.get(f"{type(model.base_model).__name__} {model.config._attn_implementation}", "").split()


def obstacle(model: PreTrainedModel) -> str:
    """Why a model cannot share prefixes, as far as that is plain without a trial; empty where it is not."""
    if rounds_by_pass(model):
        return "its eight-bit weights round a token by the others of a forward pass"
    if not has_plain_cache(model):
        config = model.config.get_text_config()
        if "chunked_attention" in (getattr(config, "layer_types", None) or ()):
            return plain_attention_length(config)[1]
        return "it keeps no keys and values for each token"
    if selects_tokens(model):
        return "its attention selects tokens"
    if model.config._attn_implementation not in ATTENTION:
        return f"its attention is '{model.config._attn_implementation}'"
    accepted = parameters(model.base_model.forward)
    if missing := [name for name in NEEDED if name not in accepted]:
        return f"it takes no '{missing[0]}'"
    return ""


def has_plain_cache(model: PreTrainedModel) -> bool:
    """Whether rows can be added to the model's cache and removed from it.

    That is so with attention. Recurrent layers have a state of another shape, and left padding would
    become part of it.
    """
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ()
    return not model._is_stateful and ATTENTION_LAYERS.issuperset(kinds)


def selects_tokens(model: PreTrainedModel) -> bool:
    """Whether the code of an attention layer selects tokens, which rounding decides where two of them score alike.

    Routers of experts select as well, but neither the attention mask nor the cache concerns them.
    """
    kinds = {type(part) for part in model.base_model.modules() if not type(part).__module__.startswith("torch.")}
    return any(not SEEN_BY_ATTENTION.isdisjoint(parameters(kind.forward)) and _selects(kind) for kind in kinds)


def _selects(kind: type) -> bool:
    """Whether a method of a class calls a function that selects the largest entries in its forward pass."""
    # `generate` selects beams.
    bases = [base for base in kind.__mro__ if not base.__module__.startswith("transformers.generation.")]
    methods = [inspect.unwrap(value) for base in bases for value in vars(base).values() if callable(value)]
    return any(
        not SELECTIONS.isdisjoint(method.__code__.co_names) for method in methods if isinstance(method, FunctionType)
    )


class SelectionSizes(TorchFunctionMode):
    """Notes from how many entries each selection of the largest ones is made, in the forward passes within."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in SELECTIONS and args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            position = 2 if name in ("topk", "kthvalue") else 1
            dim = options.get("dim", args[position] if len(args) > position else -1)
            self.sizes.add(args[0].shape[dim])
        return func(*args, **options)


def judge_each(judge: Callable[[Item], Result], items: Iterable[Item]) -> tuple[list[Result], bool]:
    """The result of each sequence, and whether tokens are selected: from more entries in a longer sequence."""
    results, sizes = [], []
    for item in items:
        with SelectionSizes() as selections:
            results.append(judge(item))
        sizes.append(selections.sizes)
    return results, any(each != sizes[0] for each in sizes)


def rounds_by_pass(model: PreTrainedModel) -> bool:
    """Whether weights are those of LLM.int8(): which inputs are rounded depends on all tokens of a forward pass."""
    return any(type(part).__name__ == "Linear8bitLt" for part in model.modules())


def sliding_window(config: Any) -> int | None:
    """The window of a model whose attention slides, in some layers or in all."""
    kinds = getattr(config, "layer_types", None)
    slides = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    window = getattr(config, "sliding_window", None)
    return window if slides and isinstance(window, int) else None


def plain_attention_length(config: Any) -> tuple[int, str]:
    """The longest sequence in which all layers see all tokens, but for sliding windows; and what ends there."""
    kinds, chunk = getattr(config, "layer_types", None), getattr(config, "attention_chunk_size", None)
    length = scaled_after(config)
    if (not kinds or "chunked_attention" in kinds) and isinstance(chunk, int) and chunk <= length:
        return chunk, f"its attention is cut into chunks of {chunk} tokens"
    return length, f"its positions change after {length} tokens"


def scaled_after(config: Any) -> int:
    """The length from which on positions are scaled by the longest sequence of a forward pass."""
    return min((length for kind, length in rope_kinds(config) if kind in SCALED_BY_LENGTH), default=2**31)


def rope_kinds(config: Any) -> list[tuple[str, int]]:
    """The kinds of rotary positions that a configuration names, each with the length that the model was trained on."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    settings = [part for part in (rope, *rope.values()) if isinstance(part, dict)]
    return [
        (str(part["rope_type"]), int(part.get("original_max_position_embeddings") or config.max_position_embeddings))
        for part in settings
        if part.get("rope_type") and (part.get("original_max_position_embeddings") or hasattr(config, POSITIONS))
    ]


@contextmanager
def in_float32(model: PreTrainedModel) -> Iterator[None]:
    """Within this context, a model in half precision computes in float32, where its weights can be converted.

    They are converted in place, and afterwards have the same bits as before. A model that is known not to depend on
    more than its tokens stays as it is: rounding hides nothing.
    """
    weights = (*model.parameters(), *model.buffers()) if model.dtype in HALF and not is_known(model) else ()
    tensors = [tensor for tensor in weights if tensor.dtype in HALF]
    if not tensors:
        yield
        return
    if reason := _conversion_obstacle(model, tensors):
        logger.warning(
            "the model is tried in %s, which hides differences of up to 3 %%: %s",
            str(model.dtype).removeprefix("torch."),
            reason,
        )
        yield
        return
    before = [(tensor, tensor.dtype) for tensor in tensors]
    try:
        for tensor in tensors:
            tensor.data = tensor.data.float()
        yield
    finally:
        for tensor, dtype in before:
            tensor.data = tensor.data.to(dtype)


def _conversion_obstacle(model: PreTrainedModel, tensors: list[Tensor]) -> str:
    """Why the weights cannot be converted; empty where they can."""
    if getattr(model, "hf_quantizer", None) is not None or getattr(model, "is_quantized", False):
        return "its weights are quantized"
    if any(tensor.device.type == "meta" for tensor in model.parameters()):
        return "its weights are offloaded"
    needed = MORE_MEMORY * sum(tensor.nbytes for tensor in tensors)
    if needed > free_memory(device_of(model)):
        return f"there is no memory for {needed / 1e9:.1f} GB more"
    return ""
