"""Forward passes: the plain one, those of a plan, and logits at the positions that are needed.

The plain forward pass computes one sequence alone, by nothing but the model's own code. It is the reference for
everything else: faster methods have to give the same numbers. The LM head is the projection onto the vocabulary,
computed only at the positions that are needed. In a pass of a plan, tokens of many sequences are computed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from multiform.models.torch.attention import (
    Attend,
    KVCache,
    TransformersCache,
    TreeAttention,
    apply_window,
    attention,
    attention_mask,
    empty_mask,
)
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.plan import Pair, Pass
from multiform.models.torch.structure import accepted_options, parameters, sliding_window, verified_ways
from multiform.models.torch.tree import Branch, Tokens
from multiform.requests import LLOutput, Response

#: Attributes in which models have their list of layers, and the feed-forward part of a layer.
LAYERS = ("layers", "h")
FEED_FORWARD = "mlp"
#: The end of the name under which a module keeps the rotary frequencies that it began with.
_ORIGINAL = "original_inv_freq"
#: Logits that are in memory at once: 128 MiB in float32; on a CPU, as much as the allocator reuses.
ELEMENTS = 2**25
CPU_ELEMENTS = 2**22
#: In matrix products of that many rows or more, a row has the same bits however many there are; with fewer, a CPU
#: sums in another order.
STABLE_ROWS = 16
#: Settings with which a model changes its logits after the projection, and their neutral values.
SCALINGS: dict[str, tuple[Any, ...]] = {
    "final_logit_softcapping": (None,),
    "logit_softcapping": (None,),
    "logits_soft_cap": (None,),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "lm_head_multiplier": (None, 1.0),
    "output_multiplier_scale": (None, 1.0),
}


@torch.inference_mode()
def plain_logits(model: PreTrainedModel, tokens: Sequence[int], *, last: int) -> Tensor:
    """The float32 logits (token, vocabulary) at the last tokens of a sequence, without a cache."""
    reset_positions(model)
    ids = torch.tensor([list(tokens)], device=device_of(model))
    options = accepted_options(model.forward, use_cache=False, logits_to_keep=last)
    logits: Tensor = model(input_ids=ids, **options).logits[0, -last:].float()
    return logits


def reset_positions(model: PreTrainedModel) -> None:
    """Forget the longest sequence so far, where rotary positions are scaled by it (dynamic RoPE).

    Otherwise the numbers of a sequence would depend on those that were computed before it.
    """
    for part in model.modules():
        for name in [name for name in (*part._buffers, *vars(part)) if name.endswith(_ORIGINAL)]:
            _reset(part, name.removesuffix(_ORIGINAL))


def _reset(part: nn.Module, prefix: str) -> None:
    """Reset the rotary frequencies of one kind of layer, whose name is the prefix of its attributes."""
    length = getattr(part, "original_max_seq_len", None)
    if length is not None and getattr(part, f"{prefix}max_seq_len_cached", length) != length:
        frequencies: Tensor = getattr(part, prefix + _ORIGINAL)
        part.register_buffer(f"{prefix}inv_freq", frequencies, persistent=False)
        setattr(part, f"{prefix}max_seq_len_cached", length)


class LMHead:
    """Computes a causal model's logits at chosen positions.

    The projection onto the vocabulary is a fifth of a small model's work and most of its memory,
    and a log-likelihood needs it at a few positions only. Models that do more than one matrix
    product between hidden states and logits are left to compute all logits themselves.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        #: Determined at once: in the middle of a forward pass, the model's attention would be replaced.
        self.separable = self._is_separable()

    def _is_separable(self) -> bool:
        """Whether the logits are the output embedding of the base model's last hidden state."""
        config = self.model.config.get_text_config()
        if any(getattr(config, name, values[0]) not in values for name, values in SCALINGS.items()):
            return False
        if self.model.base_model is self.model or self.model.get_output_embeddings() is None:
            return False
        return self._agrees()

    def hidden_states(self, rows: Tensor, positions: Tensor, **inputs: Any) -> Tensor:
        """What `logits` takes, one line for each (row, position): hidden states, or logits where not separable."""
        states, _ = self.run(**inputs)
        # A model that is spread over several devices has its last layers on another one than its first.
        selected: Tensor = states[rows.to(states.device), positions.to(states.device)]
        return selected

    def run(self, **inputs: Any) -> tuple[Tensor, Any]:
        """The hidden states (row, token, dimension), or logits where not separable, and all that the model returned.

        Inputs that the model does not take are left out, as some architectures lack even the common ones.
        """
        part = self._part
        output = part(**accepted_options(part.forward, **inputs))
        return output.last_hidden_state if self.separable else output.logits, output

    def takes(self, name: str) -> bool:
        """Whether `run` passes an input of that name on to the model."""
        return name in parameters(self._part.forward)

    @property
    def _part(self) -> PreTrainedModel:
        """The part of the model that is run: without its last projection, where that is separable."""
        return self.model.base_model if self.separable else self.model

    def logits(self, states: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Float32 logits of lines from `hidden_states`, in pieces, each with the number of its first line."""
        elements = CPU_ELEMENTS if states.device.type == "cpu" else ELEMENTS
        chunks = max(1, ceil(len(states) / max(1, elements // self._vocabulary)))
        size = max(1, ceil(len(states) / chunks))  # all about as large: a small one would be rounded differently
        for start in range(0, len(states), size):
            chunk = states[start : start + size]
            yield start, (self._project(chunk) if self.separable else chunk).float()

    @property
    def max_tokens(self) -> int:
        """The number of tokens in a forward pass for which all logits take 1 GiB."""
        return 2**28 // self._vocabulary

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.get_text_config().vocab_size)

    def _project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @torch.inference_mode()
    def _agrees(self) -> bool:
        # A model may change its logits in a way that no list foresees, so compare once.
        base, outputs = self.model.base_model, []
        inputs = {"input_ids": torch.arange(8, device=device_of(self.model))[None], "use_cache": False}
        hook = base.register_forward_hook(lambda _, __, output: outputs.append(output))
        full = self.model(**accepted_options(self.model.forward, **inputs)).logits.float()
        hook.remove()
        try:
            # The base model of a verified class computes by itself what it computes within the whole model.
            by_itself = not outputs or verified_ways(self.model) is None
            output = base(**accepted_options(base.forward, **inputs)) if by_itself else outputs[0]
            projected = self._project(output.last_hidden_state).float()
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False
        tolerance = 1e-4 if self.model.dtype == torch.float32 else 2e-2
        return projected.shape == full.shape and bool(
            (projected - full).abs().max() <= tolerance * full.abs().max().clamp(min=1e-6)
        )


class Mode(Enum):
    """How forward passes are computed, from the fastest mode to the one that every model supports."""

    #: The model's layers with tree attention.
    TREE_ATTENTION = auto()
    #: The model's layers and attention, with a mask.
    MASKED = auto()


@dataclass(frozen=True, slots=True)
class Forward:
    """Runs forward passes on a model, in one mode."""

    head: LMHead
    mode: Mode

    def run(
        self,
        branches: Sequence[Branch],
        step: Pass,
        cache: KVCache,
        needed: NDArray[np.int64],
        base: int = 0,
    ) -> Tensor:
        """Run a pass; its keys and values are written to the cache, and the states at `needed` tokens are returned.

        The first `base` tokens of the cache are a prefix of all sequences, which the plan does not count.
        The states are what `LMHead.logits` takes.
        """
        model, device = self.head.model, device_of(self.head.model)
        tokens = np.concatenate(
            [np.frombuffer(branches[chunk.branch].tokens, np.int32)[chunk.start : chunk.stop] for chunk in step.chunks]
        )
        depths = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in step.chunks]) + base
        ids, positions = (to_device(torch.from_numpy(values).long()[None], device) for values in (tokens, depths))
        mask, padded = to_device(attention_mask(step, model.dtype, base), device), torch.from_numpy(_repeat_few(needed))
        longest = int(depths.max()) + 1
        if self.mode is Mode.MASKED:
            masks = self._model_masks(mask, positions[0], longest)
            inputs = {"attention_mask": masks, "past_key_values": TransformersCache(cache), "use_cache": True}
            with last_layer_at(model, padded):
                rows = torch.zeros_like(padded)
                states = self.head.hidden_states(rows, padded, input_ids=ids, position_ids=positions, **inputs)
            return states[: len(needed)]
        lengths = [chunk.stop - chunk.start for chunk in step.chunks]
        complete = [chunk.stop == len(branches[chunk.branch].tokens) for chunk in step.chunks]
        by_window: dict[int | None, TreeAttention] = {}

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
            if window not in by_window:
                by_window[window] = TreeAttention(
                    apply_window(mask, positions[0], window, longest)[0, 0], lengths, complete
                )
            return by_window[window](query, *cache.update(layer, key, value), scale)

        return self.run_with_attention(ids, positions, attend, padded)[: len(needed)]

    def _model_masks(self, mask: Tensor, depths: Tensor, longest: int) -> Tensor | dict[str, Tensor]:
        """The mask as a model's layers take it: one for each kind of layer where it has several."""
        config = self.head.model.config.get_text_config()
        window = sliding_window(config)
        if window is None:
            return mask
        masks = {"full_attention": mask, "sliding_attention": apply_window(mask, depths, window, longest)}
        return masks if getattr(config, "layer_types", None) else masks["sliding_attention"]

    def run_with_attention(
        self, ids: Tensor, positions: Tensor, attend: Attend, needed: Tensor | None = None
    ) -> Tensor:
        """Run a pass whose layers call `attend`; return the states at `needed` tokens of its one row.

        Without `needed`, every row has one token, and the states of all rows are returned.
        """
        model = self.head.model
        inputs = {"attention_mask": empty_mask(model), "use_cache": False}
        with attention(model, attend), last_layer_at(model, needed) if needed is not None else nullcontext():
            tokens = torch.zeros(len(ids), dtype=torch.long) if needed is None else needed
            rows = torch.arange(len(ids)) if needed is None else torch.zeros_like(needed)
            return self.head.hidden_states(rows, tokens, input_ids=ids, position_ids=positions, **inputs)


@contextmanager
def last_layer_at(model: PreTrainedModel, needed: Tensor) -> Iterator[None]:
    """Within this context, the last layer's feed-forward part is computed only at these tokens of a row.

    No later layer needs the rest of its output.
    """
    part = _last_feed_forward(model)
    if part is None:
        yield
        return
    original = part.forward
    instance_forward = vars(part).get("forward")  # set where weights are offloaded and moved for each pass

    def forward(states: Tensor, *arguments: Any, **options: Any) -> Any:
        computed = original(states[:, needed], *arguments, **options)
        if not isinstance(computed, Tensor):  # such as a mixture of experts, which returns router weights, too
            return original(states, *arguments, **options)
        output = torch.zeros_like(states)
        output[:, needed] = computed
        return output

    part.forward = forward
    try:
        yield
    finally:
        if instance_forward is None:
            del part.forward
        else:
            part.forward = instance_forward


def _repeat_few(needed: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices, repeated where they are few, so that matrix products round them as they round many."""
    return np.resize(needed, max(len(needed), STABLE_ROWS)) if len(needed) else needed


def _last_feed_forward(model: PreTrainedModel) -> nn.Module | None:
    for name in LAYERS:
        layers = getattr(model.base_model, name, None)
        if isinstance(layers, nn.ModuleList) and len(layers):
            part = getattr(layers[-1], FEED_FORWARD, None)
            return part if isinstance(part, nn.Module) else None
    return None


@dataclass(slots=True)
class Targets:
    """Tokens to be scored: each with the line of the model's outputs that predicts it, and the pair that owns it."""

    lines: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def add(self, owner: int, first_line: int, tokens: Sequence[int]) -> None:
        """Add tokens of a pair whose lines follow each other."""
        self.lines.extend(range(first_line, first_line + len(tokens)))
        self.tokens.extend(tokens)
        self.owners.extend([owner] * len(tokens))

    def distinct_lines(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The lines that are needed, in order, and for each token the index of its own among them."""
        distinct, inverse = np.unique(np.array(self.lines, dtype=np.int64), return_inverse=True)
        return distinct, inverse


class LoglikelihoodSums:
    """The sums so far over the tokens of each pair's continuation."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.lengths = [len(pair.tokens) - pair.start for pair in pairs]
        self.missing = np.array(self.lengths, dtype=np.int64)
        self.sums = np.zeros(len(pairs))
        self.greedy = np.ones(len(pairs), dtype=bool)

    def empty(self) -> Iterator[Response[LLOutput]]:
        """The responses that need no model: an empty continuation has log-likelihood 0."""
        return ((index, LLOutput(0.0, True, 0)) for index, length in enumerate(self.lengths) if not length)

    def add(
        self, logits: Iterable[tuple[int, Tensor]], lines: NDArray[np.int64], targets: Targets
    ) -> list[Response[LLOutput]]:
        """Add tokens, each by its line of logits, and return the responses of the pairs that are complete."""
        logprobs, greedy = token_logprobs(logits, lines, targets.tokens)
        owners = np.array(targets.owners, dtype=np.int64)
        np.add.at(self.sums, owners, logprobs)
        np.logical_and.at(self.greedy, owners, greedy)
        np.subtract.at(self.missing, owners, 1)
        return [
            (owner, LLOutput(float(self.sums[owner]), bool(self.greedy[owner]), self.lengths[owner]))
            for owner in np.unique(owners).tolist()
            if not self.missing[owner]
        ]


def token_logprobs(
    logits: Iterable[tuple[int, Tensor]], lines: NDArray[np.int64], tokens: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The log-probability of each token on its line of logits, and whether it is the likeliest there.

    The logits come in pieces, each with the number of its first line.
    """
    line, token = torch.from_numpy(lines), torch.tensor(tokens)
    logprobs = torch.empty(len(tokens), dtype=torch.float64)
    greedy = torch.empty(len(tokens), dtype=torch.bool)
    for start, chunk in logits:
        in_chunk = (line >= start) & (line < start + len(chunk))
        rows, targets = (line[in_chunk] - start).to(chunk.device), token[in_chunk].to(chunk.device)
        # logsumexp is more accurate on a CPU, by 1e-5 a token; log_softmax gives lm-eval's numbers.
        logprobs[in_chunk] = chunk.log_softmax(-1)[rows, targets].double().cpu()
        greedy[in_chunk] = _is_argmax(chunk, rows, targets).cpu()
    return logprobs.numpy(), greedy.numpy()


def _is_argmax(logits: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
    """Whether each target is the likeliest token of its row; of several equally likely ones, that is the first."""
    is_highest = logits[rows, targets] == logits.amax(-1)[rows]
    # On a CPU, argmax takes ten times as long as amax, so it is computed only where it can be true.
    highest = is_highest.nonzero()[:, 0]
    is_highest[highest] = logits[rows[highest]].argmax(-1) == targets[highest]
    return is_highest


def right_padded(rows: Sequence[Tokens]) -> Tensor:
    """The rows as one tensor of token ids, padded at the right with zeros."""
    return pad_sequence([torch.frombuffer(row, dtype=torch.int32) for row in rows], batch_first=True).long()
