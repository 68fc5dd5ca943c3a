"""Forward passes: the plain one, those of a plan, and log-probabilities from their logits.

The plain forward pass computes one sequence alone, by nothing but the model's own code. It is the reference for
everything else: faster methods have to give the same numbers. In a pass of a plan, tokens of many sequences are
computed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from multiform.models.torch.attention import Attend, TreeAttention, apply_window, attention, attention_mask
from multiform.models.torch.cache import KVCache, TransformersCache
from multiform.models.torch.device import device_of, to_device
from multiform.models.torch.plan import Pair, Pass
from multiform.models.torch.structure import accepted_options, parameters, sliding_window
from multiform.models.torch.tree import Branch
from multiform.requests import LLOutput, Response

#: The end of the name under which a module keeps the rotary frequencies that it began with.
_ORIGINAL = "original_inv_freq"
#: Logits that one forward pass may compute: 2 GiB in float32; and those of which log-probabilities are taken at once.
MAX_LOGITS = 2**29
CHUNK_LOGITS = 2**22
#: In matrix products of that many rows or more, a row has the same bits however many there are; with fewer, a CPU
#: sums in another order.
STABLE_ROWS = 16
#: The option by which models of transformers compute the logits of some positions only.
_POSITIONS = "logits_to_keep"


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
        length = getattr(part, "original_max_seq_len", None)
        for name in [name for name in (*part._buffers, *vars(part)) if name.endswith(_ORIGINAL)]:
            prefix = name.removesuffix(_ORIGINAL)  # the kind of layer, where there are several
            if length is not None and getattr(part, f"{prefix}max_seq_len_cached", length) != length:
                part.register_buffer(f"{prefix}inv_freq", getattr(part, name), persistent=False)
                setattr(part, f"{prefix}max_seq_len_cached", length)


@dataclass
class CausalLM:
    """A causal model whose logits are computed only at the positions that are needed.

    The projection onto the vocabulary is a fifth of a small model's work and most of its memory, and a log-likelihood
    needs it at a few positions only.
    """

    model: PreTrainedModel

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The inputs that the model takes, or passes on to its base model; some architectures lack common ones."""
        own = parameters(self.model.forward)
        return own | parameters(self.model.base_model.forward) if "kwargs" in own else own

    def run(self, positions: Tensor, **inputs: Any) -> tuple[Tensor, Any]:
        """The logits (row, position, vocabulary) at some positions of all rows, and all that the model returned.

        Inputs that the model does not take are left out.
        """
        accepted = {name: value for name, value in inputs.items() if name in self.inputs}
        if _POSITIONS in self.inputs:
            output = self.model(**accepted, **{_POSITIONS: positions})
            return output.logits, output
        output = self.model(**accepted)
        # A model that is spread over several devices has its last layers on another one than its first.
        return output.logits[:, positions.to(output.logits.device)], output

    @property
    def max_tokens(self) -> int:
        """The most tokens of a forward pass, if all their logits are needed."""
        return max(1, MAX_LOGITS // int(self.model.config.get_text_config().vocab_size))


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device, side: str = "right") -> tuple[Tensor, Tensor]:
    """The rows of token ids as one tensor, padded with zeros, and the mask that is 1 where a row has a token."""
    ids = [torch.tensor(row) for row in rows]
    tensors = ids, [torch.ones_like(row) for row in ids]
    padded, mask = (to_device(pad_sequence(each, True, padding_side=side), device) for each in tensors)
    return padded, mask


class ScoringWay(Enum):
    """How sequences are scored, from the fastest way to the one that is right for every model."""

    #: By plan, with the model's layers and tree attention.
    TREE_ATTENTION = auto()
    #: By plan, with the model's layers and attention, and a mask.
    MASKED = auto()
    #: From copies of the state after a common prefix, the tokens after it in one forward pass.
    AT_ONCE = auto()
    #: From copied states, one token in each forward pass, as in decoding; more would forget the state.
    STEPWISE = auto()
    #: In batches, padded at the right: no token of a causal model sees the padding.
    PADDED = auto()
    #: Each sequence alone.
    ALONE = auto()

    @property
    def is_planned(self) -> bool:
        return self in (ScoringWay.TREE_ATTENTION, ScoringWay.MASKED)

    @property
    def copies_states(self) -> bool:
        return self in (ScoringWay.AT_ONCE, ScoringWay.STEPWISE)


@dataclass(frozen=True, slots=True)
class Forward:
    """Runs the forward passes of plans on a model; `mode` is one of the two ways by plan."""

    lm: CausalLM
    mode: ScoringWay

    def run(self, branches: Sequence[Branch], step: Pass, cache: KVCache, needed: NDArray[np.int64]) -> Tensor:
        """Run a pass; its keys and values are written to the cache. Returns the logits at the `needed` tokens."""
        model, device = self.lm.model, device_of(self.lm.model)
        tokens = np.concatenate(
            [np.frombuffer(branches[chunk.branch].tokens, np.int32)[chunk.start : chunk.stop] for chunk in step.chunks]
        )
        depths = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in step.chunks])
        ids, positions = (to_device(torch.from_numpy(values).long()[None], device) for values in (tokens, depths))
        mask = to_device(attention_mask(step, model.dtype), device)
        longest = int(depths.max()) + 1
        # A few are repeated, so that matrix products round them as they round many.
        kept = torch.from_numpy(np.resize(needed, max(len(needed), STABLE_ROWS)))
        if self.mode is ScoringWay.MASKED:
            masks = self._model_masks(mask, positions[0], longest)
            inputs = {"attention_mask": masks, "past_key_values": TransformersCache(cache), "use_cache": True}
            logits, _ = self.lm.run(kept, input_ids=ids, position_ids=positions, **inputs)
            return logits[0, : len(needed)]
        lengths = [chunk.stop - chunk.start for chunk in step.chunks]
        complete = [chunk.stop == len(branches[chunk.branch].tokens) for chunk in step.chunks]
        by_window: dict[int | None, TreeAttention] = {}

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
            if window not in by_window:
                by_window[window] = TreeAttention(
                    apply_window(mask, positions[0], window, longest)[0, 0], lengths, complete
                )
            return by_window[window](query, *cache.update(layer, key, value), scale)

        return self.run_with_attention(ids, positions, attend, kept)[0, : len(needed)]

    def _model_masks(self, mask: Tensor, depths: Tensor, longest: int) -> Tensor | dict[str, Tensor]:
        """The mask as a model's layers take it: one for each kind of layer where it has several."""
        config = self.lm.model.config.get_text_config()
        window = sliding_window(config)
        if window is None:
            return mask
        masks = {"full_attention": mask, "sliding_attention": apply_window(mask, depths, window, longest)}
        return masks if getattr(config, "layer_types", None) else masks["sliding_attention"]

    def run_with_attention(self, ids: Tensor, positions: Tensor, attend: Attend, kept: Tensor) -> Tensor:
        """Run a pass whose layers call `attend`; returns the logits (row, position, vocabulary) at the `kept` ones."""
        # It hides nothing, and has a shape that models pass on to their attention unchanged.
        mask = torch.zeros(1, 1, 1, 1, device=ids.device, dtype=self.lm.model.dtype)
        with attention(self.lm.model, attend):
            inputs = {"input_ids": ids, "position_ids": positions, "attention_mask": mask, "use_cache": False}
            return self.lm.run(kept, **inputs)[0]


@dataclass(slots=True)
class Targets:
    """Tokens to be scored: each with the row and position whose logits predict it, and the pair that owns it."""

    rows: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def add(self, owner: int, row: int, first: int, tokens: Sequence[int]) -> None:
        """Add tokens of a pair, which are predicted at positions of a row from the first on."""
        self.rows.extend([row] * len(tokens))
        self.positions.extend(range(first, first + len(tokens)))
        self.tokens.extend(tokens)
        self.owners.extend([owner] * len(tokens))

    def add_needed(
        self, pairs: Sequence[Pair], branch: Branch, depths: tuple[int, int], *, row: int, first: int
    ) -> None:
        """Add the tokens that the outputs needed of a branch predict, between two depths; the first is at `first`."""
        for needed in branch.needed:
            start, stop = max(needed.start, depths[0]), min(needed.stop, depths[1])
            if start < stop:
                tokens = pairs[needed.request].tokens[start + 1 : stop + 1]
                self.add(needed.request, row, first + start - depths[0], tokens)

    def needed_positions(self) -> NDArray[np.int64]:
        """The positions that are needed of any row, in order."""
        return np.unique(np.array(self.positions, dtype=np.int64))


class LoglikelihoodSums:
    """The sums so far over the tokens of each continuation, of which there are so many."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths
        self.missing = np.array(lengths, dtype=np.int64)
        self.sums = np.zeros(len(lengths))
        self.greedy = np.ones(len(lengths), dtype=bool)

    def empty(self) -> Iterator[Response[LLOutput]]:
        """The responses that need no model: an empty continuation has log-likelihood 0."""
        return ((index, LLOutput(0.0, True, 0)) for index, length in enumerate(self.lengths) if not length)

    def add(self, logits: Tensor, targets: Targets) -> list[Response[LLOutput]]:
        """Add tokens, by the logits (row, position, vocabulary) at the positions that they need.

        Returns the responses of the pairs that are complete.
        """
        places = (
            np.searchsorted(targets.needed_positions(), targets.positions) + np.array(targets.rows) * logits.shape[1]
        )
        logprobs, greedy = token_logprobs(logits.flatten(0, 1), places, targets.tokens)
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
    logits: Tensor, lines: NDArray[np.int64], tokens: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The log-probability of each token on its line of logits, and whether it is the likeliest there."""
    distinct, inverse = np.unique(lines, return_inverse=True)
    needed, line, token = torch.from_numpy(distinct), torch.from_numpy(inverse), torch.tensor(tokens)
    logprobs = torch.empty(len(tokens), dtype=torch.float64)
    greedy = torch.empty(len(tokens), dtype=torch.bool)
    size = max(1, CHUNK_LOGITS // logits.shape[-1])
    for start in range(0, len(needed), size):
        chunk = logits[needed[start : start + size].to(logits.device)].float()
        in_chunk = (line >= start) & (line < start + size)
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
