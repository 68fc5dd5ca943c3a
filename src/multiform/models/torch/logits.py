"""Logits: those of the plain forward pass, those at chosen positions, and log-likelihoods from them.

The plain forward pass computes one sequence alone, by nothing but the model's own code. It is the reference for
everything else: faster methods have to give the same numbers. The LM head is the projection onto the vocabulary,
computed only at the positions that are needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from multiform.models.torch.device import device_of
from multiform.models.torch.sequences import Pair
from multiform.requests import LLOutput, Response

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


def accepted_options(forward: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The options that a model's `forward` takes; some architectures lack even the common ones.

    >>> accepted_options(lambda input_ids, use_cache=None: None, use_cache=False, position_ids=3)
    {'use_cache': False}
    """
    names = parameters(forward)
    return {name: value for name, value in options.items() if name in names}


def parameters(forward: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters."""
    return _parameters(getattr(forward, "__func__", forward))


@lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


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

    def _base_states(self, **inputs: Any) -> Tensor:
        base = self.model.base_model
        state: Tensor = base(**accepted_options(base.forward, **inputs)).last_hidden_state
        return state

    def _all_logits(self, **inputs: Any) -> Tensor:
        logits: Tensor = self.model(**accepted_options(self.model.forward, **inputs)).logits
        return logits

    def _project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @torch.inference_mode()
    def _agrees(self) -> bool:
        # A model may change its logits in a way that no list foresees, so compare once.
        ids = torch.arange(8, device=device_of(self.model))[None]
        try:
            projected = self._project(self._base_states(input_ids=ids, use_cache=False)).float()
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False
        full = self._all_logits(input_ids=ids, use_cache=False).float()
        tolerance = 1e-4 if self.model.dtype == torch.float32 else 2e-2
        return projected.shape == full.shape and bool(
            (projected - full).abs().max() <= tolerance * full.abs().max().clamp(min=1e-6)
        )


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
        self, owners: NDArray[np.int64], logprobs: NDArray[np.float64], greedy: NDArray[np.bool_]
    ) -> Iterator[Response[LLOutput]]:
        """Add tokens to the pairs that own them, and return the responses of the pairs that are complete."""
        np.add.at(self.sums, owners, logprobs)
        np.logical_and.at(self.greedy, owners, greedy)
        np.subtract.at(self.missing, owners, 1)
        for owner in np.unique(owners).tolist():
            if not self.missing[owner]:
                yield owner, LLOutput(float(self.sums[owner]), bool(self.greedy[owner]), self.lengths[owner])


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
